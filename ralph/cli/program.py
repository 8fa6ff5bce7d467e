"""Start and end of ralph's programs: their streams, and the one place where faults become exit codes."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer

from ralph import version_and_commit
from ralph.cli.help import HelpfulCommand, HelpfulGroup, refusal
from ralph.core.errors import ExitCode, Interrupted, RalphError, fault_of
from ralph.core.text import both_ends
from ralph.system import environ
from ralph.system.environ import FAULT_FILE

if TYPE_CHECKING:
    from types import ModuleType

    from ralph.core.progress import Reporter
    from ralph.ui.page import Part

_LONGEST_LINE = 1000
"""Characters of an error's line: a longer one quotes a long value."""


def say(*parts: "Part", err: bool = False) -> None:
    """Print parts of a page to stdout, or to stderr."""
    from ralph.ui import page

    page.show(parts, sys.stderr if err else None)


def say_json(document: object) -> None:
    """Print a document on one line of stdout."""
    from ralph.ui import page

    page.show_json(document)


@contextlib.contextmanager
def shown_task(title: str, *, quiet: bool = False) -> "Generator[Reporter]":
    """Show on stderr how far a task is, if it takes more than a second."""
    from ralph.ui.progress import ProgressScreen

    with ProgressScreen(sys.stderr, environ.inherited(), quiet=quiet).shown(title) as report:
        yield report


def complain(message: str, hint: str = "") -> None:
    """Write an error and its hint, if there is one."""
    from ralph.ui.output import Output
    from ralph.ui.terminal import labelled, terminal

    message = "\n".join(both_ends(line, _LONGEST_LINE) for line in message.split("\n"))
    place = terminal(sys.stderr, environ.inherited())
    said = [labelled("error", message, place), *([labelled("hint", hint, place)] if hint else [])]
    Output(sys.stderr).write("\n\n".join(said) + "\n")


def report_bug(error: Exception) -> int:
    """Save the traceback to a file, and tell the user where it is and what to do."""
    import traceback

    message = f"a bug in ralph: {type(error).__name__}: {error}"
    try:
        report = f"the traceback is in {_keep(traceback.format_exc())}; please report it"
        complain(message, "; ".join([report, *getattr(error, "__notes__", [])]))
    except (OSError, RalphError):
        complain(message, traceback.format_exc())
    return ExitCode.BUG


def _keep(text: str) -> str:
    import tempfile

    from ralph.config import paths

    try:
        folder = paths.ralph_dir(environ.without_redirections()) / "bugs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RalphError):
        folder = Path(tempfile.gettempdir())
    with tempfile.NamedTemporaryFile("w", prefix="ralph-", suffix=".log", dir=folder, delete=False) as file:
        file.write(text)
    return file.name


def program(name: str, summary: str) -> typer.Typer:
    """Return a program without commands: the parts that all programs share."""
    app = typer.Typer(
        name=name,
        help=summary,
        cls=HelpfulGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def version(wanted: bool) -> None:
        from ralph.ui.output import Output

        if wanted:
            output = Output(sys.stdout)
            output.write(f"{name} {version_and_commit()}\n")
            if output.fault is not None:
                raise output.fault
            raise typer.Exit

    @app.callback(help=summary)
    def root(
        _version: Annotated[
            bool, typer.Option("--version", callback=version, is_eager=True, help="Print version and commit.")
        ] = False,
    ) -> None: ...

    return app


def command(
    app: typer.Typer,
    name: str,
    body: Callable[..., object] | typer.Typer,
    group: str,
    *examples: str,
    takes_dashes: bool = False,
) -> None:
    """Add a command, or one with commands of its own, to a group of `help.GROUPS`, with two examples.

    `takes_dashes`: an argument that begins with a dash is not a flag.
    """
    epilog = "\n".join(examples)
    settings = {"ignore_unknown_options": True} if takes_dashes else None
    if isinstance(body, typer.Typer):
        app.add_typer(body, name=name, cls=HelpfulGroup, epilog=epilog, rich_help_panel=group)
    else:
        summary = (body.__doc__ or "").partition("\n")[0]  # else typer cuts it after 45 characters
        add = app.command(
            name,
            cls=HelpfulCommand,
            epilog=epilog,
            rich_help_panel=group,
            context_settings=settings,
            short_help=summary,
        )
        add(body)


def leave_with(app: typer.Typer) -> NoReturn:
    """Run a command line, and exit with its code, even if the streams are broken."""
    _take_up_streams()
    fault_file = environ.taken(FAULT_FILE)  # before a child could inherit it

    def carry_out() -> object:
        return app(prog_name=app.info.name, standalone_mode=False)

    asks_shell = f"_{app.info.name}_COMPLETE".replace("-", "_").upper() in environ.inherited()
    code = _complete(carry_out) if asks_shell else _exit_code(carry_out, fault_file)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:  # closed before the start
                stream.flush()
    # Not sys.exit: the interpreter would flush once more, and leave with 120 where the reader is gone. And it would
    # first take itself apart, a tenth of the time of `ralph --version`, which nothing of ours waits for.
    os._exit(code)


def _take_up_streams() -> None:
    """Handle closed streams, and terminals that lack some characters."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # else the next file that is opened, a log say, would be taken for it
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complete(command: Callable[[], object]) -> int:
    """Answer a shell that completes a line: a fault would be printed between what its user types."""
    sys.modules["rich"] = cast("ModuleType", None)  # typer renders help with it where it is, in 0.1 s; ours needs none
    try:
        return ExitCode.DONE if fault_of(command) is None else ExitCode.FAILED
    except SystemExit as left:  # fish asks by the exit code whether there is anything to offer
        return left.code if isinstance(left.code, int) else ExitCode.DONE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _exit_code(command: Callable[[], object], fault_file: str) -> int:
    """Run the command, and report every exception."""
    try:
        left = command()  # the command's exit code, if it has one
        return left if isinstance(left, int) else ExitCode.DONE
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else ExitCode.DONE if left.code is None else ExitCode.FAILED
    except typer.TyperException as refused:
        error = refusal(refused)
        complain(error.message, error.hint)
        return error.exit_code
    except RalphError as error:
        complain(error.message, error.hint)
        _report(fault_file, error.message, error.hint)
        return error.exit_code
    except Interrupted as stopped:
        return stopped.exit_code
    except OSError as error:  # the output cannot be written; every other OSError was translated before
        from ralph.core.errors import exit_code_of

        way_out = ["write to another place, or free some disk space", *getattr(error, "__notes__", [])]
        complain(f"cannot write to stdout: {error.strerror or error}", "; ".join(way_out))
        return exit_code_of(error)
    except KeyboardInterrupt:  # before a run watches for signals, or when it no longer does
        return ExitCode.INTERRUPTED
    except Exception as error:  # the boundary: anything that gets here is a bug
        _report(fault_file, f"a bug in ralph: {type(error).__name__}: {error}")
        return report_bug(error)


def _report(fault_file: str, message: str, hint: str = "") -> None:
    """Report the fault to a parent process that asked for it."""
    if fault_file:
        from ralph.system.leash import Fault, write_fault

        write_fault(fault_file, Fault(message, hint))
