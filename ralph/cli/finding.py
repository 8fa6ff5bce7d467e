"""The runs that a command may speak of, seen from where the user stands."""

from pathlib import Path

from ralph.config import paths
from ralph.core.errors import UsageError
from ralph.git import repo
from ralph.state.known_runs import Roster
from ralph.system import environ


def roster() -> Roster:
    """All runs of this machine; those of the repository around the current directory first."""
    try:
        here = repo.open_repo(Path.cwd()).root
    except UsageError:
        here = None
    return Roster(paths.ralph_dir(environ.without_redirections()) / "runs", here)
