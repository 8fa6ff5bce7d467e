"""A stand-in for an agent that is not claude: it plays a script in the manner of codex, in RTF1 or in plain words.

`any_agent(directory, "codex", sessions)` writes an executable `codex`; the n-th start of it plays the n-th session, the
last one repeats. A session is a list of steps, `resumed(...)` among them for what a resumed codex does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
Dialect = Literal["codex", "rtf1", "plain"]
Step = dict[str, Any]

INPUT, OUTPUT = 1000, 50
"""What each process of it uses, in tokens."""


def say(text: str) -> Step:
    return {"step": "say", "text": text}


def think(text: str) -> Step:
    return {"step": "think", "text": text}


def write(path: str, text: str) -> Step:
    return {"step": "write", "path": path, "text": text}


def run(command: str) -> Step:
    """Run a shell command as a tool, and wait for it."""
    return {"step": "run", "command": command}


def echo_prompt() -> Step:
    """Print the prompt as it was read, as if it were the agent's own words."""
    return {"step": "echo"}


def noise(data: bytes) -> Step:
    """Print these bytes and no others."""
    return {"step": "noise", "data": data.decode("latin-1")}


def leave(pidfile: Path) -> Step:
    """Leave a process running, in a session of its own."""
    return {"step": "leave", "pidfile": str(pidfile)}


def fail(message: str) -> Step:
    """Fail the turn as the dialect does: codex says so, others leave with 1."""
    return {"step": "fail", "message": message}


def exit(code: int) -> Step:  # noqa: A001 - it is what the agent does
    return {"step": "exit", "code": code}


def hang() -> Step:
    return {"step": "hang"}


def resumed(*steps: Step) -> Step:
    """What follows is played by the next process, which resumes this one's session."""
    return {"step": "resumed", "steps": list(steps)}


@dataclass(frozen=True)
class AnyAgent:
    """The executable, and what it heard so far."""

    path: Path

    @property
    def starts(self) -> list[dict[str, Any]]:
        """Every start: its argv, its environment and what it read."""
        log = self.path.with_name("heard.jsonl")
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def heard(self) -> list[str]:
        return [start["stdin"] for start in self.starts]


def any_agent(directory: Path, dialect: Dialect, *sessions: Sequence[Step], name: str = "codex") -> AnyAgent:
    """Write the agent into the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "script.json").write_text(json.dumps([list(session) for session in sessions]))
    for old in ("begun", "heard.jsonl"):
        (directory / old).unlink(missing_ok=True)
    path = directory / name
    path.write_text(
        f"#!{sys.executable} -SE\n"
        "import sys\n"
        f"sys.path.append({str(ROOT)!r})\n"
        "from tests.support.any_agent import Player\n"
        f"Player({str(directory)!r}, {dialect!r}).play()\n"
    )
    path.chmod(0o755)
    return AnyAgent(path)


class Player:
    """One start of the agent."""

    def __init__(self, directory: str, dialect: Dialect) -> None:
        self.directory = Path(directory)
        self.dialect = dialect
        self.tools = 0

    def play(self) -> None:
        self.prompt = sys.stdin.read()
        with (self.directory / "heard.jsonl").open("a") as log:
            log.write(json.dumps({"argv": sys.argv, "env": dict(os.environ), "stdin": self.prompt}) + "\n")
        steps, thread, used = self._session()
        self._codex({"type": "thread.started", "thread_id": thread}, {"type": "turn.started"})
        for step in steps:
            if step["step"] == "resumed":
                break
            self._step(step)
        self._codex({"type": "turn.completed", "usage": {"input_tokens": used * INPUT, "output_tokens": used * OUTPUT}})
        self._rtf1({"type": "usage", "usage": {"prompt_tokens": INPUT, "completion_tokens": OUTPUT}})

    def _session(self) -> tuple[list[Step], str, int]:
        """The steps of this start, the id of its session, and how many processes that has had."""
        sessions: list[list[Step]] = json.loads((self.directory / "script.json").read_text())
        known = self.directory / "begun"
        begun: list[str] = known.read_text().split() if known.exists() else []
        if "resume" in sys.argv:
            thread = sys.argv[sys.argv.index("resume") + 1]
            processes = begun.count(thread)
            steps = sessions[min(list(dict.fromkeys(begun)).index(thread), len(sessions) - 1)]
            for _ in range(processes):
                steps = next(step["steps"] for step in steps if step["step"] == "resumed")
        else:
            thread, processes = str(uuid.uuid4()), 0
            steps = sessions[min(len(set(begun)), len(sessions) - 1)]
        known.write_text(" ".join([*begun, thread]))
        return steps, thread, processes + 1

    def _step(self, step: Step) -> None:
        match step["step"]:
            case "say":
                self._say("agent_message", "AI", step["text"])
            case "think":
                self._say("reasoning", "THINK", step["text"])
            case "echo":
                self._say("agent_message", "AI", self.prompt)
            case "noise":
                sys.stdout.buffer.write(step["data"].encode("latin-1"))
                sys.stdout.buffer.flush()
            case "write":
                Path(step["path"]).write_text(step["text"])
            case "run":
                self._run(step["command"])
            case "leave":
                child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
                Path(step["pidfile"]).write_text(str(child.pid))
            case "fail":
                self._codex({"type": "turn.failed", "error": {"message": step["message"]}})
                print(step["message"], file=sys.stderr)
                sys.exit(1)
            case "exit":
                sys.exit(step["code"])
            case "hang":
                signal.sigwait([signal.SIGUSR1])  # which nobody sends; what ends it ends the process
            case unknown:
                raise ValueError(unknown)

    def _say(self, item: str, tag: str, text: str) -> None:
        self._codex({"type": "item.completed", "item": {"id": f"item_{self.tools}", "type": item, "text": text}})
        if self.dialect == "plain" or (self.dialect == "rtf1" and tag == "AI"):
            print(text, flush=True)
        else:
            self._rtf1({"type": "text", "tag": tag, "text": text})

    def _run(self, command: str) -> None:
        self.tools += 1
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        item = {"id": f"item_{self.tools}", "type": "command_execution", "command": command}
        output = {"aggregated_output": done.stdout, "exit_code": done.returncode}
        status = "completed" if done.returncode == 0 else "failed"
        self._codex({"type": "item.started", "item": item | {"status": "in_progress"}})
        self._codex({"type": "item.completed", "item": item | output | {"status": status}})
        tool = {"id": f"t{self.tools}"}
        self._rtf1({"type": "tool_start", "tool": tool | {"name": "shell", "input": {"command": command}}})
        self._rtf1({"type": "tool_output", "tool": tool, "text": done.stdout})
        self._rtf1({"type": "tool_end", "tool": tool | {"status": "ok" if done.returncode == 0 else "fail"}})

    def _codex(self, *events: dict[str, Any]) -> None:
        if self.dialect == "codex":
            for event in events:
                print(json.dumps(event), flush=True)

    def _rtf1(self, event: dict[str, Any]) -> None:
        if self.dialect == "rtf1":
            print(f"@@RALPH@@ {json.dumps(event)}", flush=True)
