"""How a turn can end, in the words of `result`. All values as seen on 2.1.325."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ralph.claude_cli.models.base import ModelError
from ralph.core import ndjson


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one turn came to."""

    subtype: str
    is_error: bool
    stop_reason: str | None
    terminal_reason: str
    fields: Mapping[str, object] = field(default_factory=dict[str, object])
    """What only this kind of result says: `result` or `errors`, `structured_output`, the API's own words."""

    plain: str = ""
    """What text output prints."""


def finished(text: str, stop_reason: str) -> Outcome:
    """The model has said its last word."""
    fields: dict[str, object] = {"api_error_status": None, "result": text}
    return Outcome("success", False, stop_reason, "completed", fields, f"{text}\n")


def answered(structured: object, stop_reason: str) -> Outcome:
    """The model has handed in what the schema asks for."""
    text = ndjson.encode(structured)
    fields: dict[str, object] = {"api_error_status": None, "result": text, "structured_output": structured}
    return Outcome("success", False, stop_reason, "completed", fields, f"{text}\n")


def unanswered(tries: int, fault: str) -> Outcome:
    """The model has violated the schema too often."""
    said = f"Failed to provide valid structured output after {tries} attempts — last StructuredOutput error: {fault}"
    reason = "structured_output_retry_exhausted"
    return _error("error_max_structured_output_retries", "tool_use", reason, said, f"Error: {said}")


def out_of_turns(most: int, stop_reason: str) -> Outcome:
    said = f"Reached maximum number of turns ({most})"
    return _error("error_max_turns", stop_reason, "max_turns", said, f"Error: Reached max turns ({most})")


def out_of_money(most: float, stop_reason: str | None) -> Outcome:
    said = f"Reached maximum budget (${most:g})"
    plain = f"Error: Exceeded USD budget ({most:g})"
    return _error("error_max_budget_usd", stop_reason, "budget_exhausted", said, plain)


def interrupted(*, in_tools: bool) -> Outcome:
    stop_reason = "tool_use" if in_tools else None
    said = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop_reason or 'null'}"
    reason = "aborted_tools" if in_tools else "aborted_streaming"
    return _error("error_during_execution", stop_reason, reason, said, "Error: Request interrupted by user")


def failed(error: ModelError) -> Outcome:
    """The model could not be had. That claude calls this a success, only `is_error`, is no slip of ours."""
    fields = {"api_error_status": error.status, "result": error.text, **error.facts}
    return Outcome("success", True, "stop_sequence", error.terminal_reason, fields, f"{error.text}\n")


def _error(subtype: str, stop_reason: str | None, reason: str, said: str, plain: str) -> Outcome:
    return Outcome(subtype, True, stop_reason, reason, {"errors": [said]}, plain)
