"""The tools of a session, one module each."""

from collections.abc import Mapping

from ralph.agent.tools.base import Desk, Tool, ToolResult
from ralph.agent.tools.bash import Bash
from ralph.agent.tools.edit import Edit
from ralph.agent.tools.glob import Glob
from ralph.agent.tools.grep import Grep
from ralph.agent.tools.read import Read
from ralph.agent.tools.skill import Skill
from ralph.agent.tools.write import Write

__all__ = ["Desk", "Tool", "ToolResult", "default_tools"]


def default_tools() -> Mapping[str, Tool]:
    """All tools, by name."""
    tools: tuple[Tool, ...] = (Bash(), Edit(), Glob(), Grep(), Read(), Skill(), Write())
    return {tool.name: tool for tool in tools}
