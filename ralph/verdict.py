"""What a session's structured output says, and what to answer when it says nothing valid."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

SCHEMA = json.dumps(
    {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
    separators=(",", ":"),
)
"""The schema both worker and summarizer answer in."""

TOOL = "StructuredOutput"
MOST_CORRECTIONS = 3

_EXAMPLE = '{"summary": "what you accomplished"}'


class Verdict(StrEnum):
    """A valid answer: go on, or the claim that the goal is reached."""

    CONTINUE = "CONTINUE"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict with the summary that carries it."""

    verdict: Verdict
    summary: str


class Fault(StrEnum):
    """Why an answer is not valid; the value is the correction to send back."""

    MISSING = f"You must use the {TOOL} tool. Return: {_EXAMPLE}"
    NO_SUMMARY = f'Missing "summary" field. Return: {_EXAMPLE}'
    INVALID = f"Invalid output. Use {TOOL} tool: {_EXAMPLE}"


def read_answer(structured_output: object) -> Answer | Fault:
    """Judge what a result carried as `structured_output` (None: nothing)."""
    if structured_output is None:
        return Fault.MISSING
    if not isinstance(structured_output, Mapping):
        return Fault.INVALID
    summary: object = structured_output.get("summary")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON from outside
    if summary is None:
        return Fault.NO_SUMMARY
    if not isinstance(summary, str):
        return Fault.INVALID
    if not summary.strip():
        return Fault.NO_SUMMARY
    return Answer(Verdict.DONE if summary.strip() == "DONE" else Verdict.CONTINUE, summary.strip())
