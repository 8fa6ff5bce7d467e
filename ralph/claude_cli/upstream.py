"""The stage before this one in a pipe of the shell: its conversation, read from its stream, and how it ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ralph.claude_cli.history import Content, answered, spoken
from ralph.core.ndjson import Malformed, Oversized, decode, mapping, sequence, text

_OF_A_HARNESS = ("user", "control_request", "control_response", "update_environment_variables", "keep_alive")


@dataclass(frozen=True, slots=True)
class EarlierStage:
    """What the stage before this one said."""

    messages: list[tuple[str, Content]] = field(default_factory=list[tuple[str, Content]])
    events: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    """The events of those messages, for the stage after this one; those of the user only if they are wanted."""

    failure: str = ""
    """Why its conversation cannot be gone on with; empty: it can."""


def is_harness(line: bytes) -> bool:
    """Tell whether a stream's first line comes from a harness that waits for answers, not from another stage."""
    try:
        return mapping(decode(line.decode("utf-8", "replace"))).get("type") in _OF_A_HARNESS
    except Malformed:
        return False


def read_upstream(lines: Iterable[bytes | Oversized], *, with_user: bool) -> EarlierStage:
    """Read a stream to its end; `with_user`: the user's messages are passed on, too."""
    messages: list[tuple[str, Content]] = []
    events: list[dict[str, object]] = []
    result: Mapping[str, object] | None = None
    for line in lines:
        if isinstance(line, Oversized):
            return EarlierStage(failure=f"a line of its stream is too long ({line.size} bytes)")
        if not line.strip():
            continue
        try:
            event = mapping(decode(line.decode("utf-8", "replace")))
        except Malformed:
            return EarlierStage(
                failure="its output is not a stream of JSON lines: it needs --output-format stream-json"
            )
        if event.get("type") == "result":
            result = event
        elif (message := spoken(event)) is not None:
            messages.append(message)
            role, content = message
            if with_user or role == "assistant" or any(block.get("type") == "tool_result" for block in content):
                events.append({**event, "isReplay": True})
    return EarlierStage(answered(messages), events, _failure(result))


def _failure(result: Mapping[str, object] | None) -> str:
    if result is None:
        return "its stream has no result"
    if result.get("is_error") is not True and result.get("subtype") == "success":
        return ""
    errors = [each for each in sequence(result.get("errors")) if isinstance(each, str)]
    return "; ".join(errors) or text(result.get("result")) or text(result.get("subtype")) or "an unknown error"
