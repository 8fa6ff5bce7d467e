"""How the value of a setting is read, whatever its source: a flag, a variable or a file."""

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ralph.core.text import did_you_mean, parse_count, parse_duration

if TYPE_CHECKING:  # they take 40 ms to import, and only a setting that is read needs them
    from ralph.core.limits import Reasoning
    from ralph.core.proof import TestPolicy

Parser = Callable[[object], object]


def _wrong(raw: object, wanted: str) -> ValueError:
    """Say what a value should be, and quote it as TOML and JSON write it."""
    match raw:
        case bool():
            shown = str(raw).lower()
        case dict():
            shown = "a table"
        case str() | list():
            shown = repr(cast("object", raw))
        case _:
            shown = str(raw)
    return ValueError(f"must be {wanted}, not {shown}")


_EMPTY = "must not be empty"


def text(raw: object) -> str:
    """Read a text without the blanks around it."""
    if not isinstance(raw, str):
        raise _wrong(raw, "a string")
    return raw.strip()


def word(raw: object) -> str:
    """Read a text that must not be empty."""
    if not text(raw):
        raise ValueError(_EMPTY)
    return text(raw)


def command(raw: object) -> str:
    """Read a command line."""
    line = word(raw)
    try:
        words = shlex.split(line)
    except ValueError as fault:
        raise ValueError(f"cannot parse {raw!r}: {fault}") from fault
    if not words:
        raise ValueError(_EMPTY)
    return line


def program(raw: object) -> tuple[str, ...]:
    """Read a command, a string or a list of words; `none` means no command.

    It runs in folders that an agent can write to, so a relative path could name the agent's own program.
    """
    words = () if raw == "none" else list_of(shlex.split)(command(raw) if isinstance(raw, str) else raw)
    if raw != "none" and not words:
        raise ValueError(f"{_EMPTY}; write `none` for no command")
    if words and "/" in words[0] and not words[0].startswith(("/", "~")):
        raise ValueError(f"{words[0]!r} is a relative path; write the full path")
    try:
        return (str(Path(words[0]).expanduser()), *words[1:]) if words else ()
    except RuntimeError as fault:  # ~nobody
        raise ValueError(str(fault)) from fault


def written(parse: Callable[[str], object]) -> Parser:
    """Accept a number as if it were text; a bool is not a number."""

    def parser(raw: object) -> object:
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise _wrong(raw, "a number or a string")
        return parse(str(raw))

    return parser


def seconds(said: str) -> float:
    """Read a duration; a bare number is seconds."""
    return parse_duration(f"{said.strip()}s" if said.strip().isdecimal() else said)


def count_or_zero(said: str) -> int:
    """Read a whole number."""
    return 0 if said.strip() == "0" else parse_count(said)


def count_or_unlimited(said: str) -> int | None:
    """Read a limit; 0 is none."""
    return count_or_zero(said) or None


def size(said: str) -> int:
    """Read an amount of bytes: 512M, 4G; a bare number is bytes."""
    found = re.fullmatch(r"([1-9]\d{0,15})\s*([kmgt]?)(?:i?b)?", said.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(f"cannot parse the size {said!r}; write one like 512M or 4G")
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2].lower()]


def or_none(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Accept `none` as no value."""
    return lambda said: None if said.strip() in ("none", "0") else parse(said)


class Choice:
    """Takes one of some words."""

    def __init__(self, *words: str, kind: Callable[[str], str] = str) -> None:
        self.words = [str(word) for word in words]
        self._kind = kind

    def __call__(self, raw: object) -> str:
        said = text(raw)
        if said not in self.words:
            known = ", ".join(filter(None, self.words))
            raise ValueError(f"{said!r} is not one of {known}{did_you_mean(said, self.words)}")
        return self._kind(said)


def reasoning(raw: object) -> "Reasoning":
    """Read how much an agent thinks."""
    from ralph.core.limits import Reasoning

    return Reasoning(Choice(*Reasoning)(raw))


def tests(raw: object) -> "TestPolicy":
    """Read what to do with changed tests."""
    from ralph.core.proof import TestPolicy

    return TestPolicy(Choice(*TestPolicy)(raw))


def switch(raw: object) -> bool:
    """Read true or false."""
    if isinstance(raw, bool):
        return raw
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(raw).strip().lower() not in words:
        raise _wrong(raw, "true or false")
    return words[str(raw).strip().lower()]


def list_of(split: Callable[[str], Sequence[str]]) -> Callable[[object], tuple[str, ...]]:
    """Accept a list, or a text that `split` makes one of."""

    def parser(raw: object) -> tuple[str, ...]:
        items = list(split(raw)) if isinstance(raw, str) else raw
        if not isinstance(items, list) or not all(isinstance(item, str) for item in cast("list[object]", items)):
            raise _wrong(raw, "a string or a list of strings")
        return tuple(item.strip() for item in cast("list[str]", items) if item.strip())

    return parser


names = list_of(lambda line: line.split(","))


def paths(raw: object) -> tuple[str, ...]:
    """Read paths, a list or, as PATH is written, one text: absolute ones, or from HOME."""
    found = list_of(lambda text: re.split(r":(?!ro\b)", text))(raw)
    for path in found:
        if not path.startswith(("/", "~/", "$")) and path != "~":
            raise ValueError(f"{path!r} is a relative path; write the full path, or one from ~")
    return found
