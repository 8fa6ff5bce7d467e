"""Claude Code's stream, over captured sessions of 2.1.197; and over lines that no agent should print."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.agents.claude_stream import ClaudeTranscript
from ralph.core import ndjson
from ralph.core.events import (
    ApiRetry,
    Compacted,
    Denial,
    Event,
    Meta,
    RateLimited,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
    Usage,
)
from ralph.core.records import to_json
from tests.agents import captures
from tests.support.rows import rows

EVERY_CAPTURE = [path.stem for path in captures.captures_of("claude")]


def lines_of(capture: str) -> list[str]:
    (path,) = (path for path in captures.captures_of("claude") if path.name.startswith(capture))
    return captures.lines_of(path)


def heard(lines: list[str]) -> list[Event]:
    transcript = ClaudeTranscript()
    return [event for line in lines for event in transcript.feed(line)] + transcript.flush()


def heard_in(capture: str) -> list[Event]:
    return heard(lines_of(capture))


def journaled(events: list[Event]) -> None:
    for event in events:
        line = ndjson.encode(to_json(event))
        assert line.isascii()
        assert ndjson.mapping(ndjson.decode(line))["type"] == event.type


def turns(events: list[Event]) -> list[TurnEnded]:
    return [event for event in events if isinstance(event, TurnEnded)]


def usages(events: list[Event]) -> list[Usage]:
    return [event for event in events if isinstance(event, Usage)]


def line(**record: object) -> str:
    return json.dumps(record)


@pytest.mark.spec("1.4.2-e")
@pytest.mark.spec("2.4-c")
@pytest.mark.spec("3.1-defg", "3.3-abdefgk", "3.5-hi", "3.6-j", "3.12-b", "3.14-a", "3.15-b")
def test_the_happy_session_event_by_event() -> None:
    events = heard_in("01-")
    assert [event.type for event in events] == [
        "session_started",
        *("text", "usage", "text", "tool_start", "tool_start"),
        *("tool_output", "tool_end", "tool_output", "tool_end"),
        *("text", "usage", "tool_start", "tool_output", "tool_end"),
        *("usage", "turn_ended"),
    ]
    assert events[0] == SessionStarted(
        session_id="c5e5e557-04ed-4a12-aeed-09d916eb92a0",
        model="claude-sonnet-5",
        version="2.1.197",
        tools=("Bash", "Edit", "Glob", "Grep", "Read", "Skill", "StructuredOutput", "Write"),
        permission_mode="bypassPermissions",
        cwd="/srv/repo",
    )
    assert events[1] == Text(Tag.THINK, "hmm plan")
    assert turns(events) == [
        TurnEnded(
            is_error=False,
            subtype="success",
            text='{"summary":"wrote hello"}',
            structured_output={"summary": "wrote hello"},
            terminal_reason="completed",
            num_turns=4,
            duration_ms=736,
        )
    ]


@pytest.mark.spec("1.4.2-c")
@pytest.mark.spec("2.5-d")
@pytest.mark.spec("3.9-e")
def test_tools_end_as_their_results_say() -> None:
    events = heard_in("01-")
    names = {event.id: event.name for event in events if isinstance(event, ToolStart)}
    ends = [(names[event.id], event.status) for event in events if isinstance(event, ToolEnd)]
    assert ends == [("Write", ToolStatus.OK), ("Bash", ToolStatus.FAIL), ("StructuredOutput", ToolStatus.OK)]


@pytest.mark.spec("1.4.2-g", "1.11-a")
@pytest.mark.spec("3.1-h", "3.3-j", "3.5-j", "3.6-k")
def test_usage_is_counted_once_a_message_and_corrected_by_the_result() -> None:
    first, second, last = usages(heard_in("01-"))
    assert (first.prompt_tokens, first.completion_tokens, first.cost_usd) == (1264, 1, None)
    assert (second.prompt_tokens, second.completion_tokens, second.cost_usd) == (2528, 2, None)
    assert last == Usage(
        prompt_tokens=2528,
        completion_tokens=84,
        total_tokens=2612,
        model="claude-sonnet-5",
        cache_creation_tokens=20,
        cache_read_tokens=40,
        context_pct=0.6,
        cost_usd=0.008751000000000002,
    )


@pytest.mark.spec("3.3-m", "3.10-a")
@pytest.mark.parametrize(
    ("capture", "results", "cost", "tokens"),
    [
        ("02l-", 2, 0.008751, 2 * 1264 + 84),
        ("02m-", 3, 0.026253, 6 * 1264 + 252),
        ("02k-", 2, 0.0218775, 6 * 1264 + 210),
        ("03c-", 2, 0.017502, 4 * 1264 + 168),
        ("02c-", 1, 0.017502, 5 * 1264 + 168),
        ("07h-", 1, 1.060743, 352234 + 120 + 60 + 252),
        ("05b-", 1, 0.601347, 200000 + 40 + 20 + 84),
    ],
)
def test_cost_and_tokens_are_cumulative_over_all_results(capture: str, results: int, cost: float, tokens: int) -> None:
    events = heard_in(capture)
    assert len(turns(events)) == results
    last = usages(events)[-1]
    assert (last.cost_usd, last.total_tokens) == (pytest.approx(cost), tokens)


@rows("capture", EVERY_CAPTURE)
def test_figures_never_fall(capture: str) -> None:
    told = usages(heard_in(capture))
    for before, after in itertools.pairwise(told):
        assert (before.cost_usd or 0) <= (after.cost_usd or 0)
        assert (before.total_tokens or 0) <= (after.total_tokens or 0)


@pytest.mark.spec("3.6-ci")
@pytest.mark.parametrize("capture", ["02l-", "02m-", "03c-", "03d-"])
def test_an_agent_that_introduces_itself_again_is_the_same_session(capture: str) -> None:
    lines = lines_of(capture)
    assert sum('"subtype":"init"' in text for text in lines) > 1
    assert [event.type for event in heard(lines)].count("session_started") == 1


@pytest.mark.parametrize("capture", ["03c-", "03d-"])
def test_a_background_tasks_result_is_marked_as_such(capture: str) -> None:
    assert [turn.origin for turn in turns(heard_in(capture))] == ["", "task-notification"]


@pytest.mark.spec("1.4.2-d", "1.11-b")
def test_the_context_is_that_of_the_last_message_in_the_window_the_agent_named() -> None:
    lines = lines_of("07h-")
    assert [event.context_pct for event in usages(heard(lines))] == [None, None, None, None, None, 0.6]
    wider = [text.replace('"contextWindow":200000', '"contextWindow":1000000') for text in lines]
    assert usages(heard(wider))[-1].context_pct == 0.1


def test_a_session_knows_the_window_that_one_before_it_was_told() -> None:
    lines = [text.replace('"contextWindow":200000', '"contextWindow":1000000') for text in lines_of("07h-")]
    windows: dict[str, int] = {}
    gauges: list[list[float | None]] = []
    for _ in range(2):
        transcript = ClaudeTranscript(windows)
        events = [event for text in lines for event in transcript.feed(text)]
        gauges.append([event.context_pct for event in usages(events)][:4])
    assert gauges == [[None] * 4, [0.1, 5.0, 12.0, 17.5]]


def test_a_model_that_is_asked_for_a_longer_context_has_one() -> None:
    first, *others = lines_of("07h-")
    model = json.loads(first)["model"]
    events = heard([first.replace(f'"model":"{model}"', f'"model":"{model}[1m]"'), *others])
    assert [event.context_pct for event in usages(events)][:4] == [0.1, 5.0, 12.0, 17.5]


def test_a_subagents_message_costs_but_does_not_fill_the_context() -> None:
    used = {"input_tokens": 100_000}
    events = heard(
        [
            line(type="system", subtype="init", model="m[1m]"),
            line(type="assistant", message={"id": "a", "model": "m", "usage": {"input_tokens": 5000}}),
            line(type="assistant", message={"id": "b", "model": "m", "usage": used}, parent_tool_use_id="toolu_1"),
        ]
    )
    assert [(event.context_pct, event.prompt_tokens) for event in usages(events)] == [(0.5, 5000), (0.5, 105_000)]


@pytest.mark.spec("3.3-o")
def test_an_api_error_carries_its_status_and_kind() -> None:
    (turn,) = turns(heard_in("04e-"))
    assert (turn.is_error, turn.subtype, turn.api_status, turn.error) == (True, "success", 529, "server_error")
    assert "529 Overloaded" in turn.text


def test_an_error_without_text_speaks_through_its_errors() -> None:
    (turn,) = turns(heard_in("05b-"))
    assert (turn.subtype, turn.text) == ("error_max_budget_usd", "Reached maximum budget ($0.5)")


def test_an_error_does_not_outlive_its_turn() -> None:
    lines = [line(type="assistant", error="rate_limit"), line(type="result"), line(type="result")]
    assert [turn.error for turn in turns(heard(lines))] == ["rate_limit", ""]


def test_a_synthetic_message_costs_nothing() -> None:
    assert [event.total_tokens for event in usages(heard_in("04e-"))] == [0]


def test_retries_and_quota_are_events() -> None:
    retries = [event for event in heard_in("04a-") if isinstance(event, ApiRetry)]
    assert retries[0] == ApiRetry(1, 401, "authentication_failed")
    assert len(retries) == 10
    assert [event for event in heard_in("04o-") if isinstance(event, ApiRetry)] == [ApiRetry(1, None, "unknown")]
    assert [event for event in heard_in("04v-") if isinstance(event, RateLimited)] == [
        RateLimited("rejected", 1_794_790_100.0, "five_hour")
    ]
    assert [event for event in heard_in("04z-") if isinstance(event, RateLimited)] == [
        RateLimited("rejected", None, "")
    ]


@pytest.mark.spec("3.1-i", "3.3-n", "3.5-k", "3.6-k")
def test_denials_are_told_with_their_input() -> None:
    (turn,) = turns(heard_in("05c-"))
    assert turn.denials == (
        Denial("toolu_01_0", "Bash", {"command": "rm -rf /tmp/zzz"}),
        Denial("toolu_01_1", "Write", {"file_path": "/srv/repo/new.txt", "content": "x"}),
    )


def test_denials_of_the_documented_shape_are_told_with_their_reason() -> None:
    """They have no id: two of them are two all the same."""
    denied = [{"tool": "Bash", "reason": "rm is denied"}, {"tool": "Bash", "reason": "sudo is denied"}]
    (turn,) = turns(heard([json.dumps({"type": "result", "permission_denials": [*denied, 7]})]))
    assert [(denial.tool, denial.reason) for denial in turn.denials][:2] == [
        ("Bash", "rm is denied"),
        ("Bash", "sudo is denied"),
    ]
    assert len({denial.id for denial in turn.denials}) == 3


def test_a_compaction_is_told_with_the_tokens_before_it() -> None:
    assert [event for event in heard_in("07h-") if isinstance(event, Compacted)] == [Compacted("auto", 175_078, 186)]
    bare = {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": 1, "pre_tokens": "x"}}
    assert heard([json.dumps(bare)]) == [Compacted("")]


@rows(
    ("message", "models"),
    [(snake, camel) for snake, camel in itertools.product((True, False), repeat=2)],
)
def test_use_is_read_by_either_kind_of_name(message: bool, models: bool) -> None:
    def named(fresh: int, *, snake: bool) -> dict[str, object]:
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        camel = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        return dict(zip(names if snake else camel, (fresh, 20, 3, 4), strict=True))

    said = {"id": "m", "model": "opus", "usage": named(100, snake=message), "content": []}
    window = {"context_window" if models else "contextWindow": 1070}
    result = {"type": "result", "total_cost_usd": 0.5, "modelUsage": {"opus": named(200, snake=models) | window}}
    used = [event for event in heard([json.dumps({"type": "assistant", "message": said}), json.dumps(result)])
            if isinstance(event, Usage)]  # fmt: skip
    assert [(each.prompt_tokens, each.completion_tokens) for each in used] == [(107, 20), (207, 20)]
    assert used[-1].context_pct == 10.0


@rows(("snake",), [(True,), (False,)])
def test_the_use_of_a_result_counts_where_it_names_no_models(snake: bool) -> None:
    """It is of one turn: that of two results adds up, and so do messages that nobody summed up."""
    names = ("input_tokens", "output_tokens") if snake else ("inputTokens", "outputTokens")

    def result(fresh: int) -> str:
        return json.dumps({"type": "result", "usage": dict(zip(names, (fresh, 5), strict=True))})

    said = {"id": "m", "model": "opus", "usage": {"input_tokens": 70, "output_tokens": 1}, "content": []}
    lines = [result(100), result(40), json.dumps({"type": "assistant", "message": said})]
    used = [event for event in heard(lines) if isinstance(event, Usage)]
    assert [(each.prompt_tokens, each.completion_tokens) for each in used] == [(100, 5), (140, 10), (210, 11)]


def test_a_nudge_is_a_prompt_not_a_person() -> None:
    tags = [event.tag for event in heard_in("02a-") if isinstance(event, Text)]
    assert tags == [Tag.AI, Tag.PROMPT, Tag.AI]


def test_a_tool_that_the_stream_leaves_open_ends_unknown() -> None:
    assert heard_in("03k-")[-1] == ToolEnd("toolu_01_1", ToolStatus.UNKNOWN)


def test_an_array_of_results_is_tolerated() -> None:
    assert heard(['[{"type":"result"}]']) == [Meta({"ignored": "None"})]


@pytest.mark.spec("3.3-i")
@pytest.mark.parametrize(
    "text",
    [
        line(type="brand_new", text="You've hit your session limit"),
        line(type="system", subtype="brand_new"),
        line(type="assistant", message={"content": [{"type": "brand_new"}]}),
        "{}",
        "null",
        "17",
    ],
)
def test_what_is_not_known_is_a_meta(text: str) -> None:
    assert [event.type for event in heard([text])] == ["meta"]


@pytest.mark.parametrize("text", ["", "   ", "\t"])
def test_a_blank_line_is_nothing(text: str) -> None:
    assert heard([text]) == []


@pytest.mark.spec("2.6-d")
@pytest.mark.spec("3.6-e")
def test_a_line_that_is_no_json_is_shown() -> None:
    meta, text = heard(["Segmentation fault"])
    assert isinstance(meta, Meta)
    assert text == Text(Tag.SYS, "Segmentation fault")


ABSURD = ["NaN", "Infinity", "-1", "true", '"5"', "1" + "0" * 400, "1e999", "1e12", "[1]", "{}"]


@rows("cost", ABSURD)
def test_an_absurd_cost_changes_nothing_and_is_said_once(cost: str) -> None:
    good, bad = line(type="result", total_cost_usd=0.5), f'{{"type":"result","total_cost_usd":{cost}}}'
    events = heard([good, bad, bad])
    assert usages(events)[-1].cost_usd == 0.5
    (said,) = complaints(events)
    assert said.startswith("the agent reports a wrong figure, total_cost_usd: ")


@rows("figure", [*ABSURD, "0.5", "1000000000000000000"])
@rows(
    "template",
    [
        '{"type":"assistant","message":{"id":"a","model":"m","usage":{"input_tokens":%s,"output_tokens":7}}}',
        '{"type":"assistant","message":{"id":"a","model":"m","usage":{"output_tokens":%s,"input_tokens":7}}}',
        '{"type":"stream_event","event":{"type":"message_start","message":'
        '{"id":"a","model":"m","usage":{"cache_read_input_tokens":%s,"output_tokens":7}}}}',
        '{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":%s}}}',
        '{"type":"result","modelUsage":{"m":{"cacheCreationInputTokens":%s,"outputTokens":7}}}',
        '{"type":"result","modelUsage":{"m":{"cacheCreationEphemeral1hInputTokens":%s,"outputTokens":7}}}',
    ],
)
def test_absurd_tokens_change_nothing_and_are_said_once(template: str, figure: str) -> None:
    first = line(type="assistant", message={"id": "z", "model": "m", "usage": {"input_tokens": 3}})
    events = heard([first, template % figure, template % figure])
    assert usages(events)[-1].total_tokens in (3, 10)
    (said,) = complaints(events)
    assert said.endswith("is not a number of tokens; ralph ignores it")


def test_a_figure_that_is_not_there_is_no_wrong_one() -> None:
    events = heard(['{"type":"result","total_cost_usd":null,"modelUsage":{"m":{"inputTokens":null}}}'])
    assert complaints(events) == []


def test_a_cost_that_falls_changes_nothing_and_is_said() -> None:
    events = heard([line(type="result", total_cost_usd=cost) for cost in (0.5, 0.25, 0.1, 0.75)])
    assert [usage.cost_usd for usage in usages(events)] == [0.5, 0.5, 0.5, 0.75]
    assert complaints(events) == [
        "the agent reports a wrong figure, total_cost_usd: it fell from 0.5 to 0.25; ralph keeps the larger figure"
    ]


def complaints(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Text) and event.tag is Tag.SYS]


def message_start(identity: str, parent: str | None = None, **usage: int) -> str:
    message = {"id": identity, "model": "m", "usage": usage}
    return line(type="stream_event", parent_tool_use_id=parent, event={"type": "message_start", "message": message})


def message_delta(parent: str | None = None, identity: str = "", **usage: int) -> str:
    more = {"api_message_id": identity} if identity else {}
    return line(type="stream_event", parent_tool_use_id=parent, event={"type": "message_delta", "usage": usage}, **more)


def assistant(identity: str, parent: str | None = None, **usage: int) -> str:
    message = {"id": identity, "model": "m", "usage": usage, "content": []}
    return line(type="assistant", parent_tool_use_id=parent, message=message)


@pytest.mark.parametrize("named", [True, False], ids=["2.1.325 names the message", "2.1.197 does not"])
def test_pieces_of_a_message_tell_its_final_output_and_nothing_twice(named: bool) -> None:
    def delta(parent: str | None, identity: str, tokens: int) -> str:
        return message_delta(parent, identity if named else "", output_tokens=tokens)

    events = heard(
        [
            message_start("a", input_tokens=100, output_tokens=1),
            assistant("a", input_tokens=100, output_tokens=1),
            line(type="stream_event", event={"type": "content_block_delta", "delta": {"text": "x"}}),
            message_start("s", "toolu_1", input_tokens=7, output_tokens=1),
            delta(None, "a", 50),
            delta(None, "a", 50),
            delta("toolu_1", "s", 5),
            assistant("a", input_tokens=100, output_tokens=1),
        ]
    )
    assert [usage.total_tokens for usage in usages(events)] == [101, 109, 158, 162]
    assert events == usages(events), "of all the pieces only their use is told"


def test_what_a_result_knows_better_stays_known_when_messages_follow() -> None:
    """A subagent's final output is in results only (2.1.325)."""
    used = {"m": {"inputTokens": 107, "outputTokens": 250}}
    events = heard(
        [
            assistant("a", input_tokens=100, output_tokens=1),
            assistant("s", "toolu_1", input_tokens=7, output_tokens=1),
            line(type="result", total_cost_usd=0.5, modelUsage=used),
            assistant("b", input_tokens=10, output_tokens=1),
            line(type="result", total_cost_usd=0.6, modelUsage={"m": {"inputTokens": 117, "outputTokens": 260}}),
        ]
    )
    assert [usage.total_tokens for usage in usages(events)] == [101, 109, 357, 368, 377]
    assert [usage.cost_usd for usage in usages(events)] == [None, None, 0.5, 0.5, 0.6]
    assert [usage.cost_is_estimate for usage in usages(events)] == [None, None, None, True, None]


