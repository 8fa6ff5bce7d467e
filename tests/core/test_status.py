"""Where a live run stands, by its latest events."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from ralph.core import ndjson
from ralph.core.events import (
    CheckEnded,
    CheckStarted,
    Event,
    IterationEnded,
    IterationStarted,
    RateLimited,
    RunEnded,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SummaryStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
    Waiting,
)
from ralph.core.status import StatusFold, status_of
from ralph.core.usage import Spend
from tests.support.rows import rows

BEGUN = IterationStarted(1, "s", "log")
TOLD = Text(Tag.AI, "told")
CONTINUED = RunStarted("g", "r", "/r", "b", "a", "/a", "t", "m", "off", "check", continued=True, iteration=3)
NAMED = SessionStarted("s", "m", "1", (), "")


@rows(
    ("events", "doing"),
    [
        ([], "in a session"),  # so busy that its beginning is out of sight
        ([BEGUN], "in a session"),
        ([BEGUN, Text(Tag.AI, "an agent that never says it has started")], "in a session"),
        ([BEGUN, NAMED, ToolStart("t", "Bash")], "in a session"),
        ([SummaryStarted(5, "s", "log"), NAMED], "in a session that summarizes older iterations"),
        ([BEGUN, SessionEnded("s", "ok", "", "", False, 0, "log")], "finishing a session"),
        ([IterationEnded(1, "CONTINUE", "c", None, None, "x")], "between sessions"),
        ([IterationEnded(1, "DONE", "c", None, None, "DONE")], "checking"),
        ([CONTINUED, CheckStarted(2)], "checking"),
        ([CheckEnded(1, 0.1, "")], "between sessions"),
        ([Waiting("quota", 5.0)], "waiting"),
        ([Waiting("paused", None)], "paused"),
        ([Waiting("quota", 5.0), BEGUN], "in a session"),
        ([RunEnded(0, "done", True)], "ended: done"),
    ],
)
def test_the_latest_events_tell_what_a_run_is_at(events: list[Event], doing: str) -> None:
    assert status_of((event, "now") for event in events).doing == doing


def test_an_agent_that_never_says_that_it_has_started_is_at_work() -> None:
    plain = replace(CONTINUED, transcript="plain")
    assert status_of([(CONTINUED, "a"), (BEGUN, "b")]).activity == ("starting", "b")
    assert status_of([(plain, "a"), (BEGUN, "b")]).activity == ("at work", "b")
    assert status_of([(plain, "a"), (BEGUN, "b"), (TOLD, "c"), (BEGUN, "d")]).activity == ("at work", "d")


def test_only_a_wait_for_a_time_can_be_ended_before_it() -> None:
    assert status_of([(Waiting("quota", 5.0), "now")]).is_waiting
    assert not status_of([(Waiting("paused", None), "now")]).is_waiting
    assert not status_of([(Waiting("quota", 5.0), "now"), (BEGUN, "now")]).is_waiting


def at(number: int) -> str:
    return f"2026-11-16T00:00:{number:02}.000Z"


def folded(*stamped: tuple[Event, str]) -> StatusFold:
    fold = StatusFold()
    for event, when in stamped:
        fold.take(event, when)
    return fold


def test_the_oldest_open_call_is_what_goes_on() -> None:
    fold = folded((BEGUN, at(0)), (NAMED, at(1)))
    assert fold.status.activity == ("thinking", at(1))
    fold.take(ToolStart("a", "Bash", {"command": "make"}), at(2))
    fold.take(ToolStart("b", "Read", {"file_path": "x"}), at(3))
    assert fold.status.activity == ("Bash make (and 1 more)", at(2))
    assert fold.status.tool == "Bash"
    fold.take(ToolEnd("a", ToolStatus.OK), at(4))
    assert fold.status.activity == ("Read x", at(3))
    fold.take(ToolEnd("b", ToolStatus.OK), at(5))
    fold.take(Text(Tag.AI, "so"), at(6))
    assert fold.status.activity == ("writing", at(6))


def test_calls_that_never_end_are_not_all_kept_but_counted() -> None:
    fold = folded(*((ToolStart(str(number), "Bash", {"command": "x" * 10_000}), at(0)) for number in range(1030)))
    assert [call.id for call in fold.status.calls] == [str(number) for number in range(1000)]
    assert len(fold.status.calls[0].about) < 1000
    assert fold.status.activity[0].endswith(" (and 1,029 more)")
    for number in [*range(1000), *range(1005, 1030)]:
        fold.take(ToolEnd(str(number), ToolStatus.OK), at(1))
    assert fold.status.activity == ("5 calls", at(1))
    for number in range(1000, 1005):
        fold.take(ToolEnd(str(number), ToolStatus.OK), at(2))
    assert fold.status.activity == ("thinking", at(2))


def test_of_thirty_calls_all_are_counted_and_the_first_ones_known_when_the_last_have_ended() -> None:
    fold = folded(*((ToolStart(str(number), "Bash", {"command": f"make {number}"}), at(0)) for number in range(30)))
    assert fold.status.activity[0] == "Bash make 0 (and 29 more)"
    for number in range(29, 9, -1):
        fold.take(ToolEnd(str(number), ToolStatus.OK), at(1))
    assert fold.status.activity[0] == "Bash make 0 (and 9 more)"


def test_a_call_that_is_announced_again_is_no_second_one() -> None:
    twice = [(ToolStart("a", "Bash", {"command": "make"}), at(number)) for number in range(2)]
    fold = folded(*twice)
    assert fold.status.activity == ("Bash make", at(0))
    fold.take(ToolEnd("a", ToolStatus.OK), at(5))
    assert fold.times.tools == 5.0


def test_no_input_of_a_call_is_too_deep() -> None:
    deep = ndjson.decode("[" * 1000 + "]" * 1000)
    fold = folded(*((ToolStart(str(number), "Bash", {"command": deep}), at(0)) for number in range(20)))
    assert fold.status.activity[0] == "Bash … (and 19 more)"


def test_what_is_used_adds_up_over_sessions() -> None:
    used = [Usage(10, 5, 15, cost_usd=0.25, context_pct=40.0), Usage(20, 5, 25, cost_usd=0.5, context_pct=50.0)]
    first: list[Event] = [BEGUN, *used, IterationEnded(1, "CONTINUE", "c", 0.5, 50.0, "x")]
    fold = folded(*((event, at(0)) for event in first))
    stands = fold.status
    assert (stands.meter.total.cost_usd, stands.meter.context_pct, stands.iteration) == (0.5, 50.0, 1)
    fold.take(IterationStarted(2, "t", "log"), at(1))
    fold.take(used[0], at(2))
    stands = fold.status
    assert (stands.meter.total.cost_usd, stands.meter.total.tokens, stands.iteration) == (0.75, 40, 2)


def test_what_was_used_before_counts_and_a_session_can_be_closed_without_an_event() -> None:
    fold = StatusFold(spent=Spend(1.0, 100))
    fold.take(Usage(total_tokens=10, cost_usd=0.5), at(0))
    fold.next_session()
    fold.take(Usage(total_tokens=20, cost_usd=0.25), at(1))
    assert fold.status.meter == fold.meter
    assert (fold.meter.total.cost_usd, fold.meter.total.tokens, fold.meter.session.tokens) == (1.75, 130, 20)


def test_how_the_last_session_ended_is_known_until_the_next_one_ends() -> None:
    fold = folded((BEGUN, at(0)))
    assert fold.last_end == ""
    fold.take(SessionEnded("s", "crashed", "", "", False, 1, "log"), at(1))
    fold.take(BEGUN, at(2))
    assert fold.last_end == "crashed"


WARNED = (RateLimited("allowed_warning", None, "weekly", 0.9), at(1))
MET = (RateLimited("rejected", None, "weekly"), at(1))


def test_a_quota_that_nears_its_end_is_known_until_it_is_fine_again() -> None:
    assert status_of([(BEGUN, at(0)), WARNED, (IterationStarted(2, "t", "log"), at(2))]).quota is not None
    assert status_of([(BEGUN, at(0)), WARNED, (RateLimited("allowed", None, "weekly"), at(3))]).quota is None


def test_a_quota_that_was_waited_for_is_not_said_to_be_used_up_any_more() -> None:
    fold = folded((BEGUN, at(0)), MET, (SessionEnded("s", "ok", "", "", False, 0, "log"), at(2)))
    fold.take(Waiting("quota", 9.0), at(3))
    assert fold.status.quota == MET[0]
    fold.take(IterationStarted(2, "t", "log"), at(9))
    assert fold.status.quota is None
    warned = status_of([(BEGUN, at(0)), WARNED, (Waiting("the network", 9.0), at(3)), (BEGUN, at(9))])
    assert warned.quota is not None, "that wait ends no quota"


def test_a_pause_is_no_wait() -> None:
    assert status_of([(Waiting("paused", None), at(0))]).is_paused
    assert not status_of([(Waiting("paused", None), at(0)), (BEGUN, at(1))]).is_paused


_IDS = st.sampled_from("abc")
_EVENTS = st.one_of(
    st.builds(ToolStart, _IDS, st.sampled_from(["Bash", "Read"])),
    st.builds(ToolEnd, _IDS, st.sampled_from(list(ToolStatus))),
    st.builds(ToolOutput, _IDS, st.just("x")),
    st.builds(Text, st.sampled_from(list(Tag)), st.just("x")),
    st.builds(Usage, total_tokens=st.integers(0, 9), cost_usd=st.floats(0, 9), cost_is_estimate=st.booleans()),
    st.sampled_from([BEGUN, NAMED, SessionEnded("s", "ok", "", "", False, 0, "log"), Waiting("quota", 9.0)]),
)


@given(st.lists(st.tuples(_EVENTS, st.booleans()), max_size=40))
@example(
    [
        (ToolStart("a", "Bash"), True),
        (ToolStart("a", "Bash"), False),
        (ToolEnd("a", ToolStatus.OK), False),
        (TOLD, False),
    ]
)
@example([(Text(Tag.THINK, "x"), False), (Text(Tag.THINK, "y"), False)])
def test_who_looks_now_and_then_sees_what_who_looks_always_sees(events: list[tuple[Event, bool]]) -> None:
    always, seldom = StatusFold(), StatusFold()
    for number, (event, looks) in enumerate(events):
        always.take(event, str(number))
        seldom.take(event, str(number))
        stands = always.status
        if looks:
            assert seldom.status == stands
    assert seldom.status == always.status


def test_of_calls_without_end_as_much_is_known_however_seldom_one_looks() -> None:
    ends = [ToolEnd(number, ToolStatus.OK) for number in ("45", "1045", "1046")]
    events = [*(ToolStart(str(number), "Bash") for number in range(1050)), *ends]
    stands = status_of((event, "now") for event in events)
    assert (len(stands.calls), stands.more_calls) == (999, 48)
