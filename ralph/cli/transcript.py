"""`ralph transcript`: a log that an agent left, as the events that ralph makes of it."""

from typing import Annotated

import typer


def transcript(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An agent's raw output; - is stdin.")],
    name: Annotated[
        str,
        typer.Option(
            "--transcript", help="What wrote it: claude, codex, rtf1 or plain; auto tells by the first telling line."
        ),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print events as NDJSON.")] = False,
) -> None:
    """Show what ralph reads in an agent's output, by the same path as when a session runs.

    Whatever FILE holds, the exit code is 0: what cannot be read is an event that says so. 2: there is no such file.
    """
    from ralph.cli.retelling import retell

    retell(file, name, as_json=as_json)
