"""`ralph config`: every setting with its value and where that came from; `ralph config set` changes one."""

from pathlib import Path
from typing import Annotated, cast

import typer

from ralph.core.errors import UsageError

app = typer.Typer(rich_markup_mode=None, help="Show every setting, its value and where it comes from.")


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show every setting, its value and where it comes from."""
    if context.invoked_subcommand is not None:
        return
    from ralph.config import settings
    from ralph.core import ndjson
    from ralph.system import environ

    loaded = settings.load(env=environ.without_redirections(), root=_project())
    rows = {
        name: (loaded.values[name].written, loaded.values[name].source) if name in loaded.values else (None, "default")
        for name in settings.KEYS
    }
    if as_json:
        shown = {name: {"value": _safe(value), "source": source} for name, (value, source) in rows.items()}
        shown["transcript"]["means"] = loaded.transcript
        typer.echo(ndjson.encode(shown))
        return
    width = max(map(len, rows))
    for name, (value, source) in rows.items():
        meant = f" = {loaded.transcript}" if (name, value) == ("transcript", "auto") else ""
        typer.echo(f"{name:<{width}}  {'-' if value in (None, '', []) else _shown(value)}{meant}  ({source})")
    for note in loaded.notes:
        typer.echo(f"note: {note}", err=True)


@app.command("set", context_settings={"ignore_unknown_options": True})  # a value may begin with a dash
def set_(
    key: Annotated[str, typer.Argument(help="A key as `ralph config` lists it, such as model or agents.claude.path.")],
    value: Annotated[str, typer.Argument(help="Its new value.")],
    project: Annotated[
        bool, typer.Option("--project", help="Write .ralph/config.toml instead of your own configuration.")
    ] = False,
) -> None:
    """Set a key in your own configuration, or in the project's."""
    from ralph.config import paths, settings
    from ralph.system import environ

    root = _project()
    if project and root is None:
        raise UsageError("--project needs a git repository around the current directory")
    if project and key in settings.KEYS and settings.KEYS[key].guarded:
        raise UsageError(
            f"{key} does not count in a project's configuration",
            "leave out --project: it runs code or concerns secrets",
        )
    path = paths.project_config(root) if project and root is not None else paths.user_config()
    note = settings.set_value(path, key, value)
    typer.echo(f"{key} = {_safe(value)}  ({path})")
    if note:
        typer.echo(f"note: {note}", err=True)
    try:
        in_force = settings.load(env=environ.without_redirections(), root=root).values[key]
    except UsageError as error:  # it is written; what else is wrong is another matter
        typer.echo(f"note: {error.message}", err=True)
        return
    if in_force.source not in (str(path), str(path.resolve())):
        typer.echo(f"note: {in_force.source} sets it to {_shown(in_force.written)}, and counts more here", err=True)


def _project() -> Path | None:
    from ralph.git import repo

    try:
        return repo.open_repo(Path.cwd()).root
    except UsageError:
        return None


def _safe(value: object) -> object:
    """A value without the password that an address may hold."""
    from ralph.core.secrets import without_secrets

    return without_secrets(value) if isinstance(value, str) else value


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(_safe(value))
