"""JSON text, in and out: what comes in is an `object` to be narrowed, what goes out is one ASCII line."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import cast

import orjson


class Malformed(ValueError):
    """The text is not JSON that can be held."""


def decode(text: str) -> object:
    """Parse one JSON text; every way in which a parser can fail becomes `Malformed`."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _decode_leniently(text)


def _decode_leniently(text: str) -> object:
    """Take what Claude Code may write and orjson refuses: a lone surrogate, an integer beyond 64 bits, NaN."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a 5000-digit integer is a ValueError, depth a RecursionError
        raise Malformed(str(error)) from error


def encode(value: object) -> str:
    """Write one line: ASCII only, so that a lone surrogate or U+2028 in agent output cannot break the file."""
    return encode_line(value)[:-1].decode("ascii")


def encode_line(value: object) -> bytes:
    """The same, as the bytes that go to a file, with the newline."""
    try:
        quick = orjson.dumps(value, str, orjson.OPT_APPEND_NEWLINE)
        if quick.isascii():  # orjson cannot escape what is not
            return quick
    except (orjson.JSONEncodeError, RecursionError):
        pass
    try:
        return _ENCODER.encode(value).encode("ascii") + b"\n"
    except (ValueError, RecursionError):
        return _ENCODER.encode(_tamed(value, _DEEPEST)).encode("ascii") + b"\n"


_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False, default=str)
_DEEPEST = 50


def _tamed(value: object, depth: int) -> object:
    """A copy that any JSON reader takes: no NaN, no infinity, nothing nested without end."""
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
"""The largest count: beyond it, readers of JSON that know only floats count wrong."""


def count(value: object) -> int:
    """Narrow to a count; what is not a plausible one (negative, a bool, beyond `MOST`) is 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else 0


def amount(value: object) -> float | None:
    """Narrow to an amount of money; NaN, infinite, negative or absurd figures are no figure at all."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None  # compared before converted: an integer may be beyond any float
