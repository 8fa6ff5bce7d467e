"""Which call of the model may end beyond a limit, and which verdict was handed in."""

from ralph.core.events import ToolEnd, ToolStart, ToolStatus, Usage
from ralph.core.limits import Calls

BEGUN, ENDED = Usage(in_call=True), Usage(in_call=False)
VERDICT = ToolStart("t1", "StructuredOutput", {"summary": "Wrapped up."})
INVALID = ToolStart("t1", "StructuredOutput", {"nonsense": 1})
WORK = ToolStart("t2", "Bash", {"command": "true"})


def calls(*said: Usage | ToolStart | ToolEnd, within: bool = True, answering: bool = False) -> Calls:
    folded = Calls()
    if answering:
        folded.expect_answer()
    for event in said:
        folded.hear_usage(event, within=within) if isinstance(event, Usage) else folded.hear_tool(event)
    return folded


def test_a_call_that_began_within_the_limits_may_end() -> None:
    assert calls(BEGUN).may_end
    assert calls(BEGUN, Usage(prompt_tokens=7)).may_end, "a subagent's message is not the end of ours"
    assert not calls(BEGUN, ENDED).may_end
    assert not calls(BEGUN, within=False).may_end


def test_the_call_that_answers_the_plea_may_begin_beyond_them() -> None:
    assert calls(answering=True).may_end
    assert calls(BEGUN, within=False, answering=True).may_end
    assert not calls(BEGUN, WORK, within=False, answering=True).may_end, "it works on"
    assert not calls(BEGUN, ENDED, within=False, answering=True).may_end, "it only talked"
    assert not calls(BEGUN, INVALID, ENDED, within=False, answering=True).may_end
    assert not calls(BEGUN, ENDED, BEGUN, within=False, answering=True).may_end, "and is asked again"


def test_a_verdict_that_was_handed_in_is_waited_for() -> None:
    assert calls(BEGUN, VERDICT, ENDED).may_end
    assert calls(BEGUN, VERDICT, ENDED, ToolEnd("t1", ToolStatus.OK)).handed_in == {"summary": "Wrapped up."}
    assert calls(BEGUN, VERDICT, ENDED, ToolEnd("t1", ToolStatus.FAIL)).handed_in is None
    assert calls(BEGUN, INVALID, ENDED).handed_in is None
    assert calls(BEGUN, WORK, VERDICT, ENDED).handed_in == {"summary": "Wrapped up."}
    assert calls(BEGUN, VERDICT, WORK, ENDED).handed_in == {"summary": "Wrapped up."}, "in whatever order"
    assert calls(BEGUN, VERDICT, WORK, ENDED, ToolEnd("t2", ToolStatus.FAIL)).may_end, "the verdict did not fail"
    assert calls(BEGUN, VERDICT, ENDED, BEGUN).handed_in is None, "the agent did not take it"


def test_of_an_agent_that_tells_no_pieces_a_larger_prompt_shows_a_call() -> None:
    one, two = Usage(prompt_tokens=10), Usage(prompt_tokens=20)
    assert calls(one).in_progress
    assert not calls(one, ToolEnd("t2", ToolStatus.OK)).in_progress
    assert not calls(one, one).in_progress
    assert calls(one, one, two).made == 2
    assert not calls(one).may_end, "when such a call ends, nobody knows"
    assert calls(one, within=False, answering=True).may_end
    assert not calls(one, two, within=False, answering=True).may_end
