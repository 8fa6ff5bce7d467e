"""Codex, over captured sessions of 0.166.0: its JSON, and what it prints for people."""

from __future__ import annotations

import json

import pytest

from ralph.agents.codex import CodexTranscript
from ralph.core.events import (
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
from ralph.core.failures import End, Evidence, classify
from tests.agents import captures
from tests.support.rows import rows


def lines_of(capture: str) -> list[str]:
    (path,) = (path for path in captures.captures_of("codex") if path.name.startswith(capture))
    return captures.lines_of(path)


def heard(lines: list[str]) -> list[Event]:
    transcript = CodexTranscript()
    return [event for line in lines for event in transcript.feed(line)] + transcript.flush()


def heard_in(*captures: str) -> list[Event]:
    return heard([line for capture in captures for line in lines_of(capture)])


def texts(events: list[Event], tag: Tag) -> list[str]:
    return [event.text for event in events if isinstance(event, Text) and event.tag is tag]


def turns(events: list[Event]) -> list[TurnEnded]:
    return [event for event in events if isinstance(event, TurnEnded)]


def usages(events: list[Event]) -> list[Usage]:
    return [event for event in events if isinstance(event, Usage)]


def line(kind: str, **fields: object) -> str:
    return json.dumps({"type": kind, **fields})


def item(step: str, **fields: object) -> str:
    return line(f"item.{step}", item=fields)


def failed(message: str) -> list[Event]:
    return heard([line("thread.started", thread_id="t"), line("turn.failed", error={"message": message})])[1:]


# JSON.


@pytest.mark.spec("2.4-c")
def test_a_session_with_tools_event_by_event() -> None:
    events = heard_in("10b-")
    assert events[0] == SessionStarted("01a1e1a4-503d-78b3-ad66-da534609ac46", "", "", (), "")
    notice, *rest = events[1:]
    assert isinstance(notice, Text)
    assert (notice.tag, notice.text[:14]) == (Tag.SYS, "Model metadata")
    assert rest == [
        Text(Tag.THINK, "**Planning** look"),
        Text(Tag.AI, "Let me look."),
        ToolStart("item_3", "shell", {"command": "/bin/bash -lc 'echo hi; ls; exit 0'"}),
        ToolOutput("item_3", "hi\na.txt\n"),
        ToolEnd("item_3", ToolStatus.OK),
        ToolStart("item_4", "shell", {"command": "/bin/bash -lc 'echo bad >&2; exit 3'"}),
        ToolOutput("item_4", "bad\n"),
        ToolEnd("item_4", ToolStatus.FAIL),
        Text(Tag.AI, "All done: DONE"),
        Usage(3000, 150, 3150, cache_creation_tokens=0, cache_read_tokens=300),
        TurnEnded(is_error=False, subtype="success", text="All done: DONE", structured_output=None),
    ]


@pytest.mark.spec("2.3-d")
def test_the_last_message_is_the_answer_and_an_object_is_structured() -> None:
    (turn,) = turns(heard_in("10f-"))
    assert (turn.text, turn.structured_output) == ('{"summary":"ok"}', {"summary": "ok"})


@pytest.mark.parametrize(
    ("answer", "structured"),
    [("{}", {}), (' {"summary":1}\n', {"summary": 1}), ("[1]", None), ("not json at all", None), ('{"summary":', None)],
)
def test_only_an_object_is_structured(answer: str, structured: object) -> None:
    events = heard([item("completed", id="a", type="agent_message", text=answer), line("turn.completed")])
    assert turns(events)[0].structured_output == structured


def test_an_answer_does_not_outlive_its_turn() -> None:
    said = item("completed", id="a", type="agent_message", text="one")
    events = heard([said, line("turn.completed"), line("turn.started"), line("turn.completed")])
    assert [turn.text for turn in turns(events)] == ["one", ""]


def test_an_error_ends_nothing() -> None:
    events = heard_in("10j6-")
    assert "Reconnecting... 1/1" in texts(events, Tag.SYS)[1]
    assert [(turn.is_error, turn.text) for turn in turns(events)] == [(False, "recovered")]


@pytest.mark.spec("2.6-c")
def test_a_resumed_thread_is_the_same_session_and_counts_on() -> None:
    events = heard_in("10k-", "10k2-")
    assert [event.type for event in events].count("session_started") == 1
    assert [told.total_tokens for told in usages(events)] == [1050, 2100]
    assert [turn.text for turn in turns(events)] == ["first answer", "second answer"]


def test_another_thread_is_counted_besides() -> None:
    other = [text.replace("01a1e1a4-d7b1", "another") for text in lines_of("10k-")]
    assert [told.total_tokens for told in usages(heard([*lines_of("10k-"), *other]))] == [1050, 2100]


@pytest.mark.spec("2.5-d")
def test_items_of_a_later_process_are_tools_of_their_own() -> None:
    process = [
        line("thread.started", thread_id="t"),
        item("started", id="item_0", type="command_execution", command="ls", status="in_progress"),
        item("completed", id="item_0", type="command_execution", command="ls", exit_code=0, status="completed"),
    ]
    events = heard([*process, *process, *process])
    assert [event.id for event in events if isinstance(event, ToolStart)] == ["item_0", "2:item_0", "3:item_0"]
    assert [event.id for event in events if isinstance(event, ToolEnd)] == ["item_0", "2:item_0", "3:item_0"]


def test_figures_never_fall() -> None:
    told = [line("turn.completed", usage={"input_tokens": tokens}) for tokens in (100, 50, 2**53, "x", 200)]
    events = heard(told)
    assert [usage.prompt_tokens for usage in usages(events)] == [100, 100, 100, 100, 200]
    said = [event.text for event in events if isinstance(event, Text)]
    assert said == [
        f"the agent reports a wrong figure, input_tokens: {2**53} is not a number of tokens; ralph ignores it"
    ]


def test_a_turn_that_tells_no_usage_has_none() -> None:
    assert [event.type for event in heard([line("turn.completed")])] == ["turn_ended"]


@pytest.mark.parametrize("capture", ["10p3-", "10q2-"])
def test_a_command_that_goes_on_when_its_turn_ends_ends_unknown(capture: str) -> None:
    kinds = [event.type for event in heard_in(capture)]
    assert kinds[-3:] == ["tool_end", "usage", "turn_ended"]
    assert kinds.count("tool_start") == kinds.count("tool_end") == 1


def test_a_command_that_the_stream_leaves_open_ends_unknown() -> None:
    assert heard(lines_of("10p3-")[:5])[-1] == ToolEnd("item_2", ToolStatus.UNKNOWN)


@pytest.mark.parametrize(
    ("told", "name", "tool_input", "output", "status"),
    [
        (
            {"type": "file_change", "changes": [{"path": "a.py", "kind": "add"}], "status": "completed"},
            "edit",
            {"path": "a.py", "changes": [{"path": "a.py", "kind": "add"}]},
            "",
            ToolStatus.OK,
        ),
        (
            {"type": "file_change", "changes": [], "status": "failed"},
            "edit",
            {"path": "", "changes": []},
            "",
            ToolStatus.FAIL,
        ),
        (
            {
                "type": "mcp_tool_call",
                "server": "docs",
                "tool": "find",
                "arguments": {"q": "x"},
                "result": {"content": [{"type": "text", "text": "found"}]},
                "status": "completed",
            },
            "docs.find",
            {"q": "x"},
            "found",
            ToolStatus.OK,
        ),
        (
            {"type": "mcp_tool_call", "server": "s", "tool": "t", "error": {"message": "boom"}, "status": "failed"},
            "s.t",
            {},
            "boom",
            ToolStatus.FAIL,
        ),
        ({"type": "web_search", "query": "python"}, "web_search", {"query": "python"}, "", ToolStatus.OK),
        (
            {"type": "command_execution", "command": "ls", "status": "declined"},
            "shell",
            {"command": "ls"},
            "",
            ToolStatus.FAIL,
        ),
        (
            {"type": "command_execution", "command": "ls", "status": "in_progress"},
            "shell",
            {"command": "ls"},
            "",
            ToolStatus.UNKNOWN,
        ),
    ],
)
def test_a_tool_that_is_told_only_when_it_is_done(
    told: dict[str, object], name: str, tool_input: dict[str, object], output: str, status: ToolStatus
) -> None:
    middle = [ToolOutput("i", output)] if output else []
    start, end = ToolStart("i", name, tool_input), ToolEnd("i", status)
    assert heard([line("turn.started"), item("completed", id="i", **told)]) == [start, *middle, end]


def test_a_search_begins_when_its_query_is_known() -> None:
    search = {"id": "i", "type": "web_search"}
    assert heard([item("started", query="", **search), item("completed", query="python", **search)]) == [
        ToolStart("i", "web_search", {"query": "python"}),
        ToolEnd("i", ToolStatus.OK),
    ]


def test_a_plan_is_a_thought_whenever_it_changes() -> None:
    def todo(step: str, done: bool) -> str:
        steps = [{"text": "look", "completed": True}, {"text": "mend", "completed": done}]
        return item(step, id="i", type="todo_list", items=steps)

    events = heard([todo("started", False), todo("updated", False), todo("updated", True), todo("completed", True)])
    assert texts(events, Tag.THINK) == ["Plan:\n[x] look\n[ ] mend", "Plan:\n[x] look\n[x] mend"]


@pytest.mark.parametrize("text", [line("brand.new"), item("completed", type="brand_new"), "{}", "17", "null"])
def test_what_is_not_known_is_a_meta(text: str) -> None:
    assert [event.type for event in heard([line("turn.started"), text])] == ["meta"]


@rows(
    ("capture", "end"),
    [
        ("10j-", End.AUTH),
        ("10j2-", End.OVERLOADED),
        ("10j3-", End.USAGE_LIMIT),
        ("10j4-", End.OVERLOADED),
        ("10j10-", End.ERROR),
        ("10s-", End.AUTH),
        ("10f-", End.OK),
        ("10a-", End.INVALID),
        ("10p3-", End.INVALID),
    ],
)
def test_a_turn_ends_in_the_row_it_belongs_to(capture: str, end: End) -> None:
    events = heard_in(capture)
    quotas = [event for event in events if isinstance(event, RateLimited)]
    assert classify(Evidence(turn=turns(events)[-1], quota=quotas[-1] if quotas else None)).end is end


@rows(
    ("message", "end"),
    [
        ("unexpected status 403 Forbidden: no", End.AUTH),
        ("unexpected status 404 Not Found: The model `gpt-9` does not exist, url: http://x/v1/responses", End.CONFIG),
        ("unexpected status 503 Service Unavailable: later", End.OVERLOADED),
        ("stream disconnected before completion: stream closed before response.completed", End.NETWORK),
        ("Connection failed: error sending request for url (http://x/)", End.NETWORK),
        ("stream disconnected before completion: unexpected status 401 Unauthorized", End.AUTH),
        ("Codex ran out of room in the model's context window. Start a new thread.", End.TOO_LONG),
        ("Selected model is at capacity. Please try a different model.", End.OVERLOADED),
        ("rate limit exceeded: slow down", End.OVERLOADED),
        ("Missing environment variable: `OPENAI_API_KEY`.", End.AUTH),
        ("Quota exceeded. Check your plan and billing details.", End.BILLING),
        ('unexpected status 429 Too Many Requests: {"error":{"code":"insufficient_quota"}}', End.BILLING),
        ('{"detail":"The \'x\' model is not supported when using Codex with a ChatGPT account."}', End.CONFIG),
        ("You\u2019ve hit your usage limit. Try again later.", End.USAGE_LIMIT),
        ("You've hit your usage limit or try again at 3:28 PM.", End.USAGE_LIMIT),
        ("the tests for status 404 and the connection pool fail", End.ERROR),
        ("", End.ERROR),
    ],
)
def test_what_a_message_says_decides(message: str, end: End) -> None:
    events = failed(message)
    quotas = [event for event in events if isinstance(event, RateLimited)]
    assert classify(Evidence(turn=turns(events)[-1], quota=quotas[-1] if quotas else None)).end is end


@pytest.mark.usefixtures("utc")
def test_a_usage_limit_says_when_it_ends() -> None:
    quota, turn = heard_in("10j3-")[-2:]
    assert isinstance(quota, RateLimited)
    assert quota == RateLimited("rejected", 1_794_790_560.0, "codex")  # Nov 16th, 2026 12:56 AM
    assert isinstance(turn, TurnEnded)
    assert classify(Evidence(turn=turn, quota=quota)).resets_at == 1_794_790_560.0


@pytest.mark.parametrize(
    "when",
    ["3:28 PM", "Feb 31st, 2026 1:00 AM", "Foo 1st, 2026 1:00 AM", "Jan 1st, 2999 1:00 AM", "Jan 1st, 2026 0:00 AM"],
)
def test_a_time_that_is_none_is_not_guessed_at(when: str) -> None:
    quota, _ = failed(f"You've hit your usage limit. Try again later or try again at {when}.")
    assert quota == RateLimited("rejected", None, "codex")


# For people.

HEADER = ["OpenAI Codex v0.166.0", "--------", "workdir: /srv/repo", "model: m", "session id: s", "--------", "user"]
BOLD, RESET = "\x1b[1m", "\x1b[0m"
COLOURED = [*HEADER[:2], f"{BOLD}workdir:{RESET} /srv/repo", *HEADER[3:6], "\x1b[36muser\x1b[0m"]
CODEX = "\x1b[35m\x1b[3mcodex\x1b[0m\x1b[0m"


def for_people(*lines: str) -> list[Event]:
    meta, started, *rest = heard([*HEADER, *lines])
    assert (meta.type, started.type) == ("meta", "session_started")
    return rest


@pytest.mark.spec("2.12-bce")
@pytest.mark.parametrize("capture", ["10c-", "10c2-"])
def test_a_session_as_people_see_it(capture: str) -> None:
    events = heard_in(capture)
    start = next(number for number, event in enumerate(events) if isinstance(event, Meta))
    assert {event.tag for event in events[:start] if isinstance(event, Text)} == {Tag.SYS}
    meta, started, prompt, notice, *rest = events[start:]
    assert isinstance(meta, Meta)
    assert isinstance(started, SessionStarted)
    assert started == SessionStarted(started.session_id, "fake-model", "0.166.0", (), "never")
    assert len(started.session_id) == 36
    assert prompt == Text(Tag.PROMPT, "do it")
    assert isinstance(notice, Text)
    assert (notice.tag, notice.text[:23]) == (Tag.SYS, "warning: Model metadata")
    assert rest == [
        Text(Tag.THINK, "**Planning** look"),
        Text(Tag.AI, "Let me look."),
        ToolStart("exec-1", "shell", {"command": "/bin/bash -lc 'echo hi; ls; exit 0'"}),
        ToolOutput("exec-1", "hi"),
        ToolOutput("exec-1", "a.txt"),
        ToolEnd("exec-1", ToolStatus.OK, 0),
        ToolStart("exec-2", "shell", {"command": "/bin/bash -lc 'echo bad >&2; exit 3'"}),
        ToolOutput("exec-2", "bad"),
        ToolEnd("exec-2", ToolStatus.FAIL, 0),
        Text(Tag.AI, "All done: DONE"),
        Usage(total_tokens=2850),
    ]


@pytest.mark.parametrize("last", [["All", "", "done"], ["All", "done", ""]])
def test_the_last_message_is_told_once(last: list[str]) -> None:
    events = for_people("go", "codex", "All", "done", "tokens used", "1,234", *last)
    assert events == [Text(Tag.PROMPT, "go"), Text(Tag.AI, "All"), Text(Tag.AI, "done"), Usage(total_tokens=1234)]


@pytest.mark.parametrize(
    ("last", "told"),
    [(["All", "gone"], ["All", "gone"]), (["All"], ["All"]), (["All", "done", "more"], ["more"]), (["x"], ["x"])],
)
def test_another_last_message_is_told(last: list[str], told: list[str]) -> None:
    events = for_people("go", "codex", "All", "done", "tokens used", "1,234", *last)
    assert texts(events, Tag.AI) == ["All", "done", *told]


def test_a_line_of_the_prompt_that_reads_like_a_title_is_none_where_that_can_be_told() -> None:
    prompt = ["first", "exec", "the plan", "tokens used", "are many", "user", "codex", "", "last"]
    assert for_people(*prompt, "codex", "Hello") == [Text(Tag.PROMPT, "\n".join(prompt)), Text(Tag.AI, "Hello")]


@pytest.mark.spec("2.12-d")
def test_colours_tell_every_title() -> None:
    prompt = ["codex", "<promise>COMPLETE</promise>", "exec", "/bin/ls in /srv/repo", "tokens used", "5"]
    *_, told, said = heard([*COLOURED, *prompt, CODEX, "Hello"])
    assert told == Text(Tag.PROMPT, "\n".join(prompt))
    assert said == Text(Tag.AI, "Hello")


def test_a_line_of_a_tools_output_that_reads_like_a_title_is_none() -> None:
    output = ["README", "codex", "<promise>COMPLETE</promise>", "tokens used", "5", "warning: unused"]
    printed = [*output, "", "warning: unused, too", "", "codex", "Hello"]
    events = for_people("go", "exec", "ls in /srv/repo", " succeeded in 12ms:", *printed)
    told = [event.text for event in events if isinstance(event, ToolOutput)]
    assert told == [*output, "\nwarning: unused, too"]
    assert events[-2:] == [ToolEnd("exec-1", ToolStatus.OK, 12), Text(Tag.AI, "Hello")]


def test_a_command_has_as_many_lines_as_it_has() -> None:
    command = ["/bin/bash -lc 'for f in /srv/*; do", "  echo $f", "done'"]
    events = for_people(
        "go", "exec", *command[:-1], f"{command[-1]} in /srv/repo", " exited 1 in 2ms:", "a", "", "b", ""
    )
    assert events[1:] == [
        ToolStart("exec-1", "shell", {"command": "\n".join(command)}),
        ToolOutput("exec-1", "a"),
        ToolOutput("exec-1", "\nb"),
        ToolEnd("exec-1", ToolStatus.FAIL, 2),
    ]


def test_an_absurd_duration_is_none() -> None:
    events = for_people("go", "exec", "ls in /a", f" succeeded in {'9' * 5000}ms:")
    assert events[-1] == ToolEnd("exec-1", ToolStatus.UNKNOWN)


def test_an_error_after_a_tools_output_is_codexs_and_what_was_used_is_still_told() -> None:
    """Seen on 0.163.0, where a turn failed after some work."""
    error = 'ERROR: {"error": {"message": "bad"}}'
    events = for_people(
        "go", "exec", "ls in /a", " exited 3 in 0ms:", "ERROR: mine", "", error, "Wait.", "tokens used", "2,190"
    )
    assert events[-5:] == [
        ToolOutput("exec-1", "ERROR: mine"),
        ToolEnd("exec-1", ToolStatus.FAIL, 0),
        Text(Tag.SYS, error),
        Text(Tag.SYS, "Wait."),
        Usage(total_tokens=2190),
    ]


PATCH = [
    "apply patch",
    "patch: completed",
    "/srv/README.md",
    "/srv/hello.txt",
    "diff --git a/README.md b/README.md",
    "+x",
]
BOLD_PATCH = [
    f"{BOLD}apply patch{RESET}",
    f"{BOLD}patch:{RESET} completed",
    *(f"\x1b[2m{path}{RESET}" for path in PATCH[2:4]),
]


@pytest.mark.parametrize(
    "lines", [[*HEADER, "go", *PATCH, "", "codex"], [*COLOURED, "go", *BOLD_PATCH, *PATCH[4:], "", CODEX]]
)
def test_files_are_changed(lines: list[str]) -> None:
    """Seen on 0.163.0: which files, then all that the turn has changed."""
    assert heard([*lines, "Changed."])[2:] == [
        Text(Tag.PROMPT, "go"),
        ToolStart(
            "patch-1",
            "edit",
            {
                "path": "/srv/README.md, /srv/hello.txt",
                "changes": [{"path": "/srv/README.md"}, {"path": "/srv/hello.txt"}],
            },
        ),
        ToolOutput("patch-1", "diff --git a/README.md b/README.md"),
        ToolOutput("patch-1", "+x"),
        ToolEnd("patch-1", ToolStatus.OK),
        Text(Tag.AI, "Changed."),
    ]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(["patch: failed"], ToolStatus.FAIL), (["patch: in_progress"], ToolStatus.UNKNOWN), ([], ToolStatus.UNKNOWN)],
)
def test_a_change_that_did_not_come_about(outcome: list[str], status: ToolStatus) -> None:
    *_, start, end = heard([*COLOURED, "go", BOLD_PATCH[0], *outcome])
    assert (start, end) == (ToolStart("patch-1", "edit", {"path": "", "changes": []}), ToolEnd("patch-1", status))


