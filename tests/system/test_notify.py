"""Telling someone who is away, with real commands: they get JSON, and nothing depends on what they do with it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ralph.system.notify import BackgroundPrograms, Notice, Notifier, Occasion, occasion_of
from tests.support.notifier import listening
from tests.support.rows import rows
from tests.support.waiting import is_alive, wait_until

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "notify"
NOTICE = Notice(
    Occasion.STUCK,
    1_700_000_000.0,
    "3 failures in a row <!channel> \x1b[31m",
    goal="speed",
    title="Make it <b>fast</b>",
    repo="/repo",
    exit_code=1,
    cost_usd=1.25,
    run="r1",
    next="ralph run speed.md",
)


def env() -> dict[str, str]:
    return dict(os.environ)


def test_the_command_gets_one_json_object(tmp_path: Path) -> None:
    ears = listening(tmp_path / "ears")
    notifier = Notifier([ears.env["RALPH_NOTIFY"]], env=env(), repo_root=tmp_path / "repo")
    notifier.tell(NOTICE)
    assert notifier.close() == ""
    (heard,) = ears.heard
    assert list(heard) == ["version", "event", "at", "host", "goal", "title", "repo", "text", "exit_code", "cost_usd",
                           "run", "id", "next"]  # fmt: skip
    assert (heard["version"], heard["event"], heard["at"]) == (1, "stuck", "2023-11-14T22:13:20.000Z")
    assert (heard["goal"], heard["exit_code"], heard["cost_usd"], heard["id"]) == ("speed", 1, 1.25, "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/nowhere/notify"], "cannot start it: No such file or directory"),
        (["sh", "-c", "exit 3"], "exit code 3"),
        (["sh", "-c", "kill -9 $$"], "killed by signal 9"),
        (["a\0b"], "cannot start it: embedded null byte"),
    ],
)
def test_a_command_that_fails_is_said_once(tmp_path: Path, command: list[str], why: str) -> None:
    notifier = Notifier(command, env=env(), repo_root=tmp_path)
    notifier.tell(NOTICE)
    notifier.tell(NOTICE)
    assert notifier.close() == f"cannot send a notification with `{command[0]}`: {why}"


def test_a_command_that_reads_nothing_is_fine(tmp_path: Path) -> None:
    notifier = Notifier(["true"], env=env(), repo_root=tmp_path)
    notifier.tell(Notice(Occasion.DONE, 0.0, "x" * 500_000))
    assert notifier.close() == ""


def test_nothing_of_a_command_that_hangs_is_left(tmp_path: Path) -> None:
    """Neither when it has had its time, nor when ralph ends; with what it started."""
    program = ["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/$0; wait", "late"]
    faults: list[str] = []
    late = BackgroundPrograms(program, env(), 5, faults.append)
    late.send(b"{}")
    wait_until(lambda: bool(faults), "it has had its time")
    late.close(0)
    program[-1] = "last"
    last = BackgroundPrograms(program, env(), 600, faults.append)
    last.send(b"{}")
    wait_until((tmp_path / "last").exists, "it runs")
    last.close(0.1)
    assert faults == ["it took longer than 5 s", "it was still running when ralph ended"]
    for name in ("late", "last"):
        pid = int((tmp_path / name).read_text())
        wait_until(lambda pid=pid: not is_alive(pid), "what it started is gone")


def test_telling_waits_for_nobody(tmp_path: Path) -> None:
    slow = BackgroundPrograms(["sleep", "600"], env(), 600, lambda _: None)
    before = time.monotonic()
    for _ in range(20):
        slow.send(b"{}")
    assert time.monotonic() - before < 60  # each would take ten minutes
    slow.close(0)


def test_no_program_of_the_repositorys_is_taken_for_the_users(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    ears = listening(repo / "bin")
    path = f"{repo / 'bin'}{os.pathsep}{os.environ['PATH']}"
    notifier = Notifier(["notify"], env={**env(), "PATH": path}, repo_root=repo)
    notifier.tell(NOTICE)
    assert "cannot start it" in notifier.close()
    assert ears.heard == []


@rows(
    ("exit_code", "event"),
    [(0, "done"), (1, "stuck"), (3, "stuck"), (4, "budget"), (5, "stuck"), (6, "blocked"), (129, None), (130, None),
     (143, None)],
)  # fmt: skip
def test_how_a_run_ended_is_told_in_a_word(exit_code: int, event: str | None) -> None:
    assert occasion_of(exit_code) == event


# The examples


class Receiver(HTTPServer):
    """A server on loopback that keeps what is posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.posts: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Post(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Receiver)
        self.server.posts.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def example(name: str, more: dict[str, str]) -> int:
    """Run an example as ralph would."""
    done = subprocess.run([str(EXAMPLES / name)], input=NOTICE.encode(), env={**env(), **more}, capture_output=True)
    return done.returncode


def test_the_example_for_ntfy_posts_to_the_topic(receiver: Receiver) -> None:
    assert example("ntfy", {"NTFY_URL": f"{receiver.url}/my-topic", "NTFY_TOKEN": "t0ken"}) == 0
    ((path, headers, body),) = receiver.posts
    assert (path, headers["Authorization"]) == ("/", "Bearer t0ken")
    assert (body["topic"], body["priority"], body["tags"]) == ("my-topic", 4, ["warning"])
    assert body["title"] == "ralph: stuck: Make it <b>fast</b>"
    assert body["message"].splitlines()[:2] == ["3 failures in a row <!channel> \x1b[31m", "ralph run speed.md"]


def test_the_example_for_slack_posts_text_that_mentions_nobody(receiver: Receiver) -> None:
    assert example("slack", {"SLACK_WEBHOOK_URL": f"{receiver.url}/services/secret"}) == 0
    ((path, headers, body),) = receiver.posts
    assert (path, headers["Content-Type"]) == ("/services/secret", "application/json")
    assert body["text"].splitlines()[1:3] == [
        "Make it &lt;b&gt;fast&lt;/b&gt;",
        "3 failures in a row &lt;!channel&gt; \x1b[31m",
    ]


@pytest.mark.parametrize(("name", "variable"), [("ntfy", "NTFY_URL"), ("slack", "SLACK_WEBHOOK_URL")])
def test_an_example_that_is_refused_fails(receiver: Receiver, name: str, variable: str) -> None:
    receiver.status = 500
    assert example(name, {variable: f"{receiver.url}/x"}) != 0


def test_the_example_for_the_desktop_calls_notify_send(tmp_path: Path) -> None:
    stand_in = tmp_path / "bin" / "notify-send"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/said\n')
    stand_in.chmod(0o755)
    assert example("desktop", {"PATH": f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"}) == 0
    assert (tmp_path / "said").read_text().splitlines() == [
        "--app-name=ralph",
        "--urgency=critical",
        "--",
        "ralph: stuck: Make it <b>fast</b>",
        "3 failures in a row &lt;!channel&gt; \x1b[31m",
        "ralph run speed.md",
    ]


def test_the_examples_can_be_run() -> None:
    assert {file.name for file in EXAMPLES.iterdir()} == {"ntfy", "slack", "desktop"}
    assert all(file.stat().st_mode & stat.S_IXUSR for file in EXAMPLES.iterdir())


def test_a_machine_without_room_for_a_thread_stops_nobody() -> None:
    faults: list[str] = []
    errands = BackgroundPrograms(["true"], env(), 2, faults.append)
    before = threading.stack_size(1 << 46)  # no address space has room for it
    try:
        errands.send(b"{}")
    finally:
        threading.stack_size(before)
    errands.close(1)
    assert faults == ["cannot start it: can't start new thread"]
