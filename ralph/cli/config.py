"""`ralph config` and `ralph trust`: every setting with its value and origin, and whether `.envrc` is trusted."""

from pathlib import Path
from typing import Annotated, cast

import typer

from ralph.cli import completion
from ralph.cli.program import command, say, say_json
from ralph.core.errors import UsageError

app = typer.Typer(rich_markup_mode=None)


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
    from ralph.system import environ
    from ralph.ui.page import Table, TableColumn, TableRow
    from ralph.ui.theme import Look

    env = environ.without_redirections()
    loaded = settings.load(env=env, root=_project())
    rows = {
        name: (loaded.values[name].written, loaded.values[name].source) if name in loaded.values else (None, "default")
        for name in KEYS
    }
    if as_json:
        shown = {name: {"value": _safe(value), "source": source} for name, (value, source) in rows.items()}
        shown["transcript"]["means"] = loaded.transcript
        shown["sandbox.env"]["held_back"] = loaded.held_back(env)
        say_json(shown)
        return
    table = [
        TableRow([name], (f"{'-' if value in (None, '', []) else _shown(value)}{meant}  ({source})", look))
        for name, (value, source) in rows.items()
        for meant in [f" = {loaded.transcript}" if (name, value) == ("transcript", "auto") else ""]
        for look in [Look.QUIET if source == "default" else Look.PLAIN]
    ]
    say(Table([TableColumn("", whole=True)], table))
    if held := loaded.held_back(env):
        say(f"held back from the agent: {', '.join(held)}  (to pass some on: ralph config set sandbox.env NAME)")
    for note in loaded.notes:
        say(f"note: {note}", err=True)


def set_(
    key: Annotated[
        str,
        typer.Argument(
            help="A key from `ralph config`, such as model or agents.claude.path.",
            autocompletion=completion.setting_names,
        ),
    ],
    value: Annotated[str, typer.Argument(help="Its new value.", autocompletion=completion.setting_values)],
    project: Annotated[
        bool, typer.Option("--project", help="Write .ralph/config.toml instead of your own configuration.")
    ] = False,
) -> None:
    """Set a key in your own configuration, or the project's."""
    from ralph.config import paths, settings
    from ralph.config.keys import KEYS
    from ralph.system import environ

    root = _project()
    if project and root is None:
        raise UsageError(
            "cannot use --project: the current directory is not in a git repository",
            "go to the repository, or leave out --project to set it for yourself",
        )
    if project and key in KEYS and KEYS[key].guarded:
        raise UsageError(
            f"cannot set {key} for a project: it runs code or concerns secrets",
            "leave out --project to set it for yourself",
        )
    path = paths.project_config(root) if project and root is not None else paths.user_config()
    note = settings.set_value(path, key, value)
    say(f"{key} = {_safe(value)}  ({path})")
    if note:
        say(f"note: {note}", err=True)
    try:
        in_force = settings.load(env=environ.without_redirections(), root=root).values[key]
    except UsageError as error:  # the value is written; report other faults as a note
        say(f"note: {error.message}", err=True)
        return
    if in_force.source not in (str(path), str(path.resolve())):
        say(f"note: {in_force.source} overrides this with {_shown(in_force.written)}", err=True)


command(
    app,
    "set",
    set_,
    "Set up",
    "ralph config set max_cost 5",
    "ralph config set max_iterations 30 --project",
    takes_dashes=True,
)


def _project() -> Path | None:
    from ralph.git import repo

    try:
        return repo.open_repo(Path.cwd()).root
    except UsageError:
        return None


def _safe(value: object) -> object:
    """Return a value without the password in an address."""
    from ralph.core.secrets import without_secrets

    return without_secrets(value) if isinstance(value, str) else value


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(_safe(value))


def trust(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="The repository or its .envrc; the default is the current repository."),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Stop trusting it.")] = False,
) -> None:
    """Trust the current .envrc of a repository.

    ralph also trusts the files that it reads. Runs use it until one of these files changes. Nothing is executed here.

    Exit codes: 0 done, 2 there is no .envrc, or ralph cannot trust it.
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

    env = environ.without_redirections()
    refuse_sessions(env)
    place = path or Path.cwd()
    named = place.name == envrc_files.NAME and not place.is_dir()
    folder = (place.parent if named else place).resolve()
    root = repo.open_repo(folder).root
    if folder != root and (named or (folder / envrc_files.NAME).exists()):
        only = f"ralph uses only {root / envrc_files.NAME}, at the root of the repository"
        if named:
            raise UsageError(f"cannot trust {place}: ralph never uses it", only)
        say(f"note: {only}, not {folder / envrc_files.NAME}", err=True)
    store = TrustStore(paths.ralph_dir(env))
    if forget:
        known = store.forget(root, timestamp(time.time()))
        say(f"{root / envrc_files.NAME}: {'no longer trusted' if known else 'was not trusted'}")
        return
    envrc = stands(root, env)
    if not envrc.exists:
        raise UsageError(f"cannot trust {envrc.path}: no such file", "pass the path of a repository with an .envrc")
    if envrc.obstacle:
        raise UsageError(f"cannot trust .envrc: {envrc.obstacle}", "replace it with a small regular file, or remove it")
    store.record(envrc, "ralph trust", timestamp(time.time()))
    say(f"{envrc.path} is now trusted, with the files that it reads:")
    for name, digest in envrc.files.items():
        missing = "missing; creating it ends trust" if digest == envrc_files.MISSING else f"sha256 {digest[:16]}…"
        say(f"  {name}  ({missing})")
    if envrc.unfollowed:
        say("not covered, because ralph can't tell what these read or run:")
        for where in envrc.unfollowed:
            say(f"  {where}")
    if word_on(envrc, env).denies:
        say("note: your direnv still denies it; to change that: direnv allow", err=True)
