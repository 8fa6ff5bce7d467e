"""The events of every capture are those that were looked at; `python -m tests.agents.golden` writes new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.captures import CAPTURES, FIXTURES, GOLDEN, golden_of
from tests.agents.golden import written
from tests.support.rows import rows


@pytest.mark.spec("2.4-a", "2.13-abgh", "2.18-f")
@pytest.mark.spec("3.6-n", "3.15-f")
@pytest.mark.usefixtures("utc")
@rows(("name", "capture"), CAPTURES)
def test_a_capture_gives_the_events_beside_it(name: str, capture: Path) -> None:
    kept = golden_of(capture)
    assert kept.exists(), "run python -m tests.agents.golden, and look at what it wrote"
    assert written(name, capture) == kept.read_text()


@pytest.mark.spec("2.13-f")
def test_every_golden_file_has_its_capture_and_claude_has_many() -> None:
    goldens = set(FIXTURES.glob(f"*/*{GOLDEN}"))
    assert goldens <= {golden_of(capture) for _, capture in CAPTURES}
    assert sum(golden.parent.name == "claude" for golden in goldens) > 40
