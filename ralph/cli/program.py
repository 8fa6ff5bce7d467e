"""Where a program of ralph's begins and ends: its streams, and the one place where faults become exit codes."""

import contextlib
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ralph import __version__
from ralph.config import paths
from ralph.core.errors import BUG, Interrupted, RalphError
from ralph.core.text import both_ends
from ralph.system import environ
from ralph.ui.terminal import Output, visible

_LONGEST_LINE = 1000
"""Characters of a line of an error: more is a value that somebody wrote and that is quoted."""


def complain(message: str, hint: str = "") -> None:
    """Write an error, and the next step where there is one."""
    message = "\n".join(both_ends(line, _LONGEST_LINE) for line in message.split("\n"))
    Output(sys.stderr).write(f"error: {visible(message)}\n" + (f"\nhint: {visible(hint)}\n" if hint else ""))


def report_bug(error: Exception) -> int:
    """Keep the traceback in a file and say where it is, and what there is to do."""
    message = f"a bug in ralph: {type(error).__name__}: {error}"
    try:
        report = f"the traceback is in {_keep(traceback.format_exc())}; please report it"
        complain(message, "; ".join([report, *getattr(error, "__notes__", [])]))
    except (OSError, RalphError):
        complain(message, traceback.format_exc())
    return BUG


def _keep(text: str) -> str:
    try:
        folder = paths.ralph_dir(environ.without_redirections()) / "bugs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RalphError):
        folder = Path(tempfile.gettempdir())
    with tempfile.NamedTemporaryFile("w", prefix="ralph-", suffix=".log", dir=folder, delete=False) as file:
        file.write(text)
    return file.name


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
        complain(error.message, error.hint)
        return error.exit_code
    except Interrupted as stopped:
        return stopped.exit_code
    except OSError as error:  # what a command prints cannot be written; all else has been named on the way
        from ralph.core.errors import exit_code_of

        way_out = ["free some space, or let it be written elsewhere", *getattr(error, "__notes__", [])]
        complain(f"stdout: {error.strerror or error}", "; ".join(way_out))
        return exit_code_of(error)
    except KeyboardInterrupt:  # before a run watches for signals, or when it no longer does
        return 130
    except Exception as error:  # the boundary: anything that gets here is a bug
        return report_bug(error)
    return 0
