"""A working tree and its branch: uncommitted changes, commits, undoing what a session must not do; and clones."""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.run import Committed, Deed, Held, Undone
from ralph.core.secrets import looks_secret, without_login
from ralph.core.text import both_ends, plural
from ralph.git.address import require_source
from ralph.git.command import git_output, last_line, run_clone, run_git, succeeded
from ralph.system.files import make_private_directory
from ralph.system.programs import running_in

_FAR_ENOUGH = 20_000
"""Commits to look through for those of a lost run."""

FALLBACK_IDENTITY = "ralph <ralph@localhost>"
_LENT_IDENTITY = ("-c", "user.name=ralph", "-c", "user.email=ralph@localhost")

_FIGURE = re.compile(r"(\d+) (file|insertion|deletion)")
_LONGEST_LOOK = 20.0
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@dataclass(frozen=True, slots=True)
class IterationCommit:
    """A commit of ralph's: when it was made and what it says."""

    sha: str
    at: float
    message: str


@dataclass(frozen=True, slots=True)
class Repo:
    """A working tree; without an identity of its own it commits under ralph's."""

    root: Path
    git_dir: Path
    has_identity: bool

    def head(self) -> str | None:
        """The commit that HEAD is at; None in a repository without any."""
        if (tip := self._loose_tip()) is not None:
            return tip
        status, out, _ = self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return out.strip() if status == 0 else None

    def _loose_tip(self) -> str | None:
        """What the current branch's own file says, which spares a git command each time; None if it has none."""
        with contextlib.suppress(OSError):
            tip = (self.git_dir / "refs" / "heads" / self.branch()).read_bytes().decode("ascii", "replace").strip()
            return tip if re.fullmatch(r"[0-9a-f]{40,64}", tip) else None
        return None

    def branch(self) -> str:
        """The current branch; empty when HEAD is detached."""
        try:
            head = (self.git_dir / "HEAD").read_bytes().decode("utf-8", "replace").strip()
        except OSError as error:
            raise RepoError(f"{self.root} is no git repository any more: {error.strerror}") from error
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""

    def hold(self, branch: str, tip: str | None) -> Held:
        """Put HEAD back on `branch`, and `branch` on top of `tip`, if either was moved; say what had been done.

        Index and files stay as they are: what is in the tree is committed by the next iteration.
        """
        undone = self._end_operations()
        if branch and self.branch() != branch:
            undone.append(Undone(Deed.SWITCHED))
            if tip is not None and not self._exists(f"refs/heads/{branch}"):
                self._git("update-ref", f"refs/heads/{branch}", tip)
            self._git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        elif not branch and tip is not None and self.branch():
            undone.append(Undone(Deed.ATTACHED))
            (self.git_dir / "HEAD").write_text(f"{tip}\n")
        if self.head() == tip:
            return Held(tuple(undone))
        if tip is not None and not self._stands_on(tip):
            undone.append(Undone(Deed.MOVED))
            self._git("update-ref", "HEAD", tip)
            return Held(tuple(undone))
        return Held(tuple(undone), self.secrets_since(tip))

    def _stands_on(self, tip: str) -> bool:
        """Tell whether `tip` is before HEAD, and on the line of first parents, along which history is read."""
        _, out, _ = self._run("rev-list", "--first-parent", "--parents", f"{tip}..HEAD", "--")
        return out.rstrip("\n").rpartition("\n")[2].split()[1:2] == [tip]

    def secrets_since(self, tip: str | None) -> tuple[str, ...]:
        """Name what looks like a secret and was added by a commit after `tip`, whether it is still there or not."""
        what = ("--first-parent", "--diff-merges=first-parent", "--no-renames", "--diff-filter=A", "--name-only")
        # Where there is no commit yet, or `tip` is gone, git complains, and there is nothing to compare with.
        _, out, _ = self._run("log", *what, "--format=", "-z", "HEAD" if tip is None else f"{tip}..HEAD", "--")
        return tuple(dict.fromkeys(path for path in out.split("\0") if looks_secret(path)))

    def _end_operations(self) -> list[Undone]:
        """Forget a merge, rebase or the like that is in progress; its --abort would take iterations off the branch.

        A merge becomes an ordinary commit so: the first parent of an iteration is the one before it.
        """
        ended: list[str] = []
        while (operation := self.operation_in_progress()) and operation not in ended:
            self._git(operation, "--quit")
            ended.append(operation)
        return [Undone(Deed.UNFINISHED, (operation,)) for operation in ended[:1]]  # what follows was a part of it

    def switch(self, branch: str) -> None:
        """Check `branch` out, creating it at HEAD (or from its remote namesake) if it does not exist."""
        if self.branch() == branch:
            return
        if self.head() is None:
            self._git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        elif self._exists(f"refs/heads/{branch}"):
            self._git("switch", "--quiet", "--end-of-options", branch)
        elif self._exists(f"refs/remotes/origin/{branch}"):
            self._git("switch", "--quiet", "--create", branch, "--track", f"refs/remotes/origin/{branch}")
        else:
            self._git("switch", "--quiet", "--create", branch)

    def dirty_paths(self, goal: Path) -> list[str]:
        """What is changed or untracked, apart from the goal file, `.ralph/` and untracked secrets."""
        dirty: list[str] = []
        for entry in self._status():
            kind, path = entry[:2], entry[3:]
            if not self._is_ours(path, goal) and not (kind == "??" and looks_secret(path)):
                dirty.append(path)
        return dirty

    def owned(self, base: str | None, goal: Path) -> frozenset[str]:
        """Those of the goal file and of `.ralph/` that the user had committed: they stay, whatever an agent commits."""
        if base is None:
            return frozenset()
        place = goal.parent.resolve() / goal.name
        paths = [".ralph", *([str(place.relative_to(self.root))] if place.is_relative_to(self.root) else [])]
        _, out, _ = self._run("ls-tree", "-r", "-z", "--name-only", "--full-tree", base, "--", *paths)
        return frozenset(path for path in out.split("\0") if path)

    def commit_all(
        self, message: str, goal: Path, owned: Collection[str] = (), *, disturbed: bool = False
    ) -> Committed:
        """Commit everything but untracked secrets, an untracked goal file and untracked files of `.ralph/`.

        Those of the latter that are `owned` are in the commit though the agent has made git forget or ignore them.
        `disturbed`: it has committed by itself, so that nothing else would tell.
        """
        self.clear_stale_locks()  # the session may have been ended in the middle of a git command of its own
        status = self._status()
        if disturbed or any(entry[0] == "D" and entry[3:] in owned for entry in status):
            self._reclaim(owned)
            status = self._status()
        staged = self._unstage(status, goal, owned)
        if staged:
            status = self._status()
        untracked = [entry[3:] for entry in status if entry.startswith("??")]
        ours = [path for path in untracked if self._is_ours(path, goal) and path not in owned]
        secrets = [path for path in untracked if looks_secret(path) and path not in ours]
        nested = [path for path in untracked if path.endswith("/") and path not in ours]  # a repository of its own
        left_out = [*ours, *secrets, *nested]
        if len(untracked) > len(set(left_out)):
            self._add_all_but(left_out)
        # Where nothing is new, git stages by itself as it commits: a command less, every time.
        options = ("--all", "--quiet", "--allow-empty", "--no-verify", "--cleanup=verbatim", "--file=-")
        lent = () if self.has_identity else _LENT_IDENTITY
        self._git(*lent, "commit", *options, said=message.encode("utf-8", "replace"))
        head = self.head()
        if head is None:
            raise RepoError(f"git committed in {self.root}, but HEAD names no commit")
        ignored = [
            path for path in staged if {path, f"{path}/"}.isdisjoint(untracked) and not self._is_ours(path, goal)
        ]
        secrets += [path for path in ignored if looks_secret(path)]
        nested += [path for path in ignored if (self.root / path / ".git").exists()]
        return Committed(head, tuple(secrets), tuple(nested))

    def _add_all_but(self, left_out: Sequence[str]) -> None:
        wanted = [":(top)", *(f":(top,exclude,literal){path.rstrip('/')}" for path in left_out)]
        paths = "\0".join(wanted).encode("utf-8", "surrogateescape")
        self._git("add", "--all", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul", said=paths)

    def _reclaim(self, owned: Collection[str]) -> None:
        """Have git know again what is the user's and was committed; a rule that ignores it has no say."""
        present = [path for path in owned if (self.root / path).is_file()]
        if present:
            paths = "\0".join(present).encode("utf-8", "surrogateescape")
            options = ("--force", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._git("--literal-pathspecs", "add", *options, said=paths)

    def _unstage(self, status: Sequence[str], goal: Path, owned: Collection[str]) -> list[str]:
        """Take out of the index what the agent has put there and we would not; name it."""
        added = [entry[3:] for entry in status if "A" in entry[:2]]  # " A": announced with `git add --intent-to-add`
        repositories = self._undeclared_repositories(added)
        unwanted = [
            path
            for path in added
            if path not in owned and (looks_secret(path) or self._is_ours(path, goal) or path in repositories)
        ]
        if unwanted:
            paths = "\0".join(unwanted).encode("utf-8", "surrogateescape")
            options = ("--cached", "--quiet", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._git("--literal-pathspecs", "rm", *options, said=paths)
        return unwanted

    def _undeclared_repositories(self, added: Sequence[str]) -> list[str]:
        """Those that are in the index as a commit of another repository, and are no submodule: a clone lacks them."""
        folders = [path for path in added if (self.root / path).is_dir() and not (self.root / path).is_symlink()]
        if not folders:
            return []
        entries = self._git("ls-files", "--stage", "-z").split("\0")
        links = {entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")}
        known = ("config", "--file", str(self.root / ".gitmodules"), "-z", "--get-regexp", r"^submodule\..*\.path$")
        declared = {entry.partition("\n")[2] for entry in self._run(*known)[1].split("\0")}
        return [path for path in folders if path in links and path not in declared]

    def operation_in_progress(self) -> str:
        """Name the merge, rebase or the like that is not finished, if there is one: the one around others first."""
        marks = {
            "rebase-merge": "rebase", "rebase-apply": "rebase", "MERGE_HEAD": "merge",
            "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert", "sequencer": "cherry-pick",
        }  # fmt: skip
        present = self._entries()
        first = next((mark for mark in marks if mark in present), "")
        if first == "rebase-apply" and (self.git_dir / first / "applying").exists():
            return "am"
        return marks.get(first, "")

    def _entries(self) -> frozenset[str]:
        """What lies in the git directory, looked up in one go."""
        with contextlib.suppress(OSError):
            return frozenset(os.listdir(self.git_dir))  # noqa: PTH208 - names are enough
        return frozenset()

    def operation_branch(self) -> str:
        """The branch that the operation in progress is about: a rebase works beside it, on a detached HEAD."""
        for state in ("rebase-merge", "rebase-apply"):
            with contextlib.suppress(OSError):
                name = (self.git_dir / state / "head-name").read_text("utf-8", "replace").strip()
                return name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else ""
        return self.branch()

    def iteration_commits(self, since: str | None) -> list[IterationCommit]:
        """The commits that may be iterations, oldest first: those after `since`, or the latest on the branch."""
        if self.head() is None:
            return []
        known = since is not None and self._run("merge-base", "--is-ancestor", since, "HEAD")[0] == 0
        span = [f"{since}..HEAD"] if known else [f"--max-count={_FAR_ENOUGH}", "HEAD"]
        out = self._git("log", "--reverse", "-z", "--first-parent", "--format=%H%n%ct%n%B", *span, "--")
        entries = (entry.split("\n", 2) for entry in out.split("\0") if entry)
        return [IterationCommit(sha, float(at), message) for sha, at, message in entries]

    def last_changed_by_ralph(self, paths: Iterable[str]) -> bool:
        """Tell whether the last commit that changed one of these files is an iteration's, or was made of some.

        By either trailer: what is squashed out of several runs may name the goal alone.
        """
        messages = (self._run("log", "-1", "--format=%B", "--", path)[1] for path in paths)
        return any(re.search(r"^Ralph-(?:Run|Goal): ", message, re.MULTILINE) for message in messages)

    def parent(self, commit: str) -> str | None:
        """The commit before this one; None if it is the first."""
        status, out, _ = self._run("rev-parse", "--verify", "--quiet", f"{commit}^")
        return out.strip() if status == 0 else None

    def clear_stale_locks(self, patience: float = 0, pause: Callable[[float], None] = time.sleep) -> list[str]:
        """Remove the locks that a killed git left behind; while a git lives in this tree they are its own.

        `patience` is how many seconds such a git is given to end.
        """
        deadline = time.monotonic() + patience
        own = ("index.lock", "HEAD.lock", "packed-refs.lock")
        # With one there, all are looked for: a git that still works may make the next while its end is waited for.
        names = [*(own if self._entries().intersection(own) else ()), f"refs/heads/{self.branch()}.lock"]
        cleared: list[str] = []
        for name in names:
            lock = self.git_dir / name
            # Not by who has it open: git closes the file while an editor waits for the message.
            while lock.is_file() and (pids := running_in(self.root, "git")):
                if time.monotonic() >= deadline:
                    waited = f", and has not ended in {patience:g} s" if patience else ""
                    raise RepoError(
                        f"{lock}: git process {pids[0]} works here{waited}", "let it end, then run this again"
                    )
                pause(0.1)
            if lock.is_file():
                lock.unlink(missing_ok=True)
                cleared.append(name)
        return cleared

    def exclude(self, patterns: Sequence[str]) -> None:
        """Keep `patterns` out of every commit, in this repository alone."""
        path = Path(self._git("rev-parse", "--path-format=absolute", "--git-path", "info/exclude").strip())
        present = path.read_text("utf-8", "surrogateescape") if path.exists() else ""
        if missing := [pattern for pattern in patterns if pattern not in present.splitlines()]:
            path.parent.mkdir(parents=True, exist_ok=True)
            joint = "" if not present or present.endswith("\n") else "\n"
            with path.open("a", encoding="utf-8") as file:
                file.write(joint + "".join(f"{pattern}\n" for pattern in missing))

    def _is_ours(self, path: str, goal: Path) -> bool:
        return path.split("/", 1)[0] == ".ralph" or self.root / path == goal.parent.resolve() / goal.name

    def _status(self) -> list[str]:
        """One entry a path that is changed or untracked: two letters, a space, the path."""
        out = self._git("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        return [entry for entry in out.split("\0") if entry]

    def _run(self, *args: str, said: bytes | None = None) -> tuple[int, str, str]:
        """Run git on this repository and no other: should its `.git` break, git must not find the one around it."""
        pinned = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.root)}
        return run_git(self.root, *args, said=said, pinned=pinned)

    def _git(self, *args: str, said: bytes | None = None) -> str:
        return succeeded(self.root, args, self._run(*args, said=said))

    def _exists(self, ref: str) -> bool:
        return self._run("show-ref", "--verify", "--quiet", ref)[0] == 0


def require_branch_name(branch: str) -> None:
    """Refuse what git would not take for the name of a branch."""
    if run_git(Path.cwd(), "check-ref-format", "--branch", branch)[0] != 0:
        raise UsageError(f"{branch!r} is not a branch name")


def open_repo(path: Path) -> Repo:
    """Find the working tree that `path` stands in."""
    status, out, err = run_git(path, "rev-parse", "--path-format=absolute", "--show-toplevel")
    if status != 0:
        if "not a git repository" in err:
            raise UsageError(f"{path} is not in a git repository", "run `git init` there, or name one with --repo")
        if "must be run in a work tree" in err:
            raise UsageError(
                f"{path} is a git repository without a working tree", "name it with --repo: ralph works in a clone"
            )
        raise UsageError(f"git refuses {path}: {last_line(err)}")
    root = Path(out.removesuffix("\n"))
    git_dir = Path(git_output(root, "rev-parse", "--absolute-git-dir").removesuffix("\n"))
    # useConfigOnly: without it git invents an identity from the host's name
    has_identity = run_git(root, "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")[0] == 0
    return Repo(root, git_dir, has_identity)


def clone(url: str, destination: Path) -> Repo:
    """Clone `url`, or take up the clone that is already there as it is."""
    if not destination.exists():
        source = require_source(url)
        make_private_directory(destination.parent)
        staging = Path(tempfile.mkdtemp(prefix=".clone-", dir=destination.parent))
        try:
            status, _, err = run_clone(destination.parent, "--quiet", "--", source, str(staging / "clone"))
            if status != 0:
                said = without_login(last_line(err))
                shown = without_login(url)
                raise RepoError(f"cannot clone {shown}: {said}", f"check access with: git ls-remote {shown}")
            (staging / "clone").rename(destination)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    repo = open_repo(destination)
    if repo.root != destination.resolve():
        raise RepoError(f"{destination} is there, but is no clone", "move it away, and run this again")
    return repo


def same_tree(root: Path, commits: Sequence[str], other: str) -> bool:
    """Tell whether one of `commits` holds the same files as `other`; a commit that is gone holds none."""
    asked = "".join(f"{commit}^{{tree}}\n" for commit in (other, *commits)).encode("utf-8", "replace")
    status, out, _ = run_git(root, "cat-file", "--batch-check=%(objectname)", said=asked)
    tree, *earlier = out.splitlines() or [""]
    return status == 0 and " " not in tree and tree in earlier


def elsewhere(root: Path, branch: str, nested: Sequence[str]) -> str:
    """A digest of all refs but `branch`, and of where the repositories within this one are."""
    _, refs, _ = run_git(root, "for-each-ref", "--format=%(refname) %(objectname)")
    seen = [line for line in refs.splitlines() if not line.startswith(f"refs/heads/{branch} ")]
    for path in nested:
        _, inner, _ = run_git(root / path, "for-each-ref", "--format=%(objectname)")
        _, head, _ = run_git(root / path, "rev-parse", "--verify", "--quiet", "HEAD")
        seen.append(f"{path} {head}{inner}")
    return hashlib.sha256("\n".join(seen).encode("utf-8", "replace")).hexdigest()[:32]


def changes(root: Path, base: str | None, most: int) -> str:
    """All that was changed since `base`: the files with their numbers, then the diff, both ends of it if it is long."""
    since = base or _EMPTY_TREE
    _, stat, _ = run_git(root, "diff", "--no-ext-diff", "--no-textconv", "--stat=100", since, "HEAD", "--")
    _, diff, _ = run_git(root, "diff", "--no-ext-diff", "--no-textconv", "--no-color", since, "HEAD", "--")
    return f"{both_ends(stat, most)}\n{both_ends(diff, most)}".strip()


def size_of_changes(root: Path, base: str | None) -> str:
    """How much was changed since `base`, such as `3 files, +120 -4`; empty if nothing was, or nobody can say."""
    args = ("diff", "--no-ext-diff", "--no-textconv", "--shortstat", base or _EMPTY_TREE, "HEAD", "--")
    status, out, _ = run_git(root, *args, limit=_LONGEST_LOOK)
    figures = {noun: int(number) for number, noun in _FIGURE.findall(out)} if status == 0 else {}
    if not (files := figures.get("file", 0)):
        return ""
    return f"{plural(files, 'file')}, +{figures.get('insertion', 0):,} -{figures.get('deletion', 0):,}"
