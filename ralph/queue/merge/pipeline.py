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
from ralph.core.reason import Cause, Reason
from ralph.core.text import exit_words, few
from ralph.git.command import GitKilled, git_output
from ralph.queue.goals import BatchGoal, MergeMode, front_matter_of
from ralph.queue.merge import trees
from ralph.queue.merge.vet import ENVRC, Findings, changes_envrc, secrets_on_the_way, vet
from ralph.queue.repos.mirror import Base, Mirror
from ralph.queue.repos.push import Accepted, Moved, Proposal, Rejected, propose, push
from ralph.queue.repos.remote import Unreachable
from ralph.system.files import make_private_directory, remove_tree
from ralph.system.leash import Leashed

ROUNDS = 8
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
class MergeContext:
    """What a merge needs from the worker."""

    check: Callable[[Path], CheckOutcome]
    """Runs `.ralph/setup`, if there is one, and the check in a clean checkout; both are the base's there."""
    interrupted: Callable[[], bool]
    pause: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Merged:
    """The work is where it should be; `why` says where that is."""

    commit: str
    why: Reason


@dataclass(frozen=True, slots=True)
class Nothing:
    """The branch changes nothing that the base (at `commit`) does not have."""

    commit: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The base has moved and conflicts with the work."""

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


def merge_work(job: MergeJob, context: MergeContext) -> Outcome:
    """Bring the branch's work to where its mode says.

    Only `direct` checks again: it alone changes the base. What the other modes hand over was proven by its run.
    """
    try:
        match job.mode:
            case MergeMode.DIRECT:
                return _merge_directly(job, context)
            case MergeMode.NONE:
                tip = _tip(job)
                return Merged(tip, Reason(cause=Cause.KEPT, branch=job.branch, place=str(job.mirror.path)))
            case MergeMode.BRANCH | MergeMode.PR:
                return _hand_over(job, context)
    except (Unreachable, GitKilled) as fault:
        return OutOfReach(fault.message)


def _merge_directly(job: MergeJob, context: MergeContext) -> Outcome:
    for turn in range(ROUNDS):
        if context.interrupted():
            return Stopped()
        job.mirror.refresh()
        base = job.mirror.base(job.branch)
        made = _squash(job, base)
        if isinstance(made, Nothing):
            return _prove_base(job, context, base) or made
        if not isinstance(made, _Squash):
            return made
        unproven = _prove(job, context, base, made)
        if unproven is not None:
            return unproven
        trees.require_same_tree(job.mirror.bare, made.tree, made.commit)
        match push(job.mirror, made.commit, base.branch, expected=base.tip):
            case Accepted():
                # Not if it has moved on already: a refresh by another goal may have been faster.
                job.mirror.bare.run("update-ref", f"refs/heads/{base.branch}", made.commit, base.tip)
                look_at = _worth_a_look(job, base, made.tree)
                return Merged(made.commit, Reason(cause=Cause.MERGED, branch=base.branch, paths=look_at))
            case Rejected(reason, by_rule, closed):
                hint = "; merge it yourself, or use --merge pr" if closed else ""
                return Refused(f"{reason}{hint}", by_rule)
            case Moved():
                context.pause(0.1 * turn)
    return Refused(f"the main branch of {job.mirror.upstream.shown} moved {ROUNDS} times during the check")


def merged_already(job: MergeJob) -> Merged | None:
    """The merge of this very run, if somebody has pushed it before."""
    job.mirror.refresh()
    base = job.mirror.base(job.branch)
    commit = trees.merged_commit(job.mirror.bare, base.tip, job.tip, job.run)
    return None if commit is None else Merged(commit, Reason(cause=Cause.MERGED_EARLIER, branch=base.branch))


@dataclass(frozen=True, slots=True)
class _Squash:
    """The branch's work as one commit on the tip of the base."""

    commit: str
    tree: str


def _squash(job: MergeJob, base: Base) -> _Squash | Outcome:
    bare, tip = job.mirror.bare, _tip(job)
    if (commit := trees.merged_commit(bare, base.tip, tip, job.run)) is not None:
        return Merged(commit, Reason(cause=Cause.MERGED_EARLIER, branch=base.branch))
    merged = trees.merge_trees(bare, *trees.on_common_ground(bare, job.mirror.taken(job.branch), base.tip, tip))
    if not merged.tree:
        return Refused(f"cannot merge {job.branch} to {base.branch}: {merged.log}")
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
        return Refused(f"it changes {files} in Git LFS, and ralph cannot push LFS content: merge it yourself")
    if found.submodules:
        paths = ", ".join(found.submodules)
        return Refused(
            f"it moves the submodule {paths}, and ralph cannot push a submodule's commits: merge it yourself"
        )
    return None


def _worth_a_look(job: MergeJob, base: Base, tree: str) -> tuple[str, ...]:
    """List what a person should look at in merged work, because it runs with that person's rights."""
    return (ENVRC,) if changes_envrc(job.mirror.bare, base.tip, tree) else ()


