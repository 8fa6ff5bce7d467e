"""What a session's structured output says, and which correction answers what it does not say."""

import json

import pytest

from ralph.core.verdict import (
    PROMISE,
    SCHEMA,
    Answer,
    Promise,
    Reply,
    Verdict,
    VerdictFault,
    defused,
    read_answer,
    read_reply,
)
from tests.support.rows import rows


@pytest.mark.spec("1.6-c")
@rows(
    ("output", "answer"),
    [
        ({"summary": "wrote a test"}, Answer(Verdict.CONTINUE, "wrote a test")),
        ({"summary": "  spaced \n"}, Answer(Verdict.CONTINUE, "spaced")),
        ({"summary": "DONE"}, Answer(Verdict.DONE, "DONE")),
        ({"summary": " DONE\n"}, Answer(Verdict.DONE, "DONE")),
        ({"summary": "DONE", "extra": [1]}, Answer(Verdict.DONE, "DONE")),
        ({"summary": "DONE."}, Answer(Verdict.DONE, "DONE")),
        ({"summary": "**DONE**"}, Answer(Verdict.DONE, "DONE")),
        ({"summary": "**DONE.**\n\nAll hold."}, Answer(Verdict.DONE, "All hold.")),
        ({"summary": "`DONE`"}, Answer(Verdict.DONE, "DONE")),
        ({"summary": "# DONE\nAll hold."}, Answer(Verdict.DONE, "All hold.")),
        ({"summary": "DONE: all hold."}, Answer(Verdict.DONE, "all hold.")),
        ({"summary": "DONE:\n- one\n- two"}, Answer(Verdict.DONE, "- one\n- two")),
        ({"summary": "DONE. All hold."}, Answer(Verdict.DONE, "All hold.")),
        ({"summary": "DONE \u2013 all hold."}, Answer(Verdict.DONE, "all hold.")),
        ({"summary": "DONE\r\nAll hold.\r\nSeen."}, Answer(Verdict.DONE, "All hold.\r\nSeen.")),
        ({"summary": "DONE with the parser"}, Answer(Verdict.CONTINUE, "DONE with the parser")),
        ({"summary": "DONE-ish"}, Answer(Verdict.CONTINUE, "DONE-ish")),
        ({"summary": "DONENESS: none"}, Answer(Verdict.CONTINUE, "DONENESS: none")),
        ({"summary": "It is\nDONE"}, Answer(Verdict.CONTINUE, "It is\nDONE")),
        ({"summary": "done"}, Answer(Verdict.CONTINUE, "done")),
        ({"summary": "Not DONE"}, Answer(Verdict.CONTINUE, "Not DONE")),
    ],
)
def test_only_a_first_line_that_is_done_claims_that_the_goal_is_reached(output: object, answer: Answer) -> None:
    assert read_answer(output) == answer


@pytest.mark.spec("1.6-b")
@rows(
    ("output", "fault"),
    [
        (None, VerdictFault.MISSING),
        ({}, VerdictFault.NO_SUMMARY),
        ({"text": "x"}, VerdictFault.NO_SUMMARY),
        ({"summary": None}, VerdictFault.NO_SUMMARY),
        ({"summary": ""}, VerdictFault.NO_SUMMARY),
        ({"summary": " \n\t"}, VerdictFault.NO_SUMMARY),
        ({"summary": 5}, VerdictFault.INVALID),
        ({"summary": ["DONE"]}, VerdictFault.INVALID),
        ({"summary": {"a": 1}}, VerdictFault.INVALID),
        ({"summary": True}, VerdictFault.INVALID),
        ("DONE", VerdictFault.INVALID),
        (["DONE"], VerdictFault.INVALID),
        (0, VerdictFault.INVALID),
        (False, VerdictFault.INVALID),
    ],
)
def test_an_invalid_answer_asks_for_what_is_missing(output: object, fault: VerdictFault) -> None:
    assert read_answer(output) is fault


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            VerdictFault.MISSING,
            'You must use the StructuredOutput tool. Return: {"summary": "what you accomplished"}',
        ),
        (VerdictFault.NO_SUMMARY, 'Missing "summary" field. Return: {"summary": "what you accomplished"}'),
        (VerdictFault.INVALID, 'Invalid output. Use StructuredOutput tool: {"summary": "what you accomplished"}'),
    ],
)
def test_the_corrections_are_word_for_word_those_of_the_contract(fault: VerdictFault, text: str) -> None:
    assert fault == text


@pytest.mark.spec("1.6-a")
def test_the_schema_is_the_one_of_the_contract() -> None:
    wanted = {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]}
    assert json.loads(SCHEMA) == wanted


def said(*texts: str) -> bool:
    promise = Promise()
    for text in texts:
        promise = promise.after(text)
    return promise.made


