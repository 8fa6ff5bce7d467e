"""`ralph ask`: one question, one answer on stdout."""

from pathlib import Path
from typing import Annotated

import typer

from ralph.cli import flags


@flags.settings("ask")
def ask(
    *,
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="Your question; - reads it from stdin.")
    ] = None,
    system: Annotated[str, typer.Option(metavar="TEXT", help="Instructions for claude, before everything else.")] = "",
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The conversation so far: a JSON list of messages with role and content."),
    ] = None,
    session_id: Annotated[
        str,
        typer.Option(
            metavar="UUID",
            help="The id of a conversation: a new one starts it, a known one continues it in the same folder.",
        ),
    ] = "",
    written: flags.Written,
    as_json: flags.PrintJson = False,
) -> None:
    """Ask Claude Code one question and print its answer.

    claude works in the current folder, with your login and the tools that you allow. ralph commits nothing.

    Exit codes: 0 answered (with a warning if the turns ran out), 1 claude failed or took too long, 2 bad usage, 3 a bug
    in ralph, 6 claude is missing, 129/130/143 stopped by a signal.
    """
    from ralph.system import environ
    from ralph.system.leash import LEASH, heed_leash

    heed_leash(environ.taken(LEASH))

    from ralph.cli.program import say, say_json
    from ralph.core.records import to_record
    from ralph.run.ask import AskFlags
    from ralph.run.ask import ask as ask_claude

    answered = ask_claude(AskFlags(prompt, system, history, session_id), written)
    if as_json:
        say_json(to_record(answered.answer))
    else:
        say_text(answered.answer.text)
    for warning in answered.warnings:
        say(f"warning: {warning}", err=True)


def say_text(text: str) -> None:
    """Print a text of the agent's as it is, made safe for the terminal."""
    import sys

    from ralph.ui.output import Output
    from ralph.ui.terminal import visible

    output = Output(sys.stdout)
    output.write(f"{visible(text)}\n")
    if output.fault is not None:
        raise output.fault