def test_a_prompt_that_asks_for_a_patch_is_a_prompt() -> None:
    assert for_people("apply patch", "to it") == [Text(Tag.PROMPT, "apply patch\nto it")]


@pytest.mark.spec("2.14-j")
def test_commands_side_by_side_all_end() -> None:
    events = for_people(
        *("go", "exec", "ls in /a", "exec", "pwd in /a"),
        *(" succeeded in 1ms:", "/a", "", " exited 2 in 5ms:", "", "codex", "Done"),
    )
    assert [event for event in events if isinstance(event, ToolEnd)] == [
        ToolEnd("exec-2", ToolStatus.OK, 1),
        ToolEnd("exec-1", ToolStatus.FAIL, 5),
    ]


def test_a_command_without_an_end_ends_unknown() -> None:
    events = for_people("go", "exec", "sleep 99 in /a", "codex", "I do not wait")
    assert events[-2:] == [Text(Tag.AI, "I do not wait"), ToolEnd("exec-1", ToolStatus.UNKNOWN)]


def test_thoughts_are_told_by_their_title_or_by_being_dim() -> None:
    assert texts(for_people("go", "thinking", "hm", "codex", "Hello"), Tag.THINK) == ["hm"]
    dim = heard([*COLOURED, "go", "\x1b[2m**One**", "two\x1b[0m", CODEX, "Hello", "\x1b[2mthree\x1b[0m"])
    assert texts(dim, Tag.THINK) == ["**One**", "two", "three"]
    assert texts(dim, Tag.AI) == ["Hello"]


