"""How a session's end is classified, over captured sessions of the real agent; and what is decided about it."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.agents.claude_stream import ClaudeTranscript
from ralph.core.events import ApiRetry, Denial, RateLimited, TurnEnded
from ralph.core.failures import (
    MOST_BACKOFFS,
    MOST_QUOTA_WAITS,
    TABLE,
    Again,
    Blocked,
    End,
    Evidence,
    Failed,
    Finished,
    SessionEnd,
    Tries,
    classify,
    correctable,
    decide,
    describe_denials,
)
from ralph.core.verdict import Answer, Verdict, VerdictFault
from tests.support.rows import rows

CAPTURES = Path(__file__).parent.parent / "fixtures" / "claude"
NOW = 1_794_780_000.0
GO_ON = Answer(Verdict.CONTINUE, "one step")
DONE = Answer(Verdict.DONE, "DONE")
BLOCKED = Answer(Verdict.BLOCKED, "BLOCKED: no key")


def seen_in(capture: str, *, exit_code: int = 0, watchdog: str = "") -> Evidence:
    """What a session that prints the capture shows; a turn that a background task began is not the session's."""
    (path,) = (path for path in CAPTURES.glob(f"{capture}-*.ndjson") if not path.name.endswith(".events.ndjson"))
    transcript = ClaudeTranscript()
    events = [event for line in path.read_text("utf-8").split("\n") for event in transcript.feed(line)]
    turns = [event for event in events if isinstance(event, TurnEnded) and not event.origin]
    quotas = [event for event in events if isinstance(event, RateLimited)]
    return Evidence(
        turn=turns[-1] if turns else None,
        quota=quotas[-1] if quotas else None,
        denials=turns[-1].denials if turns else (),
        exit_code=exit_code,
        watchdog=watchdog,
        login_refused=any(isinstance(event, ApiRetry) and event.status == 401 for event in events),
    )


def turn(**fields: object) -> TurnEnded:
    known: dict[str, object] = {"is_error": False, "subtype": "success", "text": "", "structured_output": None}
    return TurnEnded(**(known | fields))  # pyright: ignore[reportArgumentType] - a table of fields


@pytest.mark.spec("2.13-g")
@pytest.mark.spec("3.1-i", "3.3-o", "3.9-de", "3.15-f")
@rows(
    ("capture", "end", "reason"),
    [
        ("01", End.OK, ""),
        ("02d", End.OK, ""),
        ("02f", End.OK, ""),
        ("02k", End.OK, ""),
        ("03c", End.OK, ""),
        ("04r", End.OK, ""),
        ("04w", End.OK, ""),
        ("04x", End.OK, ""),
        ("05z4", End.OK, ""),
        ("07g", End.OK, ""),
        ("07h", End.OK, ""),
        ("02a", End.INVALID, "no valid structured output"),
        ("02c", End.INVALID, "Failed to provide valid structured output after 5 attempts"),
        ("02i", End.INVALID, "no valid structured output"),
        ("02m", End.INVALID, "no valid structured output"),
        ("09i", End.INVALID, "no valid structured output"),
        ("04a", End.AUTH, "login"),
        ("04b", End.AUTH, "Failed to authenticate"),
        ("04t", End.AUTH, "login"),
        ("04e", End.OVERLOADED, "529 Overloaded"),
        ("04l", End.OVERLOADED, "API Error: 500"),
        ("04z", End.OVERLOADED, "not your usage limit"),
        ("04v", End.USAGE_LIMIT, "hit your session limit"),
        ("04h", End.TOO_LONG, "Prompt is too long"),
        ("07h2", End.TOO_LONG, "Prompt is too long"),
        ("07i", End.TOO_LONG, "Prompt is too long"),
        ("04i", End.ERROR, "API Error: 400"),
        ("04m", End.ERROR, "Request too large"),
        ("05n", End.ERROR, "No conversation found"),
        ("07k", End.ERROR, "unable to respond"),
        ("04j", End.CONFIG, "issue with the selected model"),
        ("04k", End.BILLING, "Credit balance is too low"),
        ("04o", End.NETWORK, "Request timed out"),
        ("05b", End.BUDGET, "Reached maximum budget"),
        ("05c", End.DENIED, "permission denied: Bash (rm -rf /tmp/zzz); Write (/srv/repo/new.txt)"),
        ("05g", End.DENIED, "permission denied"),
        ("05x", End.DENIED, "permission denied"),
    ],
)
def test_a_captured_session_is_classified(capture: str, end: End, reason: str) -> None:
    ending = classify(seen_in(capture, exit_code=1))
    assert ending.end is end
    assert reason in ending.reason


