"""kill -9 of ralph at any system call loses nothing that was finished, repeats nothing, and miscounts no cent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.forms import POINTS
from tests.support.ralph_process import Ralph
from tests.support.sweep import Point, copy_package, crash, make_it_return, spread, trace, with_package

pytestmark = pytest.mark.long

PARTS = 2
"""So that two can run side by side."""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_run_killed_at_any_call_goes_on_without_loss(tmp_path: Path, ralph: Ralph, part: int) -> None:
    strace = tools.strace()
    points = trace(tmp_path / "clean", ralph, strace)
    chosen = spread(points, POINTS)[part::PARTS]

    wrong, reached = _sweep(tmp_path, ralph, strace, chosen)

    assert not wrong, "\n".join([f"{len(wrong)} of {len(chosen)} points went wrong:", *wrong])
    assert reached >= 0.9 * len(chosen), "the runs differ too much from the one that was traced"


def test_a_run_killed_between_two_records_of_an_iteration_tells_nothing_of_the_one_before(
    tmp_path: Path, ralph: Ralph
) -> None:
    """The second iteration stands in `progress.jsonl`, and `run.json` still has the red check of the first."""
    closed = Point("close", 2, "of progress.jsonl", file="progress.jsonl")

    hit, wrong = crash(tmp_path / "killed", ralph, tools.strace(), closed)

    assert (hit, wrong) == (True, [])


def test_the_sweep_sees_a_recovery_that_is_broken(tmp_path: Path, ralph: Ralph) -> None:
    """The negative control: the same ralph, but deaf to the trailers of its commits."""
    strace = tools.strace()
    package = copy_package(tmp_path / "package")
    make_it_return(package / "ralph", "read_message", "None")
    broken = with_package(ralph, package)
    points = trace(tmp_path / "clean", broken, strace)
    between = [point for point in points if "/progress.jsonl>" in point.line and point.call == "write"][:2]
    assert between, "ralph writes progress.jsonl after each commit"

    wrong, _ = _sweep(tmp_path, broken, strace, between)

    assert wrong, "an iteration that is committed but not recorded must be missed without its trailers"


def _sweep(tmp_path: Path, ralph: Ralph, strace: str, points: list[Point]) -> tuple[list[str], int]:
    wrong: list[str] = []
    reached = 0
    for number, point in enumerate(points):
        directory = tmp_path / str(number)
        hit, faults = crash(directory, ralph, strace, point)
        reached += hit
        wrong += [f"killed at {point}\n    {fault}" for fault in faults]
        shutil.rmtree(directory)
    return wrong, reached
