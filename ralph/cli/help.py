"""Help and usage errors of both programs: commands in groups, flags in panels, examples; one way to refuse.

typer's own help would load rich and its markdown for every caller, and write to the terminal past `ui/terminal`.
"""

import contextlib
import inspect
import re
import sys
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from ralph.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from typer.exceptions import TyperException

    from ralph.ui.page import Part

GROUPS = ("Start", "Watch", "Steer", "Look back", "Set up")
"""The groups of commands, in the order of the help."""
_ARGUMENTS, _OPTIONS = "Arguments", "Options"
_Entries = list[tuple[str, str]]


class HelpfulCommand(TyperCommand):
    """A command whose help is a page; its epilog holds examples, one a line."""

    def get_help(self, ctx: object) -> str:
        return _help(self, ctx, sys.stdout)

    def parse_args(self, ctx: object, args: list[str]) -> list[str]:
        with _in_context(ctx):
            return super().parse_args(cast("typer.Context", ctx), args)


class HelpfulGroup(TyperGroup):
    """The same for a command with subcommands."""

    def get_help(self, ctx: object) -> str:
        return _help(self, ctx, sys.stdout)

    def parse_args(self, ctx: object, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not cast("typer.Context", ctx).resilient_parsing:
            sys.stderr.write(f"{_help(self, ctx, sys.stderr)}\n")
            raise typer.Exit(ExitCode.USAGE)
        with _in_context(ctx):
            return super().parse_args(cast("typer.Context", ctx), args)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup:
        """Return a command; refuse one that does not exist, and name the nearest one."""
        from ralph.core.text import did_you_mean

        if (found := self.commands.get(cmd_name)) is None:
            path = cast("typer.Context", ctx).command_path
            raise UsageError(f"no such command: {cmd_name}{did_you_mean(cmd_name, self.commands)}", f"{path} --help")
        return cast("TyperCommand | TyperGroup", found)


@contextlib.contextmanager
def _in_context(context: object) -> Generator[None]:
    """Add the command to typer's refusals; its parser doesn't always know it."""
    try:
        yield
    except typer.TyperException as error:
        if getattr(error, "ctx", None) is None:
            error.__dict__["ctx"] = context
        raise


def refusal(error: "TyperException") -> UsageError:
    """Turn a refusal of typer into an error of ralph: the message and the command's help."""
    from ralph.core.text import did_you_mean

    context = cast("typer.Context | None", getattr(error, "ctx", None))
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    if context is not None and hasattr(error, "possibilities"):  # an unknown flag; typer only suggests prefixes
        flags = [flag for parameter in context.command.params for flag in parameter.opts]
        name = str(getattr(error, "option_name", ""))
        message = f"no such option: {name}{did_you_mean(name, flags)}"
    message = re.sub(r"is not in the range x>=(-?\d+)", r"is less than \1", message)
    return UsageError(message, "" if context is None else f"{context.command_path} --help")


def _help(command: TyperCommand | TyperGroup, context: object, stream: TextIO) -> str:
    from ralph.ui.page import lines, paper

    return "\n".join(lines(list(_page(command, cast("typer.Context", context))), paper(stream))).rstrip("\n")


def _page(command: TyperCommand | TyperGroup, context: typer.Context) -> "Iterator[Part]":
    from ralph.ui.page import Panel, Prose

    yield f"usage: {' '.join([context.command_path, *command.collect_usage_pieces(context)])}"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield ""
        yield Prose(paragraph)
    panels = _parameters(command, context)
    if isinstance(command, TyperGroup):
        panels = {**_commands(command), **panels}
    yield ""
    for title, entries in panels.items():
        yield Panel(title, entries)
    if command.epilog:
        yield Panel("Examples", [("", example) for example in command.epilog.splitlines()])


def _commands(group: TyperGroup) -> dict[str, _Entries]:
    """The commands of a group by theirs, each with the first line of its help."""
    found: dict[str, _Entries] = {}
    for name, each in group.commands.items():
        if each.hidden:
            continue
        command = cast("TyperCommand | TyperGroup", each)
        summary = inspect.cleandoc(command.help or "").partition("\n")[0]
        found.setdefault(command.rich_help_panel or "Commands", []).append((name, summary))
    return _ordered(found, GROUPS)


def _parameters(command: TyperCommand | TyperGroup, context: typer.Context) -> dict[str, _Entries]:
    """Arguments and flags by their panels; those without one come last."""
    found: dict[str, _Entries] = {}
    for parameter in command.get_params(context):
        if isinstance(parameter, TyperArgument | TyperOption) and (record := parameter.get_help_record(context)):
            if "--help" in parameter.opts:
                record = (record[0], "Show this help.")
            usual = _ARGUMENTS if isinstance(parameter, TyperArgument) else _OPTIONS
            found.setdefault(parameter.rich_help_panel or usual, []).append(record)
    others = [title for title in found if title not in (_ARGUMENTS, _OPTIONS)]
    return _ordered(found, [_ARGUMENTS, *others, _OPTIONS])


def _ordered(panels: dict[str, _Entries], order: Iterable[str]) -> dict[str, _Entries]:
    return {title: panels[title] for title in dict.fromkeys([*order, *panels]) if title in panels}
