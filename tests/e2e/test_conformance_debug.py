"""Both programs with --debug and its kin: the answer and the exit code stay what they are, and where the lines go."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_conformance_mcp import ALLOWED, LITTLE, config
from tests.support import tools
from tests.support.api_replies import Fail, Reply, Say, tool
from tests.support.conformance import Story, Told, tell

pytestmark = pytest.mark.long

OURS = Path(sys.executable).with_name("ralph-claude")
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[[A-Z]+\] .*")
SECRET = "rose-garden-42"
HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": f"echo {SECRET}"}]}]}
GIVEN = ("-p", SECRET, "--settings", json.dumps({"hooks": HOOKS}), "--allowedTools", "Bash")
BASH = Say(tool("Bash", command=f"echo {SECRET}", description=SECRET))

Play = Callable[..., Told]


@pytest.fixture
def play(repo: Path, world: Path) -> Play:
    def play(program: Path, *args: str, script: tuple[Reply, ...] = (BASH, Say(SECRET))) -> Told:
        return tell(Story(list(script), (*GIVEN, *args)), program, repo, world / "home")

    return play


@pytest.fixture(params=["claude", "ralph-claude"])
def program(request: pytest.FixtureRequest) -> Path:
    return OURS if request.param == "ralph-claude" else tools.find("claude")


@pytest.mark.spec("4.1.1-m", "4.6-d")
@pytest.mark.parametrize(
    "flags",
    [
        ("--debug",),
        ("-d", "api"),
        ("-d2e",),
        ("--debug-to-stderr", "--debug=!api,!hooks"),
        ("--debug-file", "../log"),
        ("--debug-file", "."),
        ("--debug-file", "/proc/nope/log"),
        ("--debug", "--output-format", "json"),
    ],
    ids=" ".join,
)
def test_the_answer_stays_what_it_is(play: Play, program: Path, flags: tuple[str, ...]) -> None:
    told = play(program, *flags)
    said = json.loads(told.stdout)["result"] if "json" in flags else told.stdout.rstrip("\n")
    assert (told.exit_code, said) == (0, SECRET)


def test_a_category_chooses_lines_on_standard_error(play: Play, program: Path) -> None:
    lines = play(program, "-d2e", "--debug=hooks").stderr.splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    assert [line for line in lines if "PreToolUse:Bash" in line]
    assert not [line for line in lines if "api" in line.lower()]


def test_a_named_file_takes_the_lines(play: Play, program: Path, repo: Path) -> None:
    file = repo.parent / "new" / "log"
    assert play(program, "--debug-file", str(file)).stderr == ""
    assert LINE.fullmatch(file.read_text().splitlines()[0])


def test_a_file_that_is_missing_is_refused(play: Play, program: Path) -> None:
    told = play(program, "--debug-file")
    said = "error: option '--debug-file <path>' argument missing\n"
    assert (told.exit_code, told.stdout, told.stderr) == (1, "", said)


@pytest.mark.spec("4.6-bc")
def test_each_request_hook_decision_and_connection_is_a_line_without_secrets(play: Play) -> None:
    script = (BASH, Say(tool("mcp__t__add", a=1, b=2)), Say(tool("Write", file_path="/x", content=SECRET)), Say("ok"))
    stderr = play(OURS, "--debug", *ALLOWED, *config(t=LITTLE, gone={"command": "/nonexistent"}), script=script).stderr
    lines = [line.partition(" [DEBUG] ")[2] for line in stderr.splitlines()]
    found = [re.sub(r"(id|milliseconds|tools|messages)=\w+", r"\1=…", line) for line in lines]
    request = "[api] request model=claude-opus-5-5 messages=… tools=…"
    usage = "input=1234 output=42 cache_write=10 cache_read=20 cache_write_1h=0"
    answer = f"[api] answer model=claude-opus-5-5 stop_reason=tool_use {usage}"
    gone = "[mcp] gone: not connected: [Errno 2] No such file or directory: '/nonexistent'"
    assert sorted(found[:2]) == [gone, "[mcp] t: connected tools=…"]
    assert found[2:] == [
        *(request, answer, "[hooks] PreToolUse:Bash: exit code 0 milliseconds=…"),
        "[permissions] Bash: allowed id=…",
        *(request, answer, "[permissions] mcp__t__add: allowed id=…", "[mcp] t: call of add id=…"),
        *(request, answer, "[permissions] Write: not allowed by ask id=…"),
        *(request, answer.replace("tool_use", "end_turn")),
    ]
    assert SECRET not in stderr
    assert "dummy" not in stderr


def test_a_failed_request_says_its_kind_and_status(play: Play) -> None:
    told = play(OURS, "--debug", "api", script=(Fail(400, "invalid_request_error", SECRET),))
    assert told.exit_code == 1
    assert "[api] no answer error=unknown status=400" in told.stderr
    assert SECRET not in told.stderr
