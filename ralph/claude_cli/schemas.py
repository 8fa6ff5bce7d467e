"""JSON schemas: validating a schema, a value against it and a tool's arguments, with faults in claude's words.

The only module that imports `jsonschema`, and only when there is something to validate: the import takes 80 ms, a good
part of the time to a session's first event.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ralph.core import ndjson

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}
_OWN_FIRST = ("required", "additionalProperties")


class NotASchema(ValueError):
    """The schema itself is wrong."""


def require_valid(schema: Mapping[str, object]) -> None:
    """Raise NotASchema with the reason unless this is a JSON schema."""
    if _is_plainly_valid(schema):
        return
    import jsonschema

    try:
        _validator(schema).check_schema(schema)
    except jsonschema.SchemaError as error:
        where = "/".join(["data", *map(str, error.absolute_path)])
        raise NotASchema(f"{where} {error.message}") from error


def violations(schema: Mapping[str, object], value: object) -> list[str]:
    """Every way in which the value does not keep to the schema, as claude words it: `/path: must be string`."""
    return [_in_ajv_words(error) for error in _errors(schema, value)]


def argument_faults(schema: Mapping[str, object], arguments: Mapping[str, object]) -> list[str]:
    """What is wrong with a tool call's arguments, as claude tells the model."""
    errors = list(_errors(schema, arguments))
    known = ndjson.mapping(schema.get("properties"))
    missing = [f"The required parameter `{name}` is missing" for name in _missing(errors)]
    strange = [f"An unexpected parameter `{name}` was provided" for name in arguments if name not in known]
    wrong = [_in_zod_words(error) for error in errors if error.validator not in _OWN_FIRST]
    return missing + (strange if schema.get("additionalProperties") is False else []) + wrong


def _errors(schema: Mapping[str, object], value: object) -> "Sequence[ValidationError]":
    """All errors; an object's own come before those of its properties, as with claude's validator."""
    found: list[ValidationError] = list(_validator(schema)(schema).iter_errors(value))

    def rank(error: "ValidationError") -> int:
        return _OWN_FIRST.index(str(error.validator)) if not error.path and error.validator in _OWN_FIRST else 2

    return sorted(found, key=rank)


def _validator(schema: Mapping[str, object]) -> Any:  # the library has no type for "a validator class"
    import jsonschema
    from jsonschema.validators import validator_for

    return validator_for(schema, default=jsonschema.Draft7Validator)


def _is_plainly_valid(schema: Mapping[str, object]) -> bool:
    """Tell whether this is a schema of the simplest kind, which needs no library to be sure of."""
    if schema.keys() - {"type", "properties", "required", "description"} or schema.get("type") not in _TYPES:
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    parts, names = cast("dict[str, object]", properties).values(), cast("list[object]", required)
    return (
        all(isinstance(name, str) for name in names)
        and isinstance(schema.get("description", ""), str)
        and all(isinstance(part, dict) and _is_plainly_valid(ndjson.mapping(part)) for part in parts)  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
    )


def _in_ajv_words(error: "ValidationError") -> str:
    where = "".join(f"/{part}" for part in error.absolute_path) or "root"
    return f"{where}: {_complaint(error)}"


def _complaint(error: "ValidationError") -> str:
    expected, instance, schema = (cast("Any", it) for it in (error.validator_value, error.instance, error.schema))
    match error.validator:
        case "required":
            return f"must have required property '{next(iter(_missing([error])), '')}'"
        case "type":
            return f"must be {expected if isinstance(expected, str) else ','.join(expected)}"
        case "additionalProperties":
            strange = [str(name) for name in instance if name not in schema.get("properties", {})]
            names = ", ".join(f"'{name}'" for name in strange)
            return f"must NOT have additional properties ({names} {'is' if len(strange) == 1 else 'are'} not allowed)"
        case "enum":
            return f"must be equal to one of the allowed values: {ndjson.encode(expected)}"
        case "minLength":
            return f"must NOT have fewer than {expected} characters (got {len(instance)})"
        case "maxLength":
            return f"must NOT have more than {expected} characters (got {len(instance)})"
        case _:
            return error.message


def _in_zod_words(error: "ValidationError") -> str:
    name = "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in error.absolute_path).removeprefix(
        "."
    )
    if error.validator == "type":
        kind: Any = error.validator_value
        expected = (kind if isinstance(kind, str) else " | ".join(kind)).replace("integer", "number")
        return f"The parameter `{name}` type is expected as `{expected}` but provided as `{_kind(error.instance)}`"
    return f"The parameter `{name}`: {error.message}"


def _missing(errors: "Iterable[ValidationError]") -> list[str]:
    """The names that `required` errors are about; the library tells them only in its message."""
    names: list[str] = []
    for error in errors:
        if error.validator == "required":
            wanted: Any = error.validator_value
            names += [name for name in wanted if error.message.startswith(repr(name))]
    return names


def _kind(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case None:
            return "null"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def text_argument(arguments: Mapping[str, object], name: str, default: str = "") -> str:
    value = arguments.get(name, default)
    return value if isinstance(value, str) else default


def number_argument(arguments: Mapping[str, object], name: str) -> int | None:
    """A number, also where a model wrote it as text: the original takes that too."""
    match arguments.get(name):
        case bool():
            return None
        case int() | float() as value:
            return int(value)
        case str() as text if text.lstrip("-").isdigit():
            return int(text)
        case _:
            return None


def flag_argument(arguments: Mapping[str, object], name: str, *, default: bool = False) -> bool:
    value = arguments.get(name, default)
    return value if isinstance(value, bool) else value == "true"


def schema(properties: Mapping[str, Mapping[str, object]], *required: str) -> Mapping[str, object]:
    """The JSON schema of an object with these properties and no others."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
