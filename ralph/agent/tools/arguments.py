"""A tool's arguments: the schema they are checked against, and their values, narrowed."""

from collections.abc import Mapping


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
