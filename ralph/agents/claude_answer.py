"""One question to `claude -p --output-format json`: its wording, its arguments and its answer. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ralph.core import ndjson
from ralph.core.ndjson import amount, count, mapping, sequence, text

OUT_OF_TURNS = "error_max_turns"
"""The `subtype` of a result whose turns ran out."""


class Role(StrEnum):
    """The author of a message in a conversation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Context:
    """A question with its instructions and the conversation before it."""

    message: str
    system: str = ""
    history: tuple[Message, ...] = ()

    @property
    def flattened(self) -> str:
        """Return the whole context as one prompt.

        It begins with a role, because Claude Code runs `/word` at the start as a command (2.1.325).
        """
        said = [*self.history, Message(Role.USER, self.message)]
        if self.system:
            said.insert(0, Message(Role.SYSTEM, self.system))
        return "\n\n".join(f"[{message.role.capitalize()}]\n{message.content}" for message in said)


def parse_history(document: str) -> tuple[Message, ...]:
    """Read a JSON array of `{"role": …, "content": …}`; a `ValueError` says what is wrong with it."""
    try:
        entries = ndjson.decode(document)
    except ndjson.Malformed as fault:
        raise ValueError(f"not JSON: {fault}") from None
    messages = sequence(entries)
    if not messages and entries != []:
        raise ValueError("not a list of messages")
    return tuple(_message(message, number) for number, message in enumerate(messages, 1))


def _message(entry: object, number: int) -> Message:
    record = mapping(entry)
    role, content = record.get("role"), record.get("content")
    if role not in set(Role):
        raise ValueError(f"message {number}: role must be one of {', '.join(Role)}")
    if not isinstance(content, str):
        raise ValueError(f"message {number}: content must be a string")
    return Message(Role(str(role)), content)


def arguments(*, max_turns: int, allowed_tools: Sequence[str], session: Sequence[str] = ()) -> list[str]:
    """Return claude's arguments; the prompt goes to its stdin, where it may have any length.

    `--verbose` adds the messages: without it, a session that runs out of turns has no text (2.1.325). `--tools`
    restricts, while `--allowedTools` only approves; a rule like `Bash(git *)` belongs to the tool `Bash`.
    """
    argv = ["-p", "--output-format", "json", "--verbose", "--max-turns", str(max_turns)]
    argv += ["--tools", ",".join(dict.fromkeys(tool.partition("(")[0] for tool in allowed_tools))]
    for tool in allowed_tools:
        argv += ["--allowedTools", tool]
    return [*argv, *session]


@dataclass(frozen=True, slots=True)
class Completion:
    """Claude's answer. `partial`: its turns ran out, and the text is everything until then."""

    text: str
    model: str = ""
    processing_time_ms: int = 0
    num_turns: int = 0
    cost_usd: float | None = None
    """The whole session's cost, as Claude Code estimates it."""
    session_id: str = ""
    partial: bool = False


@dataclass(frozen=True, slots=True)
class ClaudeResult:
    """Claude's parsed output: the answer and its errors."""

    answer: Completion
    subtype: str
    errors: tuple[str, ...] = ()
    login_refused: bool = False


def read_result(output: bytes) -> ClaudeResult | None:
    """Parse claude's output: an array of events, or only the result. None if it is neither."""
    try:
        document = ndjson.decode(output.decode("utf-8", "replace"))
    except ndjson.Malformed:
        return None
    events = [mapping(event) for event in (sequence(document) or [document])]
    result = next((event for event in reversed(events) if event.get("type") == "result"), None)
    if result is None:
        return None
    subtype = text(result.get("subtype"))
    partial = subtype == OUT_OF_TURNS
    said = text(result.get("result")) or ("\n\n".join(_said(events)) if partial else "")
    failed = f"Error from Claude: {subtype}" if result.get("is_error") is True else "(No response text returned)"
    answer = Completion(
        text=said if said.strip() else failed,
        model=_model(events, result),
        num_turns=count(result.get("num_turns")),
        cost_usd=amount(result.get("total_cost_usd")),
        session_id=text(result.get("session_id")),
        partial=partial,
    )
    errors = (*map(text, sequence(result.get("errors"))), *([said] if result.get("is_error") is True and said else []))
    refused = any(event.get("error") == "authentication_failed" for event in events)
    return ClaudeResult(answer, subtype, tuple(filter(None, errors)), refused)


def _said(events: Sequence[Mapping[str, object]]) -> list[str]:
    """Return claude's own text, without its subagents'."""
    mine = [event for event in events if event.get("type") == "assistant" and not event.get("parent_tool_use_id")]
    blocks = [mapping(block) for event in mine for block in sequence(mapping(event.get("message")).get("content"))]
    return [words for block in blocks if block.get("type") == "text" and (words := text(block.get("text")).strip())]


def _model(events: Sequence[Mapping[str, object]], result: Mapping[str, object]) -> str:
    """Return the model's name from the session's start: since before 2.1.197 the result has none."""
    started = (text(event.get("model")) for event in events if event.get("subtype") == "init")
    used = mapping(result.get("modelUsage"))
    return text(result.get("model")) or next(filter(None, started), "") or next(iter(used), "")
