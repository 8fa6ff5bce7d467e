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
    """The requests to one run; none is ever removed."""

    def __init__(self, directory: Path, heard: int = 0, stale: int = 0) -> None:
        """Read after the first `heard` requests; of the first `stale`, only messages to the agent."""
        self._path = directory / _FILE
        self._heard = heard
        self._stale = stale
        self._read = 0

    def for_another_reader(self) -> "Inbox":
        """Return the same inbox for another reader."""
        return Inbox(self._path.parent, self._heard, self._stale)

    @property
    def size(self) -> int:
        """Return how many requests are in it."""
        try:
            return self._path.read_bytes().count(b"\n")
        except OSError:
            return 0

    def post(self, act: Act, text: str, at: str, *, by_key: bool = False) -> Instruction:
        """Append a request, and return it with its numbers."""
        with open_to_append(self._path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two commands at once get different numbers
            number = self.size + 1
            posted = _Posted(number, at, act, text, _KEY if by_key else None)
            append_line(file, ndjson.encode_line(to_record(posted)))
            message = _messages(self._path.read_bytes()) if act is Act.TELL else 0
        return Instruction(number, act, text, by_key=by_key, at=at, message=message)

    def read(self) -> list[Instruction]:
        """Return new requests; an unfinished line waits for the next call."""
        try:
            if self._path.stat().st_size == self._read:  # read five times a second while a run waits
                return []
            with self._path.open("rb") as file:
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read = len(whole)
        lines = whole.split(b"\n")[:-1]
        # The first ones are read only to number the messages among the rest.
        messages = _messages(b"\n".join(lines[: self._heard]))
        words: list[Instruction | None] = []
        for number, line in enumerate(lines[self._heard :], self._heard + 1):
            word = _word(number, line, messages + 1)
            messages += word is not None and word.act is Act.TELL
            words.append(word)
        self._heard = max(self._heard, len(lines))
        return [word for word in words if word and (word.act is Act.TELL or word.number > self._stale)]


def _word(number: int, line: bytes, message: int) -> Instruction | None:
    """Read a line; `message` is its number if it is a message to the agent."""
    with contextlib.suppress(NotARecord):
        posted = parse(_Posted, line)
        return Instruction(
            number,
            posted.act,
            posted.text,
            by_key=posted.by == _KEY,
            at=posted.at,
            message=message if posted.act is Act.TELL else 0,
        )
    return None


def _messages(lines: bytes) -> int:
    """Count the messages to the agent."""
    words = [_word(1, line, 1) for line in lines.split(b"\n") if line]
    return sum(word is not None and word.act is Act.TELL for word in words)
