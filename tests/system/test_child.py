"""One child and its tree, with real processes. What a child leaves to the test process is swept with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.ndjson import Oversized
from ralph.system.child import Child
from ralph.system.guardian import Guardian, StartError
from ralph.system.signals import Signals
from tests.support.waiting import PATIENCE, is_alive, pid_in, wait_until


def start(tmp_path: Path, script: str, *, talks: bool = True, complains: bool = True, **env: str) -> Child:
    """Start a shell script; without `talks` its stdin is empty, without `complains` its stderr joins its stdout."""
    return run(tmp_path, "sh", "-c", script, talks=talks, complains=complains, **env)


def python(tmp_path: Path, code: str) -> Child:
    return run(tmp_path, sys.executable, "-c", code)


GUARDIAN = Guardian()


@pytest.fixture(autouse=True)
def guarded() -> Iterator[None]:
    with GUARDIAN:
        yield


def run(tmp_path: Path, *argv: str, talks: bool = True, complains: bool = True, **env: str) -> Child:
    return Child(
        argv,
        guardian=GUARDIAN,
        cwd=tmp_path,
        environment={"PATH": os.environ["PATH"], **env},
        stdout_log=tmp_path / "stdout.log",
        stderr_log=tmp_path / "stderr.log" if complains else None,
        talks=talks,
    )


def read_out(child: Child, within: float = PATIENCE) -> list[bytes | Oversized]:
    lines: list[bytes | Oversized] = []
    deadline = time.monotonic() + within
    while (batch := child.read(0.1)) is not None:
        lines += batch
        assert time.monotonic() < deadline, f"still reading after {within} s"
    return lines


@pytest.mark.spec("2.3-c")
@pytest.mark.spec("3.5-o", "3.6-a")
def test_lines_are_read_and_logged_byte_by_byte(tmp_path: Path) -> None:
    with start(tmp_path, r"printf 'one\ntw\377o\n\nlast'") as child:
        assert read_out(child) == [b"one", b"tw\xffo", b"", b"last"]
        assert child.exit_code == 0
    assert (tmp_path / "stdout.log").read_bytes() == b"one\ntw\xffo\n\nlast"
    assert (tmp_path / "stdout.log").stat().st_mode & 0o777 == 0o600


def test_who_writes_faster_than_anyone_reads_is_not_idle(tmp_path: Path) -> None:
    with start(tmp_path, f"exec yes {'x' * 4000}") as child:
        wait_until(lambda: child.read(0.1), "the first lines")
        time.sleep(0.5)  # no room is left, neither here nor in the pipe
        assert child.idle_seconds < 0.1
        child.kill()


def test_stderr_goes_to_a_log_of_its_own_and_its_tail_is_kept(tmp_path: Path) -> None:
    with start(tmp_path, "echo out; yes error | head -c 60000 >&2; echo last >&2") as child:
        assert read_out(child) == [b"out"]
    assert (tmp_path / "stderr.log").stat().st_size == 60_005
    assert child.stderr_tail.endswith("error\nlast\n")
    assert len(child.stderr_tail) < 10_000


def test_the_last_complaint_is_there_when_the_stream_ends(tmp_path: Path) -> None:
    for number in range(20):
        with start(tmp_path, f"exec >&-; echo {number} >&2") as child:
            assert read_out(child) == []
            assert child.stderr_tail == f"{number}\n"


def test_without_a_log_of_its_own_stderr_joins_stdout(tmp_path: Path) -> None:
    with start(tmp_path, "echo one; echo two >&2; echo three", complains=False) as child:
        assert read_out(child) == [b"one", b"two", b"three"]


def test_a_child_that_does_not_talk_reads_an_empty_stdin(tmp_path: Path) -> None:
    with start(tmp_path, "cat; echo end", talks=False, complains=False) as child:
        assert read_out(child) == [b"end"]


def test_one_that_complains_on_its_stdout_can_be_talked_to(tmp_path: Path) -> None:
    with start(tmp_path, "cat >&2; echo end", complains=False) as child:
        child.say(b"heard\n")
        child.end_input()
        assert read_out(child) == [b"heard", b"end"]
        assert child.exit_code == 0


@pytest.mark.spec("1.1.3-d")
def test_what_is_said_is_heard_until_the_child_is_let_go(tmp_path: Path) -> None:
    with start(tmp_path, "read first; echo got $first; read second; echo got $second; cat; echo bye") as child:
        child.say(b"one\n")
        child.say(b"two\n")
        child.finish()
        assert read_out(child) == [b"got one", b"got two", b"bye"]
        assert child.exit_code == 0


def test_a_child_that_never_reads_blocks_nobody(tmp_path: Path) -> None:
    with start(tmp_path, "echo ready; exec sleep 60") as child:
        child.say(b"x" * 10_000_000)
        wait_until(lambda: child.read(0.1) == [b"ready"], "a line from the child, which sleeps for a minute", 50)
    assert child.exit_code == -signal.SIGKILL


def test_saying_something_to_a_child_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    with start(tmp_path, "exit 3") as child:
        assert read_out(child) == []
        child.say(b"anybody?\n" * 100_000)
        child.stop(b"soft\n")
        child.kill()
        assert child.exit_code == 3


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -TERM $$", -15), ("kill -KILL $$", -9), ("true", 0)]
)
def test_the_exit_code_tells_of_a_signal(tmp_path: Path, script: str, code: int) -> None:
    with start(tmp_path, script) as child:
        read_out(child)
        assert child.exit_code == code


@pytest.mark.spec("1.1.3-a")
def test_a_child_sees_its_environment_and_no_other(tmp_path: Path) -> None:
    with start(tmp_path, "env; pwd; test -t 0 || test -t 1 || echo no terminal", ONLY="this") as child:
        told = read_out(child)
    assert b"no terminal" in told
    assert b"ONLY=this" in told
    assert str(tmp_path).encode() in told
    assert not [line for line in told if isinstance(line, bytes) and line.startswith(b"HOME=")]


@pytest.mark.parametrize(
    "program", ["no-such-program-anywhere", "/", "./not-executable", "./bad-interpreter", "./no-shebang"]
)
def test_what_cannot_be_started_is_said(tmp_path: Path, program: str) -> None:
    (tmp_path / "not-executable").write_text("#!/bin/sh\n")
    for name, text in (("bad-interpreter", "#!/no/such/thing\n"), ("no-shebang", "echo hello\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    with pytest.raises(StartError, match="cannot start"):
        run(tmp_path, program)


def test_idleness_is_counted_from_the_last_output(tmp_path: Path) -> None:
    with start(tmp_path, "echo one; read go; echo two >&2; exec sleep 60") as child:
        wait_until(lambda: child.read(0.1) is not None and child.idle_seconds > 0.3, "silence")
        asked = time.monotonic()
        child.say(b"go\n")
        wait_until(
            lambda: child.read(0.1) is not None and time.monotonic() - child.idle_seconds > asked,
            "the output on stderr",
        )


def test_a_second_of_silence_is_no_end(tmp_path: Path) -> None:
    with start(tmp_path, "read go; echo late") as child:
        assert child.read(1) == []
        child.say(b"go\n")
        assert read_out(child) == [b"late"]


STUBBORN = """
import os, signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: os.write(1, signal.Signals(number).name.encode() + bytes([10])))
os.write(1, b"ready" + bytes([10]))
while True:
    time.sleep(0.1)
