#!/usr/bin/env python3
"""Find flaky tests: run pytest several times while other processes keep the CPU busy, and count the failures.

    tools/flakes                            run what `make test` runs, five times
    tools/flakes -n 20 -- tests/e2e -n 2    run these tests twenty times, with these arguments of pytest
    tools/flakes --busy 4 -- tests/ui       compete with four busy processes, instead of one for each core

Exits with 1 if a test failed. The output of each run that failed stays in a new directory below `.flakes`.
"""

import argparse
import datetime
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

_ROOT = Path(__file__).resolve().parent.parent
_EVERYTHING = ("-n", "auto", "--dist", "loadgroup", "--max-worker-restart=0", "-m", "not long")

# It asks for its parent so that it ends with a parent that is killed.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(1_000_000))"

_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2
"""Exit codes of pytest; with any other, it did not run the tests."""

_MISUSED = 2


@dataclass(frozen=True, slots=True)
class Run:
    """One run of pytest: its exit code, and the ids of the tests that failed."""

    exit_code: int
    failed: frozenset[str]


def main() -> int:
    options = _parse(sys.argv[1:])
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    output: Path = options.output.absolute() / f"{now}-{os.getpid()}"
    try:
        output.mkdir(parents=True)
    except OSError as error:
        print(f"error: --output {options.output}: {error.strerror}", file=sys.stderr)
        return _MISUSED
    runs: list[Run] = []
    with _busy(options.busy):
        for number in range(1, options.runs + 1):
            run = _run_pytest(options.pytest, output / f"run-{number}")
            runs.append(run)
            print(f"run {number} of {options.runs}: {_outcome(run)}", flush=True)
            if run.exit_code not in (_PASSED, _FAILED):
                break
    _report(runs, output)
    if runs[-1].exit_code not in (_PASSED, _FAILED):
        return 128 + signal.SIGINT if runs[-1].exit_code == _INTERRUPTED else runs[-1].exit_code
    return _FAILED if any(run.exit_code == _FAILED for run in runs) else _PASSED


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/flakes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", dest="runs", type=int, default=5, metavar="RUNS", help="how often to run (default: 5)")
    cores = os.cpu_count() or 1
    parser.add_argument("--busy", type=int, default=cores, metavar="PROCESSES", help=f"default here: {cores}")
    parser.add_argument("--output", type=Path, default=_ROOT / ".flakes", metavar="DIR", help="default: .flakes")
    parser.add_argument("pytest", nargs="*", metavar="PYTEST_ARGS", help="default: as `make test`")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.busy < 0:
        parser.error("-n must be at least 1, and --busy at least 0")
    return options


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """Keep this many processes busy."""
    # Ctrl-C reaches them, too: without stderr, they do not complain.
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY], stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _run_pytest(asked: Sequence[str], output: Path) -> Run:
    """Run pytest once, on everything if nothing is asked for; keep what it prints and its report if it did not pass."""
    arguments, place = (asked, None) if asked else (_EVERYTHING, _ROOT)
    text, xml = output.with_suffix(".txt"), output.with_suffix(".xml")
    report = [f"--junitxml={xml}", "-o", "junit_family=xunit1"]  # the newer family does not name the file of a test
    with text.open("wb") as stdout:
        argv = [_python(), "-m", "pytest", *report, *arguments]
        process = subprocess.Popen(argv, cwd=place, stdout=stdout, stderr=stdout)
        try:
            exit_code = process.wait()
        except KeyboardInterrupt:  # the terminal told pytest as well, which ends what its tests have started
            process.wait()
            exit_code = _INTERRUPTED
    failed = frozenset(_failed_tests(xml)) if xml.exists() else frozenset[str]()
    if exit_code == _PASSED:
        text.unlink()
        xml.unlink(missing_ok=True)
    return Run(exit_code, failed)


def _python() -> str:
    """Return the Python of the environment that `make` builds, else this one."""
    built = _ROOT / ".venv" / "bin" / "python"
    return str(built) if built.exists() else sys.executable


def _failed_tests(report: Path) -> Iterator[str]:
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        if case.find("failure") is not None or case.find("error") is not None:
            yield _test_id(case.get("file", ""), case.get("classname", ""), case.get("name", ""))


def _test_id(file: str, dotted: str, name: str) -> str:
    """Return the id that pytest takes: a report has tests/test_it.py, tests.test_it.TestClass, and test_name[1]."""
    module = file.removesuffix(".py").replace("/", ".")
    classes = dotted.removeprefix(module).strip(".")
    return "::".join(part for part in (file, *classes.split("."), name) if part)


def _outcome(run: Run) -> str:
    if run.exit_code == _PASSED:
        return "passed"
    if run.exit_code == _FAILED:
        return f"{len(run.failed)} failed"
    return "interrupted" if run.exit_code == _INTERRUPTED else f"pytest exited with {run.exit_code}"


def _report(runs: Sequence[Run], output: Path) -> None:
    if all(run.exit_code == _PASSED for run in runs):
        output.rmdir()
        return
    for test, count in _most_frequent(test for run in runs for test in run.failed):
        print(f"failed {count} of {len(runs)}: {test}")
    print(f"output of the runs that failed: {output}")


def _most_frequent(tests: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(tests).items(), key=lambda item: (-item[1], item[0]))


if __name__ == "__main__":
    sys.exit(main())
