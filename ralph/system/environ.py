"""The environment that ralph was started with: the only module that reads it, and one that is cheap to import."""

import contextlib
import os
from collections.abc import Generator

_GIT_REDIRECTIONS = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE",
    "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
)  # fmt: skip


FAULT_FILE = "RALPH_FAULT_FILE"
"""Names the file in which a child of a queue worker reports the fault that ended it."""


def inherited() -> dict[str, str]:
    """All of it, as it is."""
    return dict(os.environ)


def without_redirections() -> dict[str, str]:
    """All of it, less what would point git (started from a hook, say) at another tree; from now on."""
    for name in _GIT_REDIRECTIONS:
        os.environ.pop(name, None)
    return inherited()


def taken(name: str) -> str:
    """Take one variable out of it for good, and say what it held; empty if it is not there."""
    return os.environ.pop(name, "")


@contextlib.contextmanager
def searching(path: str) -> Generator[None]:
    """Have PATH be another one for as long as this takes."""
    before = os.environ.get("PATH")
    os.environ["PATH"] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ["PATH"]
        else:
            os.environ["PATH"] = before
