"""What is fuzzed: each target takes any bytes, and raises only if ralph does something wrong with them."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ralph.agents.registry import TRANSCRIPTS
from ralph.agents.transcript import events_in
from ralph.config import settings
from ralph.core import ndjson
from ralph.core.errors import StateError, UsageError
from ralph.core.events import ToolEnd, ToolStart
from ralph.core.goal import parse_goal
from ralph.core.ndjson import LineSplitter, Oversized, lines_in
from ralph.core.records import from_json, to_json
from ralph.core.run import read_message
from ralph.queue.child import goal_text
from ralph.queue.goals import RALPH, USER, BatchGoal, Comment, State
from ralph.queue.manifest import read_manifest
from ralph.state.journal import Journal

_SCRATCH = Path(__file__).parent.parent / ".venv" / "fuzz" / "scratch"  # libFuzzer leaves without any goodbye
os.environ.update(XDG_CONFIG_HOME=str(_SCRATCH / "config"))  # the user's own settings have no say


class Wrong(Exception):
    """Something came out that must not."""


@dataclass(frozen=True, slots=True)
class Target:
    survive: Callable[[bytes], None]
    seeds: tuple[str, ...] = ()
    """Directories of examples to start from."""


def lines(data: bytes) -> None:
    """However a stream is cut into chunks, the same lines come out, and none is longer than allowed."""
    longest, size = 1 + data[0] % 64 if data else 1, 1 + data[1] % 32 if len(data) > 1 else 1
    splitter = LineSplitter(longest)
    found: list[bytes | Oversized] = []
    for start in range(0, len(data), size):
        found += splitter.feed(data[start : start + size])
    found += splitter.flush()
    wanted = data.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    said = [line if len(line) <= longest else Oversized(len(line)) for line in wanted]
    if found != said:
        raise Wrong(f"{found!r}, not {said!r}")


def _transcript(name: str) -> Callable[[bytes], None]:
    def survive(data: bytes) -> None:
        """Any stream becomes events, every event one line that can be read back; no tool stays open."""
        still_open: set[str] = set()
        for event in events_in(lines_in([data]), TRANSCRIPTS[name]()):
            line = ndjson.encode({"seq": 1, **to_json(event)})
            read = from_json(ndjson.mapping(ndjson.decode(line)))
            if not line.isascii() or "\n" in line or ndjson.encode({"seq": 1, **to_json(read)}) != line:
                raise Wrong(line)
            if isinstance(event, ToolStart):
                still_open.add(event.id)
            elif isinstance(event, ToolEnd):
                still_open.discard(event.id)
        if still_open:
            raise Wrong(repr(still_open))

    return survive


def events(data: bytes) -> None:
    """Any JSON is an event, which is written as it was read, or is refused."""
    for text in data.decode("utf-8", "replace").split("\n"):
        with contextlib.suppress(ValueError):  # Malformed is one, too
            event = from_json(ndjson.mapping(ndjson.decode(text)))
            line = ndjson.encode(to_json(event))
            if ndjson.encode(to_json(from_json(ndjson.mapping(ndjson.decode(line))))) != line:
                raise Wrong(line)


def configuration(data: bytes) -> None:
    """Any file for a configuration is settings, or is refused."""
    path = _SCRATCH / "repo" / ".ralph" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    with contextlib.suppress(UsageError):
        chosen = settings.load(env={}, root=_SCRATCH / "repo")
        if chosen.agents.claude.path or chosen.agents.claude.extra_args or chosen.agents.command:
            raise Wrong("a repository decides what is run")


def goal(data: bytes) -> None:
    """Any text for a goal is one, or is refused; what it says in front is settings, or is refused."""
    with contextlib.suppress(UsageError):
        read = parse_goal(data.decode("utf-8", "replace"), Path("/goal.md"))
        if not read.title or "\n" in read.title:
            raise Wrong(read.title)
        settings.load(env={}, front_matter=read.front_matter)


def retry(data: bytes) -> None:
    """Any goal that is one is still that goal when an attempt is told of it, whatever went wrong before."""
    text, _, log = data.decode("utf-8", "replace").partition("\0")
    with contextlib.suppress(UsageError):
        read = parse_goal(text, Path("/goal.md"))
        row = BatchGoal(1, "goal", "", text, "/goal.md", "", "", State.RUNNING, 0, 0, attempts=2)
        again = parse_goal(goal_text(row, [Comment(1, 0, RALPH, log), Comment(1, 0, USER, log)]), Path("/goal.md"))
        kept = {key: value for key, value in read.front_matter.items() if key in again.front_matter}
        if repr(kept) != repr(dict(again.front_matter)) or not again.text.startswith(read.text.strip()):
            raise Wrong(again.text)


def manifest(data: bytes) -> None:
    """Any file for a manifest names goals, or is refused."""
    path = _SCRATCH / "batch.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    with contextlib.suppress(UsageError):
        if not read_manifest(path).entries:
            raise Wrong("a manifest without a goal")


def journal(data: bytes) -> None:
    """Any run directory says what its run is, or that it cannot; the first zero byte parts its two files."""
    directory = _SCRATCH / "run"
    directory.mkdir(parents=True, exist_ok=True)
    run, _, progress = data.partition(b"\0")
    (directory / "run.json").write_bytes(run)
    (directory / "progress.jsonl").write_bytes(progress)
    (directory / "events.ndjson").write_bytes(data)
    found = Journal(directory)
    with contextlib.suppress(StateError):
        found.load()
    found.open()
    found.close()


def message(data: bytes) -> None:
    """Any commit message is an iteration's, or is not; its spend is a figure."""
    said = read_message(data.decode("utf-8", "replace"))
    if said is not None and not (said.iteration > 0 and 0 <= said.spend.cost_usd < 1e9 and said.spend.tokens >= 0):
        raise Wrong(repr(said))


TARGETS = {
    "lines": Target(lines),
    "claude": Target(_transcript("claude"), ("tests/fixtures/claude",)),
    "codex": Target(_transcript("codex"), ("tests/fixtures/codex",)),
    "rtf1": Target(_transcript("rtf1"), ("tests/fixtures/rtf1",)),
    "plain": Target(_transcript("plain"), ("tests/fixtures/plain",)),
    "events": Target(events, ("tests/fixtures/rtf1", "tests/fixtures/claude")),
    "configuration": Target(configuration, ("fuzz/seeds/configuration",)),
    "goal": Target(goal, ("examples/goals", "fuzz/seeds/goal")),
    "retry": Target(retry, ("examples/goals", "fuzz/seeds/goal")),
    "manifest": Target(manifest, ("fuzz/seeds/manifest",)),
    "journal": Target(journal, ("fuzz/seeds/journal",)),
    "message": Target(message, ("fuzz/seeds/message",)),
}
