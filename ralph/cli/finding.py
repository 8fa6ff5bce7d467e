"""The runs that a command may speak of, seen from where the user stands."""

from pathlib import Path

from ralph import gitrepo, settings
from ralph.core.errors import UsageError
from ralph.roster import Roster
from ralph.system import environ


def roster() -> Roster:
    """All runs of this machine; those of the repository around the current directory first."""
    try:
        here = gitrepo.open_repo(Path.cwd()).root
    except UsageError:
        here = None
    return Roster(settings.ralph_dir(environ.without_redirections()) / "runs", here)
