"""`make docs`: build the documentation with Zensical, from a copy, since it writes beside its sources.

A link that leads nowhere, or a page that is not in the navigation, ends it with a message and exit code 1.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent


def main(words: list[str]) -> int:
    """Build into the directory that is named."""
    if len(words) != 1:
        sys.exit("usage: site.py DIRECTORY")
    return build(Path(words[0]))


def build(site: Path, sources: Path = ROOT) -> int:
    """Build the site, in place of an earlier one; return Zensical's exit code, or 1."""
    if lost := not_in_navigation(sources):
        print(f"error: mkdocs.yml does not list {', '.join(lost)}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="ralph-docs-") as folder:
        shutil.copytree(sources / "docs", Path(folder, "docs"))
        shutil.copy(sources / "mkdocs.yml", folder)
        done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=False)
        if done.returncode == 0:
            shutil.rmtree(site, ignore_errors=True)
            shutil.copytree(Path(folder, "site"), site)
    return done.returncode


def not_in_navigation(sources: Path) -> list[str]:
    """Name the pages that no menu leads to."""
    listed = {page for _, page in _entries(yaml.safe_load((sources / "mkdocs.yml").read_text())["nav"])}
    there = {str(page.relative_to(sources / "docs")) for page in (sources / "docs").rglob("*.md")}
    return sorted(there - listed)


def _entries(items: list[dict[str, object]]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for item in items:
        for name, inside in item.items():
            found += _entries(inside) if isinstance(inside, list) else [(name, str(inside))]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
