"""JSON text, in and out: what comes in is an `object` to be narrowed, what goes out is one line."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import orjson


class Malformed(ValueError):
    """The text is not usable JSON."""


def decode(text: str) -> object:
    """Parse one JSON text; raise `Malformed` for every failure of the parser."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _decode_leniently(text)


def decode_strictly(line: bytes) -> object:
    """Parse one JSON text in UTF-8 without decoding it to `str`; raise `Malformed` where only `decode` succeeds."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Malformed(str(error)) from error


def _decode_leniently(text: str) -> object:
    """Accept what Claude Code may write and orjson refuses: a lone surrogate, an integer beyond 64 bits, NaN."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a 5000-digit integer is a ValueError, depth a RecursionError
        raise Malformed(str(error)) from error


def shortened(line: bytes, longest: int) -> bytes:
    """Cut each string of a JSON text to its first `longest` bytes, and mark the cut.

    The text stays bytes: as a `str`, a single emoji would make it four times as large.
    """
    pieces: list[bytes] = []
    kept = 0
    for found in _STRING.finditer(line):
        begin, end = found.start() + 1, found.end() - 1
        if end - begin <= longest:
            continue
        cut = _whole_until(line, begin, begin + longest)
        pieces += line[kept:cut], f"… ({end - cut:,} bytes left out; the raw log has them)".encode()
        kept = end
    return b"".join((*pieces, line[kept:])) if pieces else line


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Possessive, and without the last quote: nothing is matched twice, however long or torn the text is.

No alternatives in a possessive group: Python before 3.11.5 continues in the middle of one that did not match.
"""

_LONGEST_ESCAPE = len(r"\uXXXX")


def _whole_until(line: bytes, begin: int, cut: int) -> int:
    """Move a cut in a JSON string back to where an escape, or a character of several bytes, begins."""
    slash = line.rfind(b"\\", max(begin, cut - _LONGEST_ESCAPE + 1), cut)
    if slash >= 0:
        first = slash
        while first > begin and line[first - 1 : first] == b"\\":
            first -= 1
        is_escaped = (slash - first) % 2 == 1
        length = _LONGEST_ESCAPE if line[slash + 1 : slash + 2] == b"u" else 2
        if not is_escaped and slash + length > cut:
            return slash
    while cut > begin and line[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


def encode(value: object) -> str:
    """Write one line of ASCII, which is safe for any terminal and file."""
    return _ascii_line(value)[:-1].decode("ascii")


def encode_line(value: object) -> bytes:
    """Write one line of UTF-8 with its newline, for files and programs; `ui.console` has more for a terminal.

    ASCII if the text contains a character of `_is_unsafe` or a lone surrogate, which UTF-8 cannot encode. Other text is
    not escaped, which would take 17 times as long.
    """
    quick = _quick_line(value)
    if quick and (quick.isascii() or not _is_unsafe(quick)):
        return quick
    return _ascii_line(value)


def encode_lines(values: Sequence[object]) -> bytes:
    """Write a line for each value; search all of them at once for unsafe characters."""
    try:
        quick = b"".join([orjson.dumps(value, str, orjson.OPT_APPEND_NEWLINE) for value in values])
    except (orjson.JSONEncodeError, RecursionError):
        quick = b""
    if quick and (quick.isascii() or not _is_unsafe(quick)):
        return quick
    return b"".join(map(encode_line, values))


def _is_unsafe(line: bytes) -> bool:
    """Tell whether UTF-8 has a C1 control, U+200B to U+200F, U+2028 to U+202E or U+2060 to U+206F.

    One pattern per first byte: a combined pattern takes ten times as long.
    """
    return (b"\xc2" in line and _C1.search(line) is not None) or (
        _SUSPECT.search(line) is not None and (_UNSEEN.search(line) is not None or _FORMATS.search(line) is not None)
    )


_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_SUSPECT = re.compile(rb"\xe2[\x80\x81][\x8b-\x8f\xa0-\xaf]")
_UNSEEN = re.compile(rb"\xe2\x80[\x8b-\x8f\xa8-\xae]")
_FORMATS = re.compile(rb"\xe2\x81[\xa0-\xaf]")


def _quick_line(value: object) -> bytes:
    """Return the line as orjson writes it; empty if it cannot."""
    try:
        return orjson.dumps(value, str, orjson.OPT_APPEND_NEWLINE)
    except (orjson.JSONEncodeError, RecursionError):
        return b""


def _ascii_line(value: object) -> bytes:
    quick = _quick_line(value)
    if quick and quick.isascii():  # orjson cannot escape other characters
        return quick
    try:
        return _ENCODER.encode(value).encode("ascii") + b"\n"
    except (ValueError, RecursionError):
        return _ENCODER.encode(_tamed(value, _DEEPEST)).encode("ascii") + b"\n"


_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False, default=str)
_DEEPEST = 50


def _tamed(value: object, depth: int) -> object:
    """Return a copy that any JSON reader accepts: no NaN, no infinity, no endless nesting."""
    if isinstance(value, dict | list | tuple) and depth == 0:
        return "..."
    if isinstance(value, dict):
        return {str(key): _tamed(item, depth - 1) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_tamed(item, depth - 1) for item in cast("Sequence[object]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


_EMPTY: Mapping[str, object] = {}


def mapping(value: object) -> Mapping[str, object]:
    """Narrow to an object; anything else is an empty one."""
    return value if isinstance(value, dict) else _EMPTY  # pyright: ignore[reportUnknownVariableType] - JSON


def sequence(value: object) -> Sequence[object]:
    """Narrow to an array; anything else is an empty one."""
    return value if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType]


def text(value: object) -> str:
    """Narrow to a string; anything else is the empty one."""
    return value if isinstance(value, str) else ""


MOST = 2**53 - 1
"""The largest count: JSON readers that only know floats lose precision beyond it."""


def count(value: object) -> int:
    """Narrow to a count; an implausible one (negative, a bool, beyond `MOST`) is 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else 0


def amount(value: object) -> float | None:
    """Narrow to an amount of money; None for NaN, infinite, negative or absurd figures."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None  # compared before converted: an integer may be beyond any float


LONGEST_LINE = 64 * 1024 * 1024
"""A longer line is counted, not kept: its bytes are in the raw log."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line that was too long to keep."""

    size: int


class LineSplitter:
    """Cuts a stream of chunks into lines, and keeps back the unfinished last one."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._held = 0
        self._dropped = 0

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """Return the lines that `chunk` completes, without their newline."""
        head, *rest = chunk.split(b"\n")
        self._hold(head)
        if not rest:
            return []
        finished = [self._release()]
        finished.extend(line if len(line) <= self._longest else Oversized(len(line)) for line in rest[:-1])
        self._hold(rest[-1])
        return finished

    def flush(self) -> list[bytes | Oversized]:
        """Return the unfinished last line, if there is one."""
        return [self._release()] if self._held or self._dropped else []

    def _hold(self, part: bytes) -> None:
        if self._dropped or self._held + len(part) > self._longest:
            self._dropped += self._held + len(part)
            self._parts, self._held = [], 0
        elif part:
            self._parts.append(part)
            self._held += len(part)

    def _release(self) -> bytes | Oversized:
        line = Oversized(self._dropped) if self._dropped else b"".join(self._parts)
        self._parts, self._held, self._dropped = [], 0, 0
        return line


def lines_in(chunks: Iterable[bytes]) -> Iterator[bytes | Oversized]:
    """Yield every line of the chunks, including the unfinished last one."""
    splitter = LineSplitter()
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.flush()
