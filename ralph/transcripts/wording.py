"""What the transcripts of JSON streams say in the same words."""

from ralph.core.events import Event, Meta, Tag, Text

_SHOWN = 2000
"""Characters of a line that could not be read."""


def spoken(tag: Tag, value: object) -> list[Event]:
    """What somebody said; blanks, and what is no text, are nothing."""
    return [Text(tag, value)] if isinstance(value, str) and value.strip() else []


def unread(line: str, **why: object) -> list[Event]:
    """A line that could not be read: why, and the line itself for people to see."""
    return [Meta({**why, "length": len(line)}), Text(Tag.SYS, line[:_SHOWN])]


def named(value: object) -> str:
    """A word for what was not expected; never the whole of it, which may be nested without end."""
    return str(value)[:100] if value is None or isinstance(value, str | float | bool) else type(value).__name__