def test_bold_lines_of_a_prompt_are_no_thoughts() -> None:
    assert for_people("**Do** it", "**now**") == [Text(Tag.PROMPT, "**Do** it\n**now**")]


def test_a_second_process_is_the_same_session() -> None:
    process = [*HEADER, "go", "codex", "Hello", "tokens used", "1,000", "Hello"]
    events = heard([*process, *process])
    assert [event.type for event in events].count("session_started") == 1
    assert texts(events, Tag.PROMPT) == ["go", "go"]


# Which of the two.


def test_what_comes_before_is_not_the_agents() -> None:
    noise = ["WARNING: no PATH aliases", "", "{not json"]
    for lines in (lines_of("10a-"), HEADER):
        events = heard([*noise, *lines])
        assert events[:2] == [Text(Tag.SYS, noise[0]), Text(Tag.SYS, noise[2])]
        assert "session_started" in [event.type for event in events]


def test_what_is_never_decided_is_the_agents() -> None:
    assert heard(["one", "", '{"type":"text"}']) == [Text(Tag.AI, "one"), Text(Tag.AI, '{"type":"text"}')]


def test_no_more_is_held_back_than_fits() -> None:
    transcript = CodexTranscript()
    lines = ["x" * 1000] * 200
    told = [event for text in lines for event in transcript.feed(text)]
    assert len(told) == 200
    assert transcript.feed(lines_of("10a-")[0])[0].type == "session_started"


def test_a_failure_after_a_command_is_codexs_own_word_and_what_was_used_is_told() -> None:
    events = heard(lines_of("163-human-failed"))
    remarks = [event.text for event in events if isinstance(event, Text) and event.tag is Tag.SYS]
    assert [text.startswith("ERROR: ") for text in remarks] == [False, True, True]
    assert [event.total_tokens for event in events if isinstance(event, Usage)] == [2190]


def test_an_error_that_a_tool_prints_is_the_tools() -> None:
    lines = lines_of("163-human-failed")
    at = lines.index("bad")
    events = heard([*lines[:at], "ERROR: of the tool", *lines[at:]])
    assert any(isinstance(event, ToolOutput) and event.text == "ERROR: of the tool" for event in events)
