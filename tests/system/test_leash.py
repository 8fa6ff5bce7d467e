"""Children that die with their parent: real ralphs under a real parent, and small programs where those do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from ralph.core.errors import UsageError
from ralph.system.guardian import StartError
from ralph.system.leash import Leashed, heed_leash
from tests.support.git_repos import git
from tests.support.goals import write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, hang, ignore_signals, spawn, summary, write
from tests.support.waiting import PATIENCE, is_alive, pid_in, wait_until

RALPH = [sys.executable, "-P", "-m", "ralph"]

# What a queue worker does, in small: children on their leashes, one thread each that reads.
PARENT = """
import json, os, sys, threading
from pathlib import Path
from ralph.system.leash import Leashed

def follow(number, argv, cwd):
    log = Path(f"stderr-{number}")
    with Leashed(argv, cwd=Path(cwd), environment=dict(os.environ), stderr_log=log) as child:
        Path(f"pid-{number}").write_text(str(child.pid))
        with open(f"lines-{number}", "ab", buffering=0) as file:
            while (lines := child.read(60)) is not None:
                file.writelines(line + b"\\n" for line in lines)

for number, (argv, cwd) in enumerate(json.loads(sys.argv[1])):
    threading.Thread(target=follow, args=(number, argv, cwd)).start()
