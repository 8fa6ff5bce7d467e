"""A short program that is run to its end: no terminal, a time limit if need be, nothing left of it afterwards."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Reply:
    """What it printed and complained of; `exit_code` None: it ran out of time, or could not be started."""

    exit_code: int | None
    output: str
    complaints: str


def ask(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    limit: float | None,
    said: bytes | None = None,
    undecodable: str = "replace",
) -> Reply:
    """Run a program to its end, without a guardian: for short ones of the user's own, such as git and `gh`.

    It reads `said`, or nothing. `undecodable` is the error handler for output that is not UTF-8.
    """
    stdin = subprocess.DEVNULL if said is None else subprocess.PIPE
    try:
        program = subprocess.Popen(
            argv, cwd=cwd, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Reply(None, "", f"{argv[0]}: {error.strerror}")
    with program:
        try:
            output, complaints = program.communicate(said, timeout=limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            return Reply(None, "", f"{argv[0]} did not answer in {limit:g} s")
    return Reply(program.returncode, output.decode("utf-8", undecodable), complaints.decode("utf-8", undecodable))