def test_a_call_that_was_cut_is_counted_though_the_result_leaves_it_out() -> None:
    """An interrupted call is neither in `modelUsage` nor in the cost (2.1.325); the API charges for it all the same."""
    used = {"m": {"inputTokens": 100, "outputTokens": 50}}
    both = {"m": {"inputTokens": 200, "outputTokens": 100}}
    events = heard(
        [
            message_start("a", input_tokens=100, output_tokens=1),
            message_delta(None, "a", output_tokens=50),
            message_start("b", input_tokens=1000, output_tokens=1),
            message_delta(None, "b", input_tokens=1000, output_tokens=1),
            line(type="result", is_error=True, total_cost_usd=0.5, modelUsage=used),
            message_start("c", input_tokens=100, output_tokens=1),
            message_delta(None, "c", output_tokens=50),
            line(type="result", total_cost_usd=0.75, modelUsage=both),
        ]
    )
    told = usages(events)
    assert [usage.total_tokens for usage in told] == [101, 150, 1151, 1151, 1151, 1151, 1252, 1301, 1301, 1301]
    assert [(usage.cost_usd, usage.cost_is_estimate, usage.uncosted_tokens) for usage in told] == [
        *[(None, None, None)] * 4,
        (0.5, None, None),
        (0.5, True, 1001),
        *[(0.5, True, None)] * 2,
        (0.75, None, None),
        (0.75, True, 1001),
    ]


