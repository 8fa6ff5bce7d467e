"""The upstream repository: how it is called without a prompt or an endless wait, and what its faults mean."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.batch.bare import Bare
from ralph.core.errors import RepoError, UsageError
from ralph.git.address import local_path, require_source
from ralph.git.command import GitKilled, last_line, run_git
from ralph.system import environ

PATIENCE = 3600.0
"""Seconds after which a fetch or a push is given up, whatever it does: git:// and hooks have no limit of their own."""

_PATIENT_HTTP = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
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
        return without_password(self.url)

    @property
    def path(self) -> Path | None:
        """Where it stands, if it stands on this machine."""
        return local_path(self.url)

    def call(self, mirror: Bare, *args: str) -> tuple[int, str, str]:
        """Run git in the mirror for a command that speaks with the upstream repository."""
        pinned = {"SSH_ASKPASS_REQUIRE": "never"}  # nobody is there to see its window
        if self.path is None and not _has_own_ssh(mirror):
            pinned["GIT_SSH_COMMAND"] = _PATIENT_SSH
        try:
            return mirror.run(*_PATIENT_HTTP, *args, pinned=pinned, limit=PATIENCE)
        except GitKilled as error:  # of a push nobody knows then whether it has arrived
            raise Unreachable(error.message, error.hint) from error

    def source(self) -> str:
        """What git is given: an address as it is, a path as the repository it names, if that is still there."""
        try:
            return require_source(self.url)
        except UsageError as error:
            raise Unreachable(error.message, error.hint) from error

    def list(self, mirror: Bare) -> Listing:
        """Ask for the branches and for the default one."""
        status, out, err = self.call(mirror, "ls-remote", "--symref", "--", self.source(), "HEAD", "refs/heads/*")
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
        said = without_password(said)
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


def without_password(text: str) -> str:
    """Take out of addresses whatever stands before the host."""
    return re.sub(r"//[^@/\s]*@", "//", text)
