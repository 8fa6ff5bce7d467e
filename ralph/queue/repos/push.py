"""A push, and what the other side said to it."""

import re
import shlex
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.core.secrets import without_login
from ralph.core.text import few
from ralph.git.command import run_git
from ralph.queue.repos.mirror import Mirror
from ralph.system import environ
from ralph.system.programs import ask

_PUSH = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--no-signed")
# A user's own repository has its branch checked out: its files move along if nothing in them is changed, and if
# something is, the push is refused. Other repositories ignore it.
_ALONG = "--receive-pack=git -c receive.denyCurrentBranch=updateInstead receive-pack"
_MOVED = re.compile(
    r"stale info|fetch first|non-fast-forward|incorrect old value|reference already exists|cannot lock ref"
)
_OVERTAKEN = "failed to update ref"
"""A server's words for another's push at the same instant (git 2.39); but also for a disk that it cannot write to."""
_DIRTY = re.compile(
    r"unstaged|uncommitted|staged changes|not up.to.date|would be overwritten|working (directory|tree)", re.I
)


# Who may push to the branch, and how, has nothing to do with what is pushed. GitHub says so with "protected branch
# hook declined" or "push declined due to repository rule violations", GitLab with "pre-receive hook declined".
_CLOSED = re.compile(
    r"protected (branch|ref)|\bGH006\b|not (allowed|authorized|permitted) to (force )?push|(pull|merge) request"
    r"|only push commits if the committer|verified signature",
    re.I,
)
_BY_RULE = ("hook declined", "repository rule violations")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The branch is at the commit now."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The branch was no longer where it was expected: nothing was changed."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The other side does not want it; `by_rule`: a hook there has looked at the work, and that is what must change.

    `closed`: the branch takes no push of ours, whatever is in it.
    """

    reason: str
    by_rule: bool = False
    closed: bool = False


def push(mirror: Mirror, commit: str, branch: str, expected: str) -> Accepted | Moved | Rejected:
    """Move an upstream branch from exactly `expected` (empty: from nothing) to `commit`, or nothing at all.

    The expectation is what makes the push a claim: a branch that was moved, deleted or created since is not touched.
    A fault of the connection is raised (`Unreachable`): then nobody here knows whether it arrived.
    """
    if found := _in_the_way_of(mirror, commit, branch, expected):
        return Rejected(found)
    lease = f"--force-with-lease=refs/heads/{branch}:{expected}"
    along = [_ALONG] if mirror.upstream.path is not None else []
    where = (mirror.upstream.source(), f"{commit}:refs/heads/{branch}")
    status, out, err = mirror.upstream.call(mirror.bare, *_PUSH, *along, lease, "--", *where)
    if status == 0:
        return Accepted()
    answer = next((line for line in out.splitlines() if line.startswith("!\t")), "")
    if not answer:
        raise mirror.upstream.fault("push to", err)
    reason = answer.rpartition("\t")[2]
    if _MOVED.search(reason) or (_OVERTAKEN in reason and _tip(mirror, branch) != expected):
        return Moved()
    closed = any(_CLOSED.search(line) for line in (reason, *_told(err)))
    by_rule = not closed and any(words in reason for words in _BY_RULE)
    return Rejected(_explained(mirror, branch, reason, err), by_rule, closed)


def in_the_way(mirror: Mirror, branch: str) -> Reason:
    """Return why a push to this branch would be refused now: changes in a checkout on this machine."""
    place = mirror.upstream.path
    if place is None or run_git(place, "symbolic-ref", "--quiet", "HEAD")[1].strip() != f"refs/heads/{branch}":
        return NO_REASON
    # Submodules are not looked into by the push either.
    status, out, _ = run_git(
        place, "status", "--porcelain", "--untracked-files=no", "--no-renames", "--ignore-submodules=all"
    )
    if status != 0 or not out:  # a bare one has no files
        return NO_REASON
    changed = tuple(line[3:] for line in out.splitlines())
    return Reason(cause=Cause.DIRTY_CHECKOUT, place=str(place), branch=branch, paths=changed)


def _in_the_way_of(mirror: Mirror, commit: str, branch: str, expected: str) -> str:
    """What a push would overwrite in the files of a repository here that has the branch checked out.

    What is tracked there git looks at itself. What is ignored it would overwrite, or remove for a file in a folder's
    place, without a word (2.39): nobody else has a copy of that.
    """
    if mirror.upstream.path is None or not expected:
        return ""
    added = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", expected, commit)
    for root in _checkouts(mirror.upstream.path, branch):
        there = _standing(root, [path for path in mirror.bare.git(*added).split("\0") if path])
        if not there:
            continue
        pathspecs = [f":(top,literal){path}" for path in there]
        status, out, _ = run_git(root, "ls-files", "--others", "-z", "--", *pathspecs)
        if found := [path for path in out.split("\0") if path] if status == 0 else there:  # what nobody knows of stays
            return (
                f"{root} has {branch} checked out, and merging would overwrite {few(found, 3)},"
                " which git does not track: move or commit that"
            )
    return ""


def _checkouts(place: Path, branch: str) -> list[Path]:
    """The work trees of a repository in which a branch is checked out."""
    listed = run_git(place, "worktree", "list", "--porcelain", "-z")[1]
    trees = [tree.split("\0") for tree in listed.split("\0\0")]
    return [Path(tree[0].removeprefix("worktree ")) for tree in trees if f"branch refs/heads/{branch}" in tree]


def _standing(root: Path, added: Sequence[str]) -> list[str]:
    """Of new files those in whose place, or in that of a folder above them, something else stands."""
    found: dict[str, None] = {}
    for path in added:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            name = "/".join(parts[:count])
            try:
                mode = (root / name).lstat().st_mode
            except OSError:
                break
            if count == len(parts) or not stat.S_ISDIR(mode):
                found[name] = None
                break
    return list(found)


def _tip(mirror: Mirror, branch: str) -> str:
    return mirror.upstream.list(mirror.bare).heads.get(branch, "")


def _explained(mirror: Mirror, branch: str, reason: str, complaints: str) -> str:
    told = _told(complaints)
    words = without_login("; ".join(told))
    if mirror.upstream.path is not None and _DIRTY.search(reason):
        return (
            f"{mirror.upstream.path} has {branch} checked out with uncommitted changes ({reason}): commit or stash them"
        )
    return f"{mirror.upstream.shown} refused the push to {branch}: {reason}" + (f": {words}" if words else "")


def _told(complaints: str) -> list[str]:
    """The other side's own words."""
    lines = [line.removeprefix("remote:").strip() for line in complaints.splitlines() if line.startswith("remote:")]
    return [line for line in lines if line]


