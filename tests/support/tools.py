"""The outside programs that `make tools` fetched. Import it at the top of a module: it looks at the environment once,
then, before the guards of conftest.py move HOME and clear RALPH_*."""

import os
from pathlib import Path

import pytest

from tools import fetch

_CACHE = fetch.cache_dir(os.environ)
_REQUIRED = os.environ.get("RALPH_REQUIRE_REAL") == "1"


def find(name: str) -> Path:
    """Return the program's path; without it skip the test and say why, or fail it where the real thing is required."""
    tool = fetch.pinned()[name]
    path = tool.path(_CACHE)
    if path.exists():
        return path
    reason = fetch.why_missing(tool, _CACHE)
    if _REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)