def test_the_captured_limit_knows_when_it_resets() -> None:
    assert classify(seen_in("04v", exit_code=1)).resets_at == 1_794_790_100


@pytest.mark.parametrize("capture", ["04z", "04w", "01"])
def test_nothing_else_knows_of_a_reset(capture: str) -> None:
    assert classify(seen_in(capture)).resets_at is None


@pytest.mark.spec("1.4.3-b")
@pytest.mark.spec("3.6-hm", "3.9-ac")
@rows(
    ("exit_code", "watchdog", "end", "reason"),
    [
        (0, "", End.NO_RESULT, "exited with 0 without a result"),
        (1, "", End.CRASHED, "exited with 1 without a result"),
        (-9, "", End.CRASHED, "killed by signal 9"),
        (143, "", End.CRASHED, "exited with 143"),
        (-9, "no output for 10m", End.HUNG, "no output for 10m"),
    ],
)
@rows("capture", ["03k", "04p"])
def test_a_stream_without_a_result_is_judged_by_the_exit(
    capture: str, exit_code: int, watchdog: str, end: End, reason: str
) -> None:
    ending = classify(seen_in(capture, exit_code=exit_code, watchdog=watchdog))
    assert ending.end is end
    assert reason in ending.reason


def test_an_agent_that_closed_its_output_but_did_not_exit_is_not_said_to_have_exited() -> None:
    assert "exited with 0" not in classify(Evidence(exit_code=None)).reason


def test_the_answer_of_a_background_task_is_not_the_sessions() -> None:
    answer = classify(seen_in("03c")).answer
    assert answer == Answer(Verdict.CONTINUE, "left bg")


@pytest.mark.spec("1.4.3-a")
def test_a_valid_answer_counts_whatever_the_exit_code() -> None:
    seen = Evidence(turn=turn(structured_output={"summary": "DONE"}), exit_code=-9, watchdog="took too long")
    assert classify(seen) == SessionEnd(End.DONE, answer=DONE)


def test_an_answer_in_a_failed_result_does_not_count() -> None:
    seen = Evidence(turn=turn(is_error=True, structured_output={"summary": "DONE"}, api_status=500))
    assert classify(seen).end is End.OVERLOADED


def test_a_denied_answer_is_kept() -> None:
    seen = Evidence(turn=turn(structured_output={"summary": "DONE"}), denials=(Denial("1", "Bash", {}),))
    assert classify(seen) == SessionEnd(End.DENIED, "permission denied: Bash", DONE)


@pytest.mark.spec("3.3-e")
def test_an_agent_without_the_tool_for_verdicts_is_a_matter_of_configuration() -> None:
    found = classify(Evidence(turn=turn(), unlisted_tool="StructuredOutput"))
    assert (found.end, "has no StructuredOutput tool" in found.reason) == (End.CONFIG, True)


def test_a_verdict_counts_also_from_an_agent_that_does_not_list_the_tool_for_it() -> None:
    found = classify(Evidence(turn=turn(structured_output={"summary": "DONE"}), unlisted_tool="StructuredOutput"))
    assert found.end is End.DONE


def test_the_last_complaint_of_the_process_is_part_of_the_reason() -> None:
    assert "exited with 1 without a result: bad flag" in classify(Evidence(exit_code=1, last_error="bad flag")).reason


@pytest.mark.parametrize(
    "text",
    [
        "You've hit your session limit · resets 12:48am (UTC)",
        "You've hit your weekly limit",
        "You've hit your limit · resets 3pm",
        "Claude AI usage limit reached|1751356800",
    ],
)
def test_limit_words_count_only_in_a_failed_result(text: str) -> None:
    assert classify(Evidence(turn=turn(is_error=True, text=text, api_status=429))).end is End.USAGE_LIMIT
    assert classify(Evidence(turn=turn(text=text))).end is End.INVALID
    spoken = classify(Evidence(turn=turn(text=text, structured_output={"summary": text})))
    assert (spoken.end, spoken.answer) == (End.OK, Answer(Verdict.CONTINUE, text))


