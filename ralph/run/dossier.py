"""`dossier.md`: what a person needs to know about a run that stalled."""

from dataclasses import dataclass
from pathlib import Path

from ralph.core.run import Run, RunResult
from ralph.core.text import both_ends, fenced
from ralph.git import repo
from ralph.run.prepare import Prepared
from ralph.run.report import reason_of, spent
from ralph.state.journal import Journal, mode_of

_LONGEST_QUOTE = 20_000
_LONGEST_SUMMARY = 2000
_MOST_ITERATIONS = 20
"""For earlier iterations the dossier refers to the commits."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a run that its record does not hold."""

    title: str
    goal_path: Path
    repo: Path
    check: str
    check_output: str
    """Its latest output; empty if it never ran."""
    changes: str
    logs: Path


def write_dossier(result: RunResult, prepared: Prepared, journal: Journal) -> None:
    """Write the dossier of a stalled run into its directory."""
    root, logs = prepared.repo.root, journal.logs
    checks = [log for log in sorted((logs / "check").glob("*.log")) if mode_of(log.name) == "check"]
    facts = Facts(
        title=prepared.goal.title,
        goal_path=prepared.goal.path,
        repo=root,
        check=prepared.check_label,
        check_output=both_ends(checks[-1].read_text("utf-8", "replace"), _LONGEST_QUOTE) if checks else "",
        changes=repo.changes(root, result.run.base, _LONGEST_QUOTE),
        logs=logs,
    )
    journal.write_dossier(dossier(result.run, reason_of(result), facts))


def dossier(run: Run, reason: str, facts: Facts) -> str:
    """Describe the goal, the attempts, the check's output, the changes, the cost and where the logs are."""
    summary = run.condensed.summary
    apart = run.history.since(run.condensed.through)
    recent = apart[-_MOST_ITERATIONS:]
    earlier = len(apart) - len(recent)
    lines = [
        f"# {facts.title}",
        "",
        f"ralph stopped this run: {reason}.",
        "",
        f"- goal: `{facts.goal_path}`",
        f"- repository: `{facts.repo}`, branch `{run.branch or '(detached HEAD)'}`",
        f"- commits: `git -C {facts.repo} log {run.base or ''}{'..' if run.base else ''}{run.tip or 'HEAD'}`",
        f"- spent: {spent(run.spend, ', ')}; {len(run.history.iterations)} iterations, {run.failed} failed sessions",
        f"- raw logs: `{facts.logs}`",
        "",
        "## What was tried",
        "",
    ]
    if summary is not None:
        lines += [f"### Iterations 1-{summary.through}, condensed", "", fenced(summary.text), ""]
    if earlier:
        lines += [f"{earlier} {'more' if summary else 'earlier'} iterations are in their commits.", ""]
    for item in recent:
        said = both_ends(item.summary, _LONGEST_SUMMARY)
        lines += [f"### Iteration {item.number}, commit {item.commit[:10]}", "", fenced(said), ""]
    lines += ["## The last check", ""]
    if not facts.check:
        lines += ["This run has no check.", ""]
    elif not facts.check_output:
        lines += [f"`{facts.check}` never ran: no session claimed DONE.", ""]
    else:
        on = "on the last iteration" if run.check is not None else "on an earlier iteration"
        lines += [f"Output of `{facts.check}` {on}:", "", fenced(facts.check_output), ""]
    lines += ["## All changes", "", fenced(facts.changes or "no committed changes"), ""]
    return "\n".join(lines)
