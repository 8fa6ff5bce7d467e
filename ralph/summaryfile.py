"""`summary.md` in the run directory: the rolling summary, for people to read and for the next start to go on with."""

import re
from dataclasses import dataclass
from pathlib import Path

from ralph.core.summary import Summary
from ralph.system.files import replace_file

_FIRST_LINE = re.compile(r"# Iterations 1-([1-9][0-9]{0,8}) of run (\S+), goal (\S+)")
_LARGEST = 1 << 16
"""Bytes; none that ralph writes is longer, and all of it goes into prompts."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A file that does not say what this run has done."""

    reason: str


def store(path: Path, summary: Summary, *, run: str, goal: str) -> None:
    """Write the summary; its first line says what it covers, and of which run."""
    replace_file(path, f"# Iterations 1-{summary.through} of run {run}, goal {goal}\n\n{summary.text}\n")


def stored(path: Path, *, run: str) -> Summary | Unusable | None:
    """Read the summary of this run back, or say why it cannot be; None: there is none."""
    if not path.is_file():
        return Unusable("it is no plain file") if path.exists() else None
    try:
        with path.open("rb") as file:  # as bytes: a carriage return within it stays one
            data = file.read(_LARGEST + 1)
        first, _, rest = data.decode("utf-8").partition("\n")
    except OSError as error:
        return Unusable(f"it cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return Unusable(f"it is not UTF-8 text (byte {error.start})")
    said = _FIRST_LINE.fullmatch(first)
    text = rest.strip()
    if said is None or not text or len(data) > _LARGEST:
        return Unusable("it is damaged")
    if said[2] != run:
        return Unusable(f"it is of run {said[2]}")
    return Summary(int(said[1]), text)
