"""The way of a goal's work to the base branch: squashed onto its tip, checked as exactly that, pushed as a claim.

What is on the base has passed the base's own check on a clean checkout of the very tree that was pushed. One goal at a
time for each repository: the caller sees to that. Another's push in between is met by doing it all again.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import RepoError
from ralph.core.text import exit_words
from ralph.git.command import GitKilled, git_output
from ralph.queue.goals import MergeMode
from ralph.queue.merge import trees
from ralph.queue.merge.vet import ENVRC, Findings, changes_envrc, secrets_on_the_way, vet
from ralph.queue.repos.mirror import Base, Mirror
from ralph.queue.repos.push import Accepted, Moved, Proposal, Rejected, propose, push
from ralph.queue.repos.remote import Unreachable
from ralph.system.files import make_private_directory, remove_tree
from ralph.system.leash import Leashed

_ROUNDS = 8
"""How often the base may move under a check before the goal gives way."""

_SCRIPTS = (".ralph/setup", ".ralph/check")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What the check said; `exit_code` None: it was stopped, negative: what ran it was killed by a signal."""

    exit_code: int | None
    output: str
    how: str = ""
    """How it has ended, in a word."""


@dataclass(frozen=True, slots=True)
class MergeJob:
    """What is to be merged, and what its commit says."""

    mirror: Mirror
    branch: str
    tip: str
    """The branch's commit that was proven: what is merged is this one."""
    label: str
    goal: str
    title: str
    run: str
    attempts: int
    cost_usd: float | None
    """None: no agent has said."""
    done: str
    mode: MergeMode
    checkouts: Path
    """A directory for the clean checkout, which is gone again afterwards."""


@dataclass(frozen=True, slots=True)
class MergeKit:
    """What merging needs of others."""

    check: Callable[[Path], CheckOutcome]
    """Runs `.ralph/setup`, if there is one, and the check in a clean checkout; both are the base's there."""
    interrupted: Callable[[], bool]
    pause: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Merged:
    """It is where it should be; `how` says in a line where that is."""

    commit: str
    how: str
    mode: MergeMode = MergeMode.DIRECT


@dataclass(frozen=True, slots=True)
class Nothing:
    """The branch changes nothing that the base (at `commit`) does not have."""

    commit: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The base has moved so that both cannot be had."""

    paths: tuple[str, ...]
    log: str


@dataclass(frozen=True, slots=True)
class Red:
    """The check failed on the merged tree: how, in a word, and what it said."""

    how: str
    output: str


@dataclass(frozen=True, slots=True)
class Tampered:
    """The branch changes what judges it."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A conflict that was left in the files for the agent is there still: its check does not look at them."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sensitive:
    """The branch adds what looks like a secret."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The upstream repository does not take it: as it is (`by_rule`), or whatever it is."""

    reason: str
    by_rule: bool = False


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """The upstream repository is away: wait, and call again. Should a push have arrived, it is found then."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The user wants the program to end: nothing was pushed."""


Outcome = Merged | Nothing | Conflict | Red | Tampered | Unresolved | Sensitive | Refused | OutOfReach | Stopped


def merge_work(job: MergeJob, kit: MergeKit) -> Outcome:
    """Bring the branch's work to where its mode says.

    Only `direct` checks again: it alone changes the base. What the other modes hand over was proven by its run.
    """
    try:
        match job.mode:
            case MergeMode.DIRECT:
                return _merge_directly(job, kit)
            case MergeMode.NONE:
                tip = _tip(job)
                return Merged(tip, f"kept as {job.branch} in {job.mirror.path}", job.mode)
            case MergeMode.BRANCH | MergeMode.PR:
                return _hand_over(job)
    except (Unreachable, GitKilled) as fault:
        return OutOfReach(fault.message)


def _merge_directly(job: MergeJob, kit: MergeKit) -> Outcome:
    for turn in range(_ROUNDS):
        if kit.interrupted():
            return Stopped()
        job.mirror.refresh()
        base = job.mirror.base(job.branch)
        made = _squash(job, base)
        if not isinstance(made, _Squash):
            return made
        unproven = _prove(job, kit, base, made)
        if unproven is not None:
            return unproven
        trees.require_same_tree(job.mirror.bare, made.tree, made.commit)
        match push(job.mirror, made.commit, base.branch, expected=base.tip):
            case Accepted():
                # Not if it has moved on already: a refresh by another goal may have been faster.
                job.mirror.bare.run("update-ref", f"refs/heads/{base.branch}", made.commit, base.tip)
                return Merged(made.commit, f"merged to {base.branch}{_worth_a_look(job, base, made.tree)}")
            case Rejected(reason, by_rule, closed):
                hint = "; merge it yourself, or use --merge pr" if closed else ""
                return Refused(f"{reason}{hint}", by_rule)
            case Moved():
                kit.pause(0.1 * turn)
    return Refused(f"the base of {job.mirror.upstream.shown} moved {_ROUNDS} times while the work was checked")