@rows(
    "texts",
    [
        (PROMISE,),
        ("All tests pass.", f"  {PROMISE}\t"),
        (f"All tests pass.\n\n{PROMISE}\n",),
        (PROMISE, "and one more word"),
        ("```", "code", "```", PROMISE),
        ("a single fence: ```", "```", PROMISE),
        (f"\x1b[1;32m{PROMISE}\x1b[0m",),
        ("```", "code", "```", "```", PROMISE),
        ("```sh", "code", "```", f"\ufeff{PROMISE}\r"),
        ("```a``` is inline", PROMISE, "```", "code", "```"),
        (f"\x1b[1m{PROMISE}\x1b(B\x1b[m",),
    ],
)
def test_a_line_that_is_the_promise_and_nothing_else_makes_it(texts: tuple[str, ...]) -> None:
    assert said(*texts)


@rows(
    "texts",
    [
        ("",),
        (f"I will say {PROMISE} when it is.",),
        (f"`{PROMISE}`",),
        (f"> {PROMISE}",),
        (f'"{PROMISE}"',),
        (PROMISE.lower(),),
        ("<promise>", "COMPLETE</promise>"),
        (f"```\n{PROMISE}\n```",),
        ("````", "```", PROMISE, "```", "````"),
        ("\x1b[32m```\x1b[0m", PROMISE, "\ufeff\x1b[32m```\x1b[0m", "not done"),
        ("~~~", "```", PROMISE, "```", "~~~"),
        (f"no line of its own\u2028{PROMISE}",),
        (f"nor this\r{PROMISE}",),
        ("The marker is", "~~~text", PROMISE, "~~~", "and I do not say it."),
    ],
)
def test_a_promise_that_is_quoted_is_none(texts: tuple[str, ...]) -> None:
    assert not said(*texts)


LONG = "This sentence of the closing paragraph is longer than sixty characters,"


@rows(
    ("words", "closing"),
    [
        ("log\nlog\nAll hold.\n", "All hold."),
        (f"log\n{LONG}\nand ends here. So does this.", f"{LONG}\nand ends here. So does this."),
        ("log\n\n\x1b[1mAll hold.\x1b[0m", "All hold."),
        ("All hold.", "All hold."),
    ],
)
def test_the_last_paragraph_of_an_agents_words_heads_its_commit(words: str, closing: str) -> None:
    for text, promised in ((words, False), (f"{words}\n{PROMISE}\n", True)):
        answer = read_reply(Reply.WORDS, None, text, promised=promised)
        assert isinstance(answer, Answer)
        assert answer.closing == closing


@rows(
    ("reply", "output", "words", "promised", "answer"),
    [
        (Reply.TOOL, {"summary": "x"}, "", True, Answer(Verdict.CONTINUE, "x")),
        (Reply.TOOL, None, "words", True, VerdictFault.MISSING),
        (Reply.MESSAGE, {"summary": "x"}, "", False, Answer(Verdict.CONTINUE, "x")),
        (Reply.MESSAGE, {"summary": "DONE"}, "", False, Answer(Verdict.DONE, "DONE")),
        (Reply.MESSAGE, {"summary": f"Fixed.\n{PROMISE}"}, "", False, Answer(Verdict.DONE, "Fixed.")),
        (Reply.MESSAGE, {"summary": f"No {PROMISE} yet"}, "", False, Answer(Verdict.CONTINUE, f"No {PROMISE} yet")),
        (Reply.MESSAGE, {"summary": "x"}, "", True, Answer(Verdict.DONE, "x")),
        (Reply.MESSAGE, None, f"Fixed.\n{PROMISE}", True, Answer(Verdict.DONE, "Fixed.")),
        (Reply.MESSAGE, None, "words", False, VerdictFault.NO_MESSAGE),
        (Reply.MESSAGE, {"summary": 3}, "words", False, VerdictFault.NO_MESSAGE),
        (Reply.WORDS, None, "I looked.", False, Answer(Verdict.CONTINUE, "I looked.")),
        (Reply.WORDS, None, f"I fixed it.\n{PROMISE}\n", True, Answer(Verdict.DONE, "I fixed it.")),
        (Reply.WORDS, None, PROMISE, True, Answer(Verdict.DONE, "DONE")),
        (Reply.WORDS, None, f"{'x' * 9000}\n{PROMISE}", True, Answer(Verdict.DONE, "… " + "x" * 4000)),
        (Reply.WORDS, {"summary": "DONE"}, "", False, VerdictFault.SILENT),
        (Reply.WORDS, None, " \n", False, VerdictFault.SILENT),
    ],
)
def test_every_way_to_answer(
    reply: Reply, output: object, words: str, promised: bool, answer: Answer | VerdictFault
) -> None:
    assert read_reply(reply, output, words, promised=promised) == answer


def test_of_many_words_the_last_are_the_summary() -> None:
    answer = read_reply(Reply.WORDS, None, "first\n" + "word\n" * 5000 + "last", promised=False)
    assert isinstance(answer, Answer)
    assert answer.summary.startswith("… word\n")
    assert answer.summary.endswith("\nlast")
    assert len(answer.summary) < 4100


@pytest.mark.parametrize("line", [PROMISE, f"   {PROMISE}  ", f"\t{PROMISE}\r"])
def test_a_prompt_that_is_repeated_promises_nothing(line: str) -> None:
    prompt = f"# The goal\n\nsay this:\n{line}\nwhen done\n"
    assert said(prompt)
    assert not said(defused(prompt))
    assert not said(*defused(prompt).splitlines())
    assert defused("no promise") == "no promise"