@pytest.mark.parametrize(
    ("models", "tokens", "left_out"),
    [
        ({"m": (100, 50), "side": (5000, 70)}, 6221, 1001),
        ({"m": (1100, 51), "side": (5000, 70)}, 6221, 0),
        ({"alias": (100, 50), "side": (300, 0)}, 1151, 701),
        ({"alias": (1100, 51)}, 1151, 0),
    ],
    ids=["cut", "whole", "by another name, cut", "by another name"],
)
def test_what_a_result_leaves_out_is_reckoned_model_by_model(
    models: dict[str, tuple[int, int]], tokens: int, left_out: int
) -> None:
    """Calls that the stream does not show (a title, a compaction) do not make up for one that was cut."""
    used = {name: {"inputTokens": given, "outputTokens": got} for name, (given, got) in models.items()}
    told = usages(
        heard(
            [
                message_start("a", input_tokens=100, output_tokens=1),
                message_delta(None, "a", output_tokens=50),
                message_start("b", input_tokens=1000, output_tokens=1),
                line(type="result", is_error=True, total_cost_usd=0.5, modelUsage=used),
            ]
        )
    )
    assert (told[-1].total_tokens, told[-1].uncosted_tokens or 0) == (tokens, left_out)


def test_a_model_that_the_result_knows_by_another_name_is_not_counted_twice() -> None:
    """A gateway let another model answer the second message; the agent counts by the name that it had asked for."""
    other = {"id": "b", "model": "other", "usage": {"input_tokens": 1000, "output_tokens": 1}, "content": []}
    used = {"m": {"inputTokens": 1100, "outputTokens": 51}}
    told = usages(
        heard(
            [
                assistant("a", input_tokens=100, output_tokens=50),
                line(type="assistant", message=other),
                line(type="result", total_cost_usd=0.5, modelUsage=used),
            ]
        )
    )
    assert (told[-1].total_tokens, told[-1].uncosted_tokens) == (1151, None)


