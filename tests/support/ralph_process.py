"""`ralph` as a real process, with an environment that the test gives in full.

Its output goes to files, not pipes: whatever it leaves running cannot hold the test, and no thread is needed to read.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import Forks
from tests.support.output_file import OutputFile
from tests.support.waiting import PATIENCE, WITNESSES, kill_tree, wait_until

Event = dict[str, Any]

_LONGEST = 180.0
"""Seconds that a test waits for the end of a ralph that ends by itself."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A ralph that has ended; `events` holds its stdout when it was started with --json."""

    exit_code: int
    stdout: str
    stderr: str
    events: Sequence[Event] = ()

    @property
    def complaints(self) -> str:
        """What it wrote to stderr besides progress, which depends on how busy the machine is."""
        titles = [match[1] for match in re.finditer(r"^(.+): done in [0-9hms.]+$", self.stderr, re.MULTILINE)]
        told = {line for title in titles for line in (title, f"{title}: done in ")}
        lines = self.stderr.splitlines(keepends=True)
        return "".join(line for line in lines if re.sub(r"(: done in ).*", r"\1", line.rstrip("\n")) not in told)

    def events_of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["type"] == kind]


class RunningRalph:
    """A ralph that runs; at the end of its `with` block it does not any more."""

    def __init__(
        self,
        args: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        input: str | None,  # noqa: A002
        under: Sequence[str] = (),
        module: str = "ralph",
    ) -> None:
        self._json = "--json" in args
        self._stdout = OutputFile()
        self._stderr = OutputFile()
        with tempfile.TemporaryFile() as stdin:
            stdin.write((input or "").encode())
            stdin.seek(0)
            # -P: a directory `ralph` in the repository is not the package.
            self._process = subprocess.Popen(
                [*under, sys.executable, "-P", "-m", module, *args],
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=self._stdout.file,
                stderr=self._stderr.file,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> str:
        return self._stdout.text

    @property
    def stderr(self) -> str:
        return self._stderr.text

    @property
    def events(self) -> list[Event]:
        return _events(self.stdout) if self._json else []

    def wait_for(self, kind: str, count: int = 1, timeout: float = PATIENCE) -> Event:
        """Wait for the count-th event of this type."""
        found = lambda: [event for event in self.events if event["type"] == kind]  # noqa: E731
        self.wait_until(lambda: len(found()) >= count, f"{kind} event {count}", timeout)
        return found()[count - 1]

    def wait_until(self, condition: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
        """Wait for what ralph brings about; fail the test at once when it has ended without that."""
        wait_until(lambda: condition() or self._process.poll() is not None, what, timeout)
        if not condition():
            pytest.fail(f"ralph ended without {what}\n{self._testimony()}")

    def send(self, number: int) -> None:
        """Send a signal to ralph alone, not to what it started."""
        self._process.send_signal(number)

    def wait(self, timeout: float = _LONGEST) -> Finished:
        """Wait for its end; kill it with all that it started, and fail the test, when that does not come."""
        try:
            exit_code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            told = self._testimony()
            self._kill()
            pytest.fail(f"ralph was still running after {timeout:g} s\n{told}")
        return Finished(exit_code, self.stdout, self.stderr, tuple(self.events))

    def close(self) -> None:
        if self._process.poll() is None:
            self._kill()
        self._stdout.close()
        self._stderr.close()

    def __enter__(self) -> RunningRalph:
        WITNESSES.append(self._testimony)
        return self

    def __exit__(self, *_: object) -> None:
        WITNESSES.remove(self._testimony)
        self.close()

    def _kill(self) -> None:
        kill_tree(self._process.pid)
        self._process.wait()

    def _testimony(self) -> str:
        exit_code = self._process.poll()
        state = "still runs" if exit_code is None else f"has ended with {exit_code}"
        return f"process {self.pid} {state}{_said(self.stdout, self.stderr)}"


def start_ralph(
    *args: str | Path,
    cwd: Path,
    env: Mapping[str, str],
    input: str | None = None,  # noqa: A002
    under: Sequence[str] = (),
    module: str = "ralph",
) -> RunningRalph:
    """Start `ralph args…`, by the command `under` if there is one, such as strace; use it in a `with` block."""
    return RunningRalph([str(arg) for arg in args], cwd, env, input, under, module)


def run_ralph(
    *args: str | Path,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float = _LONGEST,
    input: str | None = None,  # noqa: A002
    under: Sequence[str] = (),
    module: str = "ralph",
) -> Finished:
    """Run `ralph args…` to its end."""
    with start_ralph(*args, cwd=cwd, env=env, input=input, under=under, module=module) as running:
        return running.wait(timeout)


def _run_by_fork(
    forks: Forks,
    module: str,
    args: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    input: str | None,  # noqa: A002
) -> Finished:
    stdout, stderr = OutputFile(), OutputFile()
    with contextlib.closing(stdout), contextlib.closing(stderr), tempfile.TemporaryFile() as stdin:
        stdin.write((input or "").encode())
        stdin.seek(0)
        pid = forks.run(module, args, cwd, env, [stdin, stdout.file, stderr.file])
        try:
            exit_code = forks.wait(timeout)
        except TimeoutError:
            kill_tree(pid)
            forks.wait(PATIENCE)
            pytest.fail(f"ralph was still running after {timeout:g} s{_said(stdout.text, stderr.text)}")
        events = _events(stdout.text) if "--json" in args else []
        return Finished(exit_code, stdout.text, stderr.text, tuple(events))


def _events(stdout: str) -> list[Event]:
    """The events so far, without a line that is still being written."""
    return [json.loads(line) for line in stdout.split("\n")[:-1]]


def _said(stdout: str, stderr: str) -> str:
    return f"\n--- its stdout:\n{stdout}\n--- its stderr:\n{stderr}"


@dataclass(frozen=True, slots=True)
class Ralph:
    """The fixtures `ralph` and `ralph_runs`: in one repository and one environment; `env=` adds to the latter."""

    repo: Path
    env: Mapping[str, str] = field(repr=False)
    module: str = "ralph"
    forks: Forks | None = field(default=None, repr=False)
    """Who runs it to its end in a fraction of the time, where that makes no difference."""

    def __call__(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = _LONGEST,
        input: str | None = None,  # noqa: A002
        under: Sequence[str] = (),
    ) -> Finished:
        environment = {**self.env, **(env or {})}
        place = cwd or self.repo
        if self.forks is not None and not under and self.forks.suits(environment):
            words = [str(arg) for arg in args]
            return _run_by_fork(self.forks, self.module, words, place, environment, timeout, input)
        return run_ralph(
            *args, cwd=place, env=environment, timeout=timeout, input=input, under=under, module=self.module
        )

    def start(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str | None = None,  # noqa: A002
        under: Sequence[str] = (),
    ) -> RunningRalph:
        environment = {**self.env, **(env or {})}
        return start_ralph(*args, cwd=cwd or self.repo, env=environment, input=input, under=under, module=self.module)
