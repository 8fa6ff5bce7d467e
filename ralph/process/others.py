"""Processes that are none of ours, but stand where we want to work."""

import contextlib
from pathlib import Path


def running_in(directory: Path, name: str) -> list[int]:
    """The processes whose program's name begins with `name` and that stand in `directory`, as far as one may look."""
    import psutil

    found: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name().startswith(name) and Path(process.cwd()).is_relative_to(directory):
                found.append(process.pid)
    return found


def is_running(pid: int) -> bool:
    """Tell whether the process lives; a zombie does not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
