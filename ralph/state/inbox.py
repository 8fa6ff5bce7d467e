"""`steering.jsonl` in a run's directory: what the user asks of the run, by commands and by keys, in order.

It is the only way to steer a run, so the latest request wins, wherever it came from.
"""

import contextlib
import fcntl
from dataclasses import dataclass
from pathlib import Path

from ralph.core import ndjson
from ralph.core.guidance import Act, Instruction
from ralph.core.records import NotARecord, parse, to_record
from ralph.system.files import append_line, open_to_append

_FILE = "steering.jsonl"
_KEY = "key"


@dataclass(frozen=True, slots=True)
class _Posted:
    """One line of the file."""

    number: int
    at: str
    act: Act
    text: str = ""
    by: str | None = None


class Inbox:
    """The words to one run; nothing is ever taken out."""

    def __init__(self, directory: Path, heard: int = 0, stale: int = 0) -> None:
        """Read what comes after the first `heard` words; of the first `stale` only what is told."""
        self._path = directory / _FILE
        self._heard = heard
        self._stale = stale
        self._read = 0

    def anew(self) -> "Inbox":
        """The same words for another reader."""
        return Inbox(self._path.parent, self._heard, self._stale)

    @property
    def size(self) -> int:
        """How many words are in it."""
        try:
            return self._path.read_bytes().count(b"\n")
        except OSError:
            return 0

    def post(self, act: Act, text: str, at: str, *, by_key: bool = False) -> int:
        """Append a word; return its number."""
        with open_to_append(self._path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # of two commands at once each gets a number of its own
            number = self.size + 1
            posted = _Posted(number, at, act, text, _KEY if by_key else None)
            append_line(file, ndjson.encode_line(to_record(posted)))
        return number

    def read(self) -> list[Instruction]:
        """The words since the last time; a line that is still being written is left for the next."""
        try:
            if self._path.stat().st_size == self._read:  # looked at five times a second while a run waits
                return []
            with self._path.open("rb") as file:
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read = len(whole)
        lines = whole.split(b"\n")[:-1]
        words = [_word(number, line) for number, line in enumerate(lines, 1) if number > self._heard]
        self._heard = max(self._heard, len(lines))
        return [word for word in words if word and (word.act is Act.TELL or word.number > self._stale)]


def _word(number: int, line: bytes) -> Instruction | None:
    with contextlib.suppress(NotARecord):
        posted = parse(_Posted, line)
        return Instruction(number, posted.act, posted.text, by_key=posted.by == _KEY, at=posted.at)
    return None
