"""`ralph-runs add`: goals into the queue, as drafts unless said otherwise."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.core.errors import UsageError

if TYPE_CHECKING:
    from ralph.queue.goals import MergeMode
    from ralph.queue.manifest import Batch, Wishes
    from ralph.queue.news import Budget
    from ralph.queue.open import QueueAddress
    from ralph.queue.worker_state import WorkerRules


@flags.settings("add")
def add(
    *,
    sources: flags.Sources,
    queue: Annotated[bool, typer.Option("--queue", help="Let them start, instead of keeping them as drafts.")] = False,
    repo: flags.Repo = None,
    priority: Annotated[str | None, typer.Option(metavar="N", help="The higher, the sooner; 0 unless said.")] = None,
    after: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="The goal that comes first; may be given several times.")
    ] = None,
    merge: flags.Merge = None,
    trust_envrc: flags.TrustEnvrc = False,
    written: flags.Written,
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Add goals to the queue, all of them or none. One that is in it already, and not done, is brought up to date."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.dashboard.report import row
    from ralph.queue.goals import State
    from ralph.queue.news import PAUSED
    from ralph.queue.open import alone, made, whereabouts

    place = whereabouts(db)
    said = wishes(written, repo, merge, priority, after or (), trust_envrc=trust_envrc)
    batch = read(sources, said, place)
    store = made(place)
    with alone(place, store) as cut_off:
        submitted = store.submit(batch.submissions, State.QUEUED if queue else State.DRAFT, alone=cut_off)
    if as_json:
        rows = [{**row(each.goal, cut_off=cut_off), "what": each.what} for each in submitted]
        typer.echo(ndjson.encode(rows))
        return
    typer.echo("\n".join(report.submitted(submitted, cut_off=cut_off)))
    if drafts := [each.goal.label for each in submitted if each.goal.state is State.DRAFT]:
        who = "it" if len(drafts) == 1 else "them"
        typer.echo(f"\nlet {who} start with: {place.command('queue', *drafts)}")
    if store.paused:
        typer.echo(f"\n{PAUSED.written(place.flag)}")


def wishes(
    written: flags.Written,
    repo: str | None,
    merge: str | None,
    priority: str | None = None,
    after: Sequence[str] = (),
    *,
    trust_envrc: bool,
) -> "Wishes":
    """What the command line says of every goal."""
    from ralph.config.trust import refuse_sessions
    from ralph.core.errors import UsageError
    from ralph.queue.manifest import Wishes
    from ralph.system import environ

    if trust_envrc:
        refuse_sessions(environ.inherited())
    if repo is not None and not repo.strip():
        raise UsageError("--repo is empty", "give it a value, or leave it out")
    settings = {name: str(value) for name, value in written.items()}
    return Wishes(
        (repo,) if repo else (), tuple(after), _priority_flag(priority), merge_flag(merge), settings, trust_envrc
    )


def _priority_flag(written: str | None) -> int | None:
    """The priority that the command line names."""
    from ralph.core.errors import UsageError
    from ralph.queue import manifest

    try:
        return None if written is None else manifest.priority_in(written)
    except ValueError as fault:
        raise UsageError(f"--priority: {fault}") from fault


def merge_flag(written: str | None) -> "MergeMode | None":
    """The way to merge that the command line names."""
    from ralph.core.errors import UsageError
    from ralph.queue.manifest import merge_mode

    try:
        return None if written is None else merge_mode(written)
    except ValueError as fault:
        raise UsageError(f"--merge: {fault}") from fault


def read(sources: Sequence[Path], said: "Wishes", place: "QueueAddress") -> "Batch":
    """Read what is asked for, and say what is worth knowing of it; nothing is written."""
    from ralph.queue.manifest import read_batch
    from ralph.queue.open import existing
    from ralph.ui.terminal import Output, visible

    store = existing(place)
    known = set[str]() if store is None else store.names()
    batch = read_batch(sources, said, env=place.env, here=Path.cwd(), known=known)
    Output(sys.stderr).write("".join(f"note: {visible(note)}\n" for note in batch.notes))
    return batch


def worker_rules(place: "QueueAddress", merge: "MergeMode | None", *, merge_unproven: bool) -> "WorkerRules":
    from ralph.config.settings import DOTENV
    from ralph.queue.goals import MergeMode
    from ralph.queue.worker_state import WorkerRules

    env = {name: value for name, value in place.env.items() if name != "RALPH_DB"}  # it may hold a password
    # An agent can write a .env into its clone, where git may ignore it: nothing in there decides about a goal.
    env |= {DOTENV: "no", "RALPH_DIR": str(place.ralph_dir)}  # which may have been said from where we stand
    env |= {"RALPH_NOTIFY": "none"}  # whoever is away is told of goals, not of each attempt at one
    return WorkerRules(env, merge or MergeMode.DIRECT, merge_unproven)


def batch_budget(place: "QueueAddress", cost: str | None, tokens: str | None, time: str | None) -> "Budget":
    """What the whole batch may use; limits of each goal's are settings, and not meant here."""
    from ralph.config import settings
    from ralph.core.text import parse_duration
    from ralph.queue.news import Budget

    written = {name: value for name, value in (("max_cost", cost), ("max_tokens", tokens)) if value is not None}
    limits = settings.load(env=place.env, flags=written).limits
    try:
        seconds = None if time is None else parse_duration(time)
    except ValueError as fault:
        raise UsageError(f"--max-time: {fault}") from fault
    return Budget(limits.cost_usd if cost else None, limits.tokens if tokens else None, seconds)
