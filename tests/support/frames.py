"""Golden text of what views draw; `WRITE_GOLDEN=1 pytest …` writes it anew: look at what the diff says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ralph.ui.terminal import Row


def same_as_golden(drawn: str, golden: Path) -> bool:
    """Tell whether a drawing is the one that was looked at."""
    if os.environ.get("WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(drawn)
    return golden.read_text() == drawn


def words(row: Row) -> str:
    """The words of a row, without their looks."""
    return "".join(segment.text for segment in row)


def lines(rows: Iterable[Row]) -> list[str]:
    """The words of rows, each without the room at its end."""
    return [words(row).rstrip() for row in rows]
