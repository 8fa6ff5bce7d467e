"""Runs that are looked back on, in words: iterations as a table, and a patch line by line."""

from collections.abc import Sequence

from ralph.core.history import CheckResult, PastIteration, PastRun
from ralph.core.text import format_duration, format_money, instant, local_minute, plural
from ralph.core.verdict import Verdict, claim_words, obstacle_in
from ralph.ui.page import Cell, FactList, Part, Table, TableColumn, TableRow
from ralph.ui.terminal import Look

UNKNOWN = "-"
_COMMIT = 10
"""Characters of a commit's id that people read."""
_LOOKS = {Verdict.DONE: Look.GOOD, Verdict.BLOCKED: Look.BAD, Verdict.CONTINUE: Look.PLAIN}
_CHANGES = {"+": Look.GOOD, "-": Look.BAD, "@": Look.ACCENT}
_HEADS = (
    "diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "similarity", "rename ", "old mode", "new mode",
)  # fmt: skip


def told(past: PastRun) -> list[Part]:
    """Tell a run: where it stands, then each iteration in a row."""
    return [facts(past), "", *iterations(past)] if past.iterations else [facts(past), "", "no finished iteration yet"]


def facts(past: PastRun) -> FactList:
    """Where a run was held, how it ended and what it used."""
    exit_code = "" if past.exit_code is None else f"exit {past.exit_code}"
    used = [
        "" if past.cost_usd is None else format_money(past.cost_usd),
        "" if past.tokens is None else f"{past.tokens:,} tokens",
        format_duration(past.seconds) if past.seconds else "",
        plural(len(past.iterations), "iteration"),
    ]
    return FactList(
        {
            "goal": _joined(past.goal, f"run {past.run}" if past.run else ""),
            "repo": _joined(past.repo, f"branch {past.branch}" if past.branch else ""),
            "state": _joined("live" if past.is_live else "", past.state, exit_code, "proven" if past.proven else ""),
            "used": _joined(*used),
            "run": past.directory,
        },
        copied=("run",),
    )


def iterations(past: PastRun) -> list[Part]:
    """A row for each iteration, with its summary."""
    columns = [
        TableColumn("#", right=True, whole=True),
        TableColumn("verdict", whole=True),
        TableColumn("check", whole=True),
        TableColumn("cost", right=True),
        TableColumn("time", right=True),
        TableColumn("turns", right=True, at_least=80),
        TableColumn("ended", at_least=96),
        TableColumn("commit", whole=True, at_least=64),
    ]
    several = len({each.agent for each in past.iterations}) > 1
    return [Table(columns, [_row(each, names_agent=several) for each in past.iterations])]


def _row(each: PastIteration, *, names_agent: bool) -> TableRow:
    at = instant(each.at)
    besides = [
        each.agent or "" if names_agent else "",
        plural(each.sessions or 0, "session") if (each.sessions or 0) > 1 else "",
        plural(each.compactions or 0, "compaction") if each.compactions else "",
    ]
    again = f" ({', '.join(filter(None, besides))})" if any(besides) else ""
    return TableRow(
        [
            str(each.number),
            (each.verdict, _LOOKS[each.verdict]),
            check_cell(each.check),
            UNKNOWN if each.cost_usd is None else format_money(each.cost_usd),
            UNKNOWN if each.seconds is None else format_duration(each.seconds),
            turns(each),
            (UNKNOWN if at is None else local_minute(at), Look.QUIET),
            (each.commit[:_COMMIT], Look.QUIET),
        ],
        f"{words(each)}{again}",
    )


def turns(each: PastIteration) -> str:
    """How many turns the agent says it took, and how long they lasted."""
    lasted = "" if each.duration_ms is None else f"({format_duration(each.duration_ms / 1000)})"
    return " ".join(filter(None, ["" if each.num_turns is None else f"{each.num_turns:,}", lasted])) or UNKNOWN


def words(each: PastIteration) -> str:
    """What an iteration says of itself, in words that tell a claim and an obstacle from a report."""
    if each.verdict is Verdict.DONE:
        return claim_words(each.summary)
    return f"blocked: {obstacle_in(each.summary)}" if each.verdict is Verdict.BLOCKED else each.summary


def check_cell(check: CheckResult | None) -> Cell:
    """Whether the check passed, and how it ended if not; `-` where it was not run."""
    return UNKNOWN if check is None else check_words(check)


def check_words(check: CheckResult) -> tuple[str, Look]:
    """How a check ended."""
    if check.is_green:
        return "green", Look.GOOD
    return ("timeout" if check.exit_code is None else f"red ({check.exit_code})"), Look.BAD


def patch_look(line: str) -> Look:
    """How a line of a patch looks."""
    return Look.STRONG if line.startswith(_HEADS) else _CHANGES.get(line[:1], Look.PLAIN)


def patch_parts(patch: str) -> Sequence[Part]:
    """A patch, line by line: each in its colour."""
    return [(line, patch_look(line)) for line in patch.split("\n")[: -1 if patch.endswith("\n") else None]]


def _joined(*parts: str) -> str:
    return " · ".join(filter(None, parts))
