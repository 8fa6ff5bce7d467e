"""The example of a batch: what the page has a newcomer run, and what it says that they see."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.git_repos import git
from tests.support.ralph_process import Ralph

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.long
def test_the_example_does_what_the_page_shows(tmp_path: Path, ralph: Ralph) -> None:
    program = os.path.relpath(Path(sys.executable).with_name("ralph-runs"), ROOT)
    env = {**ralph.env, "TMPDIR": str(tmp_path)}
    command = [ROOT / "examples" / "batch" / "play", program]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
    (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / "docs" / "many-goals.md").read_text(), re.DOTALL)
    seen = done.stdout.partition("\nWhere to look:")[0]
    assert {*without_times(shown)} <= {*without_times(seen)}
    (site,) = tmp_path.glob("ralph-batch.*/site")
    assert len(git(site, "log", "--format=%s", "main").splitlines()) == 5
    assert git(site, "show", "main:sitemap.txt").split() == ["about.html", "contact.html", "layout.html"]


def without_times(text: str) -> list[str]:
    """The lines, less when it was: goals that run side by side may overtake each other."""
    return [re.sub(r"^\d\d:\d\d:\d\d", "", line).rstrip() for line in text.splitlines() if line.strip()]
