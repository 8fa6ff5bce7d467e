"""The upstream repository: how it is called without a prompt or an endless wait, and what its faults mean."""

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.progress import Reporter, TaskProgress, unreported
from ralph.core.secrets import without_login
from ralph.git.address import local_path, require_source
from ralph.git.command import PATIENT_HTTP, GitKilled, last_line, lived, run_git, succeeded
from ralph.system import environ
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
_LOOK = 0.05
"""Seconds between two looks whether a lock is free."""
_LONGEST_PID = 20
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
        self,
        *args: str,
        said: bytes | None = None,
        pinned: Mapping[str, str] | None = None,
        limit: float | None = None,
        report: Reporter | None = None,
    ) -> tuple[int, str, str]:
        """Run git here; a lock that a killed git left behind is removed, and the command given again.

        Whatever is asked of a repository here is decided by the answer: one that is killed gives none (`GitKilled`).
        """
        settled = {**UNTOUCHED, "GIT_DIR": str(self.path), **(pinned or {})}
        outcome = run_git(self.path, *args, said=said, pinned=settled, limit=limit, report=report)
        for _ in range(3):
            held = _HELD.search(outcome[2]) if outcome[0] != 0 else None
            if held is None:
                break
            self._let_go(Path(held[1]), report or unreported)
            outcome = run_git(self.path, *args, said=said, pinned=settled, limit=limit, report=report)
        return lived(self.path, args, outcome)

    def git(
        self, *args: str, said: bytes | None = None, pinned: Mapping[str, str] | None = None, limit: float | None = None
    ) -> str:
        """Run git here and return its output; a failure is a `RepoError`."""
        return succeeded(self.path, args, self.run(*args, said=said, pinned=pinned, limit=limit))

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
    def turn(self, report: Reporter = unreported) -> Generator[None]:
        """Have the repository to oneself, among threads as among processes; the kernel ends the turn of a dead one."""
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _is_locked(descriptor):
                pid = os.pread(descriptor, _LONGEST_PID, 0).decode("ascii", "replace").strip()
                report(TaskProgress(f"waiting for process {pid or '?'}, which is using the same mirror"))
                time.sleep(_LOOK)
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
            yield
        finally:
            os.close(descriptor)

    def _let_go(self, lock: Path, report: Reporter) -> None:
        """Wait for the process that holds git's own lock; remove the file when no git works here."""
        deadline = time.monotonic() + _LOCK_PATIENCE
        while lock.exists() and (pids := running_in(self.path, "git")) and time.monotonic() < deadline:
            report(TaskProgress(f"waiting for git process {pids[0]}, which holds {lock.name}"))
            time.sleep(_LOOK)
        if lock.is_relative_to(self.path) and not running_in(self.path, "git"):
            lock.unlink(missing_ok=True)


def _is_locked(descriptor: int) -> bool:
    """Take the lock, unless somebody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


PATIENCE = 3600.0
"""Seconds after which a fetch or a push is given up, whatever it does: git:// and hooks have no limit of their own."""

_LONGEST_ANSWER = 30.0
"""Seconds that an upstream repository has to say that it is there."""

_PATIENT_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4"

_DENIED = re.compile(
    r"authentication failed|could not read (username|password)|permission denied|host key verification failed"
    r"|error: 40[13]\b",
    re.I,
)
_AWAY = re.compile(
    r"could not resolve|connection (refused|reset|closed|timed out)|timed out|unable to (connect|access|look up)"
    r"|could not read from remote|network is unreachable|no route to host|early eof|hung up|unexpected disconnect"
    r"|rpc failed|error: 5\d\d\b|error: 404\b|repository .* not found|does not appear to be a git repository"
    r"|no such (file or directory|device)|is not a directory|access denied or repository not exported|broken pipe"
    r"|did not answer",
    re.I,
)


class Unreachable(RepoError):
    """The upstream repository cannot be reached now: its network, its host or its disk is away. Later it may be."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What the upstream repository has: its branches, and the one that its HEAD names (empty: none that exists)."""

    heads: Mapping[str, str]
    default: str


