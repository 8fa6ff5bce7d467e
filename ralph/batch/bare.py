"""git in a bare repository that only ralph works in, and one turn at a time where two processes must not meet."""

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.git.command import lived, run_git, succeeded
from ralph.system.programs import running_in

UNTOUCHED = {
    "GIT_NO_LAZY_FETCH": "1",  # an agent's clone may claim to be partial, and name the program that fills it
    "GIT_LFS_SKIP_SMUDGE": "1",  # there is no server beside the mirror to ask for large files
}
"""What every git command that has to do with an agent's clone must find in its environment, wherever it runs."""

FANOUT = re.compile(r"[0-9a-f]{2}")
"""What the folders are called that git sorts its objects into."""
_VIEW = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tmultiPackIndex = false\n\tcommitGraph = false\n"
_HELD = re.compile(r"Unable to create '(.+\.lock)': File exists")
_LOCK_PATIENCE = 20.0
"""Seconds that another git is given to let go of a lock, before its file counts as left behind."""


def flat(branch: str) -> str:
    """A branch's name as the last part of a ref's: `a` must not be in the way of `a/b`, nor `a+b` be taken for it."""
    return branch.replace("%", "%25").replace("+", "%2b").replace("/", "+")


@dataclass(frozen=True, slots=True)
class Bare:
    """A bare repository, called by its path alone: no search for one around it, nothing of another's settings."""

    path: Path

    def run(
        self, *args: str, said: bytes | None = None, pinned: Mapping[str, str] | None = None, limit: float | None = None
    ) -> tuple[int, str, str]:
        """Run git here; a lock that a killed git left behind is removed, and the command given again.

        Whatever is asked of a repository here is decided by the answer: one that is killed gives none (`GitKilled`).
        """
        settled = {**UNTOUCHED, "GIT_DIR": str(self.path), **(pinned or {})}
        outcome = run_git(self.path, *args, said=said, pinned=settled, limit=limit)
        for _ in range(3):
            held = _HELD.search(outcome[2]) if outcome[0] != 0 else None
            if held is None:
                break
            self._let_go(Path(held[1]))
            outcome = run_git(self.path, *args, said=said, pinned=settled, limit=limit)
        return lived(self.path, args, outcome)

    def git(self, *args: str, said: bytes | None = None, pinned: Mapping[str, str] | None = None) -> str:
        """Run git here and return its output; a failure is a `RepoError`."""
        return succeeded(self.path, args, self.run(*args, said=said, pinned=pinned))

    def commit_at(self, revision: str) -> str | None:
        """The commit that a revision names, if there is one."""
        status, out, _ = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return out.strip() if status == 0 else None

    def is_ancestor(self, old: str, new: str) -> bool:
        return self.run("merge-base", "--is-ancestor", old, new)[0] == 0

    def lacking(self, objects: Sequence[str], pinned: Mapping[str, str] | None = None) -> list[str]:
        """Those of these objects that are not here."""
        said = "".join(f"{sha}\n" for sha in objects).encode()
        found = self.git("cat-file", "--batch-check=%(objectname)", said=said, pinned=pinned).splitlines()
        return [sha for sha, line in zip(objects, found, strict=True) if line.endswith(" missing")]

    def lent(self) -> dict[str, str]:
        """What lets a git command of another repository see the objects of this one as well."""
        path = str(self.path / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{path}"'}

    @contextlib.contextmanager
    def turn(self) -> Generator[None]:
        """Have the repository to oneself, among threads as among processes; the kernel ends the turn of a dead one."""
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _let_go(self, lock: Path) -> None:
        """Wait for whoever holds git's own lock; remove the file when no git works here any more."""
        deadline = time.monotonic() + _LOCK_PATIENCE
        while lock.exists() and running_in(self.path, "git") and time.monotonic() < deadline:
            time.sleep(0.05)
        if lock.is_relative_to(self.path) and not running_in(self.path, "git"):
            lock.unlink(missing_ok=True)


@contextlib.contextmanager
def seeing_only(store: Path) -> Generator[Bare]:
    """A passing repository of ours that sees somebody's objects, and nothing else of that repository.

    Neither its settings nor its alternates, its commit-graph or its list of shallow commits: an agent can write them.
    """
    with tempfile.TemporaryDirectory(prefix="ralph-view-") as folder:
        root = Path(folder)
        (root / "refs").mkdir()
        (root / "objects" / "info").mkdir(parents=True)
        (root / "HEAD").write_text("ref: refs/heads/none\n")
        (root / "config").write_text(_VIEW)
        for entry in store.iterdir() if store.is_dir() else ():
            if entry.name == "pack" or FANOUT.fullmatch(entry.name):
                # Unresolved: an agent can make a circle of links.
                (root / "objects" / entry.name).symlink_to(entry.absolute())
        yield Bare(root)