def _prove(job: MergeJob, context: MergeContext, base: Base, made: _Squash) -> Outcome | None:
    """Run the base's check on a clean checkout of the squash; None: it passed, and nobody wants us to end."""
    with clean_checkout(job.mirror, job.checkouts / f"{job.label}-{job.goal}", made.commit, made.tree) as checkout:
        if paths := _unlike_their_blobs(job.mirror, base, checkout):
            return Tampered(tuple(paths))
        before = trees.changed_files(job.mirror.bare, checkout, made.commit)  # by line ends, say
        outcome = context.check(checkout)
        after = trees.changed_files(job.mirror.bare, checkout, made.commit)
        # A check may write reports over committed files. What judges the work must be the same to the end.
        judges = trees.protected(job.mirror.bare, base.tip, trees.PROTECTED)
    if context.interrupted():
        return Stopped()
    if outcome.exit_code != 0:
        return Red(outcome.how or f"exit {outcome.exit_code}", outcome.output)
    if changed := [path for path in after if path not in before and path.startswith(judges)]:
        said = f"The check passed, but {few(changed, 5)} changed while it ran: it was not the base's check to the end."
        return Red("what judges the work was changed", said)
    return None


def _prove_base(job: MergeJob, context: MergeContext, base: Base) -> Outcome | None:
    """Run the check where the work changes nothing: a claim of DONE is judged all the same."""
    tree = job.mirror.bare.git("rev-parse", f"{base.tip}^{{tree}}").strip()
    return _prove(job, context, base, _Squash(base.tip, tree))


@contextlib.contextmanager
def clean_checkout(mirror: Mirror, checkout: Path, commit: str, tree: str) -> Generator[Path]:
    """Exactly the commit's files and nothing else: what an agent left beside them, ignored by git, is not here."""
    try:
        mirror.check_out(checkout, commit)
        found = git_output(checkout, "rev-parse", "HEAD^{tree}").strip()
        if found != tree:
            raise RepoError(f"{checkout} holds the tree {found} instead of {tree}")
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


def _hand_over(job: MergeJob, context: MergeContext) -> Outcome:
    """Push the branch itself, over nothing but what was pushed from here or is part of it."""
    mirror = job.mirror
    mirror.refresh()
    base, tip = mirror.base(job.branch), _tip(job)
    sides = trees.on_common_ground(mirror.bare, mirror.taken(job.branch), base.tip, tip)
    if sides != (base.tip, tip):
        return Refused(
            f"{base.branch} was rewritten, and {job.branch} still contains commits that were dropped from it"
        )
    merged = trees.merge_trees(mirror.bare, *sides)
    if not merged.conflicts and merged.tree == mirror.bare.git("rev-parse", f"{base.tip}^{{tree}}").strip():
        return _prove_base(job, context, base) or Nothing(base.tip)
    if paths := secrets_on_the_way(mirror.bare, base.tip, tip):
        return Refused(f"{job.branch} has commits with files that look like secrets: {', '.join(paths)}")
    if (objection := _objection(vet(mirror.bare, base.tip, tip))) is not None:
        return objection
    record = f"refs/ralph/pushed/{job.branch}"
    there = mirror.upstream.list(mirror.bare).heads.get(job.branch, "")
    known = not there or there == mirror.bare.commit_at(record) or mirror.bare.is_ancestor(there, tip)
    if not known:
        return Refused(
            f"{mirror.upstream.shown} already has a branch {job.branch} with other commits: rename or delete it"
        )
    if there != tip:
        match push(mirror, tip, job.branch, expected=there):
            case Accepted():
                pass
            case Rejected(reason, by_rule):
                return Refused(reason, by_rule)
            case Moved():
                return Refused(f"someone else just moved {job.branch} of {mirror.upstream.shown}")
    mirror.bare.git("update-ref", record, tip)
    proposed = ""
    if job.mode is MergeMode.PR:
        proposal = Proposal(mirror.upstream.url, job.branch, base.branch, trees.subject(job.title), job.done)
        proposed = propose(proposal, mirror.path)
    return Merged(tip, Reason(cause=Cause.PUSHED, branch=job.branch, detail=proposed))


def _tip(job: MergeJob) -> str:
    """The commit that was proven, wherever its branch is by now."""
    if job.mirror.bare.commit_at(job.tip) is None:
        raise RepoError(f"commit {job.tip or 'of this goal'} is missing in {job.mirror.path}", "add the goal again")
    return job.tip


def _message(job: MergeJob) -> str:
    trailers = {
        "Ralph-Goal": job.goal,
        "Ralph-Run": job.run,
        "Ralph-Attempts": str(job.attempts),
        "Ralph-Cost-USD": "unknown" if job.cost_usd is None else repr(round(job.cost_usd, 12)),
    }
    return trees.squash_message(job.title, job.done, trailers)


def check_flags(goal: BatchGoal) -> list[str]:
    """Return the flags of `ralph check` that a goal asks for."""
    command = goal.settings.get("check") or front_matter_of(goal.text, goal.path).get("check")
    return [*([f"--check={command}"] if command else []), *(["--trust-envrc"] if goal.trust_envrc else [])]


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
    return CheckOutcome(exit_code or 1, f"the {stage} failed: {how}:\n{said}", how)


def _ended(exit_code: object) -> str:
    """How the check itself has ended, in a word."""
    return exit_words(exit_code) if isinstance(exit_code, int) else "out of time"