@dataclass(frozen=True, slots=True)
class Upstream:
    """The repository that goals are worked for. Its address is held here alone: no mirror or clone writes it down."""

    url: str

    @property
    def shown(self) -> str:
        """The address without what may be a password."""
        return without_login(self.url)

    @property
    def path(self) -> Path | None:
        """Where it stands, if it stands on this machine."""
        return local_path(self.url)

    def call(
        self, mirror: Bare, *args: str, report: Reporter | None = None, limit: float = PATIENCE
    ) -> tuple[int, str, str]:
        """Run git in the mirror for a command that speaks with the upstream repository."""
        pinned = {"SSH_ASKPASS_REQUIRE": "never"}  # nobody is there to see its window
        if self.path is None and not _has_own_ssh(mirror):
            pinned["GIT_SSH_COMMAND"] = _PATIENT_SSH
        try:
            return mirror.run(*PATIENT_HTTP, *args, pinned=pinned, limit=limit, report=report)
        except GitKilled as error:  # of a push nobody knows then whether it has arrived
            raise Unreachable(error.message, error.hint) from error

    def source(self) -> str:
        """What git is given: an address as it is, a path as the repository it names, if that is still there."""
        try:
            return require_source(self.url)
        except UsageError as error:
            raise Unreachable(error.message, error.hint) from error

    def require_reachable(self) -> None:
        """Ask for nothing but an answer, before there is a mirror; a `RepoError` says why there is none."""
        with seeing_only(Path(os.devnull)) as nowhere:
            asking = ("ls-remote", "--", self.source(), "HEAD")
            status, _, err = self.call(nowhere, *asking, limit=_LONGEST_ANSWER)
        if status != 0:
            raise self.fault("reach", err)

    def list(self, mirror: Bare, report: Reporter | None = None) -> Listing:
        """Ask for the branches and for the default one."""
        asking = ("ls-remote", "--symref", "--", self.source(), "HEAD", "refs/heads/*")
        status, out, err = self.call(mirror, *asking, report=report)
        if status != 0:
            raise self.fault("list the branches of", err)
        default, heads = "", dict[str, str]()
        for line in out.splitlines():
            value, _, ref = line.partition("\t")
            if ref == "HEAD" and value.startswith("ref: refs/heads/"):
                default = value.removeprefix("ref: refs/heads/")
            elif ref.startswith("refs/heads/"):
                heads[ref.removeprefix("refs/heads/")] = value
        return Listing(heads, default if default in heads else "")

    def fault(self, doing: str, complaints: str) -> RepoError:
        """What a failed command means: `Unreachable` where waiting may help."""
        said = last_line(complaints) or "git said nothing"
        if "Could not read from remote repository" in said:  # ssh has said why before
            said = complaints.strip().partition("\n")[0]
        said = without_login(said)
        message, hint = f"cannot {doing} {self.shown}: {said}", f"check access with: git ls-remote {self.shown}"
        if _DENIED.search(complaints):
            return RepoError(message, hint)
        return Unreachable(message, hint) if _AWAY.search(complaints) else RepoError(message, hint)

    def identity(self, mirror: Bare) -> Mapping[str, str]:
        """Who commits for this repository: the user, by its own settings or his; ralph where nobody is known."""
        where = self.path if self.path is not None and self.path.is_dir() else mirror.path
        strictly = ("-c", "user.useConfigOnly=true")  # without it git invents an identity from the host's name
        status, out, _ = run_git(where, *strictly, "var", "GIT_COMMITTER_IDENT")
        known = re.match(r"(.*) <(.*)> \d+ [+-]\d+", out) if status == 0 else None
        name, email = (known[1], known[2]) if known else ("ralph", "ralph@localhost")
        return {
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": email,
        }


def _has_own_ssh(mirror: Bare) -> bool:
    """Tell whether the user has said which ssh git is to use: his word stands."""
    said = {"GIT_SSH_COMMAND", "GIT_SSH"} & environ.inherited().keys()
    return bool(said) or mirror.run("config", "core.sshCommand")[0] == 0


def beside(address: str, relative: str) -> str:
    """Where `./x` or `../x` leads from an address, as git reckons it for submodules."""
    place, between = address.rstrip("/"), "/"
    while relative.startswith(("./", "../")):
        step, _, relative = relative.partition("/")
        if step == "..":
            between = "/" if "/" in place else ":"  # of host:path
            place = place.rpartition(between)[0]
    return f"{place}{between}{relative}".rstrip("/")
