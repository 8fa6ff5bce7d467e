"""The canonical events: all that is shown, counted or decided comes from these.

On the wire each is one JSON object with its `type`; tool, usage and meta events have RTF1's shape (docs of the
transcript format), the others are flat. `seq` and `at` are added when an event is stamped.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ralph.core.events import (
    MOST_DOLLARS,
    MOST_TOKENS,
    Denial,
    Event,
    Tag,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
    Usage,
)


def to_json(event: Event) -> dict[str, object]:
    """Give the event its form on the wire. The first few are written out: a stream consists of them."""
    match event:
        case ToolStart():
            return {"type": "tool_start", "tool": {"id": event.id, "name": event.name, "input": event.input}}
        case ToolOutput():
            return {"type": "tool_output", "tool": {"id": event.id}, "text": event.text}
        case ToolEnd(duration_ms=None):
            return {"type": "tool_end", "tool": {"id": event.id, "status": event.status}}
        case ToolEnd():
            return {"type": "tool_end", "tool": _fields(event)}
        case Usage():
            return {
                "type": "usage",
                "usage": {name: value for name, value in _fields(event).items() if value is not None},
            }
        case TurnEnded():
            return {"type": event.type, **_fields(event), "denials": [_fields(denial) for denial in event.denials]}
        case _:
            return {"type": event.type, **_fields(event)}


def _fields(item: Event | Denial) -> dict[str, object]:
    """The fields as they are: `asdict` would copy an agent's JSON to any depth."""
    return {name: getattr(item, name) for name in _names(type(item))}


@functools.cache
def _names(kind: type[Event] | type[Denial]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def from_json(document: Mapping[str, object]) -> Event:
    """Read an event from its form on the wire; the `ValueError` of what is none names what is wrong with it."""
    said = document.get("type")
    kind = _KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        raise ValueError(f"type {_quoted(said)} is not one of {', '.join(_KINDS)}")
    return kind(**_values(kind, document))


def _values(kind: type[Event] | type[Denial], document: Mapping[str, object], path: str = "") -> dict[str, Any]:
    """Each field read by its type: the classes are the schema. What else the document holds is nobody's."""
    values: dict[str, Any] = {}
    for name, home, read, absent in _fields_to_read(kind):
        holder = _mapping(document.get(home), home) if home else document
        where = f"{home}.{name}" if home else f"{path}{name}"
        if holder.get(name) is not None:
            values[name] = read(holder[name], where)
        elif absent is dataclasses.MISSING:
            raise ValueError(f"{where} is missing")
        elif absent is None:
            values[name] = None
    return values


_Reader = Callable[[object, str], object]
"""Takes a value from outside and its name; returns it as what it should be, or says that it is not."""


@functools.cache
def _fields_to_read(kind: type[Event] | type[Denial]) -> tuple[tuple[str, str, _Reader, object], ...]:
    """For each field: its name, the object that holds it on the wire, its reader, what it is if it is not there."""
    fields: list[tuple[str, str, _Reader, object]] = []
    for item in dataclasses.fields(kind):
        said: object = item.type
        options = typing.get_args(said) if isinstance(said, types.UnionType) else (said,)
        read = _READERS_BY_NAME.get(item.name) or _READERS[options[0]]
        has_default = item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING
        absent = "its default" if has_default else None if said is object or len(options) > 1 else dataclasses.MISSING
        fields.append((item.name, _home(kind, item.name), read, absent))
    return tuple(fields)


def _home(kind: type[Event] | type[Denial], name: str) -> str:
    if kind is Usage:
        return "usage"
    return "tool" if kind in (ToolStart, ToolEnd) or (kind is ToolOutput and name == "id") else ""


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is not true or false")
    return value


_TOO_MANY = 2**53
"""Beyond it, readers of JSON that know only floats count wrong."""


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _TOO_MANY:
        raise ValueError(f"{name} is not a whole number")
    return value


def _count(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_MANY:
        raise ValueError(f"{name} is not a count")
    return value


def _figure(value: object, name: str, what: str = "a number of zero or more", too_much: float = 2.0**63) -> float:
    # Compared before converted: an integer may be beyond any float; and NaN is on neither side of anything.
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < too_much:
        raise ValueError(f"{name} is not {what}")
    return float(value)


def _money(value: object, name: str) -> float:
    return _figure(value, name, "an amount of US dollars", MOST_DOLLARS)


def _tokens(value: object, name: str) -> int:
    if (tokens := _count(value, name)) > MOST_TOKENS:
        raise ValueError(f"{name} is not a number of tokens that a session can use")
    return tokens


def _tag(value: object, name: str) -> Tag:
    if value not in _TAGS:
        raise ValueError(f"{name} {_quoted(value)} is not one of {', '.join(Tag)}")
    return Tag(value)


def _status(value: object, name: str) -> ToolStatus:
    if value not in _STATUSES:
        raise ValueError(f"{name} {_quoted(value)} is not one of {', '.join(ToolStatus)}")
    return ToolStatus(value)


_TAGS, _STATUSES = list(Tag), list(ToolStatus)  # lists: what is asked for may have no hash


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is not an object")
    return cast("Mapping[str, object]", value)


def _items(value: object, name: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is not an array")
    return cast("Sequence[object]", value)


def _texts(value: object, name: str) -> tuple[str, ...]:
    return tuple(_text(item, f"{name}.{number}") for number, item in enumerate(_items(value, name)))


def _denials(value: object, name: str) -> tuple[Denial, ...]:
    named = [(item, f"{name}.{number}") for number, item in enumerate(_items(value, name))]
    return tuple(Denial(**_values(Denial, _mapping(item, where), f"{where}.")) for item, where in named)


def _quoted(value: object) -> str:
    """What was said instead; never the whole of it, which may be nested without end."""
    return repr(value[:60]) if isinstance(value, str) else f"({type(value).__name__})"


_READERS: Mapping[object, _Reader] = {
    str: _text,
    bool: _flag,
    int: _count,
    float: _figure,
    object: lambda value, _: value,
    Tag: _tag,
    ToolStatus: _status,
    Mapping[str, object]: _mapping,
    tuple[str, ...]: _texts,
    tuple[Denial, ...]: _denials,
}
_READERS_BY_NAME: Mapping[str, _Reader] = {
    "cost_usd": _money,
    "exit_code": _whole,  # a signal's is negative
    **{item.name: _tokens for item in dataclasses.fields(Usage) if item.name.endswith("_tokens")},
}
_KINDS: Mapping[str, type[Event]] = {kind.type: kind for kind in typing.get_args(Event)}
