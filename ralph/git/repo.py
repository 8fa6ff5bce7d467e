"""A working tree and its branch: uncommitted changes, commits, undoing forbidden changes."""

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.progress import Reporter, TaskProgress, unreported
from ralph.core.run import Committed, Held, Trespass, Undone
from ralph.core.secrets import looks_secret
from ralph.core.text import both_ends, plural
from ralph.git.command import git_output, last_line, run_git, succeeded
from ralph.system.programs import running_in

_FAR_ENOUGH = 20_000
"""Commits to look through for those of a lost run."""

FALLBACK_IDENTITY = "ralph <ralph@localhost>"
LENT_IDENTITY = ("-c", "user.name=ralph", "-c", "user.email=ralph@localhost")

_FIGURE = re.compile(r"(\d+) (file|insertion|deletion)")
_LONGEST_LOOK = 20.0
_LOOK = 0.1
"""Seconds between two checks for another git in this tree."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


GoalFiles = Path | tuple[Path, ...]
"""The file of a goal, or those of a pipeline's stages: the user's, and not part of the work."""


def _places(goal: GoalFiles) -> list[Path]:
    return [each.parent.resolve() / each.name for each in ((goal,) if isinstance(goal, Path) else goal)]


@dataclass(frozen=True, slots=True)
class IterationCommit:
    """A commit by ralph: its time and message."""

    sha: str
    at: float
    message: str


@dataclass(frozen=True, slots=True)
class Repo:
    """A working tree; without an identity of its own it commits under ralph's."""

    root: Path
    git_dir: Path
    common_dir: Path
    """Where the repository's settings, refs and objects are: of a linked working tree, the main one's."""
    has_identity: bool

    @property
    def pinned(self) -> Mapping[str, str]:
        """The variables by which git works on this repository, whatever the files in its place say."""
        return {"GIT_DIR": str(self.git_dir), "GIT_COMMON_DIR": str(self.common_dir), "GIT_WORK_TREE": str(self.root)}

    def head(self) -> str | None:
        """The commit that HEAD is at; None in a repository without any."""
        if (tip := self._loose_tip()) is not None:
            return tip
        status, out, _ = self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return out.strip() if status == 0 else None

    def _loose_tip(self) -> str | None:
        """Read the current branch's own file, which saves a git command; None if it is missing."""
        with contextlib.suppress(OSError):
            tip = (self.git_dir / "refs" / "heads" / self.branch()).read_bytes().decode("ascii", "replace").strip()
            return tip if re.fullmatch(r"[0-9a-f]{40,64}", tip) else None
        return None

    def branch(self) -> str:
        """The current branch; empty when HEAD is detached."""
        try:
            head = (self.git_dir / "HEAD").read_bytes().decode("utf-8", "replace").strip()
        except OSError as error:
            raise RepoError(f"{self.root} is no longer a git repository: {error.strerror}") from error
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""

    def hold(self, branch: str, tip: str | None) -> Held:
        """Put HEAD back on `branch`, and `branch` on top of `tip`, if either moved; return what was undone.

        Index and files stay as they are: the next iteration commits the tree.
        """
        undone = self._end_operations()
        if branch and self.branch() != branch:
            undone.append(Undone(Trespass.SWITCHED_BRANCH))
            if tip is not None and not self._exists(f"refs/heads/{branch}"):
                self._git("update-ref", f"refs/heads/{branch}", tip)
            self._git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        elif not branch and tip is not None and self.branch():
            undone.append(Undone(Trespass.ATTACHED_HEAD))
            (self.git_dir / "HEAD").write_text(f"{tip}\n")
        if self.head() == tip:
            return Held(tuple(undone))
        if tip is not None and not self._stands_on(tip):
            undone.append(Undone(Trespass.MOVED_BRANCH))
            self._git("update-ref", "HEAD", tip)
            return Held(tuple(undone))
        return Held(tuple(undone), self.secrets_since(tip))

    def _stands_on(self, tip: str) -> bool:
        """Tell whether `tip` is before HEAD, and on the line of first parents, along which history is read."""
        _, out, _ = self._run("rev-list", "--first-parent", "--parents", f"{tip}..HEAD", "--")
        return out.rstrip("\n").rpartition("\n")[2].split()[1:2] == [tip]

    def secrets_since(self, tip: str | None) -> tuple[str, ...]:
        """Name files that look like secrets and were added by a commit after `tip`, even if removed since."""
        what = ("--first-parent", "--diff-merges=first-parent", "--no-renames", "--diff-filter=A", "--name-only")
        # Where there is no commit yet, or `tip` is gone, git complains, and there is nothing to compare with.
        _, out, _ = self._run("log", *what, "--format=", "-z", "HEAD" if tip is None else f"{tip}..HEAD", "--")
        return tuple(dict.fromkeys(path for path in out.split("\0") if looks_secret(path)))

    def _end_operations(self) -> list[Undone]:
        """End an unfinished merge, rebase or similar; --abort would remove iterations from the branch.

        A merge becomes an ordinary commit so: the first parent of an iteration is the one before it.
        """
        ended: list[str] = []
        while (operation := self.operation_in_progress()) and operation not in ended:
            self._git(operation, "--quit")
            ended.append(operation)
        return [
            Undone(Trespass.UNFINISHED_OPERATION, (operation,)) for operation in ended[:1]
        ]  # what follows was a part of it

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

    def dirty_paths(self, goal: GoalFiles) -> list[str]:
        """Return changed and untracked paths, except the goal file, `.ralph/` and untracked secrets."""
        dirty: list[str] = []
        for entry in self._status():
            kind, path = entry[:2], entry[3:]
            if not self._is_ours(path, goal) and not (kind == "??" and looks_secret(path)):
                dirty.append(path)
        return dirty

    def owned(self, base: str | None, goal: GoalFiles) -> frozenset[str]:
        """Return files of `.ralph/`, and the goal file, that the user committed: they stay committed."""
        if base is None:
            return frozenset()
        places = [str(place.relative_to(self.root)) for place in _places(goal) if place.is_relative_to(self.root)]
        _, out, _ = self._run("ls-tree", "-r", "-z", "--name-only", "--full-tree", base, "--", ".ralph", *places)
        return frozenset(path for path in out.split("\0") if path)

    def commit_all(
        self, message: str, goal: GoalFiles, owned: Collection[str] = (), *, disturbed: bool = False
    ) -> Committed:
        """Commit everything but untracked secrets, an untracked goal file and untracked files of `.ralph/`.

        Files that are `owned` are committed even if the agent has made git forget or ignore them. `disturbed`: the
        agent has made commits itself, so the status alone would not show that it removed such a file.
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
        left_out = {*ours, *secrets, *nested}
        if new := [path for path in untracked if path not in left_out]:
            self._add(new)
        # Where nothing is new, git stages by itself as it commits: a command less, every time.
        options = ("--all", "--quiet", "--allow-empty", "--no-verify", "--cleanup=verbatim", "--file=-")
        lent = () if self.has_identity else LENT_IDENTITY
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

    def _add(self, paths: Collection[str]) -> None:
        """Stage new files; `git add --all` would run `git status` in submodules, with their own settings."""
        said = "\0".join(paths).encode("utf-8", "surrogateescape")
        self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", said=said)

    def _reclaim(self, owned: Collection[str]) -> None:
        """Track the user's committed files again, even if a rule ignores them."""
        present = [path for path in owned if (self.root / path).is_file()]
        if present:
            paths = "\0".join(present).encode("utf-8", "surrogateescape")
            options = ("--force", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._git("--literal-pathspecs", "add", *options, said=paths)

    def _unstage(self, status: Sequence[str], goal: GoalFiles, owned: Collection[str]) -> list[str]:
        """Remove files from the index that the agent added and ralph would not; return them."""
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
        known = (
            "config",
            "--no-includes",
            "--file",
            str(self.root / ".gitmodules"),
            "-z",
            "--get-regexp",
            r"^submodule\..*\.path$",
        )
        declared = {entry.partition("\n")[2] for entry in self._run(*known)[1].split("\0")}
        return [path for path in folders if path in links and path not in declared]

    def operation_in_progress(self) -> str:
        """Name the unfinished merge, rebase or similar, the outermost first; empty if there is none."""
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
        """List the git directory, in one call."""
        with contextlib.suppress(OSError):
            return frozenset(os.listdir(self.git_dir))  # noqa: PTH208 - names are enough
        return frozenset()

    def operation_branch(self) -> str:
        """Return the branch of the unfinished operation: a rebase works on a detached HEAD."""
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

    def holds(self, commit: str, base: str | None) -> bool:
        """Tell whether HEAD contains the work from `base` to `commit`.

        It has these commits or, after a squash or a rebase, files with the same content.
        """
        if self._run("merge-base", "--is-ancestor", commit, "HEAD")[0] == 0:
            return True
        worked_on, differ = self._changed_paths(base or _EMPTY_TREE, commit), self._changed_paths(commit, "HEAD")
        return worked_on is not None and differ is not None and not worked_on & differ

    def _changed_paths(self, one: str, other: str) -> set[str] | None:
        """The files in which two commits differ; None if one of them is gone."""
        status, out, _ = self._run("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", one, other, "--")
        return set(out.split("\0")) - {""} if status == 0 else None

    def same_tree(self, commits: Sequence[str], other: str) -> bool:
        """Tell whether one of `commits` holds the same files as `other`; a commit that is gone holds none."""
        asked = "".join(f"{commit}^{{tree}}\n" for commit in (other, *commits)).encode("utf-8", "replace")
        status, out, _ = self._run("cat-file", "--batch-check=%(objectname)", said=asked)
        tree, *earlier = out.splitlines() or [""]
        return status == 0 and " " not in tree and tree in earlier

    def elsewhere(self, branch: str, nested: Sequence[str]) -> str:
        """A digest of all refs but `branch`, and of where the repositories within this one are."""
        _, refs, _ = self._run("for-each-ref", "--format=%(refname) %(objectname)")
        seen = [line for line in refs.splitlines() if not line.startswith(f"refs/heads/{branch} ")]
        for path in nested:
            lazy = {
                "GIT_NO_LAZY_FETCH": "1"
            }  # its settings, which an agent can write, may name the program that fetches
            _, inner, _ = run_git(self.root / path, "for-each-ref", "--format=%(objectname)", pinned=lazy)
            _, head, _ = run_git(self.root / path, "rev-parse", "--verify", "--quiet", "HEAD", pinned=lazy)
            seen.append(f"{path} {head}{inner}")
        return hashlib.sha256("\n".join(seen).encode("utf-8", "replace")).hexdigest()[:32]

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

    def clear_stale_locks(self, timeout: float = 0, report: Reporter = unreported) -> list[str]:
        """Remove the locks that a killed git left behind; a git that still runs in this tree keeps its own.

        `timeout` is how many seconds to wait for such a git.
        """
        deadline = time.monotonic() + timeout
        own = ("index.lock", "HEAD.lock", "packed-refs.lock")
        # With one there, all are looked for: a git that still works may make the next while its end is waited for.
        names = [*(own if self._entries().intersection(own) else ()), f"refs/heads/{self.branch()}.lock"]
        cleared: list[str] = []
        for name in names:
            lock = self.git_dir / name
            # Not by who has the file open: git closes it while an editor waits for the message.
            while lock.is_file() and (pids := running_in(self.root, "git")):
                if time.monotonic() >= deadline:
                    waited = f" (waited {timeout:g} s for it)" if timeout else ""
                    raise RepoError(
                        f"cannot continue: git process {pids[0]} holds {lock}{waited}",
                        "wait until it ends, then run this again",
                    )
                report(TaskProgress(f"waiting for git process {pids[0]} in this repository"))
                time.sleep(_LOOK)
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

    def _is_ours(self, path: str, goal: GoalFiles) -> bool:
        return path.split("/", 1)[0] == ".ralph" or self.root / path in _places(goal)

    def _status(self) -> list[str]:
        """One entry a path that is changed or untracked: two letters, a space, the path."""
        # Dirty: to look for changes inside a submodule, git would run there, with settings that an agent can write.
        how = ("--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
        out = self._git("status", "--porcelain=v1", "-z", *how)
        return [entry for entry in out.split("\0") if entry]

    def _run(self, *args: str, said: bytes | None = None) -> tuple[int, str, str]:
        """Run git on this repository only: if its `.git` breaks, git must not find an outer repository."""
        return run_git(self.root, *args, said=said, pinned=self.pinned)

    def _git(self, *args: str, said: bytes | None = None) -> str:
        return succeeded(self.root, args, self._run(*args, said=said))

    def _exists(self, ref: str) -> bool:
        return self._run("show-ref", "--verify", "--quiet", ref)[0] == 0


def require_branch_name(branch: str) -> None:
    """Refuse a name that git would not accept for a branch."""
    if run_git(Path.cwd(), "check-ref-format", "--branch", branch)[0] != 0:
        raise UsageError(f"{branch!r} is not a valid branch name", "use a name without spaces, such as fix-login")


def open_repo(path: Path) -> Repo:
    """Find the working tree that `path` stands in."""
    status, out, err = run_git(path, "rev-parse", "--path-format=absolute", "--show-toplevel")
    if status != 0:
        if "not a git repository" in err:
            raise UsageError(
                f"{path} is not in a git repository", "create one with: git init; or pass another with --repo"
            )
        if "must be run in a work tree" in err:
            raise UsageError(
                f"{path} is a git repository without a working tree", "pass it with --repo: ralph then works in a clone"
            )
        raise UsageError(f"git refuses {path}: {last_line(err)}", "see what git says: git status")
    root = Path(out.removesuffix("\n"))
    git_dir = Path(git_output(root, "rev-parse", "--absolute-git-dir").removesuffix("\n"))
    # useConfigOnly: without it git invents an identity from the host's name
    has_identity = run_git(root, "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")[0] == 0
    return Repo(root, git_dir, _common_dir(git_dir), has_identity)


def _common_dir(git_dir: Path) -> Path:
    """Follow the file by which a linked working tree names its main one's repository."""
    try:
        return (git_dir / (git_dir / "commondir").read_text("utf-8", "surrogateescape").rstrip("\n")).resolve()
    except OSError:
        return git_dir


def committed_text(root: Path, commit: str, path: str) -> str:
    """Return a file as it is in a commit; empty if it is not there."""
    status, out, _ = run_git(root, "cat-file", "blob", f"{commit}:{path}")
    return out if status == 0 else ""


def changes(root: Path, base: str | None, most: int) -> str:
    """Return all changes since `base`: the files with line counts, then the diff, shortened in the middle."""
    since = base or _EMPTY_TREE
    _, stat, _ = run_git(root, "diff", "--no-ext-diff", "--no-textconv", "--stat=100", since, "HEAD", "--")
    _, diff, _ = run_git(root, "diff", "--no-ext-diff", "--no-textconv", "--no-color", since, "HEAD", "--")
    return f"{both_ends(stat, most)}\n{both_ends(diff, most)}".strip()


def size_of_changes(root: Path, base: str | None) -> str:
    """Return the size of the changes since `base`, such as `3 files, +120 -4`; empty if none or unknown."""
    args = ("diff", "--no-ext-diff", "--no-textconv", "--shortstat", base or _EMPTY_TREE, "HEAD", "--")
    status, out, _ = run_git(root, *args, limit=_LONGEST_LOOK)
    figures = {noun: int(number) for number, noun in _FIGURE.findall(out)} if status == 0 else {}
    if not (files := figures.get("file", 0)):
        return ""
    return f"{plural(files, 'file')}, +{figures.get('insertion', 0):,} -{figures.get('deletion', 0):,}"
