"""A script on disk: which session is played, and what becomes of a broken one."""

import json
import threading
from pathlib import Path

import pytest

from ralph.claude_cli.models.base import MessageEnd, ModelRequest, ModelSaid, Started, Thinking
from ralph.claude_cli.models.scripted import scripted
from ralph.core.errors import UsageError

NOTHING = ModelRequest([], [], [])


def said(path: Path, iteration: str, turns: int = 1) -> list[object]:
    model = scripted(f"scripted:{path}", iteration)
    heard = [list(model.ask(NOTHING, threading.Event())) for _ in range(turns)][-1]
    return [
        utterance.block.get("text", utterance.block.get("name"))
        for utterance in heard
        if isinstance(utterance, ModelSaid)
    ]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.json"
    sessions = [[[{"type": "text", "text": text}]] for text in ("one", "two", "three")]
    path.write_text(json.dumps(sessions))
    return path


@pytest.mark.parametrize(("iteration", "text"), [("", "one"), ("1", "one"), ("2", "two"), ("9", "three"), ("0", "one")])
def test_the_iteration_chooses_the_session_and_the_last_one_repeats(script: Path, iteration: str, text: str) -> None:
    assert said(script, iteration) == [text]


def test_a_session_that_runs_out_of_turns_ends_with_text(script: Path) -> None:
    assert said(script, "1", turns=2) == ["The script has ended."]


def test_a_call_gets_an_id_and_a_thought_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    turn = [{"type": "thinking", "thinking": "hm, well", "signature": ""}, {"type": "tool_use", "name": "Bash"}]
    path.write_text(json.dumps([[turn]]))
    started, thought, _, call, ended = scripted(f"scripted:{path}", "").ask(NOTHING, threading.Event())
    assert isinstance(started, Started)
    assert thought == Thinking(8)
    assert isinstance(call, ModelSaid)
    assert str(call.block["id"]).startswith("toolu_")
    assert call.block["input"] == {}
    assert isinstance(ended, MessageEnd)
    assert ended.stop_reason == "tool_use"


@pytest.mark.parametrize("content", ["{", '{"a": 1}', '["x"]', '[["x"]]', '[[["x"]]]', '[[[{"text": "no type"}]]]'])
def test_what_is_no_script_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"script\.json"):
        scripted(f"scripted:{path}", "")


def test_a_script_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: No such file"):
        scripted(f"scripted:{tmp_path / 'none.json'}", "")
