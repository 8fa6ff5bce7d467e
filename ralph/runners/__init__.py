"""How agents are started: one runner an agent, by name."""

from collections.abc import Callable, Mapping

from ralph.runners.base import Launch, Request, Runner
from ralph.runners.claude import ClaudeOptions, ClaudeRunner, find_claude
from ralph.runners.ralph_claude import find_demo, find_ralph_claude

AGENTS: Mapping[str, Callable[[ClaudeOptions, Mapping[str, str]], ClaudeRunner]] = {
    "claude": find_claude,
    "ralph-claude": find_ralph_claude,
    "demo": find_demo,
}
"""Every agent that `--agent` knows, and how it is found."""

__all__ = ["AGENTS", "ClaudeOptions", "ClaudeRunner", "Launch", "Request", "Runner"]
