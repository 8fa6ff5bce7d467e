"""Clones that `ralph run --repo` works in."""

import shutil
import tempfile
from pathlib import Path

from ralph.core.errors import RepoError
from ralph.core.progress import Reporter
from ralph.core.secrets import without_login
from ralph.git.address import require_source
from ralph.git.command import PATIENT_HTTP, heard_by, last_line, run_git
from ralph.git.repo import Repo, open_repo
from ralph.system.files import make_private_directory

_LONGEST_SILENCE = 600.0
"""Seconds after which ralph gives up on a silent remote."""


def clone(url: str, destination: Path, report: Reporter | None = None) -> Repo:
    """Clone `url`, or use the existing clone as it is. `report` may raise: then nothing is left behind."""
    if not destination.exists():
        source = require_source(url)
        make_private_directory(destination.parent)
        staging = Path(tempfile.mkdtemp(prefix=".clone-", dir=destination.parent))
        try:
            new = str(staging / "clone")
            cloning = (*PATIENT_HTTP, "clone", "--quiet", *heard_by(report), "--", source, new)
            status, _, err = run_git(destination.parent, *cloning, limit=_LONGEST_SILENCE, report=report)
            if status != 0:
                said, address = without_login(last_line(err)), without_login(url)
                raise RepoError(f"cannot clone {address}: {said}", f"check access: git ls-remote {address}")
            (staging / "clone").rename(destination)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    repo = open_repo(destination)
    if repo.root != destination.resolve():
        raise RepoError(
            f"cannot clone to {destination}: it exists, but is not a clone", "move it away, then run this again"
        )
    return repo