"""


def test_a_child_that_ignores_every_request_is_ended_in_steps(tmp_path: Path) -> None:
    with python(tmp_path, STUBBORN) as child:
        wait_until(lambda: child.read(0.1) == [b"ready"], "a child with its handlers set")
        started = time.monotonic()
        child.stop()
        assert read_out(child) == [b"SIGINT", b"SIGTERM"]
        assert 4 < time.monotonic() - started < 15
        assert child.exit_code == -signal.SIGKILL


def test_a_child_that_obeys_the_soft_request_gets_no_signal(tmp_path: Path) -> None:
    with start(tmp_path, "trap 'echo signalled' INT TERM; read word; echo $word") as child:
        child.stop(b"please\n")
        assert read_out(child) == [b"please"]
        assert child.exit_code == 0


def test_a_child_that_obeys_the_first_signal_gets_no_other(tmp_path: Path) -> None:
    with python(tmp_path, "import time; print('ready', flush=True); time.sleep(60)") as child:
        wait_until(lambda: child.read(0.1) == [b"ready"], "a started child")
        child.stop()
        read_out(child)
        assert child.exit_code == -signal.SIGINT


def test_a_killed_child_is_gone_at_once(tmp_path: Path) -> None:
    with python(tmp_path, STUBBORN) as child:
        wait_until(lambda: child.read(0.1) == [b"ready"], "a child with its handlers set")
        child.kill()
        assert child.exit_code == -signal.SIGKILL
        read_out(child)


def test_leaving_ends_the_child_whatever_happened(tmp_path: Path) -> None:
    with pytest.raises(KeyError), start(tmp_path, "exec sleep 60") as child:
        raise KeyError
    assert child.exit_code == -signal.SIGKILL


def test_a_stream_of_many_lines_that_nobody_reads_does_not_hang_the_end(tmp_path: Path) -> None:
    with start(tmp_path, f"exec yes {'x' * 4000}") as child:
        wait_until(lambda: (tmp_path / "stdout.log").stat().st_size > 20_000, "a lot of output")
    assert child.exit_code == -signal.SIGKILL


def test_a_child_that_closes_its_output_and_stays_is_over(tmp_path: Path) -> None:
    with start(tmp_path, "echo bye; exec sleep 60 > /dev/null 2>&1") as child:
        assert read_out(child, within=50) == [b"bye"]
        assert child.exit_code is None
    assert child.exit_code == -signal.SIGKILL


# What a child leaves behind.


def test_a_grandchild_that_holds_stdout_does_not_hold_the_reader(tmp_path: Path) -> None:
    with start(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; echo bye") as child:
        assert read_out(child, within=50) == [b"bye"]
        assert child.exit_code == 0
    wait_until(lambda: not is_alive(pid_in(tmp_path / "pid")), "the grandchild's end")


ESCAPES = {
    "background": "sleep 60 > /dev/null 2>&1 & echo $! > $PIDFILE",
    "nohup": "nohup sleep 60 > /dev/null 2>&1 & echo $! > $PIDFILE",
    "setsid": "setsid sh -c 'echo $$ > $PIDFILE; exec sleep 60' > /dev/null 2>&1 &",
    "twice forked": "( setsid sh -c 'echo $$ > $PIDFILE; exec sleep 60' & ) > /dev/null 2>&1",
    "stubborn": "setsid sh -c 'trap : INT TERM HUP; echo $$ > $PIDFILE; while :; do sleep 1; done' > /dev/null 2>&1 &",
    "no environment": "env -i setsid sh -c 'echo $$ > '$PIDFILE'; exec sleep 60' > /dev/null 2>&1 &",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_outlives_the_child(tmp_path: Path, escape: str) -> None:
    pidfile = tmp_path / "pid"
    script = f"{escape}\nwhile [ ! -s $PIDFILE ]; do sleep 0.01; done"
    with start(tmp_path, script, PIDFILE=str(pidfile)) as child:
        read_out(child)
        assert child.exit_code == 0
    assert not is_alive(pid_in(pidfile))


def test_a_whole_tree_of_escaped_processes_is_swept(tmp_path: Path) -> None:
    fork = f"setsid sh -c 'setsid sleep 60 & setsid sleep 60 & echo $! >> {tmp_path}/pids; wait' &"
    script = f"{fork}\n{fork}\nwhile [ $(cat {tmp_path}/pids | wc -l) -lt 2 ]; do sleep 0.01; done"
    with start(tmp_path, script) as child:
        read_out(child)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert [pid for pid in pids if is_alive(pid)] == []


# Signals


def test_signals_only_leave_a_mark_and_the_handlers_come_back() -> None:
    signals = Signals()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with signals.watched():
        assert (signals.first, signals.count) == (None, 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.raise_signal(number)
        assert (signals.first, signals.count) == (signal.SIGTERM, 3)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_a_signal_can_have_a_reader_look_up_at_once(tmp_path: Path) -> None:
    """Without that it would wait to the end of its time, here far beyond that of the test."""
    with start(tmp_path, "read go; kill -INT $LISTENER; sleep 600", LISTENER=str(os.getpid())) as child:
        with Signals(lambda _: child.wake()).watched() as signals:
            child.say(b"go\n")
            assert child.read(600) == []
        assert signals.first == signal.SIGINT
        for _ in range(20):  # being woken takes no room from lines
            child.wake()
        assert [child.read(600) for _ in range(20)] == [[]] * 20


def test_a_hangup_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals().watched() as signals:
            signal.raise_signal(signal.SIGHUP)
        assert signals.count == 0
    finally:
        signal.signal(signal.SIGHUP, before)


# One guardian for all the children of a run


def guardian_of(child: Child) -> int:
    """What `echo $PPID` says: a child's parent is its guardian."""
    line = read_out(child)[0]
    assert isinstance(line, bytes)
    return int(line)


