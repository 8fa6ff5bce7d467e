"""`ralph transcript`: a stored log, read by the path that a session's lines take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.records import from_json
from tests.support.ralph_process import Finished, Ralph
from tests.support.waiting import wait_until

FIXTURES = Path(__file__).parent.parent / "fixtures"
RTF1 = '@@RALPH@@ {"type":"text","tag":"THINK","text":"a plan"}\n'


def capture(name: str) -> Path:
    (path,) = (path for path in FIXTURES.glob(f"*/{name}*") if ".events." not in path.name)
    return path


def kinds(done: Finished) -> list[str]:
    assert (done.exit_code, done.stderr) == (0, "")
    assert [event["seq"] for event in done.events] == list(range(1, len(done.events) + 1))
    assert all(event["at"].endswith("Z") for event in done.events)
    return [from_json(event).type for event in done.events]


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("01-", "session_started", "turn_ended"),
        ("10b-", "session_started", "turn_ended"),
        ("10c-", "text", "usage"),
        pytest.param("10c2-", "text", "usage", marks=pytest.mark.long),
    ],
)
def test_a_log_tells_itself_what_wrote_it(ralph: Ralph, name: str, first: str, last: str) -> None:
    told = kinds(ralph("transcript", "--json", str(capture(name))))
    assert (told[0], told[-1]) == (first, last)
    assert {"tool_start", "tool_end", "usage"} <= set(told)


def test_people_see_it_as_a_run_would_show_it(ralph: Ralph) -> None:
    done = ralph("transcript", str(capture("10b-")))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "agent      Let me look.\nshell      /bin/bash -lc 'echo hi; ls; exit 0'\n" in done.stdout


def test_stdin_and_a_named_transcript(ralph: Ralph) -> None:
    assert ralph("transcript", "-", input=RTF1).stdout == "PLAN       a plan\n"
    told = ralph("transcript", "-", "--transcript", "plain", "--json", input=RTF1)
    assert [event.get("tag") for event in told.events] == [None, "SYS", "AI"]


def test_what_tells_nothing_is_plain(ralph: Ralph, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    assert kinds(ralph("transcript", "--json", str(log))) == []
    log.write_text("hello\n\nworld")
    assert kinds(ralph("transcript", "--json", str(log))) == ["text", "text"]


@pytest.mark.parametrize(
    "name", ["auto", *(pytest.param(name, marks=pytest.mark.long) for name in ("claude", "codex", "rtf1", "plain"))]
)
@pytest.mark.parametrize("as_json", [True, False])
def test_no_content_makes_it_fail(ralph: Ralph, tmp_path: Path, name: str, as_json: bool) -> None:
    deep = b"[" * 1000 + b"]" * 1000  # can be decoded, but not be written in Python's words
    tool = b'{"type":"tool_use","id":"a","name":"b","input":{"command":' + deep + b"}}"
    log = tmp_path / "log"
    log.write_bytes(
        b"\x00\xff\xfe\n" + RTF1.encode() + b"\x1b]0;title\x07\n{\n[]\n\r\n"
        b'{"type":"assistant","message":{"content":[' + tool + b"]}}\n"
        b'@@RALPH@@ {"type":"tool_start","tool":{"id":"a","name":"b","input":{"command":' + deep + b"}}}\n"
        b'{"type":"thread.started","thread_id":"\\ud800"}\n@@RALPH@@ {"type":"usage","usage":{"cost_usd":NaN}}\n'
        b'{"type":"result","total_cost_usd":' + b"9" * 5000 + b"}\nOpenAI Codex v1\n" + os.urandom(100_000)
    )
    done = ralph("transcript", str(log), "--transcript", name, *(["--json"] if as_json else []))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout
    if as_json:
        kinds(done)
    else:
        assert "\x1b" not in done.stdout
        assert "a plan" in done.stdout


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (["nonesuch.log"], "cannot read nonesuch.log: No such file or directory"),
        (["."], "cannot read .: Is a directory"),
        (["README.md", "--transcript", "klaude"], "--transcript klaude: no such transcript"),
    ],
)
def test_what_cannot_be_read_is_refused(ralph: Ralph, world: Path, args: list[str], cause: str) -> None:
    done = ralph("transcript", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {cause}\n\nhint: ")
    assert not (world / "ralph").exists()


def command(*args: str) -> list[str]:
    return [sys.executable, "-P", "-m", "ralph", "transcript", *args]


def test_who_has_seen_enough_ends_it_quietly(tmp_path: Path) -> None:
    """The log is far from its end when its reader goes; the time would not do for the rest of it."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 37)  # all of it zeros, and none of it on the disk
        file.write(b"a line\n" * 20_000)
    argv = command(str(log), "--transcript", "plain")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as told:
        assert told.stdout is not None
        assert told.stderr is not None
        try:
            assert told.stdout.readline() == b"agent      a line\n"
            told.stdout.close()
            assert (told.wait(60), told.stderr.read()) == (0, b"")
        finally:
            told.kill()


@pytest.mark.parametrize("args", [[], ["--json"]])
def test_a_full_disk_is_said(ralph: Ralph, tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "log").write_text("hello\n" * 10_000)
    with Path("/dev/full").open("wb") as full:
        told = subprocess.run(command(str(tmp_path / "log"), *args), stdout=full, stderr=subprocess.PIPE, text=True)
    assert (told.returncode, told.stderr.splitlines()[0]) == (
        1,
        "error: cannot write to stdout: No space left on device",
    )


def test_a_line_is_told_before_the_next_one_comes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as file, subprocess.Popen(command("-"), stdin=subprocess.PIPE, stdout=file) as told:
        assert told.stdin is not None
        told.stdin.write(RTF1.encode())
        told.stdin.flush()
        wait_until(lambda: out.read_text() == "PLAN       a plan\n", "the line")
        told.stdin.close()
        assert told.wait(60) == 0


@pytest.mark.long
def test_a_long_log_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    """40 MB of events and a line of 100 MB, in 450 MB of address space, of which an interpreter takes the half."""
    lines = capture("10b-").read_bytes()
    log = tmp_path / "log"
    with log.open("wb") as file:
        for _ in range(8):
            file.write(lines * (5_000_000 // len(lines)))
        file.write(b"x" * 100_000_000 + b"\n")
        file.write(lines)

    limited = ["sh", "-c", 'ulimit -v 450000; exec "$@"', "sh", *command(str(log), "--json")]
    oversized, last = 0, b""
    with subprocess.Popen(limited, stdout=subprocess.PIPE) as told:
        assert told.stdout is not None
        for line in told.stdout:
            oversized += b'"oversized_line":100000000' in line
            last = line
    assert told.returncode == 0
    assert oversized == 1
    assert json.loads(last)["type"] == "turn_ended"
