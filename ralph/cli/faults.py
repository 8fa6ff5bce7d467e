"""How every command draws a fault."""

import sys
import tempfile
import traceback
from pathlib import Path

from ralph.config import paths
from ralph.core.errors import BUG, RalphError
from ralph.core.text import both_ends
from ralph.system import environ
from ralph.ui.terminal import Outlet, visible

_LONGEST_LINE = 1000
"""Characters of a line of an error: more is a value that somebody wrote and that is quoted."""


def complain(message: str, hint: str = "") -> None:
    """Write an error, and the next step where there is one."""
    message = "\n".join(both_ends(line, _LONGEST_LINE) for line in message.split("\n"))
    Outlet(sys.stderr).write(f"error: {visible(message)}\n" + (f"\nhint: {visible(hint)}\n" if hint else ""))


def report_bug(error: Exception) -> int:
    """Keep the traceback in a file and say where it is, and what there is to do."""
    message = f"a bug in ralph: {type(error).__name__}: {error}"
    try:
        report = f"the traceback is in {_keep(traceback.format_exc())}; please report it"
        complain(message, "; ".join([report, *getattr(error, "__notes__", [])]))
    except (OSError, RalphError):
        complain(message, traceback.format_exc())
    return BUG


def _keep(text: str) -> str:
    try:
        folder = paths.ralph_dir(environ.without_redirections()) / "bugs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RalphError):
        folder = Path(tempfile.gettempdir())
    with tempfile.NamedTemporaryFile("w", prefix="ralph-", suffix=".log", dir=folder, delete=False) as file:
        file.write(text)
    return file.name
