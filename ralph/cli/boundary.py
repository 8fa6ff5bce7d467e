"""Where a program of ralph's begins and ends: its streams, and the one place where faults become exit codes."""

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from ralph import __version__
from ralph.core.errors import Interrupted, RalphError


def program(name: str, summary: str) -> typer.Typer:
    """A command line of ralph's, without commands yet: what all of them have alike."""
    app = typer.Typer(
        name=name,
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {__version__}")
            raise typer.Exit

    @app.callback(help=summary)
    def root(
        _version: Annotated[
            bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None: ...

    return app


def leave_with(command: Callable[[], object]) -> NoReturn:
    """Run a command line, and leave with its exit code whatever has become of the streams."""
    _take_up_streams()
    code = _exit_code(command)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:  # it was closed at start
                stream.flush()
    # Not sys.exit: the interpreter would flush once more, and leave with 120 where the reader is gone. And it would
    # first take itself apart, a tenth of the time of `ralph --version`, which nothing of ours waits for.
    os._exit(code)


def _take_up_streams() -> None:
    """Make do with whatever streams we were given: closed ones, and terminals that do not know all our letters."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # else the next file that is opened, a log say, would be taken for it
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _exit_code(command: Callable[[], object]) -> int:
    """What escapes a command is drawn here."""
    try:
        command()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except RalphError as error:
        from ralph.cli.faults import complain

        complain(error.message, error.hint)
        return error.exit_code
    except Interrupted as stopped:
        return stopped.exit_code
    except OSError as error:  # what a command prints cannot be written; all else has been named on the way
        from ralph.cli.faults import complain
        from ralph.core.errors import exit_code_of

        way_out = ["free some space, or let it be written elsewhere", *getattr(error, "__notes__", [])]
        complain(f"stdout: {error.strerror or error}", "; ".join(way_out))
        return exit_code_of(error)
    except KeyboardInterrupt:  # before a run watches for signals, or when it no longer does
        return 130
    except Exception as error:  # the boundary: anything that gets here is a bug
        from ralph.cli.faults import report_bug

        return report_bug(error)
    return 0
