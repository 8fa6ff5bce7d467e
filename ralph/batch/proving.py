"""The check of a merge: `ralph check` as a child, in a clean checkout."""

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ralph.core import ndjson
from ralph.queue.merge.pipeline import CheckOutcome
from ralph.system.files import make_private_directory
from ralph.system.leash import Leashed


def check_checkout(
    checkout: Path,
    *,
    flags: Sequence[str],
    env: Mapping[str, str],
    complaints: Path,
    stop_requests: Callable[[], int],
) -> CheckOutcome:
    """Run the repository's check in a checkout, its setup first."""
    make_private_directory(complaints.parent)
    report: Mapping[str, object] = {}
    argv = [sys.executable, "-P", "-m", "ralph", "check", "--json", *flags]
    with Leashed(argv, cwd=checkout, environment=env, stderr_log=complaints) as child:
        for line in child.lines(stop_requests):
            with contextlib.suppress(ndjson.Malformed, UnicodeDecodeError):
                report = ndjson.mapping(ndjson.decode(line.decode("utf-8")))
        exit_code = child.exit_code
    if stop_requests():
        return CheckOutcome(None, "stopped")
    if exit_code == 0 and report.get("exit_code") == 0:
        return CheckOutcome(0, ndjson.text(report.get("output")))
    if exit_code is not None and exit_code < 0:
        return CheckOutcome(exit_code, f"killed by signal {-exit_code}")
    said = ndjson.text(report.get("output")) or complaints.read_text("utf-8", "replace")[-4000:]
    stage = ndjson.text(report.get("stage")) or "check"
    how = _ended(report.get("exit_code", exit_code))
    return CheckOutcome(exit_code or 1, f"the {stage} is red: {how}:\n{said}", how)


def _ended(exit_code: object) -> str:
    """How the check itself has ended, in a word."""
    if not isinstance(exit_code, int):
        return "out of time"
    return f"killed by signal {-exit_code}" if exit_code < 0 else f"exit {exit_code}"
