"""The results as Markdown: every figure with its spread, its target, and whether that was met."""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import peer
from bench.figures import Figure
from ralph import __version__

_HEAD = """# Results

Written by `make bench`; how each figure is taken stands at the top of its module in `bench/`.

- {date}, ralph {ralph}{commit}, Python {python}, {git}, claude-agent-sdk {sdk}
- {system}, {cores} cores{shared}, {memory:.0f} GB of memory; load average {before:.1f} before, {after:.1f} after
- All contestants of a figure are measured once a round, in a new order each round; a ratio is of one round, and n is
  the number of rounds. The median decides. The spread is the middle half of the rounds, or all of them below four.

"""


def write(sections: Mapping[str, Sequence[Figure]], *, load_before: float) -> str:
    """Compose the page."""
    figures = [figure for section in sections.values() for figure in section]
    missed = [figure for figure in figures if figure.met is False]
    page = _HEAD.format(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        ralph=__version__,
        commit=_commit(),
        python=platform.python_version(),
        git=_said("git", "--version"),
        sdk=peer.VERSION,
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count(),
        shared=", shared with other work" if load_before > 0.5 else "",
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        before=load_before,
        after=os.getloadavg()[0],
    )
    targets = sum(figure.target is not None for figure in figures)
    page += (
        f"**{targets - len(missed)} of {targets} targets are met.**\n\n"
        if missed
        else f"**All {targets} targets are met.**\n\n"
    )
    page += "".join(f"- **Missed:** {figure.name}: {_value(figure)}, target {_target(figure)}\n" for figure in missed)
    for title, section in sections.items():
        page += f"\n## {title}\n\n| figure | median | spread | n | target | |\n|---|---|---|---|---|---|\n"
        page += "".join(f"| {' | '.join(_cells(figure))} |\n" for figure in section)
    return page


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
    return {True: "met", False: "**missed**", None: ""}[figure.met]


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
