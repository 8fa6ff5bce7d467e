"""What a person needs who takes over from a run that got stuck, as one Markdown file."""

from dataclasses import dataclass
from pathlib import Path

from ralph.core.run import Run
from ralph.core.text import both_ends, fenced, format_money

_LONGEST_SUMMARY = 2000
_MOST_ITERATIONS = 20
"""Those before are told by the commits."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the run itself does not know."""

    title: str
    goal_path: Path
    repo: Path
    check: str
    check_output: str
    """What it said last, on whichever iteration; empty if it never ran."""
    changes: str
    logs: Path


def dossier(run: Run, reason: str, facts: Facts) -> str:
    """Tell what was wanted, what was tried, what the check said, what changed, what it cost and where to look."""
    cost = format_money(run.spend.cost_usd) if run.spend.costed else "cost unknown"
    tokens = f"{run.spend.tokens:,} tokens" if run.spend.knows_tokens else "tokens unknown"
    summary = run.condensed.summary
    apart = run.history.since(run.condensed.through)
    recent = apart[-_MOST_ITERATIONS:]
    earlier = len(apart) - len(recent)
    lines = [
        f"# {facts.title}",
        "",
        f"ralph stopped here: {reason}.",
        "",
        f"- goal: `{facts.goal_path}`",
        f"- repository: `{facts.repo}`, branch `{run.branch or '(detached HEAD)'}`",
        f"- commits: `git -C {facts.repo} log {run.base or ''}{'..' if run.base else ''}{run.tip or 'HEAD'}`",
        f"- spent: {cost}, {tokens}; {len(run.history.iterations)} iterations, {run.failed} failed sessions",
        f"- raw logs: `{facts.logs}`",
        "",
        "## What was tried",
        "",
    ]
    if summary is not None:
        lines += [f"### Iterations 1-{summary.through}, condensed", "", fenced(summary.text), ""]
    if earlier:
        lines += [f"{earlier} {'more' if summary else 'earlier'} iterations are told by their commits.", ""]
    for item in recent:
        said = both_ends(item.summary, _LONGEST_SUMMARY)
        lines += [f"### Iteration {item.number}, commit {item.commit[:10]}", "", fenced(said), ""]
    lines += ["## The last check", ""]
    if not facts.check:
        lines += ["There is none.", ""]
    elif not facts.check_output:
        lines += [f"`{facts.check}` never ran: no session claimed DONE.", ""]
    else:
        on = "on the last iteration" if run.check is not None else "on an earlier iteration"
        lines += [f"`{facts.check}`, {on}, said:", "", fenced(facts.check_output), ""]
    lines += ["## What changed in all", "", fenced(facts.changes or "nothing that was committed"), ""]
    return "\n".join(lines)
