"""The results as Markdown: every figure with its spread, its target, and whether that was met.

Each section says when and where it was measured, so that one can be measured again without the others.
"""

import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import peer
from bench.figures import Figure
from ralph import __version__

_HEAD = """# Results

Written by `make bench`; how each figure is taken stands at the top of its module in `bench/`. Each section says when it
was measured, with what, and how busy the machine was.

All contestants of a figure are measured once a round, in a new order each round; a ratio is of one round, and n is the
number of rounds. The median decides. The spread is the middle half of the rounds, or all of them below four.

"""
_COLUMNS = "| figure | median | spread | n | target | |\n|---|---|---|---|---|---|\n"
_MET, _MISSED = "met", "**missed**"


def page(sections: Mapping[str, str]) -> str:
    """Compose the page of sections, each by its title."""
    rows = [[cell.strip() for cell in line.split("|")] for text in sections.values() for line in text.splitlines()]
    met = [row for row in rows if _MET in row]
    missed = [row for row in rows if _MISSED in row]
    targets = len(met) + len(missed)
    said = f"{len(met)} of {targets} targets are met." if missed else f"All {targets} targets are met."
    lines = [f"- **Missed:** {row[1]}: {row[2]}, target {row[5]}\n" for row in missed]
    parts = [f"\n## {title}\n\n{text}" for title, text in sections.items()]
    return f"{_HEAD}**{said}**\n\n{''.join(lines)}{''.join(parts)}"


def sections_of(text: str) -> dict[str, str]:
    """Take a page apart again."""
    parts = re.split(r"^## (.+)\n\n", text, flags=re.MULTILINE)
    return {title: section.rstrip("\n") + "\n" for title, section in zip(parts[1::2], parts[2::2], strict=True)}


def section(figures: Sequence[Figure], *, load_before: float) -> str:
    """Compose a section that was measured just now."""
    return f"{_stamp(load_before)}\n\n{_COLUMNS}" + "".join(f"| {' | '.join(_cells(each))} |\n" for each in figures)


def _stamp(before: float) -> str:
    git = subprocess.run(["git", "--version"], check=False, capture_output=True, text=True).stdout.strip()
    shared = ", shared with other work" if before > 0.5 else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{datetime.now(UTC).strftime('%Y-%m-%d')}, ralph {__version__}{_commit()}, Python {platform.python_version()},"
        f" {git}, claude-agent-sdk {peer.VERSION};\n{platform.system()} {platform.machine()}, {os.cpu_count()}"
        f" cores{shared}, {memory:.0f} GB of memory, load average {before:.1f} before, {os.getloadavg()[0]:.1f} after."
    )


def _cells(figure: Figure) -> list[str]:
    return [figure.name, _value(figure), _spread(figure), str(len(figure.values)), _target(figure), _met(figure)]


def _value(figure: Figure) -> str:
    return f"{_number(figure.median)} {figure.unit}" if figure.values else f"not measured: {figure.missing}"


def _spread(figure: Figure) -> str:
    return " to ".join(map(_number, figure.quartiles)) if figure.values else ""


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.at_least else '≤'} {figure.target:g} {figure.unit}"


def _met(figure: Figure) -> str:
    return {True: _MET, False: _MISSED, None: ""}[figure.met]


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _commit() -> str:
    """The commit that was measured; with a plus if the tree differed from it."""
    here = Path(__file__).parent.parent
    sha = _said("git", "-C", str(here), "rev-parse", "--short", "HEAD")
    changed = _said("git", "-C", str(here), "status", "--porcelain", "--", "ralph", "prompts")
    return f" ({sha}{'+' if changed else ''})" if sha else ""


def _said(*argv: str) -> str:
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.strip()
