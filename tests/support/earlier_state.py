"""State that an earlier ralph left on disk, restored into a test's directory.

`tests/fixtures/before_restructuring/README.md` says what the state is and how paths in it are replaced. File names that
depend on a path are computed here, without ralph: if ralph computed them differently, it would no longer find the state
of its users, and the tests must fail.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tests.support.goals import write_check, write_goal
from tests.support.ralph_process import Finished, run_ralph, start_ralph
from tests.support.scripted_agent import (
    Session,
    api_error,
    deny,
    rate_limit,
    run,
    say,
    scripted_agent,
    stderr,
    summary,
    think,
    write,
)
from tests.support.scripted_agent import exit as exit_with

FIXTURES = Path(__file__).parent.parent / "fixtures" / "before_restructuring"
RECORDED_AT = "/tmp/example"
"""Where the state was recorded; in the fixtures this path stands for the directory they are restored to."""


def digest_of(path: str) -> str:
    """Return the eight characters that ralph adds to the name of a repository to make it unique to its path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Relocation:
    """Replaces one root path by another in text, and the digests of paths below it."""

    pairs: Sequence[tuple[str, str]]

    def __call__(self, text: str) -> str:
        for old, new in self.pairs:
            text = text.replace(old, new)
        return text

    def in_bytes(self, data: bytes) -> bytes:
        """Replace in the content of a file; git's objects are compressed, so nothing in them matches."""
        for old, new in self.pairs:
            data = data.replace(os.fsencode(old), os.fsencode(new))
        return data

    @property
    def back(self) -> Relocation:
        """The reverse: turns output about the restored state into output about the recorded one."""
        return Relocation([(new, old) for old, new in reversed(self.pairs)])


def relocation(keyed: Iterable[str], root: Path) -> Relocation:
    """Return the relocation to `root`; `keyed` are the paths below it whose digests are part of file names."""
    derived = [
        (f"{_stem(path)}-{digest_of(f'{RECORDED_AT}/{path}')}", f"{_stem(path)}-{digest_of(f'{root}/{path}')}")
        for path in keyed
    ]
    return Relocation([*derived, (RECORDED_AT, str(root))])


def _stem(path: str) -> str:
    return PurePosixPath(path).name


def restore(name: str, root: Path) -> Relocation:
    """Unpack an archive as if it had been recorded at `root`; return how its paths were replaced."""
    moved = relocation(json.loads((FIXTURES / "paths.json").read_text())[name], root.resolve())
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        for member in archive:
            target = root / moved(member.name)
            if member.isdir():
                target.mkdir(mode=member.mode, parents=True, exist_ok=True)
            elif member.issym():
                target.symlink_to(moved(member.linkname))
            else:
                file = archive.extractfile(member)
                assert file is not None
                target.write_bytes(moved.in_bytes(file.read()))
                target.chmod(member.mode)
    return moved


def restore_sqlite(moved: Relocation, file: Path) -> None:
    """Create the queue's database from its SQL dump."""
    with sqlite3.connect(file) as database:
        database.execute("pragma journal_mode=wal")
        database.executescript(moved((FIXTURES / "queue-sqlite.sql").read_text()))
    database.close()
    file.chmod(0o600)


def golden(name: str) -> Any:
    """Return what the earlier ralph printed about the recorded state."""
    return json.loads((FIXTURES / "output" / f"{name}.json").read_text())


def missing(expected: object, found: object, where: str = "") -> list[str]:
    """List the differences between two JSON documents; keys that only `found` has are not one."""
    match expected, found:
        case dict(), dict():
            gone = [f"{where}.{key} is gone" for key in expected if key not in found]
            kept = (key for key in expected if key in found)
            return gone + [fault for key in kept for fault in missing(expected[key], found[key], f"{where}.{key}")]
        case list(), list() if len(expected) == len(found):
            pairs = enumerate(zip(expected, found, strict=True))
            return [fault for number, (one, other) in pairs for fault in missing(one, other, f"{where}[{number}]")]
        case float(), int() | float():  # sums may be added up in another order
            return [] if math.isclose(expected, found, abs_tol=1e-9) else [f"{where} was {expected}, now {found}"]
        case _:
            return [] if expected == found else [f"{where} was {expected!r}, now {found!r}"]


STORY: Sequence[Session] = (
    [think("What is asked?"), say("I look."), run("ls nowhere"), write("answer.txt", "41\n"), summary("a first try")],
    [rate_limit("allowed_warning", 4_000_000_000), write("answer.txt", "40\n"), summary("DONE")],
    [stderr("it breaks\n"), exit_with(1)],
    [rate_limit("rejected", 4_000_000_000), api_error(429, "You've hit your limit", "rate_limit")],
    [
        deny("WebFetch", {"url": "https://example.org"}),
        write("answer.txt", "42\n"),
        summary("DONE\nGuidance 1: I mind it. The answer is 42."),
    ],
)
"""A run with a failing tool, a red check, a summary, a crash, a usage limit and a denied tool."""

_STORY_SETTINGS = {"RALPH_SUMMARY_EVERY": "2", "RALPH_SUMMARY_KEEP": "1", "RALPH_ON_DENIAL": "continue"}


def play_story(repo: Path, bin_dir: Path, env: Mapping[str, str]) -> Finished:
    """Run `STORY` to its end, giving guidance during its wait for the usage limit and then ending the wait."""
    env = {**env, **_STORY_SETTINGS}
    write_goal(repo)
    write_check(repo)
    scripted_agent(bin_dir, STORY)
    with start_ralph("run", "goal.md", "--json", cwd=repo, env=env) as running:
        running.wait_for("waiting")
        for word in (["tell", "goal", "Mind the spelling."], ["wake", "goal"]):
            assert run_ralph(*word, cwd=repo, env=env).exit_code == 0
        done = running.wait()
    assert done.exit_code == 0, done.stdout + done.stderr
    return done


Shape = dict[str, set[str]]
"""Kinds of values by key, such as `iteration_ended.cost_usd`."""

_WORDS = ("tag", "status", "end", "verdict", "subtype", "transcript", "reasoning", "permission_mode")
"""Keys with a fixed set of values, which programs may compare."""


def shape(events: Iterable[Mapping[str, Any]]) -> Shape:
    """Return the keys and fixed values of events; their number and their text differ from run to run."""
    found: Shape = {}
    for event in events:
        _add(found, str(event["type"]), event)
    return found


def _add(found: Shape, where: str, value: object) -> None:
    if isinstance(value, dict):
        found.setdefault(where, set()).add("object")
        for key, inner in value.items():
            # The agent chooses what is in these.
            if key in ("input", "structured_output", "meta"):
                found.setdefault(f"{where}.{key}", set()).add(_kind(inner))
            elif key in _WORDS:
                found.setdefault(f"{where}.{key}", set()).add(f"={inner}")
            else:
                _add(found, f"{where}.{key}", inner)
    elif isinstance(value, list):
        found.setdefault(where, set()).add("array")
        for inner in value:
            _add(found, f"{where}[]", inner)
    else:
        found.setdefault(where, set()).add(_kind(value))


def _kind(value: object) -> str:
    kinds: Sequence[tuple[Callable[[object], bool], str]] = (
        (lambda value: value is None, "null"),
        (lambda value: isinstance(value, bool), "flag"),
        (lambda value: isinstance(value, int | float), "number"),
        (lambda value: isinstance(value, str), "text"),
        (lambda value: isinstance(value, dict), "object"),
    )
    return next((name for fits, name in kinds if fits(value)), "array")
