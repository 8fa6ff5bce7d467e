"""`ralph init` and `ralph doctor`: get a repository and a machine ready."""

import sys
from typing import Annotated

import typer

from ralph.cli.program import say, say_json
from ralph.core.errors import ExitCode

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]


def init(yes: Yes = False) -> None:
    """Propose a check and a first goal for this repository.

    ralph reads the repository's files, proposes .ralph/check, .ralph/setup (if needed) and goal.md, tries the scripts
    on a copy of the repository, and asks before it writes. It never overwrites a file, and commits nothing.

    Exit codes: 0 done, 1 nothing written, or the check cannot run yet, 2 bad usage or input, 129/130/143 stopped by a
    signal.
    """
    from ralph.setup.init import init_repo

    raise typer.Exit(init_repo(unasked=yes))


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Check what ralph needs here, and show how to fix it.

    One line each for programs and versions, agents and logins, disk, state directory, and this repository's check and
    setup, with a command for each problem. doctor changes nothing and reads no secret. ralph runs on Linux only.

    Exit codes: 0 nothing is wrong, 1 something is. Missing optional tools are fine.
    """
    if sys.platform != "linux":  # most of ralph cannot be imported elsewhere
        says = f"ralph runs on Linux only, and this is {sys.platform}"
        help_ = "use Linux, WSL on Windows, or a container (see docs/security.md)"
        if as_json:
            say_json([{"name": "system", "health": "wrong", "says": says, "next": help_}])
        else:
            say(f"wrong  system          {says}", f"{' ' * 23}{help_}")
        raise typer.Exit(ExitCode.FAILED)

    from ralph.setup.doctor import diagnose

    raise typer.Exit(diagnose(as_json=as_json))
