"""What is in a work tree by git's account: files, empty folders, and the files that tell git what not to look at."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import environ
from ralph.gitcommand import run_git, succeeded
from ralph.gitrepo import Repo
from ralph.tree.keptfiles import KeptFiles
from ralph.windows import EXCLUDES


@dataclass(frozen=True, slots=True)
class TreeListing:
    """Lists a tree by the index `index` and the user's own ignore rules in `excludes`; ralph's own, and what is in
    `ours`, is never listed. The tree's `.gitignore`s are read as they are: see `rule_files`.
    """

    repo: Repo
    index: Path
    excludes: Path
    ours: Sequence[Path]

    def files(self) -> list[str]:
        """The paths of all files that are tracked or untracked, but not ignored."""
        return self._not_ours(self._git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"))

    def untracked_folders(self) -> list[str]:
        """Directories without any tracked file; git names the empty ones only so."""
        out = self._git("ls-files", "-z", "--others", "--directory", "--exclude-standard")
        return self._not_ours(path for path in out.split("\0") if path.endswith("/"))

    def rule_files(self, kept: KeptFiles) -> list[str]:
        """Every `.gitignore` that git heeds, itself ignored or not, and every `.git` in a folder of this tree.

        Not those in ignored folders, where git does not look for any, nor in other repositories. Outermost first.
        """
        found = self._not_ours(self._walk(kept))
        ignored = self._ignored({path.rpartition("/")[0] for path in found} - {""})
        return sorted((path for path in found if path.rpartition("/")[0] not in ignored), key=_depth)

    def _walk(self, kept: KeptFiles) -> Iterator[str]:
        root = str(self.repo.root)
        for place, folders, names in os.walk(root):
            here = place[len(root) + 1 :]
            there = {*folders, *names} & {".git", ".gitignore"} if here else {*names} & {".gitignore"}
            if here in kept.nested or (".git" in there and here not in kept.folders and self._is_repository(here)):
                folders.clear()
                continue
            folders[:] = [name for name in folders if name != ".git"]
            yield from (f"{here}/{name}" if here else name for name in there)

    def _is_repository(self, folder: str) -> bool:
        """Ask git: a `.git` that is none does not keep it from looking into the folder."""
        return self._run("rev-parse", "--resolve-git-dir", str(self.repo.root / folder / ".git"))[0] == 0

    def _ignored(self, folders: Iterable[str]) -> set[str]:
        # `./`: a name may begin like pathspec magic, and check-ignore refuses GIT_LITERAL_PATHSPECS (git 2.39).
        said = "".join(f"./{folder}\0" for folder in folders)
        args = ("check-ignore", "--no-index", "-z", "--stdin")
        status, out, err = self._run(*args, said=said) if said else (1, "", "")
        succeeded(self.repo.root, args, (0 if status == 1 else status, out, err))  # 1: none of them is
        return {path.removeprefix("./") for path in out.split("\0") if path}

    def _not_ours(self, paths: Iterable[str]) -> list[str]:
        root = self.repo.root
        inside = [str(path.relative_to(root)) for path in self.ours if path.is_relative_to(root)]
        own = tuple(f"{path.strip('/')}/" for path in (*EXCLUDES, *inside))
        each = dict.fromkeys(path.rstrip("/") for path in paths if path)  # one in conflict is named three times
        return [path for path in each if not f"{path}/".startswith(own)]

    def _run(self, *args: str, said: str | None = None) -> tuple[int, str, str]:
        pinned = {"GIT_DIR": self.repo.git_dir, "GIT_WORK_TREE": self.repo.root, "GIT_INDEX_FILE": self.index}
        return run_git(
            self.repo.root,
            *("-c", f"core.excludesFile={self.excludes}", *args),
            said=None if said is None else said.encode("utf-8", "surrogateescape"),
            pinned={name: str(path) for name, path in pinned.items()},
        )

    def _git(self, *args: str) -> str:
        return succeeded(self.repo.root, args, self._run(*args))


def own_excludes(repo: Repo) -> bytes:
    """The user's own ignore rules, which hold in every repository: outside of this one, but an agent can reach them."""
    status, out, _ = run_git(repo.root, "config", "--type=path", "--get", "core.excludesFile")
    if status == 0:
        path = repo.root / out.removesuffix("\n")
    else:
        path = Path(environ.inherited().get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "ignore"
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _depth(path: str) -> int:
    return path.count("/")
