"""Which run a start continues: the unfinished one from its directory or its commits, or none."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ralph.agents.registry import account_of, find_transcript, own_transcript
from ralph.agents.transcript import Transcript, events_in
from ralph.core.errors import BlockedError, UsageError
from ralph.core.events import SessionStarted, Usage
from ralph.core.ndjson import Oversized, lines_in
from ralph.core.run import History, Iteration, IterationMessage, Run, read_message
from ralph.core.status import StatusFold
from ralph.core.summary import Rhythm, Summary
from ralph.core.text import format_money, timestamp
from ralph.core.usage import Spend
from ralph.run import summarizer
from ralph.run.agent import estimate, own_log_of
from ralph.run.prepare import Prepared
from ralph.run.summarizer import SUMMARIZER, Unusable
from ralph.state.journal import Journal, Saved, mode_of

_CHUNK = 1 << 20


class Commit(Protocol):
    """A commit that may belong to an iteration."""

    @property
    def sha(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def message(self) -> str: ...


def rebuilt_run(goal: str, branch: str, commits: Sequence[Commit]) -> Run | None:
    """Rebuild a lost run from its commits: the newest run of this goal on the branch."""
    ours = [(commit, said) for commit, said in _read(commits) if said.goal == goal]
    if not ours:
        return None
    newest = ours[-1][1].run
    spend = spend_in_commits(newest, commits)
    return Run(id=newest, goal=goal, branch=branch, base=None, history=_history(newest, ours), spend=spend)


def spend_in_commits(run: str, commits: Sequence[Commit]) -> Spend:
    """Return the spend in the run's commits. Figures are cumulative: a smaller one was not written by ralph."""
    spend = Spend()
    for _, said in _read(commits):
        if said.run == run:
            spend = spend.at_least(said.spend)
    return spend


def reconciled(run: Run, commits: Sequence[Commit], through: int | None = None) -> tuple[Run, list[str]]:
    """Set the run's history to what is committed, and say what that changed.

    `through` is the last iteration that its notes and check know of, where that was saved.
    """
    history = _history(run.id, _read(commits))
    recorded = {item.commit: item for item in run.history.iterations}
    history = History(tuple(_trusted(recorded.get(item.commit), item) for item in history.iterations))
    after, before = (known.next_number - 1 for known in (history, run.history))
    before = before if through is None else min(before, through)
    if history == run.history and after == before:
        return run, []
    if after > before:
        return (
            replace(run, history=history, failures=0, notes=(), check=None),
            [f"iteration {after} was committed but not recorded; ralph counts it"],
        )
    return replace(run, history=history, check=None), [
        f"the branch has iterations up to {after}; ralph continues from there"
    ]


def spend_in_log(
    log: Path, transcript: Transcript, price: Callable[[Usage], Usage], recall: Callable[[str], Sequence[bytes]]
) -> Spend:
    """Count what a session reported in its raw log, as when it ran; `recall` adds what the agent kept itself."""
    fold, session = StatusFold(), ""

    def lines() -> Iterator[bytes | Oversized]:
        with log.open("rb") as file:
            yield from lines_in(iter(lambda: file.read(_CHUNK), b""))
        yield from recall(session)  # even after a turn that ended well: another may have started

    for event in events_in(lines(), transcript):
        match event:
            case Usage():
                fold.take(price(event), "")
            case SessionStarted():
                session = event.session_id
            case _:
                pass
    return fold.meter.total


def _trusted(recorded: Iteration | None, committed: Iteration) -> Iteration:
    """Prefer the record, whose text and time are better, if it is about the same iteration."""
    same = recorded is not None and (recorded.number, recorded.verdict) == (committed.number, committed.verdict)
    return recorded if recorded is not None and same else committed


def _read(commits: Sequence[Commit]) -> list[tuple[Commit, IterationMessage]]:
    return [(commit, said) for commit in commits if (said := read_message(commit.message)) is not None]


def _history(run: str, commits: Sequence[tuple[Commit, IterationMessage]]) -> History:
    return History(
        tuple(
            Iteration(said.iteration, timestamp(commit.at), said.summary, commit.sha, said.verdict)
            for commit, said in commits
            if said.run == run
        )
    )