def guardian_seen_by_a_child(tmp_path: Path) -> int:
    with start(tmp_path, "echo $PPID") as child:
        return guardian_of(child)


def test_one_guardian_serves_one_child_after_the_other(tmp_path: Path) -> None:
    first = guardian_seen_by_a_child(tmp_path)
    with pytest.raises(StartError):
        run(tmp_path, "/nowhere/program")
    assert guardian_seen_by_a_child(tmp_path) == first


def test_a_guardian_that_was_killed_is_replaced(tmp_path: Path) -> None:
    first = guardian_seen_by_a_child(tmp_path)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first), "the guardian is gone")
    assert guardian_seen_by_a_child(tmp_path) != first


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_child_that_does_away_with_its_guardian_is_ended_all_the_same(tmp_path: Path, number: int) -> None:
    script = f"setsid sleep 600 & echo $! > new; mv new orphan.pid; kill -{int(number)} $PPID; exec sleep 600"
    with start(tmp_path, script) as child:
        wait_until((tmp_path / "orphan.pid").exists, "the orphan is there")
        orphan = pid_in(tmp_path / "orphan.pid")
        if number == signal.SIGKILL:
            assert read_out(child) == []
    assert not is_alive(orphan)
    assert guardian_seen_by_a_child(tmp_path) > 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_stopped_guardian_still_passes_on_that_the_child_is_to_end(tmp_path: Path, end: str) -> None:
    with start(tmp_path, "kill -STOP $PPID; echo stopped; exec sleep 600") as child:
        while child.read(0.1) == []:
            pass
        {"stop": child.stop, "kill": child.kill}[end]()
        assert read_out(child) == []
        assert child.exit_code == (-signal.SIGKILL if end == "kill" else -signal.SIGINT)


NO_MORE_PROCESSES = """
import os, resource, sys
from ralph.system.guardian import Guardian, StartError
if os.geteuid() == 0:  # for whom there is no such limit
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    with Guardian() as guardian:
        guardian.wake()
except StartError as error:
    print(error.message)
"""


def test_where_nothing_can_be_forked_that_is_said_and_nobody_is_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", NO_MORE_PROCESSES]
    said = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, start_new_session=True)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("cannot start a process: ")


def test_arguments_and_environment_may_be_longer_than_a_message(tmp_path: Path) -> None:
    """A message of this kind of socket holds some 200 KB."""
    with start(
        tmp_path, 'printf "%s\\n" "${#A}" "${#B}" "${#C}"', A="a" * 120_000, B="b" * 120_000, C="\udcff"
    ) as child:
        assert read_out(child) == [b"120000", b"120000", b"1"]