def test_a_session_that_was_cut_in_its_first_call_has_cost_something() -> None:
    cut = [message_start("a", input_tokens=100, output_tokens=1)]
    ended = usages(heard([*cut, line(type="result", is_error=True, total_cost_usd=0, modelUsage={})]))[-1]
    assert (ended.cost_usd, ended.cost_is_estimate, ended.uncosted_tokens) == (0.0, True, 101)
    foreign = usages(heard([*cut, line(type="result", total_cost_usd=0.5)]))[-1]
    assert (foreign.cost_usd, foreign.cost_is_estimate) == (0.5, None), "who does not say what it charged is believed"


def test_pieces_tell_when_the_model_is_at_a_message_whatever_tokens_they_name() -> None:
    """Some gateways tell the prompt's tokens at the end of a message only."""
    events = heard(
        [
            message_start("a", input_tokens=0, output_tokens=0),
            message_start("s", "toolu_1", input_tokens=7, output_tokens=1),
            assistant("a", input_tokens=0, output_tokens=0),
            message_delta(None, "a", input_tokens=100, output_tokens=50),
            message_start("b", input_tokens=0, output_tokens=1),
            message_delta(None, "b", output_tokens=1),
        ]
    )
    assert [usage.in_call for usage in usages(events)] == [True, None, False, True, False]


