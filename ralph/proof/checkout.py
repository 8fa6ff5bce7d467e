"""Clean checkouts: exactly the files of one commit, in a repository of their own that borrows the real objects.

Nothing that an agent configures reaches them: no hook, filter, exclude, index flag or ignored file of the working tree.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core.proof import ProtectedChanges
from ralph.git.command import run_git, succeeded
from ralph.git.repo import LENT_IDENTITY, Repo
from ralph.proof.check import Check, CheckOrder, CheckReport, run_checks
from ralph.proof.protected import PathChange
from ralph.sandbox.sandbox import Sandbox
from ralph.state.project import Snapshot
from ralph.system.files import make_private_directory, remove_tree
from ralph.system.guardian import Guardian

_NULL = "0" * 40
_TOOLCHAINS = {
    "RUSTUP_HOME": ".rustup",
    "PYENV_ROOT": ".pyenv",
    "RBENV_ROOT": ".rbenv",
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
    "SDKMAN_DIR": ".sdkman",
}
"""Where version managers keep the programs that PATH names, if the user says nothing else."""


@dataclass(frozen=True, slots=True)
class CleanCheckout:
    """A folder with the files of a commit; `home` is an empty HOME for what runs in it."""

    root: Path
    home: Path

    def moved(self, argv: Sequence[str], tree: Path) -> tuple[str, ...]:
        """Return a command whose paths in the working tree lead here."""
        return tuple(_moved(word, tree, self.root) for word in argv)

    def environment(self, env: Mapping[str, str], tree: Path) -> dict[str, str]:
        """Return `env` for a program here: paths in the working tree are moved to this one. HOME stays the user's."""
        moved = {name: _moved(value, tree, self.root) for name, value in env.items()}
        home = Path(env.get("HOME", "/"))
        managers = {name: str(home / folder) for name, folder in _TOOLCHAINS.items() if (home / folder).is_dir()}
        whole = {**managers, **moved, "PWD": str(self.root)}
        return {name: value for name, value in whole.items() if name != "OLDPWD"}


def _moved(value: str, old: Path, new: Path) -> str:
    """Return a variable whose paths in one folder lead to the same places in another."""
    was, now = str(old), str(new)
    parts = value.split(os.pathsep)
    inside = (part == was or part.startswith(f"{was}/") for part in parts)
    return os.pathsep.join(now + part[len(was) :] if is_in else part for part, is_in in zip(parts, inside, strict=True))


@contextlib.contextmanager
def clean_checkout(repo: Repo, parent: Path, commit: str | None, project: Snapshot) -> Generator[CleanCheckout]:
    """Check out a commit (None: no files), with `.ralph/` as it stood when the run began; remove it afterwards."""
    make_private_directory(parent)
    folder = Path(tempfile.mkdtemp(prefix="checkout-", dir=parent))
    try:
        # The name of the repository's folder stays: some tools derive a package's name from it.
        root, home = folder / repo.root.name, folder / ".home"
        root.mkdir()
        home.mkdir()
        _fill(repo, root, commit)
        project.without_links().restore(root, folder / ".aside")
        yield CleanCheckout(root, home)
    finally:
        remove_tree(folder)


