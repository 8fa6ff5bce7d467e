"""How agents are started: one runner an agent, by name."""

from collections.abc import Callable, Mapping

from ralph.agents import claude, codex
from ralph.agents.base import Account, Launch, Request, Runner
from ralph.runners import custom
from ralph.runners.options import AUTO, AgentOptions, ClaudeOptions, CodexOptions
from ralph.runners.ralph_claude import find_demo, find_ralph_claude

FindRunner = Callable[[AgentOptions, Mapping[str, str]], Runner]

AGENTS: Mapping[str, FindRunner] = {
    "claude": claude.find_claude,
    "codex": codex.find_codex,
    "custom": custom.find_custom,
    "ralph-claude": find_ralph_claude,
    "demo": find_demo,
}
"""Every agent of ours, and how it is found."""

OWN_TRANSCRIPTS = {
    "claude": claude.OWN_TRANSCRIPT,
    "codex": codex.OWN_TRANSCRIPT,
    "custom": custom.OWN_TRANSCRIPT,
    "ralph-claude": claude.OWN_TRANSCRIPT,
    "demo": claude.OWN_TRANSCRIPT,
}
"""What `--transcript auto` means for each of them."""


def account_of(agent: str, transcript: str, env: Mapping[str, str]) -> Account | None:
    """Where the agent itself keeps what its sessions use, in lines that the transcript reads; mostly nowhere."""
    return codex.account(env) if agent == transcript == "codex" else None


__all__ = [
    "AGENTS",
    "AUTO",
    "OWN_TRANSCRIPTS",
    "Account",
    "AgentOptions",
    "ClaudeOptions",
    "CodexOptions",
    "FindRunner",
    "Launch",
    "Request",
    "Runner",
    "account_of",
]