def test_messages_without_a_name_are_counted_each() -> None:
    assert usages(heard([assistant("", input_tokens=100)] * 3))[-1].total_tokens == 300
    in_pieces = [
        message_start("", input_tokens=100, output_tokens=1),
        assistant("", input_tokens=100, output_tokens=1),
        assistant("", input_tokens=100, output_tokens=1),
        message_delta(None, "", output_tokens=50),
    ]
    assert usages(heard(in_pieces * 2))[-1].total_tokens == 300


def test_what_a_message_grew_by_is_its_own_models() -> None:
    def start(model: str, identity: str, parent: str | None = None) -> str:
        message = {"id": identity, "model": model, "usage": {"input_tokens": 10, "output_tokens": 1}}
        return line(type="stream_event", parent_tool_use_id=parent, event={"type": "message_start", "message": message})

    events = heard([start("large", "a"), start("small", "s", "toolu_1"), message_delta(None, "a", output_tokens=50)])
    assert [usage.model for usage in usages(events)] == ["large", "small", "large"]


def test_what_is_kept_for_an_hour_is_told_apart() -> None:
    usage = {"cache_creation_input_tokens": 30, "cache_creation": {"ephemeral_1h_input_tokens": 20}}
    (told,) = usages(heard([line(type="assistant", message={"id": "a", "model": "m", "usage": usage})]))
    assert (told.cache_creation_tokens, told.cache_creation_1h_tokens) == (30, 20)


