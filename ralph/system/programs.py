"""A program that is asked one thing and answers: no input, no terminal, a time limit, nothing left of it afterwards."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.process.starting import deaf_to_ctrl_z


@dataclass(frozen=True, slots=True)
class Reply:
    """What it printed and complained of; `exit_code` None: it ran out of time, or could not be started."""

    exit_code: int | None
    output: str
    complaints: str


def run_to_end(argv: Sequence[str], *, environment: Mapping[str, str], said: bytes | None) -> tuple[int, bytes, bytes]:
    """Run a program to its end, however long that takes; return its exit status, output and complaints.

    Raise the `OSError` of a program that cannot be started.
    """
    with deaf_to_ctrl_z():
        program = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL if said is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    with program:
        output, complaints = program.communicate(said)
    return program.returncode, output, complaints


def ask(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], limit: float) -> Reply:
    """Run a program to its end, without a guardian: for short ones of the user's own, such as `gh`."""
    try:
        with deaf_to_ctrl_z():
            program = subprocess.Popen(
                argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        return Reply(None, "", f"{argv[0]}: {error.strerror}")
    with program:
        try:
            output, complaints = program.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            return Reply(None, "", f"{argv[0]} did not answer in {limit:g} s")
    return Reply(program.returncode, output.decode("utf-8", "replace"), complaints.decode("utf-8", "replace"))
