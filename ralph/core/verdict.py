"""What a session says of its work, in structured output or in words, and what to answer when it says nothing valid."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

SCHEMA = json.dumps(
    {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
    separators=(",", ":"),
)
"""The schema both worker and summarizer answer in."""

TOOL = "StructuredOutput"
PROMISE = "<promise>COMPLETE</promise>"
"""The claim of an agent that answers in words: a line that is nothing else."""

_CLAIM = re.compile(r"(?:#{1,4} )?[*_`]{0,3}DONE[.!:]?[*_`]{0,3}[.!:]?(?:$|\s+[-\u2013\u2014]\s|\s+|(?<=:))")
"""What the first line of a claim begins with; it may stand out."""

_BLOCKED = re.compile(r"[*_]{0,3}BLOCKED[*_]{0,3}:[*_]{0,3}")
"""What the summary of an agent begins with that cannot go on without a person; it may stand out."""

_WRAPPED = 60
"""Characters of a line that most likely goes on in the next one."""

_CLOSING_LINES = 10
"""Lines of an agent's words that close them."""

MOST_CORRECTIONS = 3

_EXAMPLE = '{"summary": "what you accomplished"}'
_LONGEST_WORDS = 4000
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})(.*)")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\(B|\ufeff")
"""What a terminal or a reader of Unicode does not show."""


class Reply(StrEnum):
    """How an agent gives its answer."""

    TOOL = "tool"
    """With a tool of its own for structured output: a summary whose first line is DONE is the claim."""
    MESSAGE = "message"
    """Its last message is the structured output; the claim may also be made in words."""
    WORDS = "words"
    """In words: whatever it said last is the summary, the promise is the claim."""