def _fill(repo: Repo, root: Path, commit: str | None) -> None:
    kind = "sha256" if commit is not None and len(commit) == 64 else "sha1"
    _git(root, "init", "--quiet", "--template=", f"--object-format={kind}", "--", str(root))
    if commit is None:
        return
    borrowed = root / ".git" / "objects" / "info"
    borrowed.mkdir(parents=True, exist_ok=True)
    (borrowed / "alternates").write_text(f"{_inside(repo, 'objects')}\n")
    if (shallow := Path(_inside(repo, "shallow"))).is_file():
        (root / ".git" / "shallow").write_bytes(shallow.read_bytes())
    if branch := repo.branch():
        _git(root, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    _git(root, "update-ref", "HEAD", commit)
    _git(root, "read-tree", "--reset", "-u", commit)


@dataclass(frozen=True, slots=True)
class CheckSite:
    """A run's check and setup script, and everything that starting them takes."""

    repo: Repo
    check: Check
    setup: Check | None
    project: Snapshot
    """The user's `.ralph/` in the version that counts."""
    environment: Mapping[str, str]
    guardian: Guardian
    sandbox: Sandbox
    folder: Path
    """Where clean checkouts are made."""
    stop_requests: Callable[[], int]

    def in_tree(self, log: Path, show: Callable[[bytes], None] | None = None) -> CheckOrder:
        """Return the order for a run of the check in the working tree, where everything is set up already."""
        # Bytecode would be committed with the next iteration, where no .gitignore names it.
        env = {**self.environment, "PYTHONDONTWRITEBYTECODE": "1"}
        return CheckOrder(self.check, self.guardian, self.sandbox, self.repo.root, env, log, show)

    @contextlib.contextmanager
    def checked_out(self, commit: str | None) -> Generator[CleanCheckout]:
        """Make a clean checkout of a commit, and remove it afterwards."""
        with clean_checkout(self.repo, self.folder, commit, self.project) as checkout:
            yield checkout

    def on(
        self,
        checkout: CleanCheckout,
        log: Path = Path(os.devnull),
        show: Callable[[bytes], None] | None = None,
        guardian: Guardian | None = None,
    ) -> CheckOrder:
        """Return the order for a run on a clean checkout: the setup script first, then the check."""
        moved = [
            None if script is None else replace(script, argv=checkout.moved(script.argv, self.repo.root))
            for script in (self.setup, self.check)
        ]
        setup, check = moved
        assert check is not None  # noqa: S101 - the check is never None
        env = checkout.environment(self.environment, self.repo.root)
        return CheckOrder(
            check,
            guardian or self.guardian,
            self.sandbox,
            checkout.root,
            env,
            log,
            show,
            setup,
            home=checkout.home,
            reads=(Path(_inside(self.repo, "objects")),),
        )

    def run(self, order: CheckOrder) -> CheckReport:
        """Run one order."""
        return self.run_all(order)[0]

    def run_all(self, *orders: CheckOrder) -> list[CheckReport]:
        """Run orders side by side. Their outputs name the working tree: a checkout's own folder is new each time."""
        reports = run_checks(orders, self.stop_requests)
        return [
            replace(report, output=self._at_home(report.output, order))
            for report, order in zip(reports, orders, strict=True)
        ]

    def _at_home(self, output: str, order: CheckOrder) -> str:
        output = output.replace(str(order.root), str(self.repo.root))
        return output if order.home is None else output.replace(str(order.home), "~")


def restore_protected(root: Path, base: str | None, changes: ProtectedChanges) -> None:
    """Give protected files the base's versions, and leave new ones out."""
    gone = (*changes.changed, *changes.picked_up, *changes.added)
    said = "".join(f"0 {_NULL}\t{path}\0" for path in gone)
    if base is not None and changes.changed:
        said += _git(root, "ls-tree", "-r", "-z", "--full-tree", base, "--", *changes.changed)
    own = {"GIT_DIR": str(root / ".git"), "GIT_INDEX_FILE": str(root / ".git" / "restored")}
    _git(root, "read-tree", "HEAD", pinned=own)
    _git(root, "update-index", "-z", "--index-info", said=said.encode("utf-8", "surrogateescape"), pinned=own)
    _git(root, "read-tree", "--reset", "-u", _git(root, "write-tree", pinned=own).strip())


def changes_between(repo: Repo, base: str | None, commit: str) -> list[PathChange]:
    """List the paths that differ between two commits, each added, changed or deleted."""
    empty = _of(repo, "hash-object", "-t", "tree", "--stdin", said=b"").strip()
    out = _of(repo, "diff-tree", "-r", "-z", "--no-renames", "--name-status", base or empty, commit, "--")
    words = out.split("\0")
    return [PathChange(status, path) for status, path in zip(words[::2], words[1::2], strict=False) if path]


def files_of(repo: Repo, commit: str | None) -> frozenset[str]:
    """List the files of a commit."""
    if commit is None:
        return frozenset()
    return frozenset(_of(repo, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).split("\0")) - {""}


def texts_of(repo: Repo, commit: str | None, paths: Sequence[str]) -> dict[str, str]:
    """Return the texts of a commit's files; missing ones are left out."""
    found: dict[str, str] = {}
    for path in paths if commit is not None else ():
        status, out, _ = run_git(repo.root, "cat-file", "blob", f"{commit}:{path}")
        if status == 0:
            found[path] = out
    return found


def tree_of(repo: Repo, commit: str | None) -> str:
    """Return the tree of a commit; empty without one."""
    return "" if commit is None else _of(repo, "rev-parse", f"{commit}^{{tree}}").strip()


def untracked_files(repo: Repo, *options: str) -> frozenset[str]:
    """List the files of the working tree that git does not track, but for those in `.ralph/`; ignored ones, too."""
    out = _of(repo, "ls-files", "--others", *options, "-z", "--", ":(top)", ":(top,exclude).ralph")
    return frozenset(out.split("\0")) - {""}


def reword(repo: Repo, message: str) -> str:
    """Give the last commit another message; return its new id."""
    options = ("--amend", "--only", "--quiet", "--allow-empty", "--no-verify", "--cleanup=verbatim", "--file=-")
    lent = () if repo.has_identity else LENT_IDENTITY
    _of(repo, *lent, "commit", *options, said=message.encode("utf-8", "replace"))
    return _of(repo, "rev-parse", "HEAD").strip()


def _inside(repo: Repo, name: str) -> str:
    return _of(repo, "rev-parse", "--path-format=absolute", "--git-path", name).removesuffix("\n")


def _of(repo: Repo, *args: str, said: bytes | None = None) -> str:
    return succeeded(repo.root, args, run_git(repo.root, *args, said=said, pinned=_pinned(repo)))


def _pinned(repo: Repo) -> dict[str, str]:
    return {"GIT_DIR": str(repo.git_dir), "GIT_WORK_TREE": str(repo.root)}


def _git(root: Path, *args: str, said: bytes | None = None, pinned: Mapping[str, str] | None = None) -> str:
    if pinned is None and (root / ".git").is_dir():
        pinned = {"GIT_DIR": str(root / ".git")}
    return succeeded(root, args, run_git(root, *args, said=said, pinned=pinned))
