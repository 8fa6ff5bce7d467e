"""The mirror: a bare repository for each upstream one, from which working clones borrow their objects.

It never prunes and never collects garbage, because a clone may need any of its old objects. Branches under `ralph/` are
ours, all others belong to the upstream repository. Refs under `refs/ralph/` keep what must not be lost: `attempts/`
each attempt's last commit, `lost/` the old tip of a moved branch, `clones/` other commits of a removed clone,
`leftovers/` its uncommitted files, `done/` the branches of finished goals; `base/` the target of each of our branches,
`taken/` the commit of the target that it started from or has merged since, and `conflicts/` that merge's conflicts.
"""

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.progress import Reporter, unreported
from ralph.git.address import place_of
from ralph.git.command import GitKilled, git_output, heard_by, lived, run_git, succeeded
from ralph.queue.repos.remote import UNTOUCHED, Bare, Upstream, beside, flat
from ralph.system.files import make_private_directory, named_in_faults, remove_tree, replace_file

_SETTINGS = {
    "gc.auto": "0",
    "gc.pruneExpire": "never",
    "gc.worktreePruneExpire": "never",
    "maintenance.auto": "false",
    "receive.hideRefs": "refs",  # nothing can be pushed here: an agent's `git push origin main` is refused
}
FETCH = (
    "fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance", "--no-prune", "--no-prune-tags",
    "--no-recurse-submodules",
)  # fmt: skip
# 5000 files in 250 folders, 22 MB, 8 interleaved rounds on 2 busy cores, git 2.39, ext4: median 2.7 s with 1 worker,
# 1.8 s with 2, 1.7 s with 4, 1.9 s with 8. Writing the files is nearly all of a clone's cost.
_CHECKOUT = ("-c", "checkout.workers=4", "-c", "checkout.thresholdForParallelism=100")
PATIENCE = 600.0
"""Seconds for a fetch from a clone: what an agent may have put there in place of a file, git may wait for."""
USUAL = ("main", "master", "trunk")
"""What a branch that work is merged to is called where nobody has chosen another."""
_ASIDE = re.compile(r"\.broken-\d+$")
_MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class Base:
    """The branch that work is merged to, and its last commit."""

    branch: str
    tip: str


