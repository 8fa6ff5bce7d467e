"""Golden text of what views draw; `WRITE_GOLDEN=1 pytest …` writes it anew: look at what the diff says."""

from __future__ import annotations

import os
from pathlib import Path


def same_as_golden(drawn: str, golden: Path) -> bool:
    """Tell whether a drawing is the one that was looked at."""
    if os.environ.get("WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(drawn)
    return golden.read_text() == drawn
