"""What an agent keeps of its own sessions: found by their id, read to the last line, and logged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ralph.agents.base import AgentLog
from ralph.agents.codex import CodexTranscript
from ralph.agents.registry import account_of
from ralph.core.events import Usage
from ralph.run.agent import own_log_of

THREAD = "01a1e3c5-6d1a-7df1-9b47-850644a54068"
STARTED = json.dumps({"type": "thread.started", "thread_id": THREAD})


def account(home: Path) -> AgentLog:
    found = account_of("codex", "codex", {"CODEX_HOME": str(home)})
    assert found is not None
    return found


def keep(home: Path, *records: object, thread: str = THREAD) -> Path:
    folder = home / "sessions" / "2026" / "11" / "16"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-2026-11-16T09-52-08-{thread}.jsonl"
    path.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    return path


def counted(total: int) -> dict[str, object]:
    info = {"total_token_usage": {"input_tokens": total, "output_tokens": 1}}
    return {"timestamp": "t", "ordinal": total, "type": "event_msg", "payload": {"type": "token_count", "info": info}}


def recorded(total: int) -> dict[str, object]:
    usage = {"input_tokens": total, "output_tokens": 1}
    return {"timestamp": "t", "type": "token_usage_record", "payload": {"thread_token_usage": usage}}


def printed(words: object) -> dict[str, object]:
    return {"timestamp": "t", "type": "response_item", "payload": {"type": "function_call_output", "output": words}}


@pytest.mark.parametrize("last", [counted(5), recorded(5)])
def test_the_last_word_on_the_thread_is_taken_and_logged(tmp_path: Path, last: object) -> None:
    keep(tmp_path, counted(3), recorded(4), last, printed("token_count"))
    keep(tmp_path, counted(9), thread="01a1e3c5-0000-7df1-9b47-850644a54068")
    log = tmp_path / "raw.ndjson"
    log.write_text(f"{STARTED}\n")
    (line,) = own_log_of(account(tmp_path), THREAD, log)
    assert log.read_bytes() == f"{STARTED}\n".encode() + line + b"\n"
    transcript = CodexTranscript()
    events = [event for text in log.read_text().splitlines() for event in transcript.feed(text)]
    assert [event.total_tokens for event in events if isinstance(event, Usage)] == [6]


def test_what_a_command_prints_is_no_account(tmp_path: Path) -> None:
    keep(tmp_path, counted(3), printed(counted(1)), printed(json.dumps(recorded(1))))
    (line,) = own_log_of(account(tmp_path), THREAD, tmp_path / "log")
    assert json.loads(line) == counted(3)


@pytest.mark.parametrize("session_id", ["", "*", "../../x", "[a-z]", THREAD.replace("8", "9")])
def test_a_session_that_has_no_account_leaves_the_log_as_it_is(tmp_path: Path, session_id: str) -> None:
    keep(tmp_path, counted(3))
    log = tmp_path / "log"
    assert own_log_of(account(tmp_path), session_id, log) == []
    assert own_log_of(account(tmp_path / "nowhere"), THREAD, log) == []
    assert not log.exists()


def test_a_line_that_is_still_being_written_does_not_count(tmp_path: Path) -> None:
    path = keep(tmp_path, counted(3))
    path.write_text(path.read_text() + json.dumps(counted(7), separators=(",", ":"))[:-4])
    (line,) = own_log_of(account(tmp_path), THREAD, tmp_path / "log")
    assert json.loads(line) == counted(3)


def test_only_codex_read_as_itself_keeps_one(tmp_path: Path) -> None:
    for agent, transcript in (("claude", "claude"), ("codex", "plain"), ("custom", "codex")):
        assert account_of(agent, transcript, {}) is None
    assert own_log_of(None, THREAD, tmp_path / "log") == []
