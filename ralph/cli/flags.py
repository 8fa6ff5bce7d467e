"""Flags that several commands share. Those for settings come from the table of settings."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, cast

import typer
from typer.models import OptionInfo

from ralph.cli import completion
from ralph.config.keys import KEYS, flag

_Command = Callable[..., None]

AGENT, LIMITS, PROOF, SANDBOX, REPOSITORY, OUTPUT = "Agent", "Limits", "Check", "Sandbox", "Repository", "Output"
"""Panels of flags in a command's help; flags without a panel come last."""
_PANELS = {
    **dict.fromkeys(("agent", "agent_cmd", "transcript", "model", "reasoning"), AGENT),
    **dict.fromkeys(("max_iterations", "duration", "max_cost", "max_tokens"), LIMITS),
    **dict.fromkeys(("iteration_timeout", "idle_timeout"), LIMITS),
    **dict.fromkeys(("check", "require_check", "require_proof"), PROOF),
    **dict.fromkeys(("sandbox.mode", "sandbox.required"), SANDBOX),
    "merge": REPOSITORY,
    **dict.fromkeys(("db", "max"), None),
    "provider.claude-code.max_turns": LIMITS,
    "provider.claude-code.timeout_secs": LIMITS,
    "provider.claude-code.allowed_tools": AGENT,
}


def setting(name: str) -> OptionInfo:
    """The option for a setting, as the table of settings describes it."""
    key = KEYS[name]
    metavar = key.metavar or (None if key.is_switch else "NAME")
    offer = None if key.is_switch else completion.choices(name)
    option = typer.Option(
        flag(name), metavar=metavar, help=key.help, rich_help_panel=_PANELS[name], autocompletion=offer
    )
    return cast("OptionInfo", option)


def settings(*commands: str) -> Callable[[_Command], _Command]:
    """Give a command a flag for every setting that has one there; its parameter `written` gets those that are used."""
    keys = {name: key for name, key in KEYS.items() if set(commands) & set(key.flags)}

    def with_flags(body: _Command) -> _Command:
        def run(**given: object) -> None:
            said = {name: given.pop(_parameter(name)) for name in keys}
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
        _parameter(name), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, setting(name)]
    )


def _parameter(name: str) -> str:
    """The name of a setting's flag, as Python spells it."""
    return flag(name).removeprefix("--").replace("-", "_")


Written = Mapping[str, object]
"""Settings as the command line says them: see `settings`."""


def among(written: Written, command: str) -> dict[str, object]:
    """Those of them that such a command has a flag for: see `SettingKey.flags`."""
    return {name: value for name, value in written.items() if command in KEYS[name].flags}


AsJson = Annotated[
    bool, typer.Option("--json", help="Print only events, as NDJSON, on stdout.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the result.", rich_help_panel=OUTPUT)]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Print thinking and tool output in full.", rich_help_panel=OUTPUT)
]
LiveGoal = Annotated[
    str | None,
    typer.Argument(
        metavar="[GOAL]",
        help="The goal's name or file; not needed if only one run is live.",
        autocompletion=completion.live_runs,
    ),
]


Db = Annotated[str | None, setting("db")]
PrintJson = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.", rich_help_panel=OUTPUT)]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="A goal: g7, 7, or its name if it is unique.",
        autocompletion=completion.queued_goals,
    ),
]
Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help="Goals: g7, 7, or a name if it is unique.",
        autocompletion=completion.queued_goals,
    ),
]
_SOURCES = "Goal files, directories of them, or a batch.toml."
Sources = Annotated[list[Path], typer.Argument(metavar="GOAL...", help=_SOURCES, autocompletion=completion.sources)]
QueuedOrSources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[GOAL...]",
        help=f"{_SOURCES} Default: what is queued for this repository.",
        autocompletion=completion.sources,
    ),
]
Repo = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The repository to work on: a URL or a path; an entry in batch.toml overrides it.",
        rich_help_panel=REPOSITORY,
    ),
]
TrustEnvrc = Annotated[
    bool,
    typer.Option(
        "--trust-envrc",
        help="Trust the .envrc of the repositories, as `ralph run --trust-envrc` does.",
        rich_help_panel=REPOSITORY,
    ),
]
