"""`ralph`: its commands, and the one place where faults become messages and exit codes."""

import io
import sys
from typing import Annotated

import typer

from ralph import __version__
from ralph.cli import config, run
from ralph.cli.faults import complain, report_bug
from ralph.errors import Interrupted, RalphError

_SUMMARY = "Hold fresh coding-agent sessions on a goal until it is proven done."

app = typer.Typer(
    name="ralph",
    help=_SUMMARY,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.add_typer(config.app, name="config")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ralph {__version__}")
        raise typer.Exit


@app.callback(help=_SUMMARY)
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; what escapes it is drawn here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None, if it was closed before we began
            stream.reconfigure(errors="backslashreplace")  # a terminal without `·` is no reason to end a run
    try:
        app()
    except RalphError as error:
        complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except Interrupted as stopped:
        sys.exit(stopped.exit_code)
    except Exception as error:  # the boundary: anything that gets here is a bug
        sys.exit(report_bug(error))