@pytest.mark.parametrize("resets_at", ["1" + "0" * 400, "-1", "1.5", '"soon"', "9007199254740991", "1794790100000"])
def test_an_absurd_reset_is_none(resets_at: str) -> None:
    info = f'{{"status":"rejected","resetsAt":{resets_at}}}'
    assert heard([f'{{"type":"rate_limit_event","rate_limit_info":{info}}}']) == [RateLimited("rejected", None, "")]


@rows("depth", [100, 500, 700, 800, 900, 950, 970, 5000])
def test_depth_breaks_neither_transcript_nor_journal(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    blocks = f'[{{"type":"tool_use","id":"a","name":"b","input":{{"a":{deep}}}}}]'
    journaled(heard([f'{{"type":"assistant","message":{{"content":{blocks}}}}}']))
    journaled(heard([f'{{"type":{deep}}}', f'{{"type":"result","structured_output":{deep},"total_cost_usd":{deep}}}']))


# Lines that no agent should print.

KEYS = [
    "api_error_status", "attempt", "content", "contextWindow", "error", "error_status", "errors", "fallback_model",
    "id", "input", "input_tokens", "is_error", "isReplay", "isSynthetic", "kind", "message", "model", "modelUsage",
    "name", "origin", "outputTokens", "parent_tool_use_id", "permission_denials", "permissionMode", "rateLimitType",
    "rate_limit_info", "resetsAt", "result", "session_id", "status", "structured_output", "subtype", "summary",
    "terminal_reason", "text", "thinking", "tool_input", "tool_name", "tool_use_id", "tools", "total_cost_usd",
    "usage", "claude_code_version",
]  # fmt: skip
TYPES = ["system", "assistant", "user", "result", "rate_limit_event", "text", "thinking", "tool_use", "tool_result"]
SUBTYPES = ["init", "api_retry", "model_fallback", "status", "success", "compact_boundary"]
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400), 2**53, 0, 1])
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from([*TYPES, *SUBTYPES, "rejected", "<synthetic>"])
)