def landed_already(job: MergeJob) -> Merged | None:
    "The merge of this very run, if somebody has pushed it before."
    job.mirror.refresh()
    base = job.mirror.base(job.branch)
    commit = trees.landed(job.mirror.bare, base.tip, job.tip, job.run)
    return None if commit is None else Merged(commit, f"was merged to {base.branch} already")


@dataclass(frozen=True, slots=True)
class _Squash:
    """The branch's work as one commit on the tip of the base."""

    commit: str
    tree: str


def _squash(job: MergeJob, base: Base) -> _Squash | Outcome:
    bare, tip = job.mirror.bare, _tip(job)
    if (commit := trees.landed(bare, base.tip, tip, job.run)) is not None:
        return Merged(commit, f"was merged to {base.branch} already")
    merged = trees.merge_trees(bare, *trees.on_common_ground(bare, job.mirror.taken(job.branch), base.tip, tip))
    if not merged.tree:
        return Refused(f"{job.branch} cannot be merged to {base.branch}: {merged.log}")
    if merged.conflicts:
        return Conflict(merged.conflicts, merged.log)
    tree = trees.without_windows(bare, base.tip, merged.tree)
    if tree == bare.git("rev-parse", f"{base.tip}^{{tree}}").strip():
        return Nothing(base.tip)
    if paths := trees.tampered(bare, base.tip, tree):
        return Tampered(tuple(paths))
    if (objection := _objection(vet(bare, base.tip, tree))) is not None:
        return objection
    identity = job.mirror.upstream.identity(bare)
    return _Squash(trees.commit(bare, tree, (base.tip,), _message(job), identity), tree)


def _objection(found: Findings) -> Unresolved | Sensitive | Refused | None:
    """Why work must not leave this machine."""
    if found.unresolved:
        return Unresolved(found.unresolved)
    if found.secret:
        return Sensitive(found.secret)
    if found.elsewhere:
        files = ", ".join(found.elsewhere)
        return Refused(f"it changes {files} by Git LFS, whose content no push of ours takes along: merge it yourself")
    if found.submodules:
        paths = ", ".join(found.submodules)
        return Refused(f"it moves the submodule {paths}, whose commits no push of ours takes along: merge it yourself")
    return None


def _worth_a_look(job: MergeJob, base: Base, tree: str) -> str:
    """What a user should know of work that was merged while nobody looked."""
    return (
        f"; it changes {ENVRC}: read that before you trust it" if changes_envrc(job.mirror.bare, base.tip, tree) else ""
    )


def _prove(job: MergeJob, kit: MergeKit, base: Base, made: _Squash) -> Outcome | None:
    """Run the base's check on a clean checkout of the squash; None: it passed, and nobody wants us to end."""
    with _clean_checkout(job, made) as checkout:
        if paths := _unlike_their_blobs(job.mirror, base, checkout):
            return Tampered(tuple(paths))
        outcome = kit.check(checkout)
    if kit.interrupted():
        return Stopped()
    if outcome.exit_code != 0:
        return Red(outcome.how or f"exit {outcome.exit_code}", outcome.output)
    return None


@contextlib.contextmanager
def _clean_checkout(job: MergeJob, made: _Squash) -> Generator[Path]:
    """Exactly the squash's files and nothing else: what an agent left beside them, ignored by git, is not here."""
    checkout = job.checkouts / f"{job.label}-{job.goal}"
    try:
        job.mirror.check_out(checkout, made.commit)
        found = git_output(checkout, "rev-parse", "HEAD^{tree}").strip()
        if found != made.tree:
            raise RepoError(f"{checkout} holds the tree {found} instead of {made.tree}")
        yield checkout
    finally:
        remove_tree(checkout)


def _unlike_their_blobs(mirror: Mirror, base: Base, checkout: Path) -> list[str]:
    """Name the scripts whose text in the checkout is not, to the byte, the base's: attributes can rewrite a file."""
    paths = trees.protected(mirror.bare, base.tip, _SCRIPTS)
    regular = {path: entry for path, entry in trees.entries(mirror.bare, base.tip, paths).items() if entry[:2] == "10"}
    changed: list[str] = []
    for path, entry in regular.items():  # no attribute rewrites a link, and hash-object would follow it
        if (checkout / path).is_file():
            there = git_output(checkout, "hash-object", "--no-filters", "--", path)
            if there.strip() != entry.split()[2]:
                changed.append(path)
    return changed


