"""The one codec between dataclasses and JSON: the classes are the schema.

A record is an object with a key for each field of its class. A key that is missing or null stands for the field's
default, and unknown keys are ignored, so that versions of ralph can read each other's files. An event also has its
`type`; tool, usage and meta events have RTF1's shape (docs/rtf1.md), the others are flat.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ralph.core import ndjson
from ralph.core.events import (
    MOST_DOLLARS,
    MOST_TOKENS,
    Event,
    ToolEnd,
    ToolOutput,
    ToolStart,
    Usage,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Record = TypeVar("_Record", bound="DataclassInstance")


class NotARecord(ValueError):
    """The value is not a record of the expected class; `field` is the wrong one."""

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field} {fault}")
        self.field = field


def parse(kind: type[_Record], text: str | bytes) -> _Record:
    """Read a record from JSON text."""
    return from_record(kind, _decoded(text))


def from_record(kind: type[_Record], value: object) -> _Record:
    """Read a record from decoded JSON."""
    return kind(**_values(kind, _mapping(value, "it")))


def to_record(item: "DataclassInstance") -> dict[str, object]:
    """Return the fields of a record, ready to be encoded. Values without records in them are not copied."""
    names, nested = _fields_to_write(type(item))
    fields = {key: getattr(item, name) for key, name in names}
    for key, write in nested:
        fields[key] = write(fields[key])
    return fields


def parse_event(line: str | bytes) -> tuple[Event, str]:
    """Read a journaled event and its time stamp."""
    document = _mapping(_decoded(line), "it")
    return from_json(document), ndjson.text(document.get("at"))


def to_json(event: Event) -> dict[str, object]:
    """Return an event as it is journaled. The most frequent kinds are written out for speed."""
    match event:
        case ToolStart():
            return {"type": "tool_start", "tool": {"id": event.id, "name": event.name, "input": event.input}}
        case ToolOutput():
            return {"type": "tool_output", "tool": {"id": event.id}, "text": event.text}
        case ToolEnd(duration_ms=None, line=None):
            return {"type": "tool_end", "tool": {"id": event.id, "status": event.status}}
        case ToolEnd():
            said = {"id": event.id, "status": event.status, "duration_ms": event.duration_ms, "line": event.line}
            return {"type": "tool_end", "tool": {key: value for key, value in said.items() if value is not None}}
        case Usage():
            used = {name: value for name, value in to_record(event).items() if value is not None}
            return {"type": "usage", "usage": used}
        case _:
            return {"type": event.type, **to_record(event)}


def from_json(document: Mapping[str, object]) -> Event:
    """Read an event from its decoded line."""
    said = document.get("type")
    kind = _KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        raise NotARecord("type", f"{_quoted(said)} is not one of {', '.join(_KINDS)}")
    return kind(**_values(kind, document))


def _decoded(text: str | bytes) -> object:
    try:
        return ndjson.decode(text if isinstance(text, str) else text.decode("utf-8", "replace"))
    except ndjson.Malformed as error:
        raise NotARecord("it", f"is not JSON ({error})") from error


_Writer = Callable[[Any], object]


@functools.cache
def _fields_to_write(
    kind: "type[DataclassInstance]",
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, _Writer], ...]]:
    """Return the key and name of each field, and the writer for fields with records."""
    fields = [(_key(item), item) for item in dataclasses.fields(kind)]
    written = [(key, _writer(item.type)) for key, item in fields]
    return tuple((key, item.name) for key, item in fields), tuple((key, write) for key, write in written if write)


def _writer(said: object) -> _Writer | None:
    """Return the writer for a type; None: write the value as it is."""
    wanted, is_optional = _optional(said)
    arguments = typing.get_args(wanted)
    write = _writer(arguments[-1] if typing.get_origin(wanted) is Mapping else arguments[0]) if arguments else None
    if dataclasses.is_dataclass(wanted):
        return (lambda value: None if value is None else to_record(value)) if is_optional else to_record
    if write is None:
        return None
    if typing.get_origin(wanted) is Mapping:
        return lambda value: {str(key): write(item) for key, item in value.items()}
    return lambda value: [write(item) for item in value]


def _key(item: "dataclasses.Field[Any]") -> str:
    """Return a field's key in JSON."""
    return item.metadata.get("key", item.name)


def _optional(said: object) -> tuple[object, bool]:
    """Return a field's type without None, and whether it may be None."""
    options = typing.get_args(said) if isinstance(said, types.UnionType) else (said,)
    return options[0], len(options) > 1


def _values(kind: "type[DataclassInstance]", document: Mapping[str, object], path: str = "") -> dict[str, Any]:
    """Read each field by its type."""
    values: dict[str, Any] = {}
    for name, key, home, read, absent in _fields_to_read(kind):
        holder = _mapping(document.get(home), home) if home else document
        where = f"{home}.{key}" if home else f"{path}{key}"
        if holder.get(key) is not None:
            values[name] = read(holder[key], where)
        elif absent is dataclasses.MISSING:
            raise NotARecord(where, "is missing")
        elif absent is None:
            values[name] = None
    return values


