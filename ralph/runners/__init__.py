"""How agents are started: one runner an agent, by name."""

from ralph.runners.base import Launch, Request, Runner
from ralph.runners.claude import ClaudeRunner

AGENTS = ("claude",)
"""Every agent that `--agent` knows."""

__all__ = ["AGENTS", "ClaudeRunner", "Launch", "Request", "Runner"]
