"""Every agent that ralph can run, each able to play the same stories: a stand-in for it, or ours with a script.

A story is a list of sessions, a session a list of deeds, the last of which says how it ends.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from tests.support import any_agent, scripted_agent
from tests.support.any_agent import AnyAgent, Dialect
from tests.support.scripted_agent import ScriptedAgent


@dataclass(frozen=True)
class Write:
    path: str
    text: str


@dataclass(frozen=True)
class Leave:
    """Leave a process running."""

    pidfile: Path


@dataclass(frozen=True)
class Noise:
    """Print these bytes on stdout, whatever the agent's own manner."""

    data: bytes


@dataclass(frozen=True)
class Go:
    """End with a summary that claims nothing."""

    summary: str


@dataclass(frozen=True)
class Claim:
    """End with the claim that all is done."""


@dataclass(frozen=True)
class Crash:
    code: int


@dataclass(frozen=True)
class Hang:
    pass


Deed = Write | Leave | Noise | Go | Claim | Crash | Hang
Story = Sequence[Sequence[Deed]]


@dataclass(frozen=True)
class Staged:
    """An agent that is ready to play: what chooses it, and what it has heard."""

    args: Sequence[str]
    agent: str
    transcript: str
    env: Mapping[str, str] = field(default_factory=dict)
    told: Callable[[], list[str]] | None = None
    """The prompts it has read; None for one that does not tell."""


def stage(member: str, directory: Path, story: Story) -> Staged:
    """Make this member of the cast play the story."""
    match member:
        case "claude":
            agent = _as_claude(directory, story, "claude")
            return Staged([], "claude", "claude", told=lambda: agent.heard)
        case "codex":
            codex = _as_any(directory, "codex", story, "codex")
            return Staged(["--agent", "codex"], "codex", "codex", told=lambda: codex.heard)
        case "custom, plain":
            mine = _as_any(directory, "plain", story, "mine")
            return Staged(["--agent-cmd", "mine --flag"], "custom", "plain", told=lambda: mine.heard)
        case "custom, RTF1":
            mine = _as_any(directory, "rtf1", story, "mine")
            return Staged(["--agent-cmd", "mine", "--transcript", "rtf1"], "custom", "rtf1", told=lambda: mine.heard)
        case "custom, codex":
            mine = _as_any(directory, "codex", story, "mine")
            args = ["--agent-cmd", "mine", "--transcript", "codex"]
            return Staged(args, "custom", "codex", told=lambda: mine.heard)
        case "custom, claude":
            command = "mine -p --verbose --input-format stream-json --output-format stream-json --json-schema {}"
            agent = _as_claude(directory, story, "mine")
            args = ["--agent-cmd", command, "--transcript", "claude"]
            return Staged(args, "custom", "claude", told=lambda: agent.heard)
        case "ralph-claude":
            script = _as_script(directory, story)
            return Staged(["--agent", "ralph-claude", "--model", f"scripted:{script}"], "ralph-claude", "claude")
        case "demo":
            script = _as_script(directory, story)
            return Staged(["--agent", "demo"], "demo", "claude", {"RALPH_DEMO_SCRIPT": str(script)})
        case _:
            raise ValueError(member)


CAST = (
    "claude", "codex", "custom, plain", "custom, RTF1", "custom, codex", "custom, claude", "ralph-claude", "demo",
)  # fmt: skip
PROCESSES = CAST[:6]
"""Those that can be made to crash, to hang or to print anything."""


def _as_any(directory: Path, dialect: Dialect, story: Story, name: str) -> AnyAgent:
    def step(deed: Deed) -> any_agent.Step:
        match deed:
            case Write(path, text):
                return any_agent.write(path, text)
            case Leave(pidfile):
                return any_agent.leave(pidfile)
            case Noise(data):
                return any_agent.noise(data)
            case Go(summary) if name == "codex":
                return any_agent.say(json.dumps({"summary": summary}))
            case Go(summary):
                return any_agent.say(summary)
            case Claim():
                return any_agent.say("All done.\n<promise>COMPLETE</promise>")
            case Crash(code):
                return any_agent.exit(code)
            case Hang():
                return any_agent.hang()
            case _:
                assert_never(deed)

    return any_agent.any_agent(directory, dialect, *([step(deed) for deed in session] for session in story), name=name)


def _as_claude(directory: Path, story: Story, name: str) -> ScriptedAgent:
    def step(deed: Deed) -> scripted_agent.Step:
        match deed:
            case Write(path, text):
                return scripted_agent.write(path, text)
            case Leave(pidfile):
                return scripted_agent.spawn(pidfile, "setsid")
            case Noise(data):
                return scripted_agent.raw(data)
            case Go(summary):
                return scripted_agent.summary(summary)
            case Claim():
                return scripted_agent.summary("DONE")
            case Crash(code):
                return scripted_agent.exit(code)
            case Hang():
                return scripted_agent.hang()
            case _:
                assert_never(deed)

    return scripted_agent.scripted_agent(directory, [[step(deed) for deed in session] for session in story], name)


def _as_script(directory: Path, story: Story) -> Path:
    """A script for ralph's own agent: one tool call a turn."""

    def call(deed: Deed) -> tuple[str, dict[str, str]]:
        match deed:
            case Write(path, text):
                return "Bash", {"command": f"printf %s {shlex.quote(text)} > {path}"}
            case Leave(pidfile):
                return "Bash", {"command": f"(setsid sleep 300 & echo $! > {pidfile})"}
            case Go(summary):
                return "StructuredOutput", {"summary": summary}
            case Claim():
                return "StructuredOutput", {"summary": "DONE"}
            case Crash() | Hang() | Noise():
                raise ValueError("ralph's own agent does none of these on demand")
            case _:
                assert_never(deed)

    script = directory / "script.json"
    directory.mkdir(parents=True, exist_ok=True)
    script.write_text(
        json.dumps(
            [
                [[{"type": "tool_use", "name": name, "input": given}] for name, given in map(call, session)]
                for session in story
            ]
        )
    )
    return script
