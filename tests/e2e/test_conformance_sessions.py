"""Both programs over several starts: sessions that go on, forks, names, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_conformance import Stage, bash
from tests.support.api_replies import Reply, Say
from tests.support.messages_api import MessagesApi
from tests.support.real_claude import claude_env

ONE, TWO = (f"{digit * 8}-2222-4333-8444-555555555555" for digit in "12")
JSON = ("-p", "--model", "sonnet", "--tools", "Bash", "--output-format", "json")
TEXT = ("-p", "--model", "sonnet", "--tools", "Bash")
STREAM = ("-p", "--model", "sonnet", "--tools", "Bash", "--output-format", "stream-json", "--verbose")
NEW = (*JSON, "--session-id", ONE, "--", "hi")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@dataclass(frozen=True)
class Start:
    """One start of a program: what it did, and what the model was asked in the end."""

    exit_code: int
    stdout: str
    stderr: str
    asked: list[tuple[str, str]]

    @property
    def facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"exit": self.exit_code, "stderr": self.stderr, "asked": self.asked}
        events = [_json(line) for line in self.stdout.splitlines()]
        last = next((event for event in reversed(events) if isinstance(event, dict)), None)
        if last is None:
            return facts | {"stdout": self.stdout}
        names = ("subtype", "is_error", "result", "errors", "num_turns", "terminal_reason", "stop_reason")
        facts |= {name: last.get(name) for name in names}
        spent = {
            model: {name: use[name] for name in ("inputTokens", "outputTokens")}
            for model, use in last["modelUsage"].items()
        }
        return facts | {"cost": round(last["total_cost_usd"], 9), "spent": spent, "session": _known(last["session_id"])}


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _known(session_id: str) -> str:
    return session_id if session_id in (ONE, TWO) else "new"


def starts(stage: Stage, *starts: Sequence[str], script: Sequence[Reply] = ()) -> tuple[list[Start], list[Start]]:
    """Start each program in the same place with one command line after the other; the model says 1, 2, 3 ..."""
    both: list[list[Start]] = []
    for name, program in stage.programs.items():
        done: list[Start] = []
        with stage.world(name) as (repo, home), MessagesApi(script or [Say(str(n)) for n in range(1, 20)]) as api:
            for args in starts:
                before = len(api.ledger.main)
                env = claude_env(home, api.url, sandbox=True)
                ran = subprocess.run(
                    [program, *args], cwd=repo, env=env, capture_output=True, text=True, timeout=90, input=""
                )
                asked = _said(api.ledger.main[-1].request["messages"]) if len(api.ledger.main) > before else []
                done.append(Start(ran.returncode, ran.stdout, ran.stderr, asked))
        both.append(done)
    return both[0], both[1]


def _said(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The words of a conversation, without what the programs add."""
    said: list[tuple[str, str]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            words = str(block.get("text") or block.get("input") or block.get("content"))
            if message["role"] != "system" and not words.startswith("<system-reminder>"):
                said.append((message["role"], words))
    return said


STORIES: dict[str, list[tuple[str, ...]]] = {
    "an id that is in use": [NEW, NEW],
    "continue": [NEW, (*JSON, "--continue", "--", "more")],
    "continue, where there is nothing": [(*JSON, "--continue", "--", "more")],
    "resume by id": [NEW, (*JSON, "--resume", ONE, "--", "more"), (*JSON, "-r", ONE, "--", "and more")],
    "resume in the stream": [NEW, (*STREAM, "--resume", ONE, "--", "more")],
    "resume by name": [(*JSON, "--name", "my name", "--", "hi"), (*JSON, "--resume", "my name", "--", "more")],
    "fork": [NEW, (*JSON, "--resume", ONE, "--fork-session", "--", "fork"), (*JSON, "--resume", ONE, "--", "more")],
    "fork with an id": [
        NEW,
        (*JSON, "--resume", ONE, "--fork-session", "--session-id", TWO, "--", "fork"),
        (*JSON, "--resume", TWO, "--", "more"),
    ],
    "continue and fork": [NEW, (*JSON, "--continue", "--fork-session", "--", "fork")],
    "fork of nothing": [(*TEXT, "--fork-session", "--", "hi")],
    "the latest of two": [NEW, (*JSON, "--session-id", TWO, "--", "hi"), (*JSON, "--continue", "--", "more")],
    "not stored": [(*JSON, "--no-session-persistence", "--", "hi"), (*JSON, "--continue", "--", "more")],
    "resumed, but not stored": [
        NEW,
        (*JSON, "--resume", ONE, "--no-session-persistence", "--", "more"),
        (*JSON, "--resume", ONE, "--", "again"),
    ],
    "a budget for each start": [NEW, (*JSON, "--resume", ONE, "--max-budget-usd", "0.004", "--", "more")],
    "no such id": [(*TEXT, "--resume", ONE, "--", "x")],
    "no such id, in JSON": [(*JSON, "--resume", ONE, "--", "x")],
    "no such id, in the stream": [(*STREAM, "--resume", ONE, "--", "x")],
    "no such name": [NEW, (*TEXT, "--resume", "nonesuch", "--", "x")],
    "no name at all": [(*TEXT, "--resume")],
    "an id for a session that has one": [NEW, (*TEXT, "--resume", ONE, "--session-id", TWO, "--", "x")],
}
SHORT = ("resume by id", "no such id, in the stream")


def each_story() -> pytest.MarkDecorator:
    marks = {name: () if name in SHORT else (pytest.mark.long,) for name in STORIES}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[name]) for name in marks])


