"""Flags that several commands share. Those for settings come from the table of settings."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, cast

import typer
from typer.models import OptionInfo

from ralph.config.keys import KEYS, flag

_Command = Callable[..., None]


def setting(name: str) -> OptionInfo:
    """The option for a setting, as the table of settings describes it."""
    key = KEYS[name]
    return cast("OptionInfo", typer.Option(flag(name), metavar=key.metavar, help=key.help))


def settings(command: str) -> Callable[[_Command], _Command]:
    """Give a command a flag for every setting that has one there; its parameter `written` gets those that are used."""
    keys = {name: key for name, key in KEYS.items() if command in key.flags}

    def with_flags(body: _Command) -> _Command:
        def run(**given: object) -> None:
            said = {name: given.pop(name) for name in keys}
            body(**given, written={name: value for name, value in said.items() if value not in (None, False)})

        parameters = [
            flagged
            for parameter in inspect.signature(body).parameters.values()
            for flagged in ([_flag(name) for name in keys] if parameter.name == "written" else [parameter])
        ]
        functools.update_wrapper(run, body)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__dict__ |= {"__signature__": inspect.Signature(parameters)}
        del run.__dict__["__wrapped__"]  # typer would read the signature, and the hints, of the body
        return run

    return with_flags


def _flag(name: str) -> inspect.Parameter:
    kind, default = (bool, False) if KEYS[name].is_switch else (str | None, None)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, setting(name)]
    )


Written = Mapping[str, object]
"""Settings as the command line says them: see `settings`."""
AsJson = Annotated[bool, typer.Option("--json", help="Print events as NDJSON, and nothing else, on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only how it ended.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print thinking and tool output in full.")]
LiveGoal = Annotated[
    str | None,
    typer.Argument(metavar="[GOAL]", help="The goal's name or file; may be left out when one run is live."),
]


Db = Annotated[str | None, setting("db")]
PrintJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="A goal: g7, 7, or its name where only one has it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Goals: g7, 7, or a name where only one has it.")]
SOURCES = "Goal files, directories of them, or a batch.toml."
Sources = Annotated[list[Path], typer.Argument(metavar="GOAL...", help=SOURCES)]
Repo = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The repository to work on: a URL, or a path; an entry of a batch.toml counts more."
    ),
]
Merge = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="What becomes of proven work: direct, pr, branch or none; direct unless said."),
]
TrustEnvrc = Annotated[
    bool, typer.Option("--trust-envrc", help="Trust the .envrc of the repositories, as `ralph run --trust-envrc` does.")
]