def records(values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    typed = st.fixed_dictionaries({}, optional={"type": st.sampled_from(TYPES), "subtype": st.sampled_from(SUBTYPES)})
    rest = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)
    return st.builds(lambda known, other: other | known, typed, rest)


JUNK = records(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | records(inner), max_leaves=12))


@given(st.lists(st.text(st.characters()), max_size=5))
def test_no_text_makes_it_raise(texts: list[str]) -> None:
    journaled(heard(texts))


@given(st.lists(JUNK, max_size=4))
def test_no_value_in_any_known_key_makes_it_raise(junk: list[dict[str, object]]) -> None:
    journaled(heard([json.dumps(record) for record in junk]))


@given(st.sampled_from(EVERY_CAPTURE), st.data())
def test_a_capture_with_one_value_replaced_never_makes_it_raise(capture: str, data: st.DataObject) -> None:
    lines = lines_of(capture)
    number = data.draw(st.integers(min_value=0, max_value=len(lines) - 1))
    record = json.loads(lines[number] or "{}")
    if isinstance(record, dict) and record:
        record[data.draw(st.sampled_from(sorted(record)))] = data.draw(PLAIN | JUNK)
        lines[number] = json.dumps(record)
    journaled(heard(lines))


@rows("capture", EVERY_CAPTURE)
def test_a_stream_cut_at_any_byte_of_its_last_line_never_makes_it_raise(capture: str) -> None:
    *before, last = [text for text in lines_of(capture) if text]
    whole = last.encode()
    for cut in range(0, len(whole), max(1, len(whole) // 400)):
        events = heard([*before, whole[:cut].decode("utf-8", "replace")])
        assert len(turns(events)) == len(turns(heard(before)))


@pytest.mark.spec("3.1-l", "3.6-b")
def test_noise_between_the_lines_changes_nothing_else() -> None:
    lines = lines_of("01-")
    noisy = [text for original in lines for text in ("\x1b[31mwarning", original)]
    kept = [
        event for event in heard(noisy) if not (isinstance(event, Meta) or event == Text(Tag.SYS, "\x1b[31mwarning"))
    ]
    assert kept == heard(lines)


def test_output_with_control_characters_arrives_as_it_is() -> None:
    output = next(event for event in heard_in("07g-") if isinstance(event, ToolOutput))
    assert "\ufffd" in output.text
    assert "\u2028" in output.text or "\x00" in output.text
