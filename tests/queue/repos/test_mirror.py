"""The mirror and the clones made from it, on real repositories."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ralph.core.errors import RepoError, UsageError
from ralph.core.progress import TaskProgress
from ralph.git.repo import open_repo
from ralph.queue.clone import uncommitted
from ralph.queue.discard import discard
from ralph.queue.merge.trees import bring_up_to_date
from ralph.queue.repos.mirror import Mirror, open_mirror
from ralph.queue.repos.remote import Unreachable
from ralph.state.project import EXCLUDES
from tests.support.git_repos import commit_all, git, make_repo
from tests.support.upstreams import brake, git_daemon, make_upstream, outsider, refreshed, work
from tests.support.waiting import wait_until

BRANCH = "ralph/speed"


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return make_upstream(tmp_path / "up.git", {"a.txt": "one\ntwo\nthree\n"})


@pytest.fixture
def mirror(world: Path, upstream: Path) -> Mirror:
    return refreshed(world, upstream)


@pytest.fixture
def clone(mirror: Mirror, tmp_path: Path) -> Path:
    path = tmp_path / "clones" / "1-speed"
    mirror.clone(path, BRANCH)
    return path


def refs(mirror: Mirror, pattern: str = "refs") -> dict[str, str]:
    out = git(mirror.path, "for-each-ref", "--format=%(refname) %(objectname)", pattern)
    return dict(line.split(" ") for line in out.splitlines())


# Where it stands


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://user:secret@example.org/owner/repo.git", "example.org/owner/repo.git"),
        ("git@example.org:owner/repo", "example.org/owner/repo.git"),
        ("ssh://git@example.org:2222/owner/repo.git/", "example.org-2222/owner/repo.git"),
        ("git://127.0.0.1:9418/repo", "127.0.0.1-9418/repo.git"),
        ("https://example.org/a/b/c", "example.org/a/b/c.git"),
    ],
)
def test_each_upstream_has_its_place(tmp_path: Path, url: str, path: str) -> None:
    assert open_mirror(tmp_path, url).path == tmp_path / "mirrors" / path
    assert not (tmp_path / "mirrors").exists()


def test_two_paths_of_one_name_are_two_places(tmp_path: Path) -> None:
    one, two = (open_mirror(tmp_path, str(tmp_path / name / "repo")).path for name in "ab")
    assert one != two
    assert one.parent == tmp_path / "mirrors" / "local"
    assert one.name.startswith("repo-")


def test_what_names_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a repository"):
        open_mirror(tmp_path, "https://example.org/")


# Refreshing


def test_a_mirror_has_the_branches_and_tags_and_the_base(mirror: Mirror, upstream: Path) -> None:
    git(upstream, "tag", "v1", "main")
    git(upstream, "branch", "side", "main")
    git(upstream, "branch", "ralph/theirs", "main")
    tip = outsider(upstream, {"b.txt": "b"})
    mirror.refresh()
    assert set(refs(mirror)) == {"refs/heads/main", "refs/heads/side", "refs/tags/v1"}
    assert (mirror.base().branch, mirror.base().tip) == ("main", tip)
    assert (mirror.path.parent.stat().st_mode & 0o777) == 0o700


def test_the_address_is_not_written_down(world: Path, upstream: Path) -> None:
    mirror = refreshed(world, f"file://{upstream}")
    mirror.clone(world / "clone", BRANCH)
    for root in (mirror.path, world / "clone"):
        texts = [file.read_bytes() for file in root.rglob("*") if file.is_file()]
        assert not any(str(upstream).encode() in text for text in texts)


def test_another_default_branch_is_followed(mirror: Mirror, upstream: Path) -> None:
    git(upstream, "branch", "--move", "main", "trunk")
    git(upstream, "symbolic-ref", "HEAD", "refs/heads/trunk")
    mirror.refresh()
    assert mirror.base().branch == "trunk"
    assert "refs/heads/main" not in refs(mirror)


def test_a_head_that_names_no_branch_leaves_the_base_as_it_was(world: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", {"a": "b"})
    git(repo, "branch", "other")
    mirror = refreshed(world, repo)
    git(repo, "checkout", "--quiet", "--detach")
    mirror.refresh()
    assert mirror.base().branch == "main"


def test_a_goal_keeps_the_base_it_was_begun_from(world: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", {"a": "b"})
    mirror = refreshed(world, repo)
    mirror.clone(tmp_path / "clone", BRANCH)
    git(repo, "switch", "--quiet", "--create", "users-work")
    mirror.refresh()
    assert mirror.base().branch == "users-work"
    assert mirror.base(BRANCH).branch == "main"


def test_a_repository_without_any_commit_is_a_clear_fault(world: Path, tmp_path: Path) -> None:
    mirror = refreshed(world, make_repo(tmp_path / "new", commit=False))
    with pytest.raises(RepoError, match="has no commits yet"):
        mirror.base()


def test_a_branch_in_the_way_of_another_is_no_fault(mirror: Mirror, upstream: Path) -> None:
    git(upstream, "branch", "a", "main")
    mirror.refresh()
    git(upstream, "branch", "--delete", "--force", "a")
    git(upstream, "branch", "a/b", "main")
    mirror.refresh()
    assert "refs/heads/a/b" in refs(mirror)


def test_a_missing_repository_is_away(world: Path, upstream: Path, mirror: Mirror) -> None:
    upstream.rename(upstream.with_name("moved"))
    with pytest.raises(Unreachable, match="not a directory"):
        mirror.refresh()
    upstream.with_name("moved").rename(upstream)
    mirror.refresh()


def test_a_server_that_is_down_is_away_and_comes_back(world: Path, tmp_path: Path, upstream: Path) -> None:
    with git_daemon(tmp_path) as daemon:
        mirror = refreshed(world, daemon.url("up.git"))
        daemon.stop()
        with pytest.raises(Unreachable, match="cannot list the branches of git://127"):
            mirror.refresh()
        tip = outsider(upstream, {"b.txt": "b"})
        daemon.start()
        mirror.refresh()
        assert mirror.base().tip == tip
        with pytest.raises(Unreachable):
            refreshed(world, daemon.url("none.git"))


def test_a_password_is_never_shown(world: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        refreshed(world, "http://user:sesame@127.0.0.1:1/owner/repo.git")
    assert "sesame" not in caught.value.message + caught.value.hint
    assert "127.0.0.1:1/owner/repo.git" in caught.value.message


def test_a_lock_of_a_killed_git_is_removed(mirror: Mirror, upstream: Path) -> None:
    (mirror.path / "refs" / "heads" / "main.lock").touch()
    tip = outsider(upstream, {"b.txt": "b"})
    mirror.refresh()
    assert mirror.base().tip == tip


def test_a_goal_that_begins_meanwhile_does_not_disturb_a_fetch(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    mirror.clone(tmp_path / "clone", "topic")
    base = mirror.path / "refs" / "ralph" / "base"
    assert (base / "topic").is_file()
    (base / "other.lock").touch()  # git makes it just before the ref
    git(upstream, "branch", "topic", "main")
    git(upstream, "branch", "other", "main")
    mirror.refresh()
    assert {"refs/heads/main", "refs/heads/other"} <= refs(mirror, "refs/heads").keys()
    assert "refs/heads/topic" not in refs(mirror), "that is the goal's own branch, not theirs"


def test_many_may_refresh_at_once(world: Path, upstream: Path) -> None:
    program = "import sys; from pathlib import Path; from ralph.queue.repos.mirror import open_mirror\n"
    program += "open_mirror(Path(sys.argv[1]), sys.argv[2]).refresh()"
    argv = [sys.executable, "-c", program, str(world / "ralph"), str(upstream)]
    others = [subprocess.Popen(argv, stderr=subprocess.PIPE) for _ in range(3)]
    faults: list[BaseException] = []

    def refresh() -> None:
        try:
            refreshed(world, upstream)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=refresh) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.communicate()[1] for other in others] == [b""] * 3
    assert faults == []
    assert open_mirror(world / "ralph", str(upstream)).base().branch == "main"


def test_a_branch_called_ralph_is_in_nobodys_way(mirror: Mirror, upstream: Path, clone: Path) -> None:
    work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    git(upstream, "branch", "ralph", "main")
    tip = outsider(upstream, {"c.txt": "c"})
    mirror.refresh()
    assert mirror.base().tip == tip


def test_a_goals_branch_may_have_any_name(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    branch = "feature/own"
    mirror.clone(tmp_path / branch, branch)
    tip = work(tmp_path / branch, {"b.txt": branch})
    mirror.save(tmp_path / branch, branch, None)
    git(upstream, "branch", branch, "main")
    mirror.refresh()
    assert refs(mirror)[f"refs/heads/{branch}"] == tip
    shutil.rmtree(tmp_path / branch)
    mirror.clone(tmp_path / branch, branch)
    assert git(tmp_path / branch, "rev-parse", "HEAD") == tip, "it is taken up where it was"
    with pytest.raises(RepoError, match="cannot work on main: it is the branch to merge to"):
        mirror.clone(tmp_path / "main", "main")


def test_a_branch_of_the_upstreams_own_is_no_goals(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    """All that is on it would be the goal's work, and be merged with that."""
    outsider(upstream, {"theirs.txt": "t"}, branch="main")
    git(upstream, "branch", "develop", "main")
    mirror.refresh()
    with pytest.raises(UsageError, match=r"cannot work on develop: .* already has that branch"):
        mirror.clone(tmp_path / "clone", "develop")
    assert not (tmp_path / "clone").exists()
    mirror.refresh()
    assert "refs/heads/develop" in refs(mirror), "it is still theirs"


