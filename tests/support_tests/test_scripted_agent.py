"""The scripted agent by itself: what it prints, hears and spends, and how it ends."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.conversation import CLAUDE_ARGS, Conversation
from tests.support.scripted_agent import (
    ScriptedAgent,
    Session,
    Step,
    Stray,
    answer,
    api_error,
    background,
    bill,
    deny,
    exit,  # noqa: A004 - what the agent does
    hang,
    ignore_signals,
    kill_self,
    no_exit_after_result,
    rate_limit,
    raw,
    result_subtype,
    run,
    say,
    scripted_agent,
    spawn,
    stderr,
    structured,
    summary,
    think,
    write,
)
from tests.support.tokens import ONE_MESSAGE, Tokens
from tests.support.waiting import is_alive, kill_tree, pid_in, wait_until

SESSION_ID = "11111111-2222-4333-8444-555555555555"


class Talk(Conversation):
    """A start of the scripted agent in `tmp_path/cwd`."""

    def __init__(self, agent: ScriptedAgent, *args: str) -> None:
        cwd = agent.path.parent.parent / "cwd"
        cwd.mkdir(exist_ok=True)
        super().__init__([agent.path, *CLAUDE_ARGS, *args], cwd, dict(os.environ))


def agent_for(tmp_path: Path, *sessions: Session, **options: Any) -> ScriptedAgent:
    return scripted_agent(tmp_path / "bin", sessions, **options)


def whole_session(agent: ScriptedAgent, *messages: str) -> tuple[int, list[dict[str, Any]]]:
    """Send messages, each after the result of the one before, and return the exit code and all events."""
    with Talk(agent) as talk:
        for number, message in enumerate(messages or ("go",), 1):
            talk.say(message)
            talk.wait_for("result", number)
        return talk.end(), talk.events


def test_work_is_done_and_told_block_by_block(tmp_path: Path) -> None:
    agent = agent_for(
        tmp_path,
        [
            think("hm"),
            say("I write"),
            write("d/a.txt", "a\n"),
            run("cat d/a.txt; echo oops >&2; exit 3"),
            summary("did"),
        ],
    )
    with Talk(agent, "--session-id", SESSION_ID) as talk:
        talk.say("go")
        result = talk.wait_for("result")
        assert talk.end() == 0
        events = talk.events

    assert (tmp_path / "cwd" / "d" / "a.txt").read_text() == "a\n"
    kinds = [event["type"] for event in events]
    assert kinds == ["system", "system", *["assistant"] * 3, "user", "assistant", "user", "assistant", "user", "result"]
    init = events[0]
    assert {event["session_id"] for event in events} == {SESSION_ID}
    assert (init["subtype"], init["cwd"], init["model"]) == ("init", str(tmp_path / "cwd"), "claude-sonnet-5-5")
    assert init["tools"] == ["Bash", "Edit", "Glob", "Grep", "Read", "StructuredOutput", "Write"]
    messages = [event["message"] for event in events if event["type"] == "assistant"]
    assert [message["content"][0]["type"] for message in messages] == ["thinking", "text", *["tool_use"] * 3]
    assert len({message["id"] for message in messages[:3]}) == 1
    assert len({message["id"] for message in messages}) == 3
    assert {message["usage"]["output_tokens"] for message in messages} == {1}
    bash = events[7]
    assert bash["message"]["content"][0]["content"] == "Exit code 3\na\noops"
    assert bash["message"]["content"][0]["tool_use_id"] == events[6]["message"]["content"][0]["id"]
    assert (result["subtype"], result["is_error"], result["num_turns"]) == ("success", False, 4)
    assert (result["structured_output"], result["result"]) == ({"summary": "did"}, '{"summary":"did"}')


def test_each_start_plays_the_next_session_and_the_last_repeats(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [summary("one")], [summary("two")])
    summaries = [whole_session(agent, f"go {number}")[1][-1]["structured_output"]["summary"] for number in range(3)]
    assert summaries == ["one", "two", "two"]
    assert agent.heard == ["go 0", "go 1", "go 2"]
    assert len(agent.starts) == 3
    assert len({start["pid"] for start in agent.starts}) == 3
    assert agent.starts[0]["argv"] == list(CLAUDE_ARGS)
    assert agent.starts[0]["cwd"] == str(tmp_path / "cwd")
    assert agent.starts[0]["env"]["HOME"] == os.environ["HOME"]


def test_each_message_is_answered_by_the_next_turn_and_cost_adds_up(tmp_path: Path) -> None:
    bigger = Tokens(2000, 50, 0, 100)
    session = [[answer("no")], [bill(cost=0.5, tokens=bigger), structured({"bad": 1})], [summary("fine")]]
    agent = agent_for(tmp_path, session)
    code, events = whole_session(agent, "a", "b", "c")
    results = [event for event in events if event["type"] == "result"]

    assert code == 0
    assert sum(event.get("subtype") == "init" for event in events) == 3
    assert ["structured_output" in result for result in results] == [False, True, True]
    assert [result["total_cost_usd"] for result in results] == pytest.approx([0.02, 0.52, 1.02])
    assert [result["usage"]["input_tokens"] for result in results] == [2468, 2000, 2000]
    assert [result["modelUsage"]["claude-sonnet-5-5"]["inputTokens"] for result in results] == [2468, 4468, 6468]
    assert results[-1]["modelUsage"]["claude-sonnet-5-5"]["contextWindow"] == 1_000_000
    assert [result["result_index"] for result in results] == [0, 1, 2]
    assert agent.total_cost == pytest.approx(1.02)
    assert agent.tokens == ONE_MESSAGE + ONE_MESSAGE + bigger + bigger
    assert agent.heard == ["a", "b", "c"]


ERROR = api_error(529, "API Error: 529 Overloaded", error="server_error")


@pytest.mark.parametrize(
    ("session", "code", "ending"),
    [
        ([ERROR], 1, {"subtype": "success", "is_error": True, "api_error_status": 529, "modelUsage": {}}),
        ([result_subtype("error_max_turns", ["Reached"])], 1, {"subtype": "error_max_turns", "errors": ["Reached"]}),
        ([[ERROR], [summary("x")]], 0, {"subtype": "success", "is_error": False, "result_index": 1}),
        (
            [deny("Bash", {"command": "rm"}), summary("x")],
            0,
            {"permission_denials": [{"tool_name": "Bash", "tool_input": {"command": "rm"}}]},
        ),
    ],
)
def test_the_exit_code_follows_the_last_result(
    tmp_path: Path, session: Session, code: int, ending: dict[str, Any]
) -> None:
    agent = agent_for(tmp_path, session)
    messages = ["go", "again"] if isinstance(session[0], list) else ["go"]
    exit_code, events = whole_session(agent, *messages)
    result = events[-1]
    for denial in result["permission_denials"]:
        del denial["tool_use_id"]
    assert exit_code == code
    assert result | ending == result


def test_a_message_during_a_turn_is_folded_into_it(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [[run("while ! test -e go; do sleep 0.01; done"), summary("one")], [summary("two")]])
    with Talk(agent) as talk:
        talk.say("first")
        talk.wait_for("assistant")
        talk.say("second")
        wait_until(lambda: len(agent.heard) == 2, "second message heard")
        (tmp_path / "cwd" / "go").touch()
        talk.wait_for("result")
        assert talk.end() == 0
        assert [event["type"] for event in talk.events].count("result") == 1


@pytest.mark.parametrize("steps", [[run("touch began; sleep 60")], [say("hm"), hang()]])
def test_an_interrupt_ends_the_turn_and_the_session_goes_on(tmp_path: Path, steps: list[Step]) -> None:
    agent = agent_for(tmp_path, [steps, [summary("wrapped up")]])
    with Talk(agent) as talk:
        talk.say("go")
        talk.wait_for("assistant")
        talk.interrupt()
        assert talk.wait_for("control_response")["response"]["request_id"] == "r1"
        aborted = talk.wait_for("result")
        talk.say("wrap up")
        assert talk.wait_for("result", 2)["structured_output"] == {"summary": "wrapped up"}
        assert talk.end() == 0
    assert (aborted["subtype"], aborted["is_error"]) == ("error_during_execution", True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("steps", [[say("hm"), run("echo $$ > pid; sleep 60")], [say("hm"), hang()], [summary("idle")]])
def test_signals_end_it_as_they_end_claude(tmp_path: Path, steps: list[Step], number: int, code: int) -> None:
    agent = agent_for(tmp_path, steps)
    pidfile = tmp_path / "cwd" / "pid"
    with Talk(agent) as talk:
        talk.say("go")
        talk.wait_for("assistant")
        if steps[-1] == summary("idle"):
            talk.wait_for("result")
        if "run" in steps[-1].fields.values():
            wait_until(lambda: pidfile.exists() and pidfile.read_text().endswith("\n"), "the command")
        talk.process.send_signal(number)
        assert talk.process.wait(90) == code
    if pidfile.exists():
        assert not is_alive(pid_in(pidfile))


def test_signals_and_interrupts_can_be_ignored(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [ignore_signals(), say("deaf"), hang()])
    with Talk(agent) as talk:
        talk.say("go")
        talk.wait_for("assistant")
        talk.interrupt()
        talk.process.send_signal(signal.SIGINT)
        talk.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "control_request" in (tmp_path / "bin" / "heard.jsonl").read_text(), "the interrupt heard")
        assert [event["type"] for event in talk.events] == ["system", "assistant"]
        assert talk.process.poll() is None
        talk.process.kill()
        assert talk.process.wait(90) == -signal.SIGKILL


def test_it_can_outstay_its_stdin(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [no_exit_after_result(), summary("x")])
    with Talk(agent) as talk:
        talk.say("go")
        talk.wait_for("result")
        with pytest.raises(subprocess.TimeoutExpired):
            talk.end(timeout=0.3)
        talk.process.terminate()
        assert talk.process.wait(90) == 143


@pytest.mark.parametrize(
    ("step", "code"), [(exit(3), 3), (kill_self(signal.SIGSEGV), -11), (kill_self(signal.SIGKILL), -9)]
)
def test_it_can_die_without_a_result(tmp_path: Path, step: Step, code: int) -> None:
    with Talk(agent_for(tmp_path, [say("so far"), stderr("boom\n"), step])) as talk:
        talk.say("go")
        assert talk.process.wait(90) == code
        assert [event["type"] for event in talk.events] == ["system", "assistant"]
        assert talk.stderr == "boom\n"


def test_bytes_are_printed_as_they_are(tmp_path: Path) -> None:
    garbage = b'\xff\x00{"half": \n\xe2\x80\xa8'
    with Talk(agent_for(tmp_path, [raw(garbage), raw("é\n"), exit(0)])) as talk:
        talk.say("go")
        talk.process.wait(90)
        assert (
            talk.stdout.encode(errors="replace").split(b"\n", 1)[1]
            == garbage.decode(errors="replace").encode() + "é\n".encode()
        )


def test_a_background_task_starts_a_turn_of_its_own_even_after_stdin_ended(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [background(0.2, then=[summary("after")]), summary("before")])
    with Talk(agent) as talk:
        talk.say("go")
        assert "origin" not in talk.wait_for("result")
        assert talk.end() == 0
        events = talk.events
    first, second = [event for event in events if event["type"] == "result"]
    assert (first["structured_output"]["summary"], second["structured_output"]["summary"]) == ("before", "after")
    assert second["origin"]["kind"] == "task-notification"
    assert second["total_cost_usd"] == pytest.approx(0.03)
    subtypes = [event.get("subtype") for event in events if event["type"] == "system"]
    assert subtypes == [
        "init",
        "background_tasks_changed",
        "task_started",
        "task_updated",
        "task_notification",
        "background_tasks_changed",
        "init",
    ]


def test_a_usage_limit_is_told_as_an_event(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [rate_limit("rejected", 1_800_000_000), api_error(429, "limit", error="rate_limit")])
    code, events = whole_session(agent)
    assert code == 1
    assert (
        events[1]["rate_limit_info"] | {"status": "rejected", "resetsAt": 1_800_000_000} == events[1]["rate_limit_info"]
    )


@pytest.mark.parametrize("kind", ["child", "setsid", "double_fork", "stripped", "ignore_term", "holds_stdout"])
def test_a_stray_outlives_the_agent(tmp_path: Path, kind: Stray) -> None:
    pidfile = tmp_path / "pid"
    agent = agent_for(tmp_path, [spawn(pidfile, kind), summary("x")])
    # A pipe, unlike the files of the other tests, shows who holds it.
    talk = subprocess.Popen([agent.path, *CLAUDE_ARGS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert talk.stdin
    assert talk.stdout
    talk.stdin.write(b'{"type":"user","message":{"role":"user","content":"go"}}\n')
    talk.stdin.close()
    assert talk.wait(90) == 0
    stray = pid_in(pidfile)
    try:
        assert is_alive(stray)
        assert (os.getsid(stray) == talk.pid or os.getsid(stray) == os.getsid(0)) == (kind == "child")
        held = Path(f"/proc/{stray}/fd/1").samefile(f"/proc/self/fd/{talk.stdout.fileno()}")
        assert held == (kind == "holds_stdout")
        # A program that has just begun has no environment yet: the kernel writes it after it has closed our pipe.
        told = Path(f"/proc/{stray}/environ")
        wait_until(lambda: (b"HOME=" in told.read_bytes()) == (kind != "stripped"), "its environment")
        os.kill(stray, signal.SIGTERM)
        if kind == "ignore_term":
            assert is_alive(stray)
        else:
            wait_until(lambda: not is_alive(stray), "the stray's end")
    finally:
        kill_tree(stray)
        talk.stdout.close()
    assert agent.heard == ["go"]


def test_it_says_its_version_without_counting_as_a_start(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [summary("x")])
    version = subprocess.run([agent.path, "--version"], capture_output=True, text=True)
    assert version.stdout == "2.1.325 (Claude Code)\n"
    assert agent.starts == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([*CLAUDE_ARGS, "--zork"], "unknown option '--zork'"),
        ([word for word in CLAUDE_ARGS if word != "--verbose"], "requires --verbose"),
        ([*CLAUDE_ARGS, "--session-id", "abc"], "Invalid session ID"),
        ([*CLAUDE_ARGS, "--output-format", "text"], "speaks only stream-json"),
    ],
)
def test_it_refuses_what_claude_refuses(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    agent = agent_for(tmp_path, [summary("x")])
    refused = subprocess.run([agent.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert complaint in refused.stderr


@pytest.mark.parametrize(("given", "code"), [("", 0), ("not json\n", 1)])
def test_without_a_message_it_prints_no_event(tmp_path: Path, given: str, code: int) -> None:
    agent = agent_for(tmp_path, [summary("x")])
    done = subprocess.run([agent.path, *CLAUDE_ARGS], input=given, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")


def test_many_starts_at_once_play_one_session_each(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, *[[summary(str(number))] for number in range(8)])
    message = json.dumps({"type": "user", "message": {"role": "user", "content": "go"}}) + "\n"
    talks = [
        subprocess.Popen([agent.path, *CLAUDE_ARGS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    outputs = [talk.communicate(message, timeout=20)[0] for talk in talks]
    said = [json.loads(output.splitlines()[-1])["structured_output"]["summary"] for output in outputs]
    assert sorted(said) == [str(number) for number in range(8)]
    assert len(agent.heard) == 8


def test_a_session_holds_turns_or_steps_but_not_both(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        agent_for(tmp_path, [summary("x"), [summary("y")]])  # pyright: ignore[reportArgumentType] - the point of it