_Reader = Callable[[object, str], object]
"""Narrows a value from outside; raises `NotARecord` with the name of its field."""


@functools.cache
def _fields_to_read(kind: "type[DataclassInstance]") -> tuple[tuple[str, str, str, _Reader, object], ...]:
    """Return for each field its name, its key, the object that contains it, its reader and its default."""
    fields: list[tuple[str, str, str, _Reader, object]] = []
    for item in dataclasses.fields(kind):
        wanted, is_optional = _optional(item.type)
        by_name = _EVENT_READERS if kind in _KINDS.values() else _READERS_BY_NAME
        read = by_name.get(item.name) or _reader(wanted)
        has_default = item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING
        absent = "its default" if has_default else None if wanted is object or is_optional else dataclasses.MISSING
        fields.append((item.name, _key(item), _home(kind, item.name), read, absent))
    return tuple(fields)


def _home(kind: "type[DataclassInstance]", name: str) -> str:
    if kind is Usage:
        return "usage"
    return "tool" if kind in (ToolStart, ToolEnd) or (kind is ToolOutput and name == "id") else ""


def _reader(wanted: Any) -> _Reader:
    """Return the reader for a type."""
    if (read := _READERS.get(wanted)) is not None:
        return read
    arguments = typing.get_args(wanted)
    if typing.get_origin(wanted) is Mapping:
        return _mapping_reader(int if arguments[0] is int else str, _reader(arguments[1]))
    if typing.get_origin(wanted) is tuple:
        return _items_reader(_reader(arguments[0]))
    if dataclasses.is_dataclass(wanted):
        kind = cast("type[DataclassInstance]", wanted)
        return lambda value, name: kind(**_values(kind, _mapping(value, name), f"{name}."))
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        return _word_reader(wanted)
    raise TypeError(f"records cannot hold {wanted}")


def _mapping_reader(key: type[int] | type[str], read: _Reader) -> _Reader:
    def reader(value: object, name: str) -> dict[int | str, object]:
        entries = _mapping(value, name)
        try:
            return {key(said): read(item, f"{name}.{said}") for said, item in entries.items()}
        except NotARecord:
            raise
        except ValueError as error:
            raise NotARecord(name, "is not keyed by numbers") from error

    return reader


def _items_reader(read: _Reader) -> _Reader:
    return lambda value, name: tuple(read(item, f"{name}.{number}") for number, item in enumerate(_items(value, name)))


def _word_reader(kind: type[StrEnum]) -> _Reader:
    known = list(kind)  # a list: the value may not be hashable

    def reader(value: object, name: str) -> StrEnum:
        if value not in known:
            raise NotARecord(name, f"{_quoted(value)} is not one of {', '.join(kind)}")
        return kind(value)

    return reader


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise NotARecord(name, "is not a string")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise NotARecord(name, "is not true or false")
    return value


_TOO_MANY = 2**53
"""JSON readers that only know floats lose precision beyond it."""


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _TOO_MANY:
        raise NotARecord(name, "is not a whole number")
    return value


def _count(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_MANY:
        raise NotARecord(name, "is not a count")
    return value


def _figure(value: object, name: str, what: str = "a number of zero or more", too_much: float = 2.0**63) -> float:
    # Compared before converted: an integer may be beyond any float; and NaN is on neither side of anything.
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < too_much:
        raise NotARecord(name, f"is not {what}")
    return float(value)


def _money(value: object, name: str) -> float:
    return _figure(value, name, "an amount of US dollars", MOST_DOLLARS)


def _tokens(value: object, name: str) -> int:
    if (tokens := _count(value, name)) > MOST_TOKENS:
        raise NotARecord(name, "is not a number of tokens that a session can use")
    return tokens


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise NotARecord(name, "is not an object")
    return cast("Mapping[str, object]", value)


def _items(value: object, name: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise NotARecord(name, "is not an array")
    return cast("Sequence[object]", value)


def _quoted(value: object) -> str:
    """Quote a wrong value, shortened: it may be nested without end."""
    return repr(value[:60]) if isinstance(value, str) else f"({type(value).__name__})"


_READERS: Mapping[object, _Reader] = {
    str: _text,
    bool: _flag,
    int: _count,
    float: _figure,
    object: lambda value, _: value,
    Mapping[str, object]: _mapping,
}
_READERS_BY_NAME: Mapping[str, _Reader] = {"exit_code": _whole}  # a signal's is negative
_EVENT_READERS: Mapping[str, _Reader] = {
    **_READERS_BY_NAME,
    "cost_usd": _money,
    **{item.name: _tokens for item in dataclasses.fields(Usage) if item.name.endswith("_tokens")},
}
_KINDS: Mapping[str, type[Event]] = {kind.type: kind for kind in typing.get_args(Event)}
