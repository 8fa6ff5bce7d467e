"""`ralph trust`: the user's word that a repository's `.envrc` may be executed, as it stands."""

from pathlib import Path
from typing import Annotated

import typer


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
