"""tools/flakes, on small suites that fail as the test says."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

PROGRAM = Path(__file__).parents[2] / "tools" / "flakes"

SUITE = """
import os
from pathlib import Path

import psutil
import pytest

def test_good():
    with Path("siblings").open("a") as file:
        print(len(psutil.Process(os.getppid()).children()) - 1, file=file)

@pytest.mark.parametrize("number", [1, 2])
def test_now_and_then(number):
    runs = Path("siblings").read_text().splitlines()
    assert number == 1 or len(runs) != 2, "in the second run"

class TestInClass:
    def test_bad(self):
        assert False

@pytest.fixture
def broken():
    yield
    raise OSError

def test_with_broken_fixture(broken):
    assert True
"""


@dataclass(frozen=True)
class Flakes:
    """The program, on the tests of a directory."""

    place: Path

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, str(PROGRAM), f"--output={self.place / 'kept'}", *args]

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.argv(*args), cwd=self.place, capture_output=True, text=True, timeout=120)

    @property
    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.place / "kept").glob("*/*"))


@pytest.fixture
def flakes(tmp_path: Path) -> Flakes:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_them.py").write_text(SUITE)
    return Flakes(tmp_path)


def test_a_run_that_failed_without_a_failed_test_is_no_success(flakes: Flakes) -> None:
    (flakes.place / "conftest.py").write_text(
        "def pytest_sessionfinish(session, exitstatus):\n    session.exitstatus = 1\n"
    )
    done = flakes.run("-n", "1", "--busy", "0", "--", "-q", "test_them.py::test_good", "-p", "no:cacheprovider")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "run 1 of 1: 0 failed")


def test_what_writes_no_report_and_an_output_that_cannot_be_made(flakes: Flakes) -> None:
    done = flakes.run("-n", "1", "--busy", "0", "--", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    done = flakes.run("-n", "1", "--output=/proc/nowhere", "--", "-q", "test_them.py")
    assert (done.returncode, done.stderr) == (2, "error: --output /proc/nowhere: No such file or directory\n")


def test_it_counts_how_often_each_test_failed(flakes: Flakes) -> None:
    done = flakes.run("-n", "3", "--busy", "2", "--", "-q", "test_them.py", "-p", "no:cacheprovider")

    assert done.returncode == 1, done.stderr
    *lines, last = done.stdout.splitlines()
    assert lines == [
        "run 1 of 3: 2 failed",
        "run 2 of 3: 3 failed",
        "run 3 of 3: 2 failed",
        "failed 3 of 3: test_them.py::TestInClass::test_bad",
        "failed 3 of 3: test_them.py::test_with_broken_fixture",
        "failed 1 of 3: test_them.py::test_now_and_then[2]",
    ]
    assert (flakes.place / "siblings").read_text().split() == ["2", "2", "2"]  # busy processes beside each run
    kept = Path(last.removeprefix("output of the runs that failed: "))
    assert flakes.kept == ["run-1.txt", "run-1.xml", "run-2.txt", "run-2.xml", "run-3.txt", "run-3.xml"]
    assert "in the second run" in (kept / "run-2.txt").read_text()


def test_runs_that_pass_leave_nothing(flakes: Flakes) -> None:
    done = flakes.run("-n", "2", "--busy", "0", "test_them.py::test_good")
    assert (done.returncode, done.stdout) == (0, "run 1 of 2: passed\nrun 2 of 2: passed\n"), done.stderr
    assert list((flakes.place / "kept").iterdir()) == []


def test_it_does_not_repeat_what_pytest_refuses(flakes: Flakes) -> None:
    done = flakes.run("-n", "2", "--busy", "0", "--", "no_such_test.py")
    assert (done.returncode, done.stdout.splitlines()[0]) == (4, "run 1 of 2: pytest exited with 4")
    assert flakes.kept == ["run-1.txt", "run-1.xml"]


def test_ctrl_c_ends_the_busy_processes_and_reports_the_runs_so_far(flakes: Flakes) -> None:
    wait = (
        "import time\nfrom pathlib import Path\n\ndef test_wait():\n    Path('waiting').touch()\n    time.sleep(60)\n"
    )
    (flakes.place / "test_them.py").write_text(wait)
    with subprocess.Popen(
        flakes.argv("-n", "2", "--busy", "1", "--", "test_them.py"),
        cwd=flakes.place,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until((flakes.place / "waiting").exists, "the test runs")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does; conftest.py looks for processes that are left
        stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout.splitlines()[0]) == (130, "run 1 of 2: interrupted")
