"""`ralph check`: the repository's own check, run as a run would run it."""

from typing import Annotated

import typer


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
