"""A stand-in for the command of `notify`: it keeps what it is told on stdin."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class HeardNotices:
    """Where a notifier writes what it hears."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """What makes a ralph use it."""
        return {"RALPH_NOTIFY": str(self.folder / "notify")}

    @property
    def heard(self) -> list[dict[str, Any]]:
        """What it was told, oldest first."""
        told = [json.loads(file.read_text()) for file in self.folder.glob("*.json")]
        return sorted(told, key=lambda notice: notice["at"])

    @property
    def events(self) -> list[str]:
        return [notice["event"] for notice in self.heard]


def listening(folder: Path, then: str = "exit 0") -> HeardNotices:
    """Make a notifier that keeps what it hears, and then does something."""
    folder.mkdir(parents=True)
    program = folder / "notify"
    program.write_text(
        f'#!/bin/sh\nfile=$(mktemp {folder}/XXXXXX) && cat > "$file" && mv "$file" "$file.json"\n{then}\n'
    )
    program.chmod(0o755)
    return HeardNotices(folder)