_LIMIT = 120.0
_MOST = 20_000
"""Characters of a description: an argument has room for 128 KiB, the hosts take 64."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed: a branch for a base."""

    url: str
    branch: str
    base: str
    title: str
    body: str


def propose(proposal: Proposal, cwd: Path) -> str:
    """Make the request; say its address, or what the user can type to make it."""
    argv = command(proposal)
    if argv is None:
        return f"open a pull request on its host: from {proposal.branch} to {proposal.base}"
    env = environ.inherited() | {"GH_PROMPT_DISABLED": "1", "NO_PROMPT": "1", "NO_COLOR": "1"}
    program = shutil.which(argv[0], path=env.get("PATH"))
    if program is None:
        return f"open a pull request with: {shlex.join(argv)}"
    reply = ask([program, *argv[1:]], cwd=cwd, environment=env, limit=_LIMIT)
    # One that is open already is complained of, with its address: the push has brought it up to date.
    if address := re.search(r"https?://\S+/(?:pull|merge_requests)/\d+", reply.output + reply.complaints):
        return f"pull request {address[0]}"
    said = reply.complaints.strip().rpartition("\n")[2]
    return (
        f"{argv[0]} could not open a pull request ({said or f'exit {reply.exit_code}'}); do it with: {shlex.join(argv)}"
    )


def command(proposal: Proposal) -> list[str] | None:
    """The command that makes the request, for hosts that are known to have one."""
    place = re.fullmatch(r"(?:[a-z+]+://)?(?:[^@/]*@)?([^/:]+)(?::\d+(?=/))?[:/]+(.*?)(?:\.git)?/*", proposal.url)
    if place is None:
        return None
    host, name = place[1], place[2]
    if "github" in host:
        return [
            "gh", "pr", "create", f"--repo={host}/{name}", f"--head={proposal.branch}", f"--base={proposal.base}",
            f"--title={proposal.title}", f"--body={proposal.body[:_MOST]}",
        ]  # fmt: skip
    if "gitlab" in host:
        return [
            "glab", "mr", "create", f"--repo=https://{host}/{name}", f"--source-branch={proposal.branch}",
            f"--target-branch={proposal.base}", f"--title={proposal.title}",
            f"--description={proposal.body[:_MOST]}", "--yes",
        ]  # fmt: skip
    return None
