"""`ralph run`: flags in, a run, an exit code out."""

from pathlib import Path
from typing import Annotated

import typer

from ralph.cli import flags


@flags.settings("run")
def run(
    *,
    goal: Annotated[Path, typer.Argument(metavar="GOAL.md", help="A Markdown file with an `## Objective`.")],
    repo: Annotated[
        str | None, typer.Option(help="Work in a clone of this repository (URL or path), not in the one you stand in.")
    ] = None,
    branch: Annotated[
        str | None, typer.Option(help="Work on this branch; created if it does not exist. In a clone: ralph/<goal>.")
    ] = None,
    written: flags.Written,
    resume: Annotated[
        bool, typer.Option("--continue", help="Continue the unfinished run; refuse if there is none.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Archive the last run and begin anew.")] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Believe DONE without proof.")] = False,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Start although the tree has changes; they join the first commit.")
    ] = False,
    trust_envrc: Annotated[
        bool,
        typer.Option("--trust-envrc", help="Trust .envrc, and what it reads, as it stood before any agent of ralph's."),
    ] = False,
    as_json: flags.AsJson = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the prompt and the command; start nothing.")
    ] = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Hold fresh agent sessions on GOAL until it is proven done or a limit is reached.

    Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 a bug in ralph, 4 a limit was reached, 5 stalled, 6 blocked,
    129/130/143 stopped by a signal; 130 also by `ralph stop`.
    """
    from ralph.system import environ
    from ralph.system.leash import LEASH, heed_leash

    heed_leash(environ.taken(LEASH))  # before all that takes time: who started us may be gone by now

    from ralph.run.prepare import RunFlags, look
    from ralph.run.prepare import dry_run as print_dry_run
    from ralph.run.start import start_run

    chosen = RunFlags(
        goal, repo, branch, resume, fresh, no_check, allow_dirty, trust_envrc, as_json, dry_run, quiet, verbose
    )
    asked = look(chosen, written)
    if dry_run:
        print_dry_run(asked)
    else:
        raise typer.Exit(start_run(asked))


def check(
    command: Annotated[
        str | None, typer.Option("--check", metavar="CMD", help="Run this command instead of .ralph/check.")
    ] = None,
    trust_envrc: Annotated[
        bool,
        typer.Option("--trust-envrc", help="Trust .envrc, and what it reads, as it stood before any agent of ralph's."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end, and nothing else, on stdout.")
    ] = False,
) -> None:
    """Run .ralph/setup, if there is one, then .ralph/check, in the repository you stand in.

    As in a run: with its settings, a trusted .envrc and its time limit, and so that nothing of it is left. Nothing is
    committed or kept. Exit codes: 0 green, 1 red or out of time, 2 no check or bad input, 129/130/143 by a signal.
    """
    from ralph.system import environ
    from ralph.system.leash import LEASH, heed_leash

    heed_leash(environ.taken(LEASH))

    from ralph.run.check_command import carry_out

    raise typer.Exit(carry_out(command, trusting=trust_envrc, as_json=as_json))


@flags.settings("understand")
def understand(
    *,
    written: flags.Written,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Let a scout read the repository and write .ralph/codebase-map.md, which later workers are given.

    The scout works in a throwaway clone with your uncommitted and untracked files: nothing it changes there comes back.

    Exit codes: 0 the map is written, 1 failed, 2 bad usage, 3 a bug in ralph, 6 blocked, 129/130/143 stopped by a
    signal.
    """
    from ralph.core.errors import UsageError
    from ralph.run.understand import SurveyFlags, understand_repo

    if quiet and verbose:
        raise UsageError("--quiet and --verbose contradict each other", "choose one of them")
    raise typer.Exit(understand_repo(SurveyFlags(as_json, quiet, verbose), written))
