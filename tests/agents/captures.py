"""What agents were seen to print, by transcript; `RALPH_EXTRA_CAPTURES` names a folder with more.

The variable is read when this is imported: the guards of conftest.py clear RALPH_* before a test runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from ralph.agents.registry import TRANSCRIPTS

FIXTURES = Path(__file__).parent.parent / "fixtures"
GOLDEN = ".events.ndjson"
_EXTRA = os.environ.get("RALPH_EXTRA_CAPTURES", "")


def captures_of(name: str) -> list[Path]:
    """The captures that are kept for a transcript."""
    return [path for path in sorted((FIXTURES / name).glob("*")) if not path.name.endswith(GOLDEN)]


CAPTURES = [(name, path) for name in TRANSCRIPTS for path in captures_of(name)]


def extra_captures() -> list[Path]:
    """Whatever lies in the folder that was named."""
    return sorted(path for path in Path(_EXTRA).rglob("*") if path.is_file()) if _EXTRA else []


def golden_of(path: Path) -> Path:
    """Where the events of a capture are kept."""
    return path.with_name(path.stem + GOLDEN)


def lines_of(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8", "replace").split("\n")
