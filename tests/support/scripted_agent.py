"""A stand-in for `claude` that plays a script: fast, and faithful to what the real one prints and how it ends.

`scripted_agent(directory, sessions)` writes an executable; the n-th start of it plays the n-th session, and the last
session repeats. A session is a list of turns, one for each message it is sent (also after an interruption), of which
the last repeats; a session of one turn may be given as that turn, a list of steps. A turn with no step that ends it
ends as claude does when the model only talks. Steps after one that ends the turn are played after its result.

A start as a summarizer, with the model haiku and no tool that changes anything, plays the next of `summarizer` instead,
which are sessions of their own; it is none of the others.

    agent = scripted_agent(tmp_path / "bin", [[write("a.txt", "a"), summary("wrote a")], [summary("DONE")]])
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from tests.support.tokens import ONE_MESSAGE, Tokens

ROOT = Path(__file__).parents[2]
COST = 0.01
CONTEXT_WINDOW = 1_000_000
STANDARD_SUMMARY = "What the older iterations came to."


@dataclass(frozen=True)
class Step:
    """One thing the agent does; made by the functions below."""

    fields: dict[str, Any]


Turn = Sequence[Step]
Session = Sequence[Turn] | Turn
Stray = Literal["child", "setsid", "double_fork", "stripped", "ignore_term", "holds_stdout"]


class Start(TypedDict):
    """One start of the agent."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    pid: int


def say(text: str) -> Step:
    return _step("say", text=text)


def think(text: str) -> Step:
    return _step("think", text=text)


def write(path: str, text: str) -> Step:
    """Write a file, relative to the working directory, with the Write tool."""
    return _step("write", path=path, text=text)


def run(command: str) -> Step:
    """Run a shell command with the Bash tool, and wait for it."""
    return _step("run", command=command)


def deny(tool: str, arguments: dict[str, Any]) -> Step:
    """Ask for a tool and be refused."""
    return _step("deny", tool=tool, arguments=arguments)


def background(seconds: float, then: Turn) -> Step:
    """Leave a command running that, once it ends, starts the turn `then` by itself."""
    return _step("background", seconds=seconds, then=[_plain(step) for step in then])


def bill(cost: float | None = None, tokens: Tokens | None = None) -> Step:
    """Change what each message costs from here on."""
    return _step("bill", cost=cost, tokens=asdict(tokens) if tokens else None)


def summary(text: str) -> Step:
    """End the turn with the structured output `{"summary": text}`."""
    return structured({"summary": text})


def structured(output: dict[str, Any]) -> Step:
    """End the turn with this structured output, whatever the schema says."""
    return _step("structured", output=output)


def answer(text: str) -> Step:
    """End the turn with words only; with a schema that takes two messages, as claude asks a second time."""
    return _step("answer", text=text)


def api_error(status: int | None, text: str, error: str = "server_error", terminal_reason: str = "api_error") -> Step:
    """End the turn as claude does when the API fails: a success that is an error."""
    return _step("api_error", status=status, text=text, error=error, terminal_reason=terminal_reason)


def result_subtype(subtype: str, errors: Sequence[str] = ()) -> Step:
    """End the turn with a result such as `error_max_turns`, without text or structured output."""
    return _step("result_subtype", subtype=subtype, errors=list(errors))


def rate_limit(status: Literal["allowed", "allowed_warning", "rejected"], resets_at: int | None = None) -> Step:
    return _step("rate_limit", status=status, resets_at=resets_at)


def raw(line: str | bytes) -> Step:
    """Print these bytes and no others: a line needs its own newline."""
    return _step("raw", line=(line.encode() if isinstance(line, str) else line).decode("latin-1"))


def stderr(text: str) -> Step:
    return _step("stderr", text=text)


def pause(seconds: float) -> Step:
    """Take so long over the message in progress, if there is one; an interrupt or a signal ends it."""
    return _step("pause", seconds=seconds)


def hang() -> Step:
    """Do nothing for ever; an interrupt or a signal still ends it."""
    return _step("hang")


def exit(code: int) -> Step:  # noqa: A001 - it is what the agent does
    """End the process at once."""
    return _step("exit", code=code)


def kill_self(number: int) -> Step:
    """Die by this signal."""
    return _step("kill_self", number=int(number))


def spawn(pidfile: Path, kind: Stray = "child") -> Step:
    """Start a process that outlives the agent (for five minutes), and write its pid to the file.

    `child` stays in the agent's process group, all others have their own session; `double_fork` has lost its parent,
    `stripped` its environment as well, `ignore_term` ignores what can be ignored, `holds_stdout` keeps the pipe open.
    """
    return _step("spawn", pidfile=str(pidfile.absolute()), kind=kind)