def new_run_id() -> str:
    """Return a unique id for a run."""
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A run to continue; `counted` is the last raw log whose cost is in its spend, `said` what was recovered."""

    run: Run
    counted: str
    said: list[str]


def find_unfinished(prepared: Prepared, journal: Journal) -> Saved | None:
    """Find the unfinished run: in its directory or, if that is lost, in the commits it made."""
    if prepared.flags.fresh:
        return None
    loaded = journal.load()
    if isinstance(loaded, Saved):
        return None if loaded.finished else loaded
    if loaded is not None and journal.ended_proven():
        return None
    goal, repo = prepared.goal, prepared.repo
    begun = journal.begun()
    agent = begun.agent or prepared.settings.agent
    run = rebuilt_run(goal.name, repo.branch(), repo.iteration_commits(None))
    if loaded is None:  # nothing but commits: those of a run that ended with DONE are finished
        if run is None or run.unchecked_claim is not None:
            return None
        why = "its directory is missing"
    else:
        why = loaded.reason
        if run is None and not journal.session_logs():
            return None
    if run is None:
        run = Run(new_run_id(), goal.name, repo.branch(), repo.head())
    else:
        run = replace(run, base=repo.parent(run.history.iterations[0].commit))
    return Saved(
        run,
        str(goal.path),
        goal.digest,
        check=begun.judge or prepared.check_label,
        agent=agent,
        transcript=begun.transcript,
        model=begun.model,
        exit_code=None,
        dotenv=prepared.settings.said_in(str(repo.root / ".env")),
        counted="",
        rebuilt_because=why,
    )


def refuse_mismatch(saved: Saved, prepared: Prepared) -> None:
    """Refuse to continue with another goal, branch or check."""
    goal, here = prepared.goal, prepared.repo.branch()
    if saved.goal_path != str(goal.path):
        raise UsageError(
            f"cannot start {goal.path}: an unfinished run named {goal.name} belongs to {saved.goal_path}",
            "rename one of the files, or archive that run with --fresh",
        )
    if saved.run.branch != here:
        raise UsageError(
            f"cannot continue {goal.name}: its run is on branch {saved.run.branch}, not on {here or 'no branch'}",
            f"switch branches: git switch {saved.run.branch}; or archive that run with --fresh",
        )
    said_now = prepared.flags.no_check or "check" in prepared.asked.written
    if saved.check and saved.check != prepared.check_label and not said_now:
        raise UsageError(
            f"cannot continue: the run started with the check {saved.check!r}, not {prepared.check_label or 'none'!r}",
            "choose one with --check or --no-check, or start over with --fresh",
        )
    _refuse_changed_dotenv(saved, prepared)


def _refuse_changed_dotenv(saved: Saved, prepared: Prepared) -> None:
    """Refuse settings that an agent may have changed: ralph does not restore `.env` after a session."""
    file = prepared.repo.root / ".env"
    now = prepared.settings.said_in(str(file))
    for name in sorted({*saved.dotenv, *now}):
        value = prepared.settings.values.get(name)
        if now.get(name) != saved.dotenv.get(name) and (value is None or value.source not in ("flag", "environment")):
            raise UsageError(
                f"{file}: {name} was {saved.dotenv.get(name, 'not set')} when this run began,"
                f" and is {now.get(name, 'not set')}",
                f"an agent may have changed it: restore it, or pass --{name.replace('_', '-')}, or set it in the"
                " environment, or start over with --fresh",
            )


def take_up(saved: Saved, prepared: Prepared, journal: Journal) -> TakenUp:
    """Continue an unfinished run; commits and spend count even if they were not recorded."""
    commits = prepared.repo.iteration_commits(saved.run.base)
    run, said = reconciled(saved.run, commits, saved.through)
    run, ignored = _with_summary(run, journal, prepared.settings.rhythm)
    logs = journal.session_logs(after=saved.counted)
    uncounted = [_spend_in(log, saved, prepared) for log in logs]
    spent = sum(uncounted, Spend() if saved.rebuilt_because else run.spend)
    # After a power cut run.json may be old and the logs short; the commits are neither.
    spent = spent.at_least(spend_in_commits(run.id, commits))
    if spent.cost_usd > run.spend.cost_usd or spent.tokens > run.spend.tokens:
        if not saved.rebuilt_because:
            tokens = f"{spent.tokens - run.spend.tokens:,} tokens"
            dollars = spent.cost_usd - run.spend.cost_usd
            more = format_money(dollars) if dollars > 0 else tokens
            said.append(f"added spend that was not recorded: {more}")
        run = run.spent(spent)
    for log, spend in zip(logs, uncounted, strict=True):
        if mode_of(log.name) == SUMMARIZER:
            run = replace(run, condensed=run.condensed.spent(spend))
    opening = f"continuing the unfinished run {run.id} at iteration {run.iteration}; --fresh starts over"
    if saved.rebuilt_because:
        journal.set_aside_damaged()
        opening += f" ({saved.rebuilt_because}: rebuilt from {len(run.history.iterations)} commits)"
    if saved.goal_digest != prepared.goal.digest:
        said.append("the goal has changed since then; the new text counts")
    return TakenUp(run.given_another_try(), logs[-1].name if logs else saved.counted, [opening, *said, *ignored])


def _with_summary(run: Run, journal: Journal, rhythm: Rhythm) -> tuple[Run, list[str]]:
    """Load the summary of the run's older iterations if it exists and matches the commits."""
    kept = summarizer.stored(journal.summary, run=run.id)
    not_before = run.condensed.not_before
    # Postponed by more than the rhythm means that the iterations are no longer on the branch.
    condensed = run.condensed.put_off(not_before if not_before <= run.finished + rhythm.every else 0)
    if isinstance(kept, Summary) and kept.through >= run.finished:
        kept = Unusable(f"it covers iterations up to {kept.through}, but the branch has {run.finished}")
    if isinstance(kept, Unusable):
        said = [f"ignoring {journal.summary}: {kept.reason}; older iterations will be summarized again"]
        return replace(run, condensed=condensed), said
    return replace(run, condensed=replace(condensed, summary=kept)), []


def _spend_in(log: Path, saved: Saved, prepared: Prepared) -> Spend:
    """Count a session with the agent, transcript and model that it used: they may differ now."""
    agent, name, model = log.parent.name, saved.transcript, saved.model
    if agent != saved.agent:  # it stood in, or was chosen earlier
        stood_in = next((each for each in prepared.fallbacks if each.settings.agent == agent), None)
        name = own_transcript(agent) if stood_in is None else stood_in.runner.transcript
        model = "" if stood_in is None else stood_in.settings.model
    name = name or prepared.agent.runner.transcript
    try:
        transcript = find_transcript(name)()
    except BlockedError:  # another package's agent that is gone: the usage stays unknown
        return Spend()
    account = account_of(agent, name, prepared.env)
    model = model or prepared.settings.model
    if mode_of(log.name) == SUMMARIZER:
        model = prepared.settings.summarizer.model or model
    return spend_in_log(
        log,
        transcript,
        estimate(prepared.agent.prices, model, name),
        lambda session_id: own_log_of(account, session_id, log),
    )
