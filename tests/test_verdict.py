"""What a session's structured output says, and which correction answers what it does not say."""

import json

import pytest

from ralph.verdict import SCHEMA, Answer, Fault, Verdict, read_answer


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ({"summary": "wrote a test"}, Answer(Verdict.CONTINUE, "wrote a test")),
        ({"summary": "  spaced \n"}, Answer(Verdict.CONTINUE, "spaced")),
        ({"summary": "DONE"}, Answer(Verdict.DONE, "DONE")),
        ({"summary": " DONE\n"}, Answer(Verdict.DONE, "DONE")),
        ({"summary": "DONE", "extra": [1]}, Answer(Verdict.DONE, "DONE")),
        ({"summary": "DONE."}, Answer(Verdict.CONTINUE, "DONE.")),
        ({"summary": "done"}, Answer(Verdict.CONTINUE, "done")),
        ({"summary": "Not DONE"}, Answer(Verdict.CONTINUE, "Not DONE")),
    ],
)
def test_only_the_single_word_claims_that_the_goal_is_reached(output: object, answer: Answer) -> None:
    assert read_answer(output) == answer


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (None, Fault.MISSING),
        ({}, Fault.NO_SUMMARY),
        ({"text": "x"}, Fault.NO_SUMMARY),
        ({"summary": None}, Fault.NO_SUMMARY),
        ({"summary": ""}, Fault.NO_SUMMARY),
        ({"summary": " \n\t"}, Fault.NO_SUMMARY),
        ({"summary": 5}, Fault.INVALID),
        ({"summary": ["DONE"]}, Fault.INVALID),
        ({"summary": {"a": 1}}, Fault.INVALID),
        ({"summary": True}, Fault.INVALID),
        ("DONE", Fault.INVALID),
        (["DONE"], Fault.INVALID),
        (0, Fault.INVALID),
        (False, Fault.INVALID),
    ],
)
def test_an_invalid_answer_asks_for_what_is_missing(output: object, fault: Fault) -> None:
    assert read_answer(output) is fault


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            Fault.MISSING,
            'You must use the StructuredOutput tool. Return: {"summary": "what you accomplished"}',
        ),
        (Fault.NO_SUMMARY, 'Missing "summary" field. Return: {"summary": "what you accomplished"}'),
        (Fault.INVALID, 'Invalid output. Use StructuredOutput tool: {"summary": "what you accomplished"}'),
    ],
)
def test_the_corrections_are_word_for_word_those_of_the_contract(fault: Fault, text: str) -> None:
    assert fault == text


def test_the_schema_is_the_one_of_the_contract() -> None:
    wanted = {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]}
    assert json.loads(SCHEMA) == wanted
