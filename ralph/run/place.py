"""Where a run works: in the current repository, or in a clone for the goal."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.goal import Goal
from ralph.core.progress import Reporter
from ralph.core.secrets import without_login
from ralph.git.address import clone_path, require_source
from ralph.git.command import PATIENT_HTTP, heard_by, last_line, run_git
from ralph.git.repo import Repo, open_repo
from ralph.system.files import make_private_directory
from ralph.ui.progress import ProgressScreen


@dataclass(frozen=True, slots=True)
class Place:
    """The current repository, or a clone of `url`; on `branch`, if one is given."""

    root: Path
    url: str | None
    branch: str | None
    is_old_clone: bool = False
    """An earlier start made the clone."""

    def present(self) -> Repo | None:
        """Return the repository if it exists and is on its branch."""
        if not self.root.is_dir():
            return None
        repo = open_repo(self.root)
        return repo if self.branch in (None, repo.branch()) else None

    def require_source(self) -> None:
        """Refuse to clone from a path that is not a repository."""
        if self.url is not None:
            require_source(self.url)

    def clone(self, screen: ProgressScreen) -> None:
        """Make the clone if it does not exist, and show the progress."""
        if self.url is not None and not self.root.exists():
            with screen.shown(f"cloning {without_login(self.url)}") as report:
                clone(self.url, self.root, report)

    def open(self, goal: Path) -> Repo:
        """Clone and switch as needed; refuse to leave a branch with changes in the tree."""
        if (repo := self.present()) is not None:
            return repo
        repo = open_repo(self.root) if self.url is None else clone(self.url, self.root)
        if self.branch is not None and repo.branch() != self.branch:
            if dirty := repo.dirty_paths(goal):
                raise UsageError(
                    f"cannot switch to {self.branch}: uncommitted changes in {', '.join(dirty[:5])}",
                    "commit or stash them",
                )
            try:
                repo.switch(self.branch)
            except RepoError as error:
                raise UsageError(error.message, "use another --branch") from error
        return repo


def find_place(goal: Goal, ralph_dir: Path, *, url: str | None, branch: str | None) -> Place:
    """Decide where to work on a goal; flags override the goal's front matter."""
    url = url or str(goal.front_matter.get("repo") or "")
    branch = branch or str(goal.front_matter.get("branch") or "") or None
    if not url:
        return Place(open_repo(Path.cwd()).root, None, branch)
    root = clone_path(ralph_dir / "clones", url, goal.name)
    return Place(root, url, branch or f"ralph/{goal.name}", is_old_clone=root.is_dir())


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