"""


def start(tmp_path: Path, *argv: str, **env: str) -> Leashed:
    environment = {"PATH": os.environ["PATH"], **env}
    return Leashed(argv, cwd=tmp_path, environment=environment, stderr_log=tmp_path / "stderr.log")


def shell(tmp_path: Path, script: str) -> Leashed:
    return start(tmp_path, "sh", "-c", script)


def python(tmp_path: Path, code: str) -> Leashed:
    return start(tmp_path, sys.executable, "-c", code)


def read_out(child: Leashed, within: float = PATIENCE) -> list[bytes]:
    lines: list[bytes] = []
    deadline = time.monotonic() + within
    while (batch := child.read(0.2)) is not None:
        lines += batch
        assert time.monotonic() < deadline, f"still reading after {within} s"
    return lines


def read_line(child: Leashed) -> bytes:
    while not (lines := child.read(10)):
        assert lines is not None, "it ended without a word"
    return lines[0]


def test_lines_are_read_the_half_one_at_the_end_too(tmp_path: Path) -> None:
    with shell(tmp_path, r"printf 'one\ntw'; sleep 0.3; printf 'o\n\nlast'; echo oops >&2; exit 3") as child:
        assert read_out(child) == [b"one", b"two", b"", b"last"]
        assert child.exit_code == 3
        assert child.read(0) is None
    assert (tmp_path / "stderr.log").read_text() == "oops\n"


def test_complaints_are_added_to_those_of_earlier_children(tmp_path: Path) -> None:
    for word in ("one", "two"):
        with shell(tmp_path, f"echo {word} >&2") as child:
            assert read_out(child) == []
    assert (tmp_path / "stderr.log").read_text() == "one\ntwo\n"


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path) -> None:
    with python(tmp_path, "print('a'); print('x' * (5 << 20)); print('b')") as child:
        assert read_out(child) == [b"a", b"b"]


def test_read_returns_in_time_though_nothing_is_said(tmp_path: Path) -> None:
    with shell(tmp_path, "printf half; exec sleep 60") as child:
        assert child.read(0.05) == []
        assert child.exit_code is None


def test_who_holds_the_pipe_of_a_child_that_left_is_not_waited_for(tmp_path: Path) -> None:
    with shell(tmp_path, "sleep 60 & echo $!") as child:
        lines = read_out(child)
        holder = int(lines[0])
        assert is_alive(holder)
        assert child.exit_code == 0
    os.kill(holder, signal.SIGKILL)


def test_a_child_that_takes_its_time_to_leave_is_judged_by_its_exit_code(tmp_path: Path) -> None:
    """On a busy machine the end of its output and its own are seconds apart; a green check would be red."""
    with shell(tmp_path, "echo green; exec >&-; sleep 1.5") as child:
        assert read_out(child) == [b"green"]
        assert child.exit_code == 0


def test_a_child_gets_its_own_session_the_word_and_nothing_to_read(tmp_path: Path) -> None:
    code = "import os; print(os.environ['RALPH_LEASH'], os.environ['A'], os.getsid(0) == os.getpid(), os.getcwd())"
    with start(tmp_path, sys.executable, "-c", code, A="a") as child:
        assert read_out(child) == [f"stdin a True {tmp_path}".encode()]


def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    before = _descriptors()
    with pytest.raises(StartError, match="cannot start nothing-here: No such file"):
        start(tmp_path, "nothing-here")
    assert _descriptors() == before


def test_stop_asks_with_sigint_once(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time\n"
        "count = 0\n"
        "def asked(number, frame):\n"
        "    global count\n    count += 1\n    os.write(1, b'%d\\n' % number)\n"
        "signal.signal(signal.SIGINT, asked)\n"
        "print('ready', flush=True)\n"
        "while not count: time.sleep(0.05)\n"
        "deadline = time.monotonic() + 1\n"
        "while time.monotonic() < deadline: time.sleep(0.05)\n"
        "sys.exit(130 if count == 1 else 1)"
    )
    with python(tmp_path, code) as child:
        assert read_line(child) == b"ready"
        child.stop()
        child.stop()
        assert read_out(child) == [b"2"]
        assert child.exit_code == 130


def test_stop_grows_harder_with_whom_will_not_end(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\n"
        "tell = lambda number, frame: os.write(1, b'%d\\n' % number)\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, tell)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )
    with python(tmp_path, code) as child:
        assert read_line(child) == b"ready"
        child.stop()
        assert read_out(child) == [b"2", b"15"]
        assert child.exit_code == -signal.SIGKILL


def test_leaving_ends_a_child_that_never_reads_nor_listens(tmp_path: Path) -> None:
    code = (
        "import signal, time\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )
    before = _descriptors()
    with python(tmp_path, code) as child:
        assert read_line(child) == b"ready"
    assert child.exit_code == -signal.SIGKILL
    assert not is_alive(child.pid)
    assert _descriptors() == before


def test_each_holds_its_own_leash_and_nobody_elses(tmp_path: Path) -> None:
    """One whose leash is let go of ends, though others live that were started before and after it."""
    before = _descriptors()
    code = "from ralph.system.leash import heed_leash; heed_leash('stdin')\n"
    code += "import time; print(1, flush=True); time.sleep(600)"
    with ExitStack() as stack:
        children = [stack.enter_context(python(tmp_path, code)) for _ in range(12)]
        for child in children:
            assert read_line(child) == b"1"
            assert sorted(_pipes(child.pid)) == [0, 1]  # stderr is a file
        leash = children[5]._process.stdin
        assert leash is not None
        leash.close()
        assert read_out(children[5], within=50) == []
        assert children[5].exit_code == -signal.SIGKILL
        assert [child.exit_code for child in children].count(None) == 11
    assert _descriptors() == before


def test_only_a_pipe_is_a_leash() -> None:
    heed_leash("")
    for word in ("stdin", "yes"):  # the tests' own stdin is none
        with pytest.raises(UsageError, match=f"RALPH_LEASH={word}"):
            heed_leash(word)


def test_a_ralph_whose_word_for_a_leash_is_unknown_is_refused(ralph: Ralph, repo: Path) -> None:
    write_goal(repo)
    assert ralph("run", "goal.md", env={"RALPH_LEASH": "stdin"}).exit_code == 2  # of the fixture, stdin is a file
    assert not (repo / ".ralph").exists()


def test_ralphs_die_with_a_parent_that_is_killed_and_go_on_at_the_next_start(
    ralph: Ralph, repo: Path, tmp_path: Path, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    write_check(repo)
    pids = [tmp_path / name for name in ("setsid", "double_fork", "ignore_term")]
    agent = claude_script(
        [write("one.txt", "1"), summary("one")],
        [
            spawn(pids[0], "setsid"),
            spawn(pids[1], "double_fork"),
            spawn(pids[2], "ignore_term"),
            ignore_signals(),
            hang(),
        ],
        [write("answer.txt", "42\n"), summary("DONE")],
    )
    other = [sys.executable, "-c", "import time; time.sleep(120)"]
    children = json.dumps([[[*RALPH, "run", "goal.md", "--json"], str(repo)], [other, str(tmp_path)]])
    with subprocess.Popen([sys.executable, "-c", PARENT, children], cwd=tmp_path, env=ralph.env) as parent:
        wait_until(lambda: all(file.exists() and file.read_text() for file in pids), "the agent's strays")
        child, deaf = pid_in(tmp_path / "pid-0"), pid_in(tmp_path / "pid-1")
        tree = [process.pid for process in psutil.Process(child).children(recursive=True)]
        parent.kill()
    doomed = [child, *tree, *map(pid_in, pids)]
    wait_until(lambda: not [pid for pid in doomed if is_alive(pid)], "all of ralph to be gone")
    os.kill(deaf, signal.SIGKILL)
    assert "RALPH_LEASH" not in agent.starts[1]["env"]
    events = [json.loads(line) for line in (tmp_path / "lines-0").read_text().splitlines()]
    assert [event["iteration"] for event in events if event["type"] == "iteration_ended"] == [1]

    with Leashed(
        [*RALPH, "run", "goal.md", "--json"], cwd=repo, environment=ralph.env, stderr_log=tmp_path / "e"
    ) as again:
        events = [json.loads(line) for line in read_out(again)]
        assert again.exit_code == 0
    assert [event["iteration"] for event in events if event["type"] == "iteration_started"] == [2]
    assert git(repo, "log", "--format=%(trailers:key=Ralph-Iteration,valueonly,separator=%x2C)").split() == ["2", "1"]


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_ralph_is_stopped_with_all_that_it_started(
    ralph: Ralph, repo: Path, tmp_path: Path, claude_script: ClaudeScript, way: str
) -> None:
    write_goal(repo)
    stray = tmp_path / "stray"
    agent = claude_script([spawn(stray, "stripped"), hang()])
    with Leashed(
        [*RALPH, "run", "goal.md", "--json"], cwd=repo, environment=ralph.env, stderr_log=tmp_path / "e"
    ) as child:
        wait_until(lambda: stray.exists() and stray.read_text(), "the agent's stray")
        child.stop() if way == "stop" else child.kill()
        events = [json.loads(line) for line in read_out(child)]
        assert not [pid for pid in (child.pid, pid_in(stray), agent.starts[0]["pid"]) if is_alive(pid)]
        assert child.exit_code == (130 if way == "stop" else -signal.SIGKILL)
    assert [event["exit_code"] for event in events if event["type"] == "run_ended"] == ([130] if way == "stop" else [])


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _pipes(pid: int) -> list[int]:
    folder = Path(f"/proc/{pid}/fd")
    return [int(entry.name) for entry in folder.iterdir() if str(entry.readlink()).startswith("pipe:")]