def test_a_spending_cap_of_the_account_is_not_the_agents_failure() -> None:
    said = "API Error: 400 You have reached your specified API usage limits. You will regain access on 2026-12-01"
    ended = turn(is_error=True, text=said, api_status=400, error="invalid_request")
    assert classify(Evidence(turn=ended)).end in (End.USAGE_LIMIT, End.BILLING)


@pytest.mark.parametrize("status", ["allowed", "allowed_warning", "rejected"])
def test_a_quota_event_alone_does_not_end_a_session(status: str) -> None:
    seen = Evidence(turn=turn(structured_output={"summary": "one step"}), quota=RateLimited(status, NOW + 60, "weekly"))
    assert classify(seen) == SessionEnd(End.OK, answer=GO_ON)


@pytest.mark.parametrize(
    ("ended", "fault"),
    [
        (turn(structured_output={"summary": "x"}), None),
        (turn(), VerdictFault.MISSING),
        (turn(structured_output={}), VerdictFault.NO_SUMMARY),
        (turn(structured_output=5), VerdictFault.INVALID),
        (turn(is_error=True, subtype="error_max_structured_output_retries"), VerdictFault.INVALID),
        (turn(is_error=True, subtype="error_max_turns"), None),
        (turn(is_error=True, api_status=529), None),
    ],
)
def test_only_what_can_be_corrected_is_corrected(ended: TurnEnded, fault: VerdictFault | None) -> None:
    assert correctable(ended) is fault


def test_a_denial_names_tool_and_what_it_was_asked() -> None:
    denials = (Denial("1", "Bash", {"command": "x" * 200}), Denial("2", "Odd", {"a": 1}))
    assert describe_denials(denials) == f"permission denied: Bash ({'x' * 80}); Odd"


# What is decided.

FRESH = Tries()
USED_UP = Tries(retried=True, backoffs=MOST_BACKOFFS, shrunk=True)
EVERY_TRIES = [Tries(r, b, s) for r in (False, True) for b in (0, 1, MOST_BACKOFFS) for s in (False, True)]


def decided(ending: SessionEnd, tries: Tries = FRESH, *, jitter: float = 0.5, on_denial: str = "stop") -> object:
    return decide(ending, tries, now=NOW, jitter=jitter, on_denial=on_denial)


def test_the_table_has_a_row_for_every_end() -> None:
    assert set(TABLE) == set(End)


@rows("tries", EVERY_TRIES)
@rows(("end", "answer"), [(End.OK, GO_ON), (End.DONE, DONE), (End.BLOCKED, BLOCKED)])
def test_a_valid_verdict_is_an_iteration(end: End, answer: Answer, tries: Tries) -> None:
    assert decided(SessionEnd(end, answer=answer), tries) == Finished(answer)


@pytest.mark.spec("3.9-g")
@rows("tries", EVERY_TRIES)
@rows("end", [End.INVALID, End.BUDGET, End.ERROR])
def test_what_a_retry_cannot_help_is_a_failure(end: End, tries: Tries) -> None:
    assert decided(SessionEnd(end, "so"), tries) == Failed(f"{end}: so")


@pytest.mark.spec("3.9-h")
@rows("tries", EVERY_TRIES)
@rows("end", [End.CRASHED, End.NO_RESULT, End.HUNG])
def test_a_crash_is_retried_once_and_at_once(end: End, tries: Tries) -> None:
    wanted = Again(f"{end}: so", replace(tries, retried=True))
    assert decided(SessionEnd(end, "so"), tries) == (Failed(f"{end}: so") if tries.retried else wanted)


@rows("tries", EVERY_TRIES)
def test_a_prompt_too_long_is_shrunk_once(tries: Tries) -> None:
    wanted = Again("too-long: so", replace(tries, shrunk=True))
    assert decided(SessionEnd(End.TOO_LONG, "so"), tries) == (Failed("too-long: so") if tries.shrunk else wanted)