@dataclass(frozen=True, slots=True)
class Mirror:
    """The mirror of one upstream repository. Every git command that concerns both it and a clone runs on its side."""

    bare: Bare
    upstream: Upstream

    @property
    def path(self) -> Path:
        return self.bare.path

    @property
    def is_usable(self) -> bool:
        """Whether it was fetched once, and has a base to work on."""
        try:
            return (self.path / "HEAD").exists() and bool(self.base().tip)
        except RepoError:
            return False

    def refresh(self, report: Reporter | None = None) -> None:
        """Bring the mirror to what the upstream repository has now, or make it; `Unreachable` if that is away."""
        make_private_directory(self.path.parent)
        with self.bare.turn(report or unreported):
            storing: tuple[str, ...] = ()
            if not (self.path / "HEAD").exists():
                self._create()
                if report is not None:  # git (2.39) unpacks fewer than 100 objects, however large, without progress
                    storing = ("-c", "fetch.unpackLimit=1")
            listing = self.upstream.list(self.bare, report)
            ours = self._ours()
            theirs = [name for name in listing.heads if not _is_ours(name, ours)]
            self._drop_gone({*theirs, *ours})
            # A branch that is called `ralph` would stand in the way of all of ours.
            but = ["^refs/heads/ralph", "^refs/heads/ralph/*", *(f"^refs/heads/{name}" for name in sorted(ours))]
            wanted = ("+refs/heads/*:refs/heads/*", *but, "+refs/tags/*:refs/tags/*")
            # A shallow repository is taken as it is; a clone that an agent made shallow is not: see `save`.
            fetching = (*storing, *FETCH, *heard_by(report), "--update-shallow", "--", self.upstream.source(), *wanted)
            status, _, err = self.upstream.call(self.bare, *fetching, report=report)
            if status != 0:
                raise self.upstream.fault("fetch from", err)
            if default := self._default(theirs, listing.default):
                self.bare.git("symbolic-ref", "HEAD", f"refs/heads/{default}")

    def base(self, branch: str = "") -> Base:
        """The upstream repository's default branch; or, for a branch of ours, the one that it started from."""
        name = self._meant_for(branch) if branch else ""
        if not name:
            name = self.bare.git("symbolic-ref", "HEAD").strip().removeprefix("refs/heads/")
        tip = self.bare.commit_at(f"refs/heads/{name}")
        if tip is None:
            if self.bare.git("for-each-ref", "--count=1", "refs/heads").strip():
                raise RepoError(
                    f"{self.upstream.shown} has no branch {name}", "set its default branch, or restore that one"
                )
            raise RepoError(f"{self.upstream.shown} has no commits yet", "commit something there first")
        return Base(name, tip)

    def has_check(self, base: Base) -> bool:
        """Tell whether a base has a check of its own."""
        return self.bare.run("cat-file", "-e", f"{base.tip}:.ralph/check")[0] == 0

    def clone(self, destination: Path, branch: str, report: Reporter | None = None) -> None:
        """Make the working clone of a goal, on `branch`: where that was left, or new from the base.

        A sound clone that is there is taken up as it is. One that an agent broke is moved aside, never deleted.
        """
        if destination.is_symlink() or destination.exists():
            if self._is_sound(destination, branch):
                return
            _move_aside(destination)
        base = self.base(branch)
        if branch == base.branch:
            raise RepoError(
                f"cannot work on {branch}: it is the branch to merge to", "give the goal a branch of its own"
            )
        tip = self.tip(branch)
        if tip is not None and not branch.startswith("ralph/") and not self._meant_for(branch):
            raise UsageError(
                f"cannot work on {branch}: {self.upstream.shown} already has that branch",
                "give the goal one of its own with `branch:`",
            )
        self.bare.git("symbolic-ref", f"refs/ralph/base/{branch}", f"refs/heads/{base.branch}")
        if tip is None:
            self.note_taken(branch, base.tip)
        self._check_out(destination, tip or base.tip, "--no-track", "-B", branch, report=report)

    def check_out(self, destination: Path, commit: str) -> None:
        """Make a clean checkout of one commit, on no branch, in place of whatever is there."""
        remove_tree(destination)
        self._check_out(destination, commit, "--detach")

    def save(self, clone: Path, branch: str, keep: str | None) -> str | None:
        """Take the branch's commits over from its clone; return the last. None: it has no such branch, or is broken.

        `keep` names the attempt whose last commit it is. What the mirror had is kept even if the clone has left it.
        What is returned is the clone's last commit with all of its history, never what was saved before it.
        """
        ours = f"refs/heads/{branch}"
        status, out, _ = self.bare.run("ls-remote", "--", str(clone), ours, limit=PATIENCE)
        theirs = next((sha for sha, _, ref in (line.partition("\t") for line in out.splitlines()) if ref == ours), "")
        if status != 0 or not theirs:
            return None
        before = self.tip(branch)
        if theirs == before:
            if keep:
                self.bare.git("update-ref", f"refs/ralph/attempts/{keep}", theirs)
            return theirs
        kept = [f"+{ours}:refs/ralph/attempts/{keep}"] if keep else []
        taking = (*FETCH, "--no-tags", "--", str(clone))
        status, _, _ = self.bare.run(*taking, f"{ours}:{ours}", *kept, limit=PATIENCE)
        if status == 1 and (old := self.bare.commit_at(ours)):  # git's answer where it is no step forward
            self.bare.git("update-ref", f"refs/ralph/lost/{branch}/{old[:12]}", old)
            status, _, _ = self.bare.run(*taking, f"+{ours}:{ours}", *kept, limit=PATIENCE)
        saved = self.tip(branch)
        if status != 0 or saved is None:
            return None
        # Not moved: git takes nothing, and exits with 0, where the clone lacks the beginning of its history: an agent
        # can make it so. Moved elsewhere: an agent that is at work has committed since.
        return saved if saved == theirs or saved != before else None

    def tip(self, branch: str) -> str | None:
        """The last commit of a branch as the mirror has it: what was last saved."""
        return self.bare.commit_at(f"refs/heads/{branch}")

    def note_taken(self, branch: str, commit: str) -> None:
        """Write down that a branch holds its base up to this commit."""
        self.bare.git("update-ref", _taken(branch), commit)

    def taken(self, branch: str) -> str | None:
        """Return the commit of its base that a branch started from, or has merged since."""
        return self.bare.commit_at(_taken(branch))

    def retire(self, branch: str, name: str) -> None:
        """Let go of the branch of a finished goal: its commits stay under `refs/ralph/done/`, the name is free."""
        if tip := self.bare.commit_at(f"refs/heads/{branch}"):
            self.bare.git("update-ref", f"refs/ralph/done/{name}", tip)
            self.bare.git("update-ref", "-d", f"refs/heads/{branch}", tip)
        if self._meant_for(branch):
            self.bare.git("symbolic-ref", "--delete", f"refs/ralph/base/{branch}")
        self.bare.git("update-ref", "-d", _taken(branch))
        self.bare.git("update-ref", "-d", conflicts_ref(branch))

    def _create(self) -> None:
        new = _staging(self.path)
        try:
            git_output(new.parent, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--", str(new))
            for name, value in _SETTINGS.items():
                Bare(new).git("config", name, value)
            if self.path.is_dir():
                _move_aside(self.path)  # no repository any more: its HEAD is gone
            new.rename(self.path)
        finally:
            remove_tree(new)

    def _ours(self) -> set[str]:
        """The branches that goals work on, as far as they are called otherwise than `ralph/...`.

        By their files, because git lists no symbolic ref that leads nowhere; and it never packs one. Other
        goals may begin and end: a folder may vanish while it is read, and `.lock` (no branch's ending) is git at work.
        """
        folder = self.path / "refs" / "ralph" / "base"
        files = (Path(place, file).relative_to(folder) for place, _, files in os.walk(folder) for file in files)
        return {str(file) for file in files if file.suffix != ".lock" and file.parts[0] != "ralph"}

    def _drop_gone(self, known: Collection[str]) -> None:
        """Forget branches that the upstream repository has no more: `a` would be in the way of a new `a/b`.

        Only the names: their commits stay, as everything does.
        """
        names = self.bare.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").split()
        gone = [name for name in names if name not in known and not name.startswith("ralph/")]
        if gone:
            self.bare.git(
                "update-ref", "--stdin", said="".join(f"delete refs/heads/{name}\n" for name in gone).encode()
            )

    def _default(self, theirs: Sequence[str], named: str) -> str:
        """The default branch; where HEAD names none (detached, or never born) the one before, or a usual one."""
        before = self.bare.git("symbolic-ref", "HEAD").strip().removeprefix("refs/heads/")
        found = [name for name in (named, before, *USUAL) if name in theirs]
        return found[0] if found else theirs[0] if len(theirs) == 1 else ""

    def _meant_for(self, branch: str) -> str:
        """Return the base that a branch of ours started from: in a user's repository, HEAD may move."""
        status, out, _ = self.bare.run("symbolic-ref", "--quiet", f"refs/ralph/base/{branch}")
        return out.strip().removeprefix("refs/heads/") if status == 0 else ""

    def _is_sound(self, clone: Path, branch: str) -> bool:
        """Tell whether a clone can be worked in: a clone of this mirror, on its branch, its commit and index whole."""
        root, git_dir = clone.resolve(), clone.resolve() / ".git"
        try:
            if not self._is_from_here(git_dir):
                return False
        except (OSError, ValueError, RuntimeError):  # unreadable, a NUL in a path, links that lead in a circle
            return False
        where = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir")
        if _told_of(clone, *where, pinned=UNTOUCHED) != f"{root}\n{git_dir}\n":
            return False
        pinned = {**UNTOUCHED, "GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(root)}
        whole = (("cat-file", "-e", f"refs/heads/{branch}^{{tree}}"), ("ls-files", "--cached", "-z"))
        return _told_of(clone, "symbolic-ref", "HEAD", pinned=pinned) == f"refs/heads/{branch}\n" and all(
            _told_of(clone, *question, pinned=pinned) is not None for question in whole
        )

    def _is_from_here(self, git_dir: Path) -> bool:
        """Tell whether a clone's repository names this mirror; by its files, so that its settings don't matter."""
        borrowing = _lines(git_dir / "objects" / "info" / "alternates")
        named = [Path(line).parent for line in borrowing]
        section = ""
        for line in _lines(git_dir / "config"):
            section = line.strip() if line.lstrip().startswith("[") else section
            key, _, value = line.partition("=")
            if section == '[remote "origin"]' and key.strip() == "url":
                named.append(Path(value.strip()))
        return self.path.resolve() in [path.resolve() for path in named]

    def _check_out(self, destination: Path, commit: str, *how: str, report: Reporter | None = None) -> None:
        """Clone by borrowing the mirror's objects, and check out; whole or not at all."""
        make_private_directory(destination.parent)
        for _ in range(_MOST_TRIES - 1):
            with contextlib.suppress(GitKilled):
                self._check_out_once(destination, commit, *how, report=report)
                return
        self._check_out_once(destination, commit, *how, report=report)

    def _check_out_once(self, destination: Path, commit: str, *how: str, report: Reporter | None) -> None:
        new = _staging(destination)
        try:
            options = (
                "--quiet", "--shared", "--no-checkout", "--origin=origin", "--no-recurse-submodules",
                # A user's `true` would have scripts end their lines as on Windows, and a check could not be started.
                "--config=core.autocrlf=false",
            )  # fmt: skip
            cloning = ("clone", *options, "--", str(self.path), str(new))
            succeeded(destination.parent, cloning, run_git(destination.parent, *cloning))
            self._lend_objects(new)
            command = (*_CHECKOUT, "checkout", "--quiet", "--no-recurse-submodules", *heard_by(report), *how, commit)
            status, _, err = lived(new, command, run_git(new, *command, pinned=UNTOUCHED, report=report))
            if status != 0:
                raise RepoError(f"cannot check out {commit[:12]} of {self.upstream.shown}: {err.strip()}")
            self._point_submodules(new, commit)
            new.rename(destination)
        finally:
            remove_tree(new)

    def _lend_objects(self, clone: Path) -> None:
        """Have a clone borrow all of the mirror's objects: of a shallow one git copies those of branches (2.39)."""
        borrowing = clone / ".git" / "objects" / "info" / "alternates"
        if not borrowing.exists():
            replace_file(borrowing, f"{self.path.resolve() / 'objects'}\n", durable=False)

    def _point_submodules(self, clone: Path, commit: str) -> None:
        """Have submodules with relative addresses looked for beside the upstream repository, as in any clone of it.

        Git would look beside the origin, which is the mirror; it leaves alone what its configuration says already.
        """
        asked = ("config", "--blob", f"{commit}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.url$")
        status, out, _ = self.bare.run(*asked)
        for key, _, url in (entry.partition("\n") for entry in out.split("\0") if status == 0):
            if url.startswith(("./", "../")):
                run_git(
                    clone, "config", key, beside(str(self.upstream.path or self.upstream.shown), url), pinned=UNTOUCHED
                )


def open_mirror(ralph_dir: Path, url: str) -> Mirror:
    """The mirror of the repository at `url`; nothing is made before it is refreshed."""
    return Mirror(Bare(ralph_dir / "mirrors" / place_of(url)), Upstream(url))


def _taken(branch: str) -> str:
    return f"refs/ralph/taken/{flat(branch)}"


def conflicts_ref(branch: str) -> str:
    """The ref that keeps the conflicts which the last merge of the base into a branch left in its files."""
    return f"refs/ralph/conflicts/{flat(branch)}"


def _is_ours(name: str, ours: Collection[str]) -> bool:
    return name == "ralph" or name.startswith("ralph/") or name in ours


def _staging(path: Path) -> Path:
    """Where something is made before it gets its name; what a killed process left there is removed."""
    new = path.with_name(f".{path.name}.new")
    remove_tree(new)
    return new


def _told_of(clone: Path, *question: str, pinned: Mapping[str, str]) -> str | None:
    """What git says of a clone; None: it refuses. One that is killed says nothing of it."""
    status, out, _ = lived(clone, question, run_git(clone, *question, pinned=pinned, limit=PATIENCE))
    return out if status == 0 else None


def _move_aside(path: Path) -> None:
    """Keep what cannot be used, under a name that nobody else takes."""
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    with named_in_faults(path):
        path.rename(aside)


def clone_named(name: str) -> str:
    """The name of the clone that a directory is, or was before it was moved aside."""
    return _ASIDE.sub("", name)


def _lines(file: Path) -> list[str]:
    """Return the lines of a file that an agent can write; none if it is not a regular file."""
    return file.read_text("utf-8", "surrogateescape").splitlines() if file.is_file() else []