def _hand_over(job: MergeJob) -> Outcome:
    """Push the branch itself, over nothing but what was pushed from here or is part of it."""
    mirror = job.mirror
    mirror.refresh()
    base, tip = mirror.base(job.branch), _tip(job)
    sides = trees.on_common_ground(mirror.bare, mirror.taken(job.branch), base.tip, tip)
    if sides != (base.tip, tip):
        return Refused(f"{base.branch} was rewritten since, and {job.branch} still holds what was dropped from it")
    merged = trees.merge_trees(mirror.bare, *sides)
    if not merged.conflicts and merged.tree == mirror.bare.git("rev-parse", f"{base.tip}^{{tree}}").strip():
        return Nothing(base.tip)
    if paths := secrets_on_the_way(mirror.bare, base.tip, tip):
        return Refused(f"{job.branch} has commits with what looks like a secret: {', '.join(paths)}")
    if (objection := _objection(vet(mirror.bare, base.tip, tip))) is not None:
        return objection
    record = f"refs/ralph/pushed/{job.branch}"
    there = mirror.upstream.list(mirror.bare).heads.get(job.branch, "")
    known = not there or there == mirror.bare.commit_at(record) or mirror.bare.is_ancestor(there, tip)
    if not known:
        return Refused(
            f"{job.branch} of {mirror.upstream.shown} has commits that are not from here: rename or delete it"
        )
    if there != tip:
        match push(mirror, tip, job.branch, expected=there):
            case Accepted():
                pass
            case Rejected(reason, by_rule):
                return Refused(reason, by_rule)
            case Moved():
                return Refused(f"{job.branch} of {mirror.upstream.shown} was moved by somebody else just now")
    mirror.bare.git("update-ref", record, tip)
    how = f"pushed as {job.branch}"
    if job.mode is MergeMode.PR:
        proposal = Proposal(mirror.upstream.url, job.branch, base.branch, trees.subject(job.title), job.done)
        how += f"; {propose(proposal, mirror.path)}"
    return Merged(tip, how, job.mode)


def _tip(job: MergeJob) -> str:
    """The commit that was proven, wherever its branch is by now."""
    if job.mirror.bare.commit_at(job.tip) is None:
        raise RepoError(f"{job.mirror.path} has no commit {job.tip or 'of this goal'} any more", "add the goal again")
    return job.tip


def _message(job: MergeJob) -> str:
    trailers = {
        "Ralph-Goal": job.goal,
        "Ralph-Run": job.run,
        "Ralph-Attempts": str(job.attempts),
        "Ralph-Cost-USD": "unknown" if job.cost_usd is None else repr(round(job.cost_usd, 12)),
    }
    return trees.squash_message(job.title, job.done, trailers)


def check_checkout(
    checkout: Path,
    *,
    flags: Sequence[str],
    env: Mapping[str, str],
    complaints: Path,
    stop_requests: Callable[[], int],
) -> CheckOutcome:
    """Run the repository's check in a checkout, its setup first."""
    make_private_directory(complaints.parent)
    report: Mapping[str, object] = {}
    argv = [sys.executable, "-P", "-m", "ralph", "check", "--json", *flags]
    with Leashed(argv, cwd=checkout, environment=env, stderr_log=complaints) as child:
        for line in child.lines(stop_requests):
            with contextlib.suppress(ndjson.Malformed, UnicodeDecodeError):
                report = ndjson.mapping(ndjson.decode(line.decode("utf-8")))
        exit_code = child.exit_code
    if stop_requests():
        return CheckOutcome(None, "stopped")
    if exit_code == 0 and report.get("exit_code") == 0:
        return CheckOutcome(0, ndjson.text(report.get("output")))
    if exit_code is not None and exit_code < 0:
        return CheckOutcome(exit_code, exit_words(exit_code))
    said = ndjson.text(report.get("output")) or complaints.read_text("utf-8", "replace")[-4000:]
    stage = ndjson.text(report.get("stage")) or "check"
    how = _ended(report.get("exit_code", exit_code))
    return CheckOutcome(exit_code or 1, f"the {stage} is red: {how}:\n{said}", how)


def _ended(exit_code: object) -> str:
    """How the check itself has ended, in a word."""
    return exit_words(exit_code) if isinstance(exit_code, int) else "out of time"
