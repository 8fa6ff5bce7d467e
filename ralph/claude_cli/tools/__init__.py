"""The tools of a session, one module each."""

from collections.abc import Mapping

from ralph.claude_cli.desk import Tool
from ralph.claude_cli.tools.bash import Bash
from ralph.claude_cli.tools.edit import Edit, Write
from ralph.claude_cli.tools.mcp import open_servers
from ralph.claude_cli.tools.read import Read
from ralph.claude_cli.tools.search import GlobTool, Grep
from ralph.claude_cli.tools.skill import SkillTool

__all__ = ["default_tools", "open_servers"]


def default_tools() -> Mapping[str, Tool]:
    """All tools, by name."""
    tools: tuple[Tool, ...] = (Bash(), Edit(), GlobTool(), Grep(), Read(), SkillTool(), Write())
    return {tool.name: tool for tool in tools}
