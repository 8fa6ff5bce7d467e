"""The results as Markdown. All sections of a page belong to one commit, which stands once, at the top."""

import math
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bench import peers
from bench.figures import Figure
from ralph import __version__

_HOW = """Written by `make bench` in one go; the top of each module in `bench/` says how its figures are taken.

Every contestant of a figure is measured once a round, in a new order each round. A ratio is taken within one round; n
is the number of rounds. The median decides. The spread is the middle half of the rounds, or all of them below four.
"""
_COLUMNS = "| figure | median | spread | n | target | |\n|---|---|---|---|---|---|\n"
_VERDICTS = {True: "met", False: "**missed**", None: ""}


class MixedCommits(Exception):
    """A section was measured on another commit than the page is about."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A section's figures, the commit they were measured on, and the load average around them; or why it failed."""

    title: str
    commit: str
    figures: Sequence[Figure]
    load_before: float
    load_after: float
    failure: str = ""


def page(sections: Sequence[Measured], commit: str) -> str:
    """Compose the page of a commit; raise `MixedCommits` if a section was measured on another one."""
    strange = [f"{section.title} on {section.commit}" for section in sections if section.commit != commit]
    if strange:
        raise MixedCommits(f"sections of another commit than {commit}: {', '.join(strange)}")
    return f"# Results\n\nCommit {commit}, {_machine()}\n\n{_HOW}\n{body(sections)}"


def body(sections: Sequence[Measured]) -> str:
    """Compose verdict and sections, without the commit: enough to print."""
    return f"{_verdict(sections)}\n" + "\n".join(map(section_text, sections))


def section_text(section: Measured) -> str:
    """Compose one section."""
    load = f"Load average {section.load_before:.1f} before, {section.load_after:.1f} after."
    text = f"Not measured: {section.failure}\n" if section.failure else table(section.figures)
    return f"## {section.title}\n\n{load}\n\n{text}"


def table(figures: Sequence[Figure]) -> str:
    """Compose the rows of one section."""
    return _COLUMNS + "".join(f"| {' | '.join(_cells(figure))} |\n" for figure in figures)


def _verdict(sections: Sequence[Measured]) -> str:
    judged = [figure for section in sections for figure in section.figures if figure.met is not None]
    missed = [figure for figure in judged if not figure.met]
    summary = f"**{len(judged) - len(missed)} of {len(judged)} targets are met.**\n"
    lines = [f"- **Missed:** {figure.name}: {_value(figure)}, target {_target(figure)}\n" for figure in missed]
    lines += [f"- **Not measured:** all of {section.title}\n" for section in sections if section.failure]
    return summary + ("\n" + "".join(lines) if lines else "")


def _machine() -> str:
    git = subprocess.run(["git", "--version"], check=False, capture_output=True, text=True).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{datetime.now(UTC).strftime('%Y-%m-%d')}.\nralph {__version__}, Python {platform.python_version()}, {git},"
        f" claude-agent-sdk {peers.SDK_VERSION}; {platform.system()} {platform.machine()}, {os.cpu_count()} cores,"
        f" {memory:.0f} GB of memory."
    )


def _cells(figure: Figure) -> list[str]:
    return [
        figure.name,
        _value(figure),
        _spread(figure),
        str(len(figure.values)),
        _target(figure),
        _VERDICTS[figure.met],
    ]


def _value(figure: Figure) -> str:
    if not figure.values:
        return f"not measured: {figure.missing}"
    return f"{_number(figure.median)} {figure.unit}" if math.isfinite(figure.median) else "didn't finish"


def _spread(figure: Figure) -> str:
    known = figure.values and math.isfinite(figure.median)
    return " to ".join(map(_number, figure.quartiles)) if known else ""


def _target(figure: Figure) -> str:
    bound = "≥" if figure.at_least else "≤"
    target = "" if figure.target is None else f"{bound} {figure.target:.3g} {figure.unit}"
    goal = "" if figure.goal is None else f"goal {bound} {figure.goal:.3g} {figure.unit}"
    return ", ".join(part for part in (target, goal) if part)


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