class Verdict(StrEnum):
    """A valid answer: go on, the claim that the goal is reached, or the word that only a person can clear the way."""

    CONTINUE = "CONTINUE"
    DONE = "DONE"
    BLOCKED = "BLOCKED"


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict with the summary that carries it: for a claim, the text around DONE, if any."""

    verdict: Verdict
    summary: str
    closing: str = field(default="", compare=False)
    """The last paragraph, where an agent says everything in words and the summary is the end of all that."""

    @property
    def is_bare(self) -> bool:
        """Whether it claims that the goal is reached, and says nothing else."""
        return self.verdict is Verdict.DONE and self.summary == Verdict.DONE


class VerdictFault(StrEnum):
    """Why an answer is not valid; the value is the correction to send back."""

    MISSING = f"You must use the {TOOL} tool. Return: {_EXAMPLE}"
    NO_SUMMARY = f'Missing "summary" field. Return: {_EXAMPLE}'
    INVALID = f"Invalid output. Use {TOOL} tool: {_EXAMPLE}"
    NO_MESSAGE = f"Invalid output. Your last message must be one JSON object and nothing else: {_EXAMPLE}"
    SILENT = "Say what you accomplished."


def read_reply(reply: Reply, structured_output: object, words: str, *, promised: bool) -> Answer | VerdictFault:
    """Judge an answer in the way that its agent gives one; `promised`: it claimed completion in its own words."""
    match reply:
        case Reply.TOOL:
            return read_answer(structured_output)
        case Reply.MESSAGE:
            answer = read_answer(structured_output)
            if isinstance(answer, Answer):
                claimed = answer.verdict is Verdict.DONE or Promise().after(answer.summary).made
                return _read_words(answer.summary, promised=True) if promised or claimed else answer
            return _read_words(_last_of(without_promise(words)), promised=True) if promised else VerdictFault.NO_MESSAGE
        case Reply.WORDS:
            last = _last_of(without_promise(words))
            if not promised and (obstacle := _obstacle_closing(last)):
                return Answer(Verdict.BLOCKED, obstacle)
            answer = _read_words(last, promised=promised)
            return replace(answer, closing=_last_paragraph(last)) if isinstance(answer, Answer) else answer


def read_answer(structured_output: object) -> Answer | VerdictFault:
    """Judge what a result carried as `structured_output` (None: nothing)."""
    if structured_output is None:
        return VerdictFault.MISSING
    if not isinstance(structured_output, Mapping):
        return VerdictFault.INVALID
    summary: object = structured_output.get("summary")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON from outside
    if summary is None:
        return VerdictFault.NO_SUMMARY
    if not isinstance(summary, str):
        return VerdictFault.INVALID
    if not summary.strip():
        return VerdictFault.NO_SUMMARY
    summary = summary.strip()
    if (said := _claimed_in(summary)) is not None:
        return Answer(Verdict.DONE, said or str(Verdict.DONE))
    return Answer(Verdict.BLOCKED if _BLOCKED.match(summary) else Verdict.CONTINUE, summary)


def _claimed_in(summary: str) -> str | None:
    """Return what a claim says after DONE; None if it is no claim: `DONE with the first part` is none."""
    first, _, more = summary.partition("\n")
    if (claim := _CLAIM.match(first := first.strip())) is None:
        return None
    rest = first[claim.end() :]
    is_set_off = any(mark in claim[0] for mark in ".!:-\u2013\u2014")
    return f"{rest}\n{more}".strip() if is_set_off or not rest else None


def _read_words(words: str, *, promised: bool) -> Answer | VerdictFault:
    """Take words for a summary, less the promise."""
    summary = without_promise(words)
    if promised:
        return Answer(Verdict.DONE, summary or "DONE")
    return Answer(Verdict.CONTINUE, summary) if summary else VerdictFault.SILENT


def claim_words(summary: str) -> str:
    """Say in a line that an iteration claims DONE, with the rest of its summary."""
    return "claims DONE" if summary == Verdict.DONE else f"claims DONE: {summary}"


def _last_paragraph(words: str) -> str:
    """Return the last paragraph. Of plain output only lines are heard, and a long one is taken to be wrapped."""
    lines = _COLOUR.sub("", words).strip().split("\n")
    begin = len(lines) - 1
    while begin > 0 and len(lines[begin - 1].strip()) >= _WRAPPED:
        begin -= 1
    return "\n".join(lines[begin:])


def obstacle_in(summary: str) -> str:
    """What an agent that says it is blocked says it is blocked by."""
    return _BLOCKED.sub("", summary, count=1).strip() or "it does not say by what"


def _obstacle_closing(words: str) -> str:
    """Of an agent that says everything in words, those that close them, if they say that it is blocked."""
    closing = [_COLOUR.sub("", line).rstrip() for line in words.strip().split("\n")[-_CLOSING_LINES:]]
    begins = [number for number, line in enumerate(closing) if _BLOCKED.match(line)]
    return "\n".join(closing[begins[-1] :]) if begins else ""


def without_promise(words: str) -> str:
    """What an agent said, less the lines with which it claimed completion."""
    return "\n".join(line for line in words.split("\n") if not _is_promise(line)).strip()


def _is_promise(line: str) -> bool:
    """Whether a line is the promise and nothing else; what is printed for a terminal may be coloured."""
    return PROMISE in line and _COLOUR.sub("", line).strip(" \t\r\n") == PROMISE


def _last_of(words: str) -> str:
    """Of many words the last ones, from the start of a line where there is one."""
    if len(words.rstrip()) <= _LONGEST_WORDS:
        return words
    tail = words.rstrip()[-_LONGEST_WORDS:]
    return f"… {tail.partition(chr(10))[2] or tail}"


@dataclass(frozen=True, slots=True)
class Promise:
    """Whether an agent has promised completion in what it said so far.

    A promise within a code fence is a quote; but only a fence that is closed again quotes anything, for agents print
    single fences, too.
    """

    kept: bool = False
    fence: str = ""
    """What opened the code fence that is open."""
    quoted: bool = False

    @property
    def made(self) -> bool:
        return self.kept or self.quoted

    def after(self, text: str) -> "Promise":
        """Take in what the agent says next."""
        if PROMISE not in text and "```" not in text and "~~~" not in text:
            return self
        promise = self
        for line in text.split("\n"):
            if mark := _FENCE.match(_COLOUR.sub("", line)):
                promise = promise._after_fence(mark[1], closes=not mark[2].strip())
            elif _is_promise(line):
                promise = replace(promise, quoted=True) if promise.fence else replace(promise, kept=True)
        return promise

    def _after_fence(self, mark: str, *, closes: bool) -> "Promise":
        """A fence is closed by one of its kind that is as long or longer, and says nothing more."""
        if not self.fence:
            return replace(self, fence=mark)
        if closes and mark[0] == self.fence[0] and len(mark) >= len(self.fence):
            return replace(self, fence="", quoted=False)
        return self


def defused(text: str) -> str:
    """The text, with nothing in it that would be a promise if an agent repeated it."""
    if PROMISE not in text:
        return text
    lines = text.splitlines(keepends=True)
    return "".join(line.replace(PROMISE, f"`{PROMISE}`") if _is_promise(line) else line for line in lines)
