"""Plain words: what people read has none of the turns that make English sound translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.docs.programs import comments, docstrings, documents, examples, helps, messages, refusals, templates

READ: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (
    documents,
    examples,
    helps,
    messages,
    docstrings,
    comments,
    templates,
)
"""Everything that users, agents and contributors read."""

WORDS: Mapping[str, str] = {
    r"heed(s|ed|ing)?": "follow, respect, notice",
    r"h(o|e)lds? ([\w-]+ ){0,4}sessions?": "start, run",
    r"pursu(e|es|ed|ing|it)": "work on",
    r"told": "asked, notified; gets a message",
    r"what (is|was) left": "the rest, the remaining ...",
    r"(is|are|was|were) begun": "starts",
    r"of which": "a second sentence",
    r"whoever|whichever|whence|whereof|thereof|thereby|hereby": "who does what",
    r"meanwhile": "while ...",
    r"anew": "again",
    r"a word to": "a message to",
    r"c(o|a)mes? to the same": "changed nothing",
    r"(is|be|are) had( from)?": "get it from",
    r"besides": "also",
    r"lest|save for|unless said": "so that ... not; except; unless set",
    r"put(s|ting)? off": "postpone",
    r"(?<!there )is no (\w+ ){0,2}(key|file|script|goal|branch|draft|database)": "is not a ...",
    r"(a|an|any|no|none) (\w+ )?of ralph's": "one of ralph's ...",
    r"sp(eak|eaks|oke|oken) of|tells? of": "is about, describes, reports",
    r"for want of|in vain|and the like": "because ... is missing; without success; such as",
    r"mend(s|ed|ing)?": "fix",
    r"has a say|count(s|ed)? more": "matters; overrides, takes precedence",
}
"""What reads like a translation, and what to write instead."""

ALLOWED: Mapping[tuple[str, str], str] = {}
"""Places that keep such a word, each with its reason."""

_CODE = re.compile(r"^(```).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("source", READ, ids=lambda source: source.__name__)
def test_what_people_read_is_in_plain_words(source: Callable[[], Iterator[tuple[str, str]]]) -> None:
    faults = [fault for where, text in source() for fault in found(where, text)]
    assert faults == []


def test_every_refusal_says_what_to_do_next() -> None:
    found = dict(refusals())
    assert len(found) > 150
    assert [where for where, arguments in found.items() if arguments < 2] == []


def test_every_exception_is_needed() -> None:
    there = {(where, word) for source in READ for where, text in source() for word, _ in _hits(text)}
    assert set(ALLOWED) <= there


def test_the_list_finds_its_words() -> None:
    text = "ralph holds fresh coding-agent sessions on one goal. What is left is begun anew, of which the user is told."
    words = [word for word, _ in _hits(text)]
    assert {*words} == {"holds fresh coding-agent sessions", "told", "What is left", "is begun", "of which", "anew"}
    assert found("page", "`told` is a key\n```\nwhoever\n```\nUnfold what folds.") == []


def test_every_source_has_something_to_read() -> None:
    assert {source.__name__: len(list(source())) > 2 for source in READ} == {source.__name__: True for source in READ}
    assert len(list(helps())) > 30
    assert len(list(messages())) > 1000


def found(where: str, text: str) -> list[str]:
    """The words that do not belong there, each with its line and what to write instead."""
    return [f"{where}: {word!r}: {instead}" for word, instead in _hits(text) if (where, word.lower()) not in ALLOWED]


def _hits(text: str) -> Iterator[tuple[str, str]]:
    prose = _CODE.sub("", text)
    for pattern, instead in WORDS.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE):
            yield re.sub(r"\s+", " ", match[0]), instead
