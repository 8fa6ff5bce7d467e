"""`ralph-runs add`: put goals into the queue, as drafts unless `--queue` is given.

Also reads the goals and options that `add` and `run` share.
"""

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.cli.program import say, say_json, shown_task
from ralph.core.errors import UsageError
from ralph.ui.output import Output
from ralph.ui.terminal import is_attended, visible

if TYPE_CHECKING:
    from ralph.queue.goals import MergeMode, Submission
    from ralph.queue.manifest import Batch, Wishes
    from ralph.queue.news import Budget
    from ralph.queue.open import QueueAddress
    from ralph.queue.worker_state import WorkerRules


shown_adding = partial(shown_task, "adding goals")
"""Shows how far the adding of many goals is."""


@flags.settings("add")
def add(
    *,
    sources: flags.Sources,
    queue: Annotated[
        bool, typer.Option("--queue", help="Queue the goals right away instead of adding drafts.")
    ] = False,
    repo: flags.Repo = None,
    priority: Annotated[
        str | None, typer.Option(metavar="N", help="Goals with a higher priority start first; the default is 0.")
    ] = None,
    after: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Start after this goal is done; can be repeated.")
    ] = None,
    trust_envrc: flags.TrustEnvrc = False,
    written: flags.Written,
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Add goals to the queue: all of them, or none if one fails.

    A goal that is already queued, and not done, is updated.
    """
    from ralph.dashboard import report
    from ralph.dashboard.reasons import change_line
    from ralph.dashboard.report import row
    from ralph.queue.goals import State
    from ralph.queue.news import PAUSED
    from ralph.queue.open import alone, made, queue_address

    place = queue_address(db)
    said = wishes(written, repo, priority, after or (), trust_envrc=trust_envrc)
    goals = with_merge_modes(read(sources, said, place).submissions, place)
    store = made(place)
    with alone(place, store) as cut_off, shown_adding() as report_progress:
        state = State.QUEUED if queue else State.DRAFT
        submitted = store.submit(goals, state, alone=cut_off, report=report_progress)
    if as_json:
        rows = [{**row(each.goal, cut_off=cut_off), "what": change_line(each)} for each in submitted]
        say_json(rows)
        return
    say(*report.submitted(submitted, cut_off=cut_off))
    if drafts := [each.goal.label for each in submitted if each.goal.state is State.DRAFT]:
        who = "it" if len(drafts) == 1 else "them"
        say("", f"queue {who} with: {place.command('queue', *drafts)}")
    if store.paused:
        say("", PAUSED.written(place.flag))


def wishes(
    written: flags.Written,
    repo: str | None,
    priority: str | None = None,
    after: Sequence[str] = (),
    *,
    trust_envrc: bool,
) -> "Wishes":
    """Collect what the command line sets for every goal."""
    from ralph.config.trust import refuse_sessions
    from ralph.queue.manifest import Wishes
    from ralph.system import environ

    if trust_envrc:
        refuse_sessions(environ.inherited())
    if repo is not None and not repo.strip():
        raise UsageError("--repo is empty", "give it a value, or leave it out")
    settings = {name: str(value) for name, value in written.items() if name != "merge"}
    return Wishes(
        (repo,) if repo else (),
        tuple(after),
        _priority_flag(priority),
        _merge_flag(written.get("merge")),
        settings,
        trust_envrc,
    )


def refuse_without_goals(said: "Wishes") -> None:
    """Refuse what is set for goals where none is named."""
    from ralph.queue.manifest import Wishes

    if said != Wishes():
        raise UsageError(
            "options for goals (such as --repo, --merge, --trust-envrc and --agent) need at least one GOAL",
            "name the goals, or leave these options out",
        )


def _priority_flag(written: str | None) -> int | None:
    """Parse `--priority`."""
    from ralph.queue import manifest

    try:
        return None if written is None else manifest.priority_in(written)
    except ValueError as fault:
        raise UsageError(f"--priority: {fault}", "goals with a higher number start first; the default is 0") from fault


def _merge_flag(written: object) -> "MergeMode | None":
    """Parse `--merge`."""
    from ralph.queue.manifest import merge_mode

    try:
        return None if written is None else merge_mode(written)
    except ValueError as fault:
        raise UsageError(f"--merge: {fault}", "see what each of them does: ralph-runs add --help") from fault


def read(sources: Sequence[Path], said: "Wishes", place: "QueueAddress") -> "Batch":
    """Read goals and manifests, and print notes about them; nothing is written."""
    from ralph.queue.manifest import read_batch
    from ralph.queue.open import existing

    store = existing(place)
    known = set[str]() if store is None else store.names()
    with shown_task("reading goals") as report:
        batch = read_batch(sources, said, env=place.env, here=Path.cwd(), known=known, report=report)
    Output(sys.stderr).write("".join(f"note: {visible(note)}\n" for note in batch.notes))
    return batch


def with_merge_modes(
    submissions: "Sequence[Submission]", place: "QueueAddress", *, asks: bool = True
) -> "tuple[Submission, ...]":
    """Give each goal its merge mode, asking the user where nothing says it; refuse if nobody can be asked.

    Without `asks`, goals whose mode nothing says have none.
    """
    from ralph.config import settings
    from ralph.queue.goals import MergeMode
    from ralph.queue.merge_choice import MergeChoices, settled
    from ralph.queue.open import existing

    usual = settings.load(env=place.env).merge
    choices = MergeChoices(place.ralph_dir)
    answers: dict[str, MergeMode] = {}

    def choose(repo: str) -> MergeMode | None:
        if asks:
            answers[repo] = _ask_merge_mode(repo)
        return answers.get(repo)

    found = settled(submissions, existing(place), choices, None if usual is None else MergeMode(usual), choose)
    for repo, mode in answers.items():
        file = choices.remember(repo, mode)
        note = f"saved {mode} for this repository; --merge overrides it. To forget it: rm {shlex.quote(str(file))}"
        Output(sys.stderr).write(f"{visible(note)}\n")
    return found


def _ask_merge_mode(repo: str) -> "MergeMode":
    """Ask where proven work on a repository is to go."""
    from ralph.core.secrets import without_login
    from ralph.queue.goals import MergeMode
    from ralph.queue.merge_choice import MEANINGS

    shown = without_login(repo)
    meanings = "\n".join(f"  --merge {mode:6}  {meaning}" for mode, meaning in MEANINGS.items())
    nobody = UsageError(
        f"cannot add goals for {shown}: no merge mode is set, and ralph cannot ask without a terminal",
        f"choose where proven work goes:\n{meanings}\n  for every repository: ralph config set merge MODE",
    )
    if not is_attended(sys.stdin) or not sys.stderr.isatty():
        raise nobody
    modes = dict(enumerate(MergeMode, start=1))
    lines = [f"  {number}  {mode:6}  {MEANINGS[mode]}" for number, mode in modes.items()]
    out = Output(sys.stderr)
    out.write("\n".join([f"Where should proven work on {visible(shown)} go?", *lines, ""]))
    while True:
        out.write(f"1-{len(modes)}, or the name: ")
        if not (line := sys.stdin.readline()):
            raise nobody
        word = line.strip().lower()
        for number, mode in modes.items():
            if word in (str(number), str(mode)):
                return mode


def worker_rules(place: "QueueAddress", *, merge_unproven: bool) -> "WorkerRules":
    from ralph.config.settings import DOTENV
    from ralph.queue.worker_state import WorkerRules

    env = {name: value for name, value in place.env.items() if name != "RALPH_DB"}  # it may hold a password
    # An agent can write a .env into its clone, where git may ignore it, so settings in it must not affect a goal.
    env |= {DOTENV: "no", "RALPH_DIR": str(place.ralph_dir)}  # it may be relative to the current folder
    env |= {"RALPH_NOTIFY": "none"}  # the user is notified about goals, not about each attempt
    return WorkerRules(env, merge_unproven, place.fallback)


def batch_budget(place: "QueueAddress", cost: str | None, tokens: str | None, time: str | None) -> "Budget":
    """Parse the limits of the whole batch; limits of one goal are settings."""
    from ralph.config import settings
    from ralph.core.text import parse_duration
    from ralph.queue.news import Budget

    written = {name: value for name, value in (("max_cost", cost), ("max_tokens", tokens)) if value is not None}
    limits = settings.load(env=place.env, flags=written).limits
    try:
        seconds = None if time is None else parse_duration(time)
    except ValueError as fault:
        raise UsageError(f"--max-time: {fault}", "leave it out for no limit on time") from fault
    return Budget(limits.cost_usd if cost else None, limits.tokens if tokens else None, seconds)
