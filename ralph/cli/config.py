"""`ralph config` and `ralph trust`: every setting with its value and origin, and whether `.envrc` is trusted."""

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
    from ralph.config.keys import KEYS
    from ralph.core import ndjson
    from ralph.system import environ

    loaded = settings.load(env=environ.without_redirections(), root=_project())
    rows = {
        name: (loaded.values[name].written, loaded.values[name].source) if name in loaded.values else (None, "default")
        for name in KEYS
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
    from ralph.config.keys import KEYS
    from ralph.system import environ

    root = _project()
    if project and root is None:
        raise UsageError("--project needs a git repository around the current directory")
    if project and key in KEYS and KEYS[key].guarded:
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


def trust(
    path: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="The repository, or its .envrc; else the one you stand in.")
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Take it back.")] = False,
) -> None:
    """Trust the .envrc of a repository as it stands, with the files that it reads.

    Runs use it from then on, until one of these files changes. Nothing is executed here. Exit codes: 0 done, 2 there is
    none, or it cannot be trusted.
    """
    import time

    from ralph.config import envrc_files, paths
    from ralph.config.environment import stands
    from ralph.config.envrc import word_on
    from ralph.config.trust import TrustStore, refuse_sessions
    from ralph.core.errors import UsageError
    from ralph.core.text import timestamp
    from ralph.git import repo
    from ralph.system import environ
    from ralph.ui.terminal import visible

    env = environ.without_redirections()
    refuse_sessions(env)
    place = path or Path.cwd()
    named = place.name == envrc_files.NAME and not place.is_dir()
    folder = (place.parent if named else place).resolve()
    root = repo.open_repo(folder).root
    if folder != root and (named or (folder / envrc_files.NAME).exists()):
        only = f"only {root / envrc_files.NAME} is used, the one at the root of the repository"
        if named:
            raise UsageError(f"{place} is never used", only)
        typer.echo(visible(f"note: {only}; {folder / envrc_files.NAME} is not"), err=True)
    store = TrustStore(paths.ralph_dir(env))
    if forget:
        known = store.forget(root, timestamp(time.time()))
        typer.echo(f"{root / envrc_files.NAME}: {'no longer trusted' if known else 'was not trusted'}")
        return
    envrc = stands(root, env)
    if not envrc.exists:
        raise UsageError(f"{envrc.path}: there is none", "go to the repository that has one, or name it")
    if envrc.obstacle:
        raise UsageError(f"{envrc.obstacle}, and so cannot be trusted", "put a plain, small file there, or none")
    store.record(envrc, "ralph trust", timestamp(time.time()))
    typer.echo(visible(f"{envrc.path} is trusted as it stands, with what it reads:"))
    for name, digest in envrc.files.items():
        missing = "not there; trust ends when it comes" if digest == envrc_files.MISSING else f"sha256 {digest[:16]}…"
        typer.echo(visible(f"  {name}  ({missing})"))
    if envrc.unfollowed:
        typer.echo("not covered, because it cannot be told what is read or run there:")
        for where in envrc.unfollowed:
            typer.echo(visible(f"  {where}"))
    if word_on(envrc, env).denies:
        typer.echo("note: your direnv denies it, and that counts more: direnv allow", err=True)