# Clones


def test_a_clone_is_new_from_the_base(mirror: Mirror, clone: Path) -> None:
    assert git(clone, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert git(clone, "rev-parse", "HEAD") == mirror.base().tip
    assert git(clone, "config", "remote.origin.url") == str(mirror.path)
    assert git(clone, "status", "--porcelain") == ""
    assert (clone / ".git" / "objects" / "info" / "alternates").read_text().strip() == str(mirror.path / "objects")
    assert list(clone.parent.iterdir()) == [clone]


def test_an_agent_cannot_push_to_the_mirror(mirror: Mirror, clone: Path) -> None:
    work(clone, {"b.txt": "b"})
    before = refs(mirror)
    for target in ("main", "evil", BRANCH):
        pushed = subprocess.run(["git", "push", "origin", f"HEAD:{target}"], cwd=clone, capture_output=True, text=True)
        assert pushed.returncode != 0
        assert "hidden ref" in pushed.stderr
    assert refs(mirror) == before


def test_a_branch_is_continued_where_it_was_left(mirror: Mirror, clone: Path, tmp_path: Path) -> None:
    tip = work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    mirror.clone(tmp_path / "again", BRANCH)
    assert git(tmp_path / "again", "rev-parse", BRANCH) == git(tmp_path / "again", "rev-parse", "HEAD") == tip


def test_what_a_killed_process_left_half_made_is_replaced(mirror: Mirror, tmp_path: Path) -> None:
    half = tmp_path / "clones" / ".1-speed.new"
    half.mkdir(parents=True)
    (half / "half").touch()
    mirror.clone(tmp_path / "clones" / "1-speed", BRANCH)
    assert [path.name for path in (tmp_path / "clones").iterdir()] == ["1-speed"]


def test_a_sound_clone_is_taken_up_as_it_is(mirror: Mirror, clone: Path) -> None:
    (clone / "half").write_text("done")
    mirror.clone(clone, BRANCH)
    assert (clone / "half").read_text() == "done"
    assert list(clone.parent.iterdir()) == [clone]


def _no_git(clone: Path) -> None:
    shutil.rmtree(clone / ".git")


def _no_head(clone: Path) -> None:
    (clone / ".git" / "HEAD").write_text("nonsense")


def _no_index(clone: Path) -> None:
    (clone / ".git" / "index").write_bytes(b"nonsense")


def _no_objects(clone: Path) -> None:
    shutil.rmtree(clone / ".git" / "objects")


def _other_branch(clone: Path) -> None:
    git(clone, "switch", "--quiet", "--create", "elsewhere")


def _a_file(clone: Path) -> None:
    shutil.rmtree(clone)
    clone.write_text("no directory")


def test_submodules_beside_the_upstream_repository_are_found(world: Path, tmp_path: Path) -> None:
    make_repo(tmp_path / "lib", {"lib.c": "int x;"})
    app = make_repo(tmp_path / "app", {"a.txt": "a"})
    allowed = ("-c", "protocol.file.allow=always", "submodule")
    git(app, *allowed, "--quiet", "add", "../lib", "vendor/lib")
    git(app, *allowed, "--quiet", "add", str(tmp_path / "lib"), "other")
    commit_all(app, "submodules")
    mirror = refreshed(world, app)
    mirror.clone(tmp_path / "clone", BRANCH)
    mirror.check_out(tmp_path / "checkout", mirror.base().tip)
    for place in (tmp_path / "clone", tmp_path / "checkout"):
        assert git(place, "config", "--get-regexp", "submodule") == f"submodule.vendor/lib.url {tmp_path / 'lib'}"
        git(place, *allowed, "--quiet", "update", "--init")
        assert (place / "vendor" / "lib" / "lib.c").read_text() == "int x;"


def test_a_git_that_is_killed_says_nothing_of_a_clone(
    mirror: Mirror, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(clone, {"c.txt": "not saved"})
    dying = tmp_path / "dying" / "git"
    dying.parent.mkdir()
    dying.write_text(
        f'#!/bin/sh\n[ "$(wc -l < {tmp_path}/asked)" -ge 2 ] || {{ echo >> {tmp_path}/asked; kill -9 $$; }}\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    dying.chmod(0o755)
    (tmp_path / "asked").touch()
    monkeypatch.setenv("PATH", str(dying.parent), prepend=os.pathsep)

    mirror.clone(clone, BRANCH)

    assert (tmp_path / "asked").read_text() == "\n\n"
    assert (clone / "c.txt").read_text() == "not saved"
    assert not clone.with_name(f"{clone.name}.broken-1").exists()


@pytest.mark.parametrize("break_it", [_no_git, _no_head, _no_index, _no_objects, _other_branch, _a_file])
def test_a_broken_clone_is_moved_aside_and_made_anew(mirror: Mirror, clone: Path, break_it: object) -> None:
    tip = work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    work(clone, {"c.txt": "not saved"})
    assert callable(break_it)
    break_it(clone)
    mirror.clone(clone, BRANCH)
    assert git(clone, "rev-parse", "HEAD") == tip
    assert git(clone, "status", "--porcelain") == ""
    aside = clone.with_name(f"{clone.name}.broken-1")
    assert aside.is_file() or (aside / "c.txt").read_text() == "not saved"


def test_a_clone_of_another_repository_is_moved_aside(mirror: Mirror, world: Path, tmp_path: Path, clone: Path) -> None:
    other = refreshed(world, make_upstream(tmp_path / "other.git", {"other.txt": "o"}))
    work(clone, {"b.txt": "b"})
    other.clone(clone, BRANCH)
    assert (clone / "other.txt").exists()
    assert (clone.with_name(f"{clone.name}.broken-1") / "b.txt").exists()


@pytest.mark.parametrize("lost", ["origin", "alternates"])
def test_a_clone_that_names_its_mirror_once_will_do(mirror: Mirror, clone: Path, lost: str) -> None:
    if lost == "origin":
        git(clone, "remote", "remove", "origin")
    else:
        git(clone, "repack", "-a", "-d", "--quiet")
        (clone / ".git" / "objects" / "info" / "alternates").unlink()
    mirror.clone(clone, BRANCH)
    assert list(clone.parent.iterdir()) == [clone]


@pytest.mark.parametrize("link", [False, True])
def test_files_that_are_not_the_clones_are_left_alone(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, link: bool
) -> None:
    home = make_repo(tmp_path / "home", {"mine.txt": "mine"})
    outsider(upstream, {"c.txt": "c"})
    mirror.refresh()
    tip = work(clone, {"b.txt": "b"})
    if link:
        (clone / ".git").rename(home / "theirs.git")
        (clone / ".git").symlink_to(home / "theirs.git")
    else:
        git(clone, "config", "core.worktree", str(home))
    updated = bring_up_to_date(mirror, clone, BRANCH)
    assert not (home / "c.txt").exists()
    assert (updated.tip == tip) is link
    mirror.clone(clone, BRANCH)
    assert clone.with_name(f"{clone.name}.broken-1").exists()


def test_clones_survive_what_upstream_does_to_its_history(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    git(upstream, "branch", "side", "main")
    outsider(upstream, {"s.txt": "s"}, branch="side")
    tip = outsider(upstream, {"b.txt": "b"})
    mirror.refresh()
    clone = tmp_path / "clone"
    mirror.clone(clone, BRANCH)
    first = git(upstream, "rev-parse", "main^")
    git(upstream, "update-ref", "refs/heads/main", first)
    git(upstream, "branch", "--delete", "--force", "side")
    git(upstream, "reflog", "expire", "--all", "--expire=now")
    git(upstream, "gc", "--quiet", "--prune=now")
    mirror.refresh()
    git(mirror.path, "gc", "--quiet")
    assert mirror.base().tip == first
    assert git(clone, "rev-parse", "HEAD") == tip
    git(clone, "fsck", "--full", "--strict")


# Saving


def test_saving_keeps_the_branch_and_the_attempt(mirror: Mirror, clone: Path) -> None:
    tip = work(clone, {"b.txt": "b"})
    assert mirror.save(clone, BRANCH, "speed-1/1") == tip
    assert refs(mirror)[f"refs/heads/{BRANCH}"] == refs(mirror)["refs/ralph/attempts/speed-1/1"] == tip
    mirror.refresh()
    assert refs(mirror)[f"refs/heads/{BRANCH}"] == tip


def test_saving_never_loses_what_was_saved(mirror: Mirror, clone: Path) -> None:
    old = work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, "speed-1/1")
    git(clone, "reset", "--quiet", "--hard", "HEAD^")
    new = work(clone, {"c.txt": "c"})
    assert mirror.save(clone, BRANCH, "speed-1/1") == new
    assert refs(mirror, "refs/ralph/lost") == {f"refs/ralph/lost/{BRANCH}/{old[:12]}": old}
    assert refs(mirror)["refs/ralph/attempts/speed-1/1"] == new


@pytest.mark.parametrize("break_it", [_no_git, _no_objects])
def test_a_broken_clone_saves_nothing_and_harms_nothing(mirror: Mirror, clone: Path, break_it: object) -> None:
    tip = work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    assert callable(break_it)
    break_it(clone)
    assert mirror.save(clone, BRANCH, None) is None
    assert refs(mirror)[f"refs/heads/{BRANCH}"] == tip


def test_a_clone_that_was_made_shallow_does_not_make_the_mirror_so(mirror: Mirror, upstream: Path, clone: Path) -> None:
    before = work(clone, {"b.txt": "b"})
    mirror.save(clone, BRANCH, None)
    work(clone, {"c.txt": "c"})
    tip = work(clone, {"c.txt": "b"})
    (clone / ".git" / "shallow").write_text(f"{tip}\n")
    saved = mirror.save(clone, BRANCH, None)
    assert not (mirror.path / "shallow").exists()
    assert saved is None
    assert refs(mirror)[f"refs/heads/{BRANCH}"] == before
    assert "history" in discard(mirror, clone, BRANCH)
    assert clone.exists()


@pytest.mark.parametrize("rewound", [False, True])
def test_what_is_saved_is_never_an_older_commit(mirror: Mirror, clone: Path, rewound: bool) -> None:
    first = work(clone, {"b.txt": "b"})
    last = work(clone, {"b.txt": "c"})
    assert mirror.save(clone, BRANCH, None) == mirror.tip(BRANCH) == last
    if rewound:
        git(clone, "reset", "--quiet", "--hard", first)
    else:
        last = work(clone, {"b.txt": "d"})
        (clone / ".git" / "shallow").write_text(git(clone, "rev-parse", "HEAD^") + "\n")  # which the mirror has
    assert mirror.save(clone, BRANCH, "speed-1/1") == git(clone, "rev-parse", "HEAD")
    assert mirror.save(clone, BRANCH, "speed-1/2") == mirror.tip(BRANCH)
    assert refs(mirror)["refs/ralph/attempts/speed-1/2"] == git(clone, "rev-parse", "HEAD")
    git(mirror.path, "rev-list", "--objects", "--all")
    assert not (mirror.path / "shallow").exists()


def plant(clone: Path, ran: Path) -> None:
    """Have everything in a clone that can name a program name one that leaves a trace."""
    trap = clone.parent / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\nexec cat\n")
    trap.chmod(0o755)
    hooks = clone / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "reference-transaction", "post-checkout", "post-index-change", "pre-push", "post-merge",
                 "fsmonitor-watchman", "pre-receive", "update", "post-rewrite"):  # fmt: skip
        shutil.copy(trap, hooks / name)
    settings = {
        "core.fsmonitor": trap, "core.hooksPath": hooks, "filter.evil.clean": trap, "filter.evil.smudge": trap,
        "filter.evil.process": trap, "merge.evil.driver": trap, "diff.external": trap, "diff.evil.textconv": trap,
        "uploadpack.packObjectsHook": trap, "core.sshCommand": trap, "core.pager": trap, "gpg.program": trap,
        "core.alternateRefsCommand": trap, "remote.origin.uploadpack": trap, "remote.origin.receivepack": trap,
        "remote.origin.promisor": "true", "extensions.partialClone": "origin", "core.askPass": trap,
        "credential.helper": trap, "core.editor": trap, "protocol.ext.allow": "always",
        "core.repositoryFormatVersion": "1",
    }  # fmt: skip
    for name, value in settings.items():
        with (clone / ".git" / "config").open("a") as file:
            section, _, key = name.rpartition(".")
            head, _, sub = section.partition(".")
            file.write(f'[{head} "{sub}"]\n\t{key} = {value}\n' if sub else f"[{head}]\n\t{key} = {value}\n")
    (clone / ".git" / "info" / "attributes").write_text("* filter=evil merge=evil diff=evil\n")
    subprocess.run(["git", "status"], cwd=clone, capture_output=True)
    assert ran.exists(), "the trap is not set"
    ran.unlink()


def test_nothing_that_an_agent_planted_runs(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    work(clone, {"b.txt": "b", ".gitattributes": "* filter=evil merge=evil diff=evil\n", "a.txt": "four\n"})
    outsider(upstream, {"a.txt": "five\n", "new.txt": "new"})
    mirror.refresh()
    plant(clone, ran)
    (clone / "b.txt").touch()
    assert (tip := mirror.save(clone, BRANCH, "speed-1/1"))
    assert bring_up_to_date(mirror, clone, BRANCH).tip != tip
    (clone / "b.txt").touch()
    assert mirror.save(clone, BRANCH, "speed-1/1")
    mirror.clone(clone, BRANCH)
    assert discard(mirror, clone, BRANCH) == ""
    assert not ran.exists(), ran.read_text()


def test_a_clone_that_pretends_to_be_partial_calls_nothing(mirror: Mirror, clone: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    tip = work(clone, {"b.txt": "b"})
    blob = git(clone, "rev-parse", f"{tip}:b.txt")
    (clone / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    plant(clone, ran)
    assert mirror.save(clone, BRANCH, None) is None
    assert discard(mirror, clone, BRANCH) != ""
    assert not ran.exists(), ran.read_text()


@pytest.mark.parametrize("lacking", ["tree", "alternates"])
def test_a_clone_that_is_taken_up_fetches_nothing_that_it_lacks(
    mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path, lacking: str
) -> None:
    ran = tmp_path / "ran"
    tip = work(clone, {"b.txt": "b"})
    outsider(upstream, {"c.txt": "c"})
    mirror.refresh()
    plant(clone, ran)
    (clone.parent / "trap").write_text(f"#!/bin/sh\necho $0 $* >> {ran}\nexit 1\n")  # a fetch would wait for cat
    if lacking == "tree":
        tree = git(mirror.path, "-C", str(clone), "rev-parse", f"{tip}^{{tree}}")
        (clone / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
        ran.unlink(missing_ok=True)
        mirror.clone(clone, BRANCH)
        assert clone.with_name(f"{clone.name}.broken-1").exists()
    else:
        git(tmp_path, f"--git-dir={clone}/.git", "-c", "core.fsmonitor=", "repack", "-a", "-d", "--quiet")
        (clone / ".git" / "objects" / "info" / "alternates").unlink()
        ran.unlink(missing_ok=True)
        updated = bring_up_to_date(mirror, clone, BRANCH)  # the merge commit is the mirror's alone
        assert updated.tip == tip
        assert "shares" in updated.in_the_way
        assert not (clone / "c.txt").exists()
    assert not ran.exists(), ran.read_text()


def test_a_repository_within_a_commit_has_no_say(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    inner = make_repo(clone / "inner", {"x.txt": "x", ".gitattributes": "* filter=evil\n"})
    tip = work(clone, {"b.txt": "b"})
    outsider(upstream, {"c.txt": "c"})
    mirror.refresh()
    plant(inner, ran)
    os.utime(inner / "x.txt", (1, 1))
    mirror.clone(clone, BRANCH)
    assert bring_up_to_date(mirror, clone, BRANCH).tip != tip
    assert uncommitted(mirror, clone, mirror.tip(BRANCH) or "") == ["trap"]  # where `plant` leaves it
    assert discard(mirror, clone, BRANCH) != ""
    assert not ran.exists(), ran.read_text()


def test_a_clone_that_git_would_wait_for_is_given_up(mirror: Mirror, clone: Path) -> None:
    (clone / ".git" / "config").unlink()
    os.mkfifo(clone / ".git" / "config")
    status, _, said = mirror.bare.run("ls-remote", "--", str(clone), limit=1)
    assert (status, said) == (128, "git did not answer within 1 s")  # and no process is left: the guard would tell


# Progress


def test_a_fetch_reports_how_far_it_is(tmp_path: Path) -> None:
    data = random.Random(0).randbytes(1_000_000)
    make_upstream(tmp_path / "up.git", {f"{number}.hex": data[number::50].hex() for number in range(50)})
    reports: list[TaskProgress] = []
    with git_daemon(tmp_path) as daemon, brake(daemon.port, 30_000) as slow:
        mirror = open_mirror(tmp_path / "ralph", slow.url("up.git"))

        def report(progress: TaskProgress) -> None:
            reports.append(progress)
            if progress.step == "receiving" and progress.detail:
                slow.release()

        mirror.refresh(report)
    (received, *_) = [each for each in reports if each.step == "receiving"]
    assert received.total is not None
    assert received.total > 50
    assert [each for each in reports if "iB/s" in each.detail]
    assert mirror.is_usable


def test_a_checkout_reports_how_far_it_is(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    outsider(upstream, {f"{number}.txt": "x" for number in range(500)})
    mirror.refresh()
    reports: list[TaskProgress] = []
    mirror.clone(tmp_path / "clone", BRANCH, reports.append)
    assert reports
    assert (tmp_path / "clone" / "499.txt").exists()


def test_a_mirror_that_is_in_use_names_the_process_that_is_waited_for(mirror: Mirror) -> None:
    program = (
        "import sys; from pathlib import Path; from ralph.queue.repos.remote import Bare\n"
        "with Bare(Path(sys.argv[1])).turn(): print(flush=True); input()"
    )
    argv = [sys.executable, "-c", program, mirror.path]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        reports: list[TaskProgress] = []

        def report(progress: TaskProgress) -> None:
            reports.append(progress)
            if len(reports) == 2:
                holder.communicate(b"\n")

        mirror.refresh(report)
    assert str(reports[0]) == f"waiting for process {holder.pid}, which is using the same mirror"


def test_a_fetch_that_is_called_off_leaves_a_mirror_that_can_be_fetched(tmp_path: Path) -> None:
    make_upstream(tmp_path / "up.git", {"a.txt": "a"})
    with git_daemon(tmp_path) as daemon, brake(daemon.port) as silent:
        mirror = open_mirror(tmp_path / "ralph", silent.url("up.git"))

        def report(_: TaskProgress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            mirror.refresh(report)
        silent.release()
        mirror.refresh()
    assert mirror.is_usable


# Bringing up to date


def test_a_branch_that_is_up_to_date_stays(mirror: Mirror, clone: Path) -> None:
    tip = work(clone, {"b.txt": "b"})
    updated = bring_up_to_date(mirror, clone, BRANCH)
    assert (updated.tip, updated.in_the_way) == (tip, "")


def test_the_base_is_merged_into_the_branch(mirror: Mirror, upstream: Path, clone: Path) -> None:
    tip = work(clone, {"b.txt": "b"})
    theirs = outsider(upstream, {"c.txt": "c", "README.md": None})
    mirror.refresh()
    (clone / "leftover").write_text("half done")
    updated = bring_up_to_date(mirror, clone, BRANCH)
    assert updated.conflicts == ()
    assert git(clone, "rev-parse", "HEAD", "HEAD^1", "HEAD^2").split() == [updated.tip, tip, theirs]
    assert git(clone, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert git(clone, "status", "--porcelain") == "?? leftover"
    assert ((clone / "c.txt").read_text(), (clone / "README.md").exists()) == ("c", False)
    assert refs(mirror)[f"refs/heads/{BRANCH}"] == updated.tip


def test_conflicts_are_committed_with_their_markers(mirror: Mirror, upstream: Path, clone: Path) -> None:
    work(clone, {"a.txt": "one\nours\nthree\n"})
    outsider(upstream, {"a.txt": "one\ntheirs\nthree\n"})
    mirror.refresh()
    updated = bring_up_to_date(mirror, clone, BRANCH)
    assert updated.conflicts == ("a.txt",)
    text = (clone / "a.txt").read_text()
    assert f"<<<<<<< {BRANCH}-g" in text
    assert "\nours\n=======\ntheirs\n>>>>>>> main-g" in text
    assert git(clone, "status", "--porcelain") == ""
    assert "a.txt" in git(clone, "log", "-1", "--format=%b")


@pytest.mark.parametrize("name", ["a.txt", "c.txt"])
def test_what_is_not_committed_is_never_overwritten(mirror: Mirror, upstream: Path, clone: Path, name: str) -> None:
    tip = work(clone, {"b.txt": "b"})
    outsider(upstream, {"a.txt": "theirs", "c.txt": "theirs"})
    mirror.refresh()
    (clone / name).write_text("not committed")
    updated = bring_up_to_date(mirror, clone, BRANCH)
    assert updated.tip == tip
    assert name in updated.in_the_way
    assert (clone / name).read_text() == "not committed"
    assert git(clone, "rev-parse", "HEAD") == refs(mirror)[f"refs/heads/{BRANCH}"] == tip


def test_what_judges_is_the_bases_again(mirror: Mirror, upstream: Path, clone: Path) -> None:
    work(clone, {".ralph/check": "#!/bin/sh\n", ".ralph/prompts/worker.md.j2": "x", ".ralph/notes": "kept", "b": "b"})
    bring_up_to_date(mirror, clone, BRANCH)
    listed = git(clone, "diff", "--name-only", mirror.base().tip, "HEAD").split()
    assert listed == [".ralph/notes", "b"]
    assert git(clone, "status", "--porcelain") == ""


# Discarding


def test_a_clone_goes_when_all_is_safe(mirror: Mirror, clone: Path) -> None:
    tip = work(clone, {"b.txt": "b", ".gitignore": "built/\n"})
    git(clone, "branch", "aside")
    (clone / "built").mkdir()
    (clone / "built" / "x").write_text("x")
    (clone / "built").chmod(0o500)
    open_repo(clone).exclude(EXCLUDES)  # as `ralph run` does, for what it shows there
    (clone / ".ralph" / "state").mkdir()
    (clone / ".ralph" / "state" / "budget.json").write_text("{}")
    (clone / ".ralph" / "logs").symlink_to("/somewhere")
    assert discard(mirror, clone, BRANCH) == ""
    assert not clone.exists()
    assert refs(mirror)[f"refs/heads/{BRANCH}"] == tip
    assert refs(mirror, "refs/ralph/clones") == {}
    assert discard(mirror, clone, BRANCH) == ""


def test_a_clone_that_was_half_removed_goes_too(mirror: Mirror, clone: Path, world: Path) -> None:
    work(clone, {"b.txt": "b", ".gitignore": "built/\n"})
    for folder in (clone / "built", clone / ".git" / "aa", clone / ".git" / "zz"):
        folder.mkdir()
        for number in range(1500):
            (folder / str(number)).touch()
    program = (
        "import sys; from pathlib import Path; from ralph.queue.discard import discard;"
        "from ralph.queue.repos.mirror import open_mirror;"
        "discard(open_mirror(Path(sys.argv[1]), sys.argv[2]), Path(sys.argv[3]), sys.argv[4])"
    )
    where = [str(world / "ralph"), mirror.upstream.url, str(clone), BRANCH]
    with subprocess.Popen([sys.executable, "-P", "-c", program, *where]) as removing:
        wait_until(lambda: not (clone / ".git" / "HEAD").exists(), "the clone is being removed")
        removing.kill()
    assert discard(mirror, clone, BRANCH) == ""
    assert list(clone.parent.iterdir()) == []


def test_other_branches_tags_and_the_stash_are_taken_over(mirror: Mirror, clone: Path) -> None:
    work(clone, {"b.txt": "b"})
    (clone / "b.txt").write_text("stashed")
    git(clone, "-c", "user.name=x", "-c", "user.email=x@y", "stash")
    git(clone, "switch", "--quiet", "--create", "idea")
    idea = work(clone, {"idea.txt": "i"})
    git(clone, "tag", "best")
    git(clone, "switch", "--quiet", BRANCH)
    assert discard(mirror, clone, BRANCH) == ""
    kept = refs(mirror, "refs/ralph/clones")
    assert sorted(ref.split("/refs/", 2)[-1] for ref in kept) == ["heads/idea", "stash", "tags/best"]
    assert idea in kept.values()


@pytest.mark.parametrize("name", ["a.txt", "new.txt", ".env", "odd \n näme"])
def test_what_a_clone_has_not_committed_is_kept_in_the_mirror(mirror: Mirror, clone: Path, name: str) -> None:
    tip = work(clone, {"b.txt": "b"})
    (clone / name).write_text("not committed")
    assert discard(mirror, clone, BRANCH) == ""
    assert not clone.exists()
    ((ref, kept),) = refs(mirror, "refs/ralph/leftovers").items()
    assert ref.startswith(f"refs/ralph/leftovers/{BRANCH}/")
    assert git(mirror.path, "show", f"{kept}:{name}") == "not committed"
    assert git(mirror.path, "rev-parse", f"{kept}^") == tip == refs(mirror)[f"refs/heads/{BRANCH}"]


def test_a_deleted_file_is_deleted_in_what_is_kept(mirror: Mirror, clone: Path) -> None:
    (clone / "a.txt").unlink()
    assert discard(mirror, clone, BRANCH) == ""
    (kept,) = refs(mirror, "refs/ralph/leftovers").values()
    assert "a.txt" not in git(mirror.path, "ls-tree", "--name-only", kept).split()


def test_a_clone_with_a_repository_in_it_stays(mirror: Mirror, clone: Path) -> None:
    make_repo(clone / "vendor", {"lib.c": "int x;"})
    assert (
        discard(mirror, clone, BRANCH)
        == "it contains another repository in vendor, whose history may exist nowhere else"
    )
    assert (clone / "vendor" / "lib.c").exists()


@pytest.mark.parametrize("has_git", [True, False])
def test_a_clone_with_a_repository_in_its_commit_stays(mirror: Mirror, clone: Path, has_git: bool) -> None:
    make_repo(clone / "some" / "vendor", {"lib.c": "int x;"})
    work(clone, {"b.txt": "b"})
    if not has_git:
        shutil.rmtree(clone / "some" / "vendor" / ".git")  # git still sees no file in it
    assert (
        discard(mirror, clone, BRANCH)
        == "it contains another repository in some/vendor, whose history may exist nowhere else"
    )
    assert (clone / "some" / "vendor" / "lib.c").exists()
    shutil.rmtree(clone / "some" / "vendor")
    assert discard(mirror, clone, BRANCH) == ""


def test_a_broken_clone_stays(mirror: Mirror, clone: Path) -> None:
    _no_git(clone)
    assert "broken" in discard(mirror, clone, BRANCH)
    assert clone.exists()


def test_a_finished_goals_name_is_free_again(mirror: Mirror, upstream: Path, clone: Path, tmp_path: Path) -> None:
    tip = work(clone, {"b.txt": "b"})
    discard(mirror, clone, BRANCH)
    mirror.retire(BRANCH, "speed-1")
    mirror.retire(BRANCH, "speed-1")
    assert refs(mirror, "refs/ralph") == {"refs/ralph/done/speed-1": tip}
    mirror.clone(clone, BRANCH)
    assert git(clone, "rev-parse", "HEAD") == mirror.base().tip


def test_an_upstream_that_is_itself_shallow_will_do(world: Path, upstream: Path, tmp_path: Path) -> None:
    outsider(upstream, {"b.txt": "b"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{upstream}", "shallow")
    mirror = refreshed(world, tmp_path / "shallow")
    mirror.clone(tmp_path / "clone", BRANCH)
    commit_all(tmp_path / "clone", "work")
    assert mirror.save(tmp_path / "clone", BRANCH, None)
