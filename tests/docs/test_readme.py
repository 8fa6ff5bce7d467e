"""README is a first look: short, with narrow lines, and without a command that cannot work."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.test_site import links

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_it_stays_short() -> None:
    assert len(README.splitlines()) <= 200
    assert len(README.encode()) <= 14_000
    assert [line for line in README.splitlines() if len(line) > 140] == []


def test_it_leads_to_every_page() -> None:
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    assert pages - {target.partition("#")[0] for target in links(README)} == {"docs/index.md"}


def test_no_command_pretends_that_ralph_is_published() -> None:
    """Until it is on PyPI, `pip install ralph` would install another project, and `uvx ralph-runs` nothing."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    published = r"(?:pip|pipx|uv tool|uv pip) (?:install|run)(?: -\S+)* \W?ralph|\buvx ralph|\buv add ralph"
    assert [page.name for page in pages if re.search(published, page.read_text())] == []
