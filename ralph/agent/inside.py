"""Whether a file stays where it seems to lie: links must not carry a stranger's choice of this machine's files."""

import os
from pathlib import Path


def real(path: Path) -> Path:
    """The path with every link followed; one that leads round in circles is itself (`Path.resolve` raises)."""
    return Path(os.path.realpath(path))


def stays_inside(path: Path, *folders: Path) -> bool:
    """Tell whether what `path` leads to lies in one of the folders, links followed."""
    there = real(path)
    return any(there.is_relative_to(real(folder)) for folder in folders)
