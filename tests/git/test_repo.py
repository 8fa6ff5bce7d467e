"""The door to git, on real repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ralph.core.errors import RepoError, UsageError
from ralph.core.progress import TaskProgress
from ralph.core.run import Trespass, Undone
from ralph.git.address import clone_path
from ralph.git.command import succeeded
from ralph.git.repo import open_repo, require_branch_name
from ralph.run.place import clone
from tests.support.git_repos import EMAIL, commit_all, git, make_repo

WEIRD = [
    "new\nline", "-leading-dash", '"quoted"', "'single'", " spaces ", "tab\there", "ünï", ":(top)magic", "*", "a\\b",
]  # fmt: skip
NOT_UTF8 = b"bytes-\xff\xfe"


def names(path: Path, revision: str = "HEAD") -> set[str]:
    listed = subprocess.run(["git", "ls-tree", "-r", "-z", "--name-only", revision], cwd=path, capture_output=True)
    return {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}


def write(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


# Opening


def test_a_repository_is_found_from_below(repo: Path) -> None:
    (repo / "deep" / "down").mkdir(parents=True)
    found = open_repo(repo / "deep" / "down")
    assert (found.root, found.git_dir, found.has_identity) == (repo, repo / ".git", True)
    assert (found.branch(), found.head()) == ("main", git(repo, "rev-parse", "HEAD"))


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not in a git repository"):
        open_repo(tmp_path)


def test_a_bare_repository_is_refused_with_the_way_out(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "bare.git")
    with pytest.raises(UsageError, match="without a working tree") as caught:
        open_repo(tmp_path / "bare.git")
    assert "--repo" in caught.value.hint


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        open_repo(tmp_path / "nowhere")


def test_a_repository_that_vanished_is_not_looked_for_elsewhere(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repo(tmp_path / "own", {"a": "b"}))
    write(tmp_path / "own", "the users work")
    found = open_repo(repo)
    repo.rename(tmp_path / "vanished")
    with pytest.raises((UsageError, RepoError)):
        found.commit_all("step", repo / "goal.md")
    assert git(tmp_path / "own", "rev-list", "--count", "HEAD") == "1"


def test_a_worktree_has_a_branch_of_its_own(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    found = open_repo(tmp_path / "side")
    assert (found.root, found.branch()) == (tmp_path / "side", "side")


@pytest.mark.parametrize("name", ["with space", "new\nline", "line\u2028separator"])
def test_a_repository_may_stand_anywhere(tmp_path: Path, name: str) -> None:
    path = make_repo(tmp_path / name)
    assert open_repo(path).root == path


def test_a_repository_without_any_commit_has_a_branch_and_no_head(tmp_path: Path) -> None:
    found = open_repo(make_repo(tmp_path / "new", commit=False))
    assert (found.branch(), found.head()) == ("main", None)


def test_a_detached_head_is_no_branch(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    assert open_repo(repo).branch() == ""


# Dirty or not


def test_a_clean_tree_is_clean(repo: Path) -> None:
    assert open_repo(repo).dirty_paths(repo / "goal.md") == []


def test_changed_deleted_staged_and_untracked_files_are_dirt(repo: Path) -> None:
    write(repo, "changed", "deleted")
    commit_all(repo, "more")
    (repo / "changed").write_text("now")
    (repo / "deleted").unlink()
    write(repo, "staged", "dir/untracked")
    git(repo, "add", "staged")
    assert set(open_repo(repo).dirty_paths(repo / "goal.md")) == {"changed", "deleted", "staged", "dir/untracked"}


def test_goal_own_files_and_untracked_secrets_are_no_dirt(repo: Path) -> None:
    write(repo, "goals/speed.md", ".ralph/check", ".ralph/prompts/x", ".env", "sub/.env.local", "key.pem", "id_rsa")
    assert open_repo(repo).dirty_paths(repo / "goals" / "speed.md") == []


def test_a_tracked_secret_that_changed_is_dirt(repo: Path) -> None:
    write(repo, ".env")
    commit_all(repo, "tracked")
    (repo / ".env").write_text("changed")
    assert open_repo(repo).dirty_paths(repo / "goal.md") == [".env"]


def test_ignored_files_are_no_dirt(repo: Path) -> None:
    (repo / ".gitignore").write_text("*.log\n")
    commit_all(repo, "ignore")
    write(repo, "x.log")
    assert open_repo(repo).dirty_paths(repo / "goal.md") == []


@pytest.mark.parametrize("way", ["sub/../goal.md", "../link/goal.md", "./goal.md"])
def test_the_goal_file_is_the_same_whichever_way_it_was_named(repo: Path, way: str) -> None:
    (repo.parent / "link").symlink_to(repo)
    write(repo, "goal.md")
    (repo / "sub").mkdir()
    found = open_repo(repo)
    assert found.dirty_paths(repo / way) == []
    found.commit_all("step", repo / way)
    assert "goal.md" not in names(repo)


@pytest.mark.parametrize("name", WEIRD)
def test_a_weird_name_is_told_as_it_is(repo: Path, name: str) -> None:
    write(repo, name)
    assert open_repo(repo).dirty_paths(repo / "goal.md") == [name]


# Committing


def test_a_commit_takes_everything_but_secrets_goal_and_own_files(repo: Path) -> None:
    write(repo, "code.py", "goal.md", ".ralph/check", ".env", "deep/server.key", ".env.example", "id_rsa.pub")
    (repo / "README.md").unlink()
    done = open_repo(repo).commit_all("ralph: iteration 1\n", repo / "goal.md")
    assert names(repo) == {"code.py", ".env.example", "id_rsa.pub"}
    assert set(done.left_out) == {".env", "deep/server.key"}
    assert done.sha == git(repo, "rev-parse", "HEAD")
    assert (repo / ".env").exists()


def test_tracked_secrets_goal_and_own_files_are_committed(repo: Path) -> None:
    write(repo, ".env", "goal.md", ".ralph/check")
    commit_all(repo, "tracked")
    for name in (".env", "goal.md", ".ralph/check"):
        (repo / name).write_text("changed")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert set(git(repo, "show", "--name-only", "--format=").split()) == {".env", "goal.md", ".ralph/check"}
    assert done.left_out == ()


def test_nothing_changed_is_an_empty_commit(repo: Path) -> None:
    before = git(repo, "rev-parse", "HEAD^{tree}")
    open_repo(repo).commit_all("step", repo / "goal.md")
    assert git(repo, "rev-parse", "HEAD^{tree}") == before
    assert git(repo, "rev-list", "--count", "HEAD") == "2"


def test_the_first_commit_of_a_repository_is_fine(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "new", {"a": "b"}, commit=False)
    done = open_repo(path).commit_all("step", path / "goal.md")
    assert (done.sha, names(path)) == (git(path, "rev-parse", "main"), {"a"})


@pytest.mark.parametrize("secret", ["-x.pem", "new\nline.key", ":(top)x.pem", "*.pem", "\\.key", '".key', ".env.*"])
def test_a_secret_with_a_weird_name_is_left_out_and_nothing_else(repo: Path, secret: str) -> None:
    write(repo, secret, "other.pem.txt", ".env.example", *WEIRD)
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert done.left_out == (secret,)
    assert names(repo) == {"README.md", "other.pem.txt", ".env.example", *WEIRD}


def test_a_name_that_is_not_utf8_is_committed_or_left_out_as_any_other(repo: Path) -> None:
    for name in (NOT_UTF8, NOT_UTF8 + b".pem"):
        Path(os.fsdecode(os.fsencode(repo) + b"/" + name)).touch()
    found = open_repo(repo)
    assert found.dirty_paths(repo / "goal.md") == [os.fsdecode(NOT_UTF8)]
    assert found.commit_all("step", repo / "goal.md").left_out == (os.fsdecode(NOT_UTF8 + b".pem"),)
    assert found.dirty_paths(repo / "goal.md") == []


def test_no_hook_runs(repo: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for hook in (
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
    ):
        path = repo / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {hook} >> {trace}\nexit 1\n")
        path.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(repo / ".git" / "hooks" / "pre-commit"))
    write(repo, "x")
    found = open_repo(repo)
    found.switch("side")
    found.dirty_paths(repo / "goal.md")
    found.commit_all("step", repo / "goal.md")
    assert not trace.exists()


@pytest.mark.parametrize("config", [{"commit.gpgSign": "true"}, {"core.editor": "false"}, {"core.commentChar": ";"}])
def test_a_users_configuration_does_not_get_in_the_way(repo: Path, config: dict[str, str]) -> None:
    for name, value in config.items():
        git(repo, "config", name, value)
    open_repo(repo).commit_all("# not a comment\n; nor this\n", repo / "goal.md")
    assert git(repo, "log", "-1", "--format=%B") == "# not a comment\n; nor this"


@pytest.mark.parametrize(
    "message", ["# heading first\n\ntext", "trailing  \n\n\n\nblanks", "ünïcode ✓ \u2028", "-m --amend"]
)
def test_a_message_is_kept_as_it_is(repo: Path, message: str) -> None:
    open_repo(repo).commit_all(message, repo / "goal.md")
    assert git(repo, "log", "-1", "--format=%B").strip() == message.strip()


@pytest.mark.parametrize("message", ["a lone \ud800 surrogate", "another \udc80 one"])
def test_a_message_that_is_no_unicode_is_committed_all_the_same(repo: Path, message: str) -> None:
    open_repo(repo).commit_all(message, repo / "goal.md")
    assert git(repo, "rev-list", "--count", "HEAD") == "2"


def test_without_an_identity_ralph_lends_its_own(tmp_path: Path) -> None:
    found = open_repo(make_repo(tmp_path / "new", {"a": "b"}, identity=False))
    assert not found.has_identity
    found.commit_all("step", tmp_path / "goal.md")
    assert git(found.root, "log", "-1", "--format=%an <%ae> %cn <%ce>") == " ".join(["ralph <ralph@localhost>"] * 2)


def test_an_identity_is_kept(repo: Path) -> None:
    open_repo(repo).commit_all("step", repo / "goal.md")
    assert git(repo, "log", "-1", "--format=%ae %ce") == f"{EMAIL} {EMAIL}"


@pytest.mark.parametrize("committed", [True, False])
def test_a_repository_that_the_agent_made_inside_is_left_out(repo: Path, committed: bool) -> None:
    make_repo(repo / "inner", {"x": "y"}, commit=committed)
    write(repo, "code.py")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert names(repo) == {"README.md", "code.py"}
    assert [name.rstrip("/") for name in done.nested] == ["inner"]
    assert done.left_out == ()


def test_what_git_refuses_is_said_with_its_words(repo: Path) -> None:
    (repo / ".git" / "index").write_bytes(b"no index")
    with pytest.raises(RepoError, match="index file"):
        open_repo(repo).commit_all("step", repo / "goal.md")


# Branches


def test_head_is_put_back_and_the_files_stay(repo: Path) -> None:
    write(repo, "work")
    git(repo, "checkout", "--quiet", "-b", "elsewhere")
    found = open_repo(repo)
    assert found.hold("main", None).undone == (Undone(Trespass.SWITCHED_BRANCH),)
    assert (found.branch(), (repo / "work").exists()) == ("main", True)
    assert found.hold("main", None).undone == ()


def test_what_was_committed_elsewhere_joins_the_branch(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "elsewhere")
    write(repo, "work")
    commit_all(repo, "theirs")
    found = open_repo(repo)
    found.hold("main", None)
    found.commit_all("step", repo / "goal.md")
    assert "work" in names(repo, "main")


def test_a_run_on_no_branch_holds_none(repo: Path) -> None:
    assert open_repo(repo).hold("", None).undone == ()


def test_a_head_that_was_detached_is_put_back(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    assert open_repo(repo).hold("main", None).undone == (Undone(Trespass.SWITCHED_BRANCH),)


@pytest.mark.parametrize("branch", ["side", "ralph/speed"])
def test_a_branch_is_made_and_found_again(repo: Path, branch: str) -> None:
    found = open_repo(repo)
    for there in (branch, "main", branch, branch):
        found.switch(there)
        assert found.branch() == there


def test_a_branch_of_a_repository_without_commits_is_only_named(tmp_path: Path) -> None:
    found = open_repo(make_repo(tmp_path / "new", commit=False))
    found.switch("ralph/speed")
    assert (found.branch(), found.head()) == ("ralph/speed", None)


@pytest.mark.parametrize("branch", ["", "-x", "a..b", "with space", "a~1", "--orphan"])
def test_what_is_no_branch_name_is_refused(branch: str) -> None:
    with pytest.raises(UsageError, match="is not a valid branch name"):
        require_branch_name(branch)


def test_a_branch_name_is_judged_outside_a_repository_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    require_branch_name("ralph/speed")
    with pytest.raises(UsageError, match="is not a valid branch name"):
        require_branch_name("a..b")


# Excludes


def test_excludes_are_written_once_and_keep_what_is_there(repo: Path) -> None:
    path = repo / ".git" / "info" / "exclude"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"mine\xff")
    found = open_repo(repo)
    for _ in range(3):
        found.exclude(["/.ralph/state", "/.ralph/logs"])
    assert path.read_bytes() == b"mine\xff\n/.ralph/state\n/.ralph/logs\n"


def test_excluded_links_and_folders_never_enter_a_commit(repo: Path, tmp_path: Path) -> None:
    found = open_repo(repo)
    found.exclude(["/.ralph/state", "/.ralph/logs"])
    write(repo, ".ralph/state/x", "state")
    (repo / ".ralph" / "logs").symlink_to(tmp_path)
    git(repo, "add", "--all")
    assert git(repo, "diff", "--cached", "--name-only") == "state"


def test_excludes_of_a_worktree_count_in_it(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    open_repo(tmp_path / "side").exclude(["/.ralph/state"])
    write(tmp_path / "side", ".ralph/state/x")
    assert git(tmp_path / "side", "status", "--porcelain") == ""


# Clones


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://github.com/owner/repo", "github.com/owner/repo"),
        ("https://github.com/owner/repo.git", "github.com/owner/repo"),
        ("https://github.com/owner/repo/", "github.com/owner/repo"),
        ("https://user:secret@github.com/owner/repo.git", "github.com/owner/repo"),
        ("https://git.example.org:8443/owner/repo", "git.example.org/owner/repo"),
        ("git@github.com:owner/repo.git", "github.com/owner/repo"),
        ("github.com:owner/repo", "github.com/owner/repo"),
        ("ssh://git@host:2222/owner/repo.git", "host/owner/repo"),
        ("https://gitlab.com/group/sub/repo", "gitlab.com/group/sub/repo"),
        ("https://host/../../etc/passwd", "host/repository/repository/etc/passwd"),
        ("https://host/a%20b/$(id)", "host/a-20b/id"),
    ],
)
def test_a_clone_has_a_place_of_its_own(tmp_path: Path, url: str, place: str) -> None:
    assert clone_path(tmp_path, url, "speed") == tmp_path / place / "speed"


def test_local_repositories_of_one_name_have_two_places(tmp_path: Path) -> None:
    places = {clone_path(tmp_path / "clones", str(tmp_path / where / "repo"), "speed") for where in ("a", "b")}
    assert len(places) == 2
    for place in places:
        assert place.parent.parent == tmp_path / "clones" / "local"
        assert place.parent.name.startswith("repo-")


def test_a_local_repository_has_one_place_whichever_way_it_is_named(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo.parent)
    (repo.parent / "link").symlink_to(repo)
    ways = (str(repo), f"file://{repo}", "repo", "./repo", "link", f"{repo}/")
    assert len({clone_path(Path("/c"), way, "speed") for way in ways}) == 1


@pytest.mark.parametrize("bare", [True, False])
def test_a_clone_stands_on_its_branch_and_leaves_the_origin_alone(repo: Path, tmp_path: Path, bare: bool) -> None:
    origin = repo
    if bare:
        git(tmp_path, "clone", "--quiet", "--bare", str(repo), "bare.git")
        origin = tmp_path / "bare.git"
    found = clone(str(origin), tmp_path / "clones" / "speed")
    found.switch("ralph/speed")
    assert (found.root, found.branch()) == (tmp_path / "clones" / "speed", "ralph/speed")
    assert names(found.root) == {"README.md"}
    assert git(origin, "branch", "--format=%(refname:short)") == "main"
    assert [entry.name for entry in (tmp_path / "clones").iterdir()] == ["speed"]


def test_a_clone_that_is_there_is_taken_up_with_its_work(repo: Path, tmp_path: Path) -> None:
    first = clone(str(repo), tmp_path / "clone")
    write(first.root, "work", "uncommitted")
    first.commit_all("step", tmp_path / "goal.md")
    write(first.root, "uncommitted")
    again = clone(str(repo), tmp_path / "clone")
    assert again.head() == git(tmp_path / "clone", "rev-parse", "HEAD")
    assert (again.root / "uncommitted").exists()


def test_a_branch_that_the_origin_has_is_tracked(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "ralph/speed")
    write(repo, "theirs")
    commit_all(repo, "theirs")
    git(repo, "checkout", "--quiet", "main")
    found = clone(str(repo), tmp_path / "clone")
    found.switch("ralph/speed")
    assert "theirs" in names(found.root)


def test_an_empty_origin_can_be_cloned(tmp_path: Path) -> None:
    origin = make_repo(tmp_path / "empty", commit=False)
    found = clone(str(origin), tmp_path / "clone")
    found.switch("ralph/speed")
    assert (found.branch(), found.head()) == ("ralph/speed", None)


@pytest.mark.parametrize("url", ["{tmp}/nowhere", "file://{tmp}/nowhere", "{tmp}", "ext::sh -c 'touch {tmp}/owned'"])
def test_what_cannot_be_cloned_is_refused_and_leaves_nothing(tmp_path: Path, url: str) -> None:
    address = url.format(tmp=tmp_path)
    with pytest.raises((UsageError, RepoError)):
        clone(address, tmp_path / "clones" / "speed")
    assert not (tmp_path / "owned").exists()
    assert not list(tmp_path.glob("clones/*"))


def test_a_place_that_holds_something_else_is_not_taken_for_the_clone(repo: Path) -> None:
    (repo / "clones" / "speed").mkdir(parents=True)
    with pytest.raises((UsageError, RepoError)):
        clone(str(repo), repo / "clones" / "speed")
    assert git(repo, "branch", "--show-current") == "main"


def test_a_branch_that_was_deleted_is_made_again_where_it_was(repo: Path) -> None:
    tip = git(repo, "rev-parse", "main")
    git(repo, "switch", "--quiet", "-c", "elsewhere")
    git(repo, "branch", "--quiet", "-D", "main")
    found = open_repo(repo)
    assert found.hold("main", tip).undone == (Undone(Trespass.SWITCHED_BRANCH),)
    found.commit_all("step", repo / "goal.md")
    assert git(repo, "rev-parse", "main~1") == tip


def test_a_secret_that_the_agent_staged_is_left_out_and_stays_in_the_tree(repo: Path) -> None:
    write(repo, ".env", "ok.txt")
    git(repo, "add", "--all")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert done.left_out == (".env",)
    assert ".env" not in names(repo)
    assert "ok.txt" in names(repo)
    assert (repo / ".env").exists()


def test_a_password_in_an_address_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(RepoError) as caught:
        clone("http://user:hunter2@127.0.0.1:9/x/y", tmp_path / "clone")
    assert "hunter2" not in caught.value.message + caught.value.hint
    assert "127.0.0.1:9/x/y" in caught.value.message


def test_a_branch_that_was_reset_is_put_back_on_its_last_commit(repo: Path) -> None:
    write(repo, "work")
    tip = commit_all(repo, "an iteration")
    git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    found = open_repo(repo)
    assert found.hold("main", tip).undone == (Undone(Trespass.MOVED_BRANCH),)
    assert git(repo, "rev-parse", "main") == tip


def test_commits_of_the_agent_on_top_are_no_harm(repo: Path) -> None:
    tip = git(repo, "rev-parse", "main")
    commit_all(repo, "theirs")
    assert open_repo(repo).hold("main", tip).undone == ()


def test_a_broken_git_directory_does_not_lead_to_the_repository_around_it(repo: Path) -> None:
    inner = make_repo(repo / "inner", {"a": "a"})
    found = open_repo(inner)
    shutil.rmtree(inner / ".git" / "objects")
    before = git(repo, "rev-parse", "HEAD")
    with pytest.raises(RepoError):
        found.commit_all("step", inner / "goal.md")
    assert git(repo, "rev-parse", "HEAD") == before


@pytest.mark.parametrize("mark", ["MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "sequencer"])
def test_an_unfinished_operation_of_the_user_is_seen(repo: Path, mark: str) -> None:
    assert open_repo(repo).operation_in_progress() == ""
    (repo / ".git" / mark).mkdir()
    assert open_repo(repo).operation_in_progress()


@pytest.fixture
def forked(repo: Path) -> Path:
    """A repository on `main`, with a branch `other` that changed the same file in another way."""
    write(repo, "shared.txt")
    commit_all(repo, "shared")
    git(repo, "switch", "--quiet", "--create", "other")
    (repo / "shared.txt").write_text("theirs\n")
    commit_all(repo, "theirs")
    git(repo, "switch", "--quiet", "main")
    (repo / "shared.txt").write_text("ours\n")
    commit_all(repo, "ours")
    (repo.parent / "theirs.mbox").write_text(git(repo, "format-patch", "-1", "--stdout", "other") + "\n")
    return repo


OPERATIONS = [
    ("merge", "merge other"),
    ("rebase", "rebase other"),
    ("rebase", "rebase --apply other"),
    ("rebase", "rebase --interactive --exec false HEAD~1"),
    ("cherry-pick", "cherry-pick other"),
    ("cherry-pick", "cherry-pick other other~1"),
    ("revert", "revert HEAD~1"),
    ("am", "am --3way ../theirs.mbox"),
]


def begin(repo: Path, command: str) -> None:
    """Begin what stops in the middle, as an agent would leave it."""
    env = {**os.environ, "GIT_EDITOR": "true"}
    assert subprocess.run(["git", *command.split()], cwd=repo, env=env, capture_output=True).returncode != 0


@pytest.mark.parametrize(("operation", "command"), OPERATIONS)
def test_what_the_agent_left_in_progress_is_ended_and_the_work_stays(
    forked: Path, operation: str, command: str
) -> None:
    found, tip = open_repo(forked), git(forked, "rev-parse", "main")
    begin(forked, command)
    assert found.operation_in_progress() == operation
    left = git(forked, "status", "--porcelain"), (forked / "shared.txt").read_text()

    undone = found.hold("main", tip).undone

    assert undone[0] == Undone(Trespass.UNFINISHED_OPERATION, (operation,))
    assert (found.operation_in_progress(), found.branch(), found.head()) == ("", "main", tip)
    if operation != "rebase":  # that one had moved HEAD, with which the status compares
        assert git(forked, "status", "--porcelain") == left[0]
    assert (forked / "shared.txt").read_text() == left[1]
    done = found.commit_all("ralph: iteration 1", forked / "goal.md")
    assert git(forked, "log", "-1", "--format=%P %an %s", done.sha) == f"{tip} Tess Tester ralph: iteration 1"
    assert git(forked, "show", f"{done.sha}:shared.txt") == left[1].strip()
    assert git(forked, "status", "--porcelain") == ""
    assert found.hold("main", done.sha).undone == ()


def test_what_a_rebase_had_put_aside_is_kept_in_the_stash(forked: Path) -> None:
    tip = git(forked, "rev-parse", "main")
    (forked / "README.md").write_text("put aside\n")
    begin(forked, "rebase --autostash other")
    open_repo(forked).hold("main", tip)
    assert git(forked, "show", "stash@{0}:README.md") == "put aside"


def test_a_rebase_that_is_broken_is_ended_too(repo: Path) -> None:
    (repo / ".git" / "rebase-merge").mkdir()
    found = open_repo(repo)
    assert found.hold("main", found.head()).undone == (Undone(Trespass.UNFINISHED_OPERATION, ("rebase",)),)
    assert found.operation_in_progress() == ""


def test_the_branch_of_an_operation_is_the_one_it_will_return_to(forked: Path) -> None:
    found = open_repo(forked)
    assert found.operation_branch() == "main"
    for command in ("rebase other", "rebase --apply other", "merge other"):
        begin(forked, command)
        assert found.operation_branch() == "main"
        git(forked, command.split()[0], "--abort")
    git(forked, "checkout", "--quiet", "--detach")
    begin(forked, "rebase other")
    assert found.operation_branch() == ""


def test_deletions_and_new_modes_are_committed_without_anything_new(repo: Path) -> None:
    opened = open_repo(repo)
    write(repo, "gone.txt", "run.sh", "same.txt")
    commit_all(repo, "before")
    (repo / "gone.txt").unlink()
    (repo / "run.sh").chmod(0o755)
    write(repo, ".env")  # untracked, and to stay so
    committed = opened.commit_all("ralph: iteration 1", repo / "goal.md")
    assert committed.left_out == (".env",)
    assert names(repo).isdisjoint({"gone.txt", ".env"})
    assert git(repo, "ls-files", "--stage", "run.sh").startswith("100755")


# What the agent staged


@pytest.mark.parametrize(
    ("path", "told"), [(".env", True), ("deep/server.key", True), ("goal.md", False), (".ralph/config.toml", False)]
)
def test_what_was_only_announced_to_the_index_is_left_out_too(repo: Path, path: str, told: bool) -> None:
    write(repo, path, "ok.txt")
    git(repo, "add", "--intent-to-add", "--force", path)
    assert git(repo, "status", "--porcelain", "--", path) == f"A {path}", "stripped: the first column is empty"
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert names(repo) == {"README.md", "ok.txt"}
    assert done.left_out == ((path,) if told else ())
    assert (repo / path).exists()


def test_a_secret_that_is_named_like_a_pattern_takes_no_tracked_file_with_it(repo: Path) -> None:
    write(repo, "known.pem")
    commit_all(repo, "tracked")
    write(repo, "*.pem", ":(top)x.pem")
    git(repo, "--literal-pathspecs", "add", "*.pem", ":(top)x.pem")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert names(repo) == {"README.md", "known.pem"}
    assert set(done.left_out) == {"*.pem", ":(top)x.pem"}


@pytest.mark.parametrize("how", [["add"], ["add", "--intent-to-add"]], ids=["staged", "announced"])
def test_a_repository_inside_that_the_agent_staged_is_left_out_and_said(repo: Path, how: list[str]) -> None:
    make_repo(repo / "inner", {"x": "y"})
    write(repo, "code.py")
    git(repo, *how, "inner", "code.py")
    assert "160000" in git(repo, "ls-files", "--stage", "inner")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert names(repo) == {"README.md", "code.py"}
    assert [name.rstrip("/") for name in done.nested] == ["inner"]
    assert (repo / "inner" / ".git").exists()


def test_an_ignored_repository_inside_that_was_staged_is_left_out_and_said(repo: Path) -> None:
    (repo / ".gitignore").write_text("inner\n")
    make_repo(repo / "inner", {"x": "y"})
    git(repo, "add", "--force", "inner", ".gitignore")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert names(repo) == {"README.md", ".gitignore"}
    assert done.nested == ("inner",)


def test_a_staged_repository_inside_that_is_none_any_more_is_committed_as_files(repo: Path) -> None:
    make_repo(repo / "inner", {"x": "y"})
    git(repo, "add", "inner")
    shutil.rmtree(repo / "inner" / ".git")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert (names(repo), done.nested) == ({"README.md", "inner/x"}, ())


def test_a_staged_file_that_became_a_directory_is_no_repository(repo: Path) -> None:
    write(repo, "thing")
    git(repo, "add", "thing")
    (repo / "thing").unlink()
    write(repo, "thing/inside")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert (names(repo), done.nested) == ({"README.md", "thing/inside"}, ())


def test_a_submodule_is_committed_as_one(repo: Path, tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library", {"x": "y"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "with space/lib")
    done = open_repo(repo).commit_all("step", repo / "goal.md")
    assert names(repo) == {"README.md", ".gitmodules", "with space/lib"}
    assert done.nested == ()


# What the agent committed


def test_secrets_that_the_agent_committed_are_named(repo: Path) -> None:
    write(repo, "known.pem", "plain")
    tip = commit_all(repo, "an iteration")
    found = open_repo(repo)
    assert found.hold("main", tip).secrets == ()
    write(repo, ".env", "deep/new\nline.key", "code.py")
    (repo / "known.pem").write_text("changed")
    commit_all(repo, "theirs")
    git(repo, "mv", "plain", "id_rsa")
    commit_all(repo, "a file that was renamed")
    git(repo, "rm", "--quiet", ".env")
    commit_all(repo, "gone from the tree, not from the history")
    held = found.hold("main", tip)
    assert (held.undone, set(held.secrets)) == ((), {".env", "deep/new\nline.key", "id_rsa"})


def test_a_secret_in_the_first_commit_of_all_is_named(tmp_path: Path) -> None:
    found = open_repo(make_repo(tmp_path / "new", commit=False))
    assert found.hold("main", None).secrets == found.secrets_since(None) == ()
    write(found.root, ".env")
    commit_all(found.root, "theirs")
    assert found.hold("main", None).secrets == (".env",)


def test_a_secret_that_a_merge_brought_is_named(repo: Path) -> None:
    tip = git(repo, "rev-parse", "main")
    git(repo, "switch", "--quiet", "--create", "other")
    write(repo, ".env")
    commit_all(repo, "theirs")
    git(repo, "switch", "--quiet", "main")
    git(repo, "merge", "--quiet", "--no-ff", "--no-edit", "other")
    assert open_repo(repo).hold("main", tip).secrets == (".env",)


def test_a_secret_that_was_committed_and_taken_back_is_not_named(repo: Path) -> None:
    write(repo, "work")
    tip = commit_all(repo, "an iteration")
    git(repo, "reset", "--quiet", "--soft", "HEAD~1")
    write(repo, ".env")
    commit_all(repo, "theirs")
    held = open_repo(repo).hold("main", tip)
    assert (held.undone, held.secrets) == ((Undone(Trespass.MOVED_BRANCH),), ())


def test_the_last_iteration_stays_on_the_line_of_first_parents(repo: Path) -> None:
    git(repo, "switch", "--quiet", "--create", "other")
    commit_all(repo, "theirs")
    git(repo, "switch", "--quiet", "main")
    write(repo, "work")
    tip = commit_all(repo, "an iteration")
    git(repo, "switch", "--quiet", "other")
    git(repo, "merge", "--quiet", "--no-edit", "main")
    git(repo, "switch", "--quiet", "main")
    git(repo, "merge", "--quiet", "--ff-only", "other")
    assert open_repo(repo).hold("main", tip).undone == (Undone(Trespass.MOVED_BRANCH),)
    assert git(repo, "rev-parse", "main") == tip


def test_a_fault_names_what_git_was_to_do_whatever_came_before_it(tmp_path: Path) -> None:
    asked = ("-c", "core.bare=true", "-C", "/some/where", "--git-dir=/x", "read-tree", "-m", "main")
    with pytest.raises(RepoError, match=r"^git read-tree failed in .*: fatal: no$"):
        succeeded(tmp_path, asked, (128, "", "fatal: no"))


def test_a_lock_that_a_git_makes_while_its_end_is_waited_for_is_cleared_as_well(repo: Path) -> None:
    program = repo / "git"
    program.symlink_to("/bin/sleep")
    (repo / ".git" / "index.lock").touch()
    with subprocess.Popen([program, "600"], cwd=repo) as git:

        def report(_: TaskProgress) -> None:
            (repo / ".git" / "HEAD.lock").touch()
            git.kill()
            git.wait()

        assert open_repo(repo).clear_stale_locks(60, report) == ["index.lock", "HEAD.lock"]
    assert not list((repo / ".git").glob("*.lock"))