def ignore_signals() -> Step:
    """From here on only SIGKILL ends the agent, and no interrupt stops a turn."""
    return _step("ignore_signals")


def no_exit_after_result() -> Step:
    """Stay alive when stdin ends."""
    return _step("no_exit_after_result")


@dataclass(frozen=True)
class ScriptedAgent:
    """The executable, and what it heard and spent so far."""

    path: Path

    @property
    def starts(self) -> list[Start]:
        return [
            Start(argv=entry["argv"], env=entry["env"], cwd=entry["cwd"], pid=entry["pid"])
            for entry in self._entries("start")
        ]

    @property
    def heard(self) -> list[str]:
        """The user messages, of all starts but a summarizer's, in order."""
        return self._heard("worker")

    @property
    def heard_as_summarizer(self) -> list[str]:
        return self._heard("summarizer")

    def spent(self, mode: str) -> float:
        """What the sessions of one mode cost: worker or summarizer."""
        return sum(entry["cost"] for entry in self._entries("message") if entry["mode"] == mode)

    def _heard(self, mode: str) -> list[str]:
        lines = [json.loads(entry["line"]) for entry in self._entries("stdin") if entry["mode"] == mode]
        messages = [line["message"]["content"] for line in lines if line["type"] == "user"]
        return [
            content if isinstance(content, str) else "".join(block["text"] for block in content) for content in messages
        ]

    @property
    def total_cost(self) -> float:
        return sum(entry["cost"] for entry in self._entries("message"))

    @property
    def tokens(self) -> Tokens:
        return sum((Tokens(**entry["tokens"]) for entry in self._entries("message")), Tokens())

    def _entries(self, kind: str) -> list[dict[str, Any]]:
        log = self.path.with_name("heard.jsonl")
        lines = log.read_text().split("\n") if log.exists() else []
        return [entry for line in lines if (entry := _whole(line)).get("kind") == kind]


def scripted_agent(
    directory: Path,
    sessions: Sequence[Session],
    name: str = "claude",
    *,
    tokens: Tokens = ONE_MESSAGE,
    cost: float = COST,
    context_window: int = CONTEXT_WINDOW,
    summarizer: Sequence[Session] | None = None,
) -> ScriptedAgent:
    """Write the agent into a directory of its own; `tokens` and `cost` are those of each message."""
    directory.mkdir(parents=True, exist_ok=True)
    script = {
        "sessions": {
            "worker": _played(sessions),
            "summarizer": _played([[summary(STANDARD_SUMMARY)]] if summarizer is None else summarizer),
        },
        "tokens": asdict(tokens),
        "cost": cost,
        "context_window": context_window,
    }
    (directory / "script.json").write_text(json.dumps(script))
    for old in ("starts.worker", "starts.summarizer", "heard.jsonl"):  # a new script begins with its first session
        (directory / old).unlink(missing_ok=True)
    path = directory / name
    # -S -E: no site, no PYTHON* variables of the test; the modules come from here, compiled once.
    path.write_text(
        f"#!{sys.executable} -SE\n"
        "import sys\n"
        f"sys.path.append({str(ROOT)!r})\n"
        "from tests.support.agent_player import main\n"
        f"main({str(directory)!r})\n"
    )
    path.chmod(0o755)
    return ScriptedAgent(path)


@dataclass(frozen=True)
class ClaudeScript:
    """The fixture `claude_script`: puts an agent that plays these sessions on the PATH of the fixture `ralph`."""

    directory: Path

    def __call__(
        self,
        *sessions: Session,
        tokens: Tokens = ONE_MESSAGE,
        cost: float = COST,
        context_window: int = CONTEXT_WINDOW,
        summarizer: Sequence[Session] | None = None,
    ) -> ScriptedAgent:
        return scripted_agent(
            self.directory,
            sessions,
            tokens=tokens,
            cost=cost,
            context_window=context_window,
            summarizer=summarizer,
        )


def _whole(line: str) -> dict[str, Any]:
    """An entry; nothing for one that is torn, since its agent was killed, or still being written."""
    try:
        return json.loads(line)
    except ValueError:
        return {}


def _played(sessions: Sequence[Session]) -> list[list[list[dict[str, Any]]]]:
    return [[[_plain(step) for step in turn] for turn in _turns(session)] for session in sessions]


def _turns(session: Session) -> list[Turn]:
    """A session as turns: a plain list of steps is one turn."""
    turns: list[Turn] = []
    steps: list[Step] = []
    for item in session:
        if isinstance(item, Step):
            steps.append(item)
        else:
            turns.append(item)
    if steps and turns:
        raise ValueError("a session holds turns or steps, not both")
    return [steps] if steps else turns


def _step(name: str, **fields: Any) -> Step:
    return Step({"step": name, **fields})


def _plain(step: Step) -> dict[str, Any]:
    return step.fields
