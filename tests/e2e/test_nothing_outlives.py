"""Nothing outlives its iteration: hostile agents against every way in which an iteration can end.

Judged by the pids that the agents themselves wrote down, not by any mark that ralph leaves on a process.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.forms import ROUNDS
from tests.support.ralph_process import Ralph, RunningRalph
from tests.support.scripted_agent import (
    ScriptedAgent,
    Session,
    Step,
    answer,
    background,
    hang,
    ignore_signals,
    no_exit_after_result,
    run,
    spawn,
    summary,
)
from tests.support.stages import Stage, make_stage
from tests.support.waiting import comes_true, is_alive, wait_until

DEADLINE = 12.0
"""Seconds in which a tree must be gone."""

# A process that is replaced by its child every few milliseconds: whoever kills by a list of pids kills the past.
CHAIN = """
import os, sys, time
pids = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range(20000):
    os.write(pids, b"%d\\n" % os.getpid())
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.003)
"""

Make = Callable[[Path, "list[Step]", bool], Session]

# (directory for pid files, steps that end the turn, whether that is a verdict) -> the hostile session
HOSTILE: dict[str, Make] = {
    "ignores signals": lambda pids, last, _: [ignore_signals(), spawn(pids / "a", "ignore_term"), *last],
    "leaves a child in a session of its own": lambda pids, last, _: [spawn(pids / "a", "setsid"), *last],
    "forks twice and strips the environment": lambda pids, last, _: [spawn(pids / "a", "stripped"), *last],
    "leaves a child that holds stdout": lambda pids, last, _: [spawn(pids / "a", "holds_stdout"), *last],
    "never exits": lambda pids, last, _: [no_exit_after_result(), spawn(pids / "a"), *last],
    "wakes up by a background task": lambda pids, last, ends: [
        background(0.0, [spawn(pids / "a", "setsid"), *last]),
        summary("DONE") if ends else answer("not yet"),
    ],
    "forks after the result": lambda pids, last, ends: [
        summary("DONE") if ends else answer("not yet"),
        spawn(pids / "a", "double_fork"),
        *([] if ends else [hang()]),
    ],
    "stops its guardian": lambda pids, last, _: [
        run("kill -STOP $(ps -o ppid= -p $PPID)"),
        spawn(
            pids / "a", "setsid"
        ),  # which tells that it is hostile by now: after ralph's death nobody rouses a guardian
        *last,
    ],
    "keeps forking": lambda pids, last, _: [
        run(
            f"{sys.executable} -S {pids.parent / 'chain.py'} {pids / 'a'} >/dev/null 2>&1 &"
            f" until test -s {pids / 'a'}; do sleep 0.01; done"
        ),
        *last,
    ],
}


@dataclass(frozen=True)
class Case:
    """One hostile agent and the ralph that holds it."""

    name: str
    pids: Path
    agent: ScriptedAgent
    running: RunningRalph

    @property
    def is_hostile(self) -> bool:
        """The hostile thing has been done."""
        return (self.pids / "a").exists()

    @property
    def survivors(self) -> list[int]:
        written = [int(line) for file in self.pids.iterdir() if not file.suffix for line in file.read_text().split()]
        return sorted({pid for pid in [*written, *(start["pid"] for start in self.agent.starts)] if is_alive(pid)})


def ends_by_itself(cases: list[Case]) -> None:
    for case in cases:
        done = case.running.wait()
        assert done.exit_code == 0, f"{case.name}: {done}"


def is_interrupted(cases: list[Case]) -> None:
    _signal_all(cases, signal.SIGINT)
    for case in cases:
        done = case.running.wait()
        assert done.exit_code == 130, f"{case.name}: {done}"


def is_killed(cases: list[Case]) -> None:
    _signal_all(cases, signal.SIGKILL)
    for case in cases:
        assert case.running.wait().exit_code == -signal.SIGKILL


def _signal_all(cases: list[Case], number: int) -> None:
    for case in cases:
        wait_until(lambda case=case: case.is_hostile, f"the agent that {case.name}")
    for case in cases:
        case.running.send(number)


ENDINGS: dict[str, tuple[Callable[[list[Case]], None], list[Step], list[str]]] = {
    "normal end": (ends_by_itself, [summary("DONE")], []),
    "iteration timeout": (ends_by_itself, [hang()], ["--iteration-timeout", "12s"]),
    "Ctrl-C": (is_interrupted, [hang()], []),
    "kill -9 of ralph": (is_killed, [hang()], []),
}


SHORT = ("normal end", "kill -9 of ralph")


@pytest.mark.parametrize(
    "ending", [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in ENDINGS]
)
def test_no_process_outlives_its_iteration(tmp_path: Path, ralph: Ralph, ending: str) -> None:
    for number in range(ROUNDS):
        directory = tmp_path / str(number)
        _play_round(directory, ralph, ending)
        shutil.rmtree(directory)


def _play_round(directory: Path, ralph: Ralph, ending: str) -> None:
    """Hold all hostile agents at once, each in a place of its own: most of what they take is waiting."""
    end, last, flags = ENDINGS[ending]
    before = set(psutil.Process().children())
    with ExitStack() as stack:
        cases: list[Case] = []
        for number, name in enumerate(HOSTILE):
            stage = make_stage(directory / str(number), ralph)
            pids, agent = _play(stage, name, last)
            running = stack.enter_context(stage.ralph.start("run", "goal.md", "--json", *flags))
            cases.append(Case(name, pids, agent, running))
        end(cases)
        comes_true(lambda: not _outlived(cases), DEADLINE)
        assert not _outlived(cases), f"after {ending} there is left what an agent started that …"
        for case in cases:
            assert case.is_hostile, f"{case.name}: it came to nothing, so nothing was shown"
    # Nor does what ralph itself puts between: the session of tests inherits every orphan.
    wait_until(lambda: not _running(before), f"what ralph started after {ending} to leave", DEADLINE)


def _play(stage: Stage, name: str, last: list[Step]) -> tuple[Path, ScriptedAgent]:
    pids = stage.directory / "pids"
    pids.mkdir()
    (stage.directory / "chain.py").write_text(CHAIN)
    is_verdict = last != [hang()]
    return pids, stage.play([HOSTILE[name](pids, last, is_verdict), [summary("DONE")]])


def _outlived(cases: list[Case]) -> dict[str, list[int]]:
    return {case.name: case.survivors for case in cases if case.survivors}


def _running(before: set[psutil.Process]) -> list[psutil.Process]:
    return [child for child in set(psutil.Process().children()) - before if is_alive(child.pid)]