@pytest.mark.spec("4.1.4-a", case="continue")
@pytest.mark.spec("4.1.4-b", case="resume by id")
@pytest.mark.spec("4.1.4-b", case="resume by name")
@pytest.mark.spec("4.1.4-c", case="an id that is in use")
@pytest.mark.spec("4.1.4-d", case="fork")
@pytest.mark.spec("4.1.4-e", case="not stored")
@each_story()
def test_the_same_sessions(stage: Stage, name: str) -> None:
    real, ours = starts(stage, *STORIES[name])
    assert [start.facts for start in ours] == [start.facts for start in real]


@pytest.mark.long
def test_calls_and_their_results_are_resumed(stage: Stage) -> None:
    script = [Say(bash("echo hi")), Say("done"), Say("again")]
    real, ours = starts(stage, NEW, (*JSON, "--resume", ONE, "--", "more"), script=script)
    assert [start.facts for start in ours] == [start.facts for start in real]
    assert ours[1].asked[2] == ("user", "hi")


@pytest.mark.spec("4.1.4-a")
def test_sessions_lie_where_claude_has_them_and_no_line_of_one_stops_it(stage: Stage, tmp_path: Path) -> None:
    """A torn line, a strange one and a call without a result: what can be read is resumed."""
    stage.programs.pop("claude")
    program = stage.programs["ralph-claude"]
    with stage.world("ours") as (repo, home), MessagesApi([Say("1"), Say("2")]) as api:
        env = claude_env(home, api.url, sandbox=True)
        assert subprocess.run([program, *NEW], cwd=repo, env=env, stdin=subprocess.DEVNULL).returncode == 0
        folder = home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(repo))
        file = folder / f"{ONE}.jsonl"
        call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "true"}}
        lines = [
            {"type": "assistant", "message": {"role": "assistant", "content": [call]}},
            *({"type": kind, "message": odd} for kind in ("user", "assistant") for odd in (3, [], {"content": {}})),
        ]
        with file.open("a") as added:
            added.write("".join(json.dumps(line) + "\n" for line in lines) + '{"type":"user","mess')
        resumed = subprocess.run(
            [program, *JSON, "--resume", ONE, "--", "more"], cwd=repo, env=env, capture_output=True, text=True, input=""
        )
        assert (resumed.returncode, resumed.stderr) == (0, "")
        said = _said(api.ledger.main[-1].request["messages"])
    assert said == [
        ("user", "hi"),
        ("assistant", "1"),
        ("assistant", "{'command': 'true'}"),
        ("user", "[The call was interrupted: there is no result.]"),
        ("user", "more"),
    ]
