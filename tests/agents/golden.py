"""`python -m tests.agents.golden` writes the events of every capture beside it; look at what the diff says."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ralph.agents.registry import TRANSCRIPTS
from ralph.agents.transcript import events_in
from ralph.core import ndjson
from ralph.core.ndjson import lines_in
from ralph.core.records import to_json
from tests.agents.captures import CAPTURES, golden_of


def written(name: str, capture: Path) -> str:
    """The capture's events, one a line, without number and time."""
    events = events_in(lines_in([capture.read_bytes()]), TRANSCRIPTS[name]())
    return "".join(f"{ndjson.encode(to_json(event))}\n" for event in events)


def main() -> None:
    os.environ["TZ"] = "UTC"  # codex tells times of the day where it runs
    time.tzset()
    for name, capture in CAPTURES:
        golden_of(capture).write_text(written(name, capture))
        print(golden_of(capture))


if __name__ == "__main__":
    main()
