"""`.ralph/state`, `.ralph/logs`, `.ralph/runs`: what people and tools may look at. Written, never read back."""

import contextlib
import stat
from collections.abc import Sequence
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import DiskError
from ralph.system.files import overwrite_file, replace_file

EXCLUDES: Sequence[str] = ("/.ralph/state", "/.ralph/logs", "/.ralph/runs")
"""Lines for `.git/info/exclude`: without a trailing slash, with which git does not match links."""

_WIDTH = 255
"""Characters to which a document is filled up with blanks: one of the same size can be overwritten in place."""


class Windows:
    """The projections of one run. They follow no link, and a fault in them never matters to the run."""

    def __init__(self, root: Path) -> None:
        self._own = root / ".ralph"

    def show_session(self, session_id: str, at: str) -> None:
        self._write(
            "claude-session.json", {"planner_session_id": None, "coder_session_id": session_id, "updated_at": at}
        )

    def show_budget(
        self, *, cost_usd: float, max_cost_usd: float | None, iterations: int, max_iterations: int | None
    ) -> None:
        self._write(
            "budget.json",
            {
                "total_cost_usd": cost_usd,
                "max_cost_usd": max_cost_usd,
                "iterations": iterations,
                "max_iterations": max_iterations,
            },
        )

    def link_run(self, goal: str, run_directory: Path) -> None:
        """Point `.ralph/logs` and `.ralph/runs/<goal>` at the run directory."""
        with contextlib.suppress(OSError, DiskError):
            if self._directory(self._own) and self._directory(self._own / "runs"):
                _link(self._own / "logs", run_directory / "logs")
                _link(self._own / "runs" / goal, run_directory)

    def _write(self, name: str, document: dict[str, object]) -> None:
        with contextlib.suppress(OSError, DiskError):
            if self._directory(self._own) and self._directory(self._own / "state"):
                content = f"{ndjson.encode(document).ljust(_WIDTH)}\n".encode("utf-8", "replace")
                path = self._own / "state" / name
                if not overwrite_file(path, content):
                    replace_file(path, content, mode=0o644, durable=False)

    def _directory(self, path: Path) -> bool:
        try:
            return stat.S_ISDIR(path.lstat().st_mode)
        except FileNotFoundError:
            path.mkdir()
            return True


def _link(path: Path, target: Path) -> None:
    if path.is_symlink():
        if path.readlink() == target:
            return
        path.unlink()
    if not path.exists():  # a directory that the user made stays
        path.symlink_to(target)
