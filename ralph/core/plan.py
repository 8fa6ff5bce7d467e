"""A plan in the making: the idea, what was asked and answered, and the goal with its check that came of it."""

import itertools
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.core.goal import missing_sections, parse_goal
from ralph.core.usage import Spend

_TEXT = {"type": "string"}
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "summary": _TEXT,
            "questions": {"type": "array", "items": _TEXT},
            "goal": _TEXT,
            "check": _TEXT,
        },
        "required": ["summary", "questions", "goal", "check"],
    },
    separators=(",", ":"),
)
"""What a planner answers in; like every answer it has a summary."""
MOST_QUESTIONS = 5
_LONGEST_QUESTION, _LONGEST_GOAL, _LONGEST_CHECK = 1_000, 100_000, 50_000
_HEAD = "#!/bin/sh\n"


@dataclass(frozen=True, slots=True)
class Questions:
    """What the planner wants to know from the user."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A goal that `ralph run` accepts, and a check, which is empty where none is proposed."""

    goal: str
    check: str


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why an answer is neither; said to the planner."""

    words: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question, and the user's answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a plan stands; kept on disk after every turn."""

    idea: str = ""
    file: str = ""
    """Where the goal is to be written."""
    agent: str = ""
    session_id: str = ""
    """The planner's conversation; empty before its first turn."""
    exchanges: tuple[Exchange, ...] = ()
    questions: tuple[str, ...] = ()
    """The open ones: the planner has not heard all the answers yet."""
    answers: tuple[str, ...] = ()
    """The user's answers to the first of the open questions."""
    wishes: tuple[str, ...] = ()
    """What the user wants changed in the draft."""
    goal: str = ""
    check: str = ""
    before: Spend = field(default_factory=Spend)
    """What conversations before this one have used."""
    spend: Spend = field(default_factory=Spend)
    is_written: bool = False

    def closed(self) -> "Plan":
        """Keep the answers so far, and close the open questions."""
        return replace(self, exchanges=(*self.exchanges, *self.answered), questions=(), answers=())

    @property
    def answered(self) -> tuple[Exchange, ...]:
        """The open questions that have an answer."""
        return tuple(itertools.starmap(Exchange, zip(self.questions, self.answers, strict=False)))


def read_plan(structured: object, *, wants_check: bool, may_ask: bool) -> Questions | Draft | Flaw:
    """Judge what a planner has answered."""
    said = ndjson.mapping(structured)
    asked = [ndjson.text(each).strip()[:_LONGEST_QUESTION] for each in ndjson.sequence(said.get("questions"))]
    goal, check = ndjson.text(said.get("goal")).strip(), ndjson.text(said.get("check")).strip()
    if not goal:
        questions = tuple(dict.fromkeys(filter(None, asked)))[:MOST_QUESTIONS]
        if questions and may_ask:
            return Questions(questions)
        return Flaw("Nobody can answer questions now: decide yourself." if questions else "The goal is empty.")
    if flaw := _flaw_in(goal, check):
        return Flaw(flaw)
    script = check if check.startswith("#!") else f"{_HEAD}{check}"
    return Draft(f"{goal}\n", f"{script}\n" if check and wants_check else "")


def _flaw_in(goal: str, check: str) -> str:
    """Say what is wrong with a goal or its check; front matter could choose a check that nobody was shown."""
    if goal.removeprefix("\ufeff").startswith("---"):
        return "The goal begins with front matter: leave that out."
    if len(goal) > _LONGEST_GOAL or len(check) > _LONGEST_CHECK:
        return "The goal, or its check, is far too long."
    if "\0" in goal + check:
        return "There is a NUL character in it."
    try:
        parse_goal(goal, Path("goal.md"))
    except UsageError as fault:
        return f"`ralph run` would refuse it: {fault.message}."
    if missing := missing_sections(goal, ("Outcomes", "Acceptance")):
        return f"The goal has no section {' and no section '.join(f'`## {title}`' for title in missing)}."
    return ""