@rows("tries", EVERY_TRIES)
@rows("end", [End.OVERLOADED, End.NETWORK])
def test_an_outage_without_a_known_end_is_backed_off_from_a_bounded_number_of_times(end: End, tries: Tries) -> None:
    decision = decided(SessionEnd(end, "so"), tries)
    if tries.backoffs == MOST_BACKOFFS:
        assert decision == Failed(f"{end}: so")
    else:
        assert isinstance(decision, Again)
        assert decision.tries == replace(tries, backoffs=tries.backoffs + 1)


def test_a_quota_that_names_no_reset_is_outwaited_for_a_day_with_bounded_delays() -> None:
    tries, waited, longest = FRESH, 0.0, 0.0
    while isinstance(decision := decide(SessionEnd(End.USAGE_LIMIT, "so"), tries, now=NOW, jitter=0.5), Again):
        assert decision.not_before is not None
        assert decision.tries == replace(tries, quota_waits=tries.quota_waits + 1)
        tries, waited = decision.tries, waited + decision.not_before - NOW
        longest = max(longest, decision.not_before - NOW)
    assert decision == Failed("usage-limit: so")
    assert longest <= 1800
    assert waited > 20 * 3600


@rows("tries", EVERY_TRIES)
def test_a_used_up_quota_is_waited_for_and_free(tries: Tries) -> None:
    decision = decided(SessionEnd(End.USAGE_LIMIT, "so", resets_at=NOW + 3600), tries)
    assert isinstance(decision, Again)
    assert decision.tries == tries
    assert decision.not_before is not None
    assert NOW + 3600 <= decision.not_before <= NOW + 3660


def test_a_reset_that_is_already_past_does_not_make_a_hot_loop() -> None:
    ending, tries = SessionEnd(End.USAGE_LIMIT, "so", resets_at=NOW - 3600), FRESH
    for _ in range(MOST_QUOTA_WAITS + 1):
        decision = decide(ending, tries, now=NOW, jitter=0.5)
        if isinstance(decision, Failed):
            return
        assert isinstance(decision, Again)
        assert decision.not_before is not None
        assert decision.not_before > NOW
        tries = decision.tries
    pytest.fail("an agent that names a reset in the past is started again without end")


@rows("tries", [FRESH, USED_UP])
@rows("end", [End.AUTH, End.BILLING, End.CONFIG, End.DENIED])
def test_what_only_the_user_can_clear_stops_with_the_next_step(end: End, tries: Tries) -> None:
    decision = decided(SessionEnd(end, "so"), tries)
    assert isinstance(decision, Blocked)
    assert decision.reason == f"{end}: so"
    assert decision.hint


@pytest.mark.parametrize("answer", [GO_ON, DONE])
def test_a_denied_verdict_counts_before_the_run_stops(answer: Answer) -> None:
    decision = decided(SessionEnd(End.DENIED, "so", answer))
    assert isinstance(decision, Finished)
    assert decision.answer == answer
    assert decision.blocked is not None
    assert "on_denial" in decision.blocked.hint


def test_with_on_denial_continue_a_denial_stops_nothing() -> None:
    assert decided(SessionEnd(End.DENIED, "so", GO_ON), on_denial="continue") == Finished(GO_ON)
    assert decided(SessionEnd(End.DENIED, "so"), on_denial="continue") == Failed("denied: so")


def test_an_end_without_words_is_described_by_its_row() -> None:
    assert decided(SessionEnd(End.INVALID)) == Failed(f"invalid: {TABLE[End.INVALID].meaning}")


@given(st.floats(min_value=0, max_value=1, exclude_max=True), st.integers(min_value=0, max_value=MOST_BACKOFFS - 1))
def test_a_backoff_doubles_within_bounds_and_is_spread_by_chance(jitter: float, backoffs: int) -> None:
    decision = decide(SessionEnd(End.NETWORK, "so"), Tries(backoffs=backoffs), now=NOW, jitter=jitter)
    assert isinstance(decision, Again)
    assert decision.not_before is not None
    full = min(5.0 * 2**backoffs, 300.0)
    assert full / 2 <= decision.not_before - NOW + 1e-6 <= full + 1e-5
