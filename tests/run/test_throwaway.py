"""A throwaway clone shows a repository as its user has it, and nothing that is done in it reaches that one."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest

from ralph.core.errors import DiskError
from ralph.core.progress import TaskProgress, unreported
from ralph.git.repo import open_repo
from ralph.run.throwaway import LeftOut, ThrowawayClone
from tests.support.git_repos import commit_all, git, make_repo
from tests.support.upstreams import work


def made(root: Path, tmp_path: Path) -> tuple[Path, dict[str, LeftOut]]:
    clone = ThrowawayClone(open_repo(root), tmp_path / "state")
    left_out = clone.make(unreported)
    return clone.path, dict(left_out)


def seen(root: Path) -> dict[str, str]:
    """What git says of a working tree: its branch, what is staged and changed and how, its refs and its history."""
    questions = {
        "status": ("status", "--porcelain=v2", "--untracked-files=all"),
        "branch": ("branch", "--show-current"),
        "staged": ("diff", "--cached", "--binary"),
        "changed": ("diff", "--binary"),
        "stages": ("ls-files", "--stage", "-v"),
        "refs": ("for-each-ref", "--format=%(objectname) %(refname)"),
        "shallow": ("rev-parse", "--is-shallow-repository"),
    }
    return {name: git(root, *question) for name, question in questions.items()}


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and link of a working tree, with its mode."""
    found: dict[str, tuple[int, bytes]] = {}
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for path in (Path(place) / name for name in (*names, *links) if name != ".git"):
            mode = path.lstat().st_mode
            content = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes()
            found[str(path.relative_to(root))] = (mode, content)
    return found


@pytest.fixture
def root(repo: Path) -> Path:
    """A repository with something of everything: staged, changed, deleted, untracked, links, modes, odd names."""
    files = {
        "a/b.txt": "b\n",
        "a/gone.txt": "g\n",
        "run.sh": "#!/bin/sh\n",
        "crlf.txt": b"a\r\nb\r\n",
        "kept.bin": b"\0\xff",
    }
    for name, content in files.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("a/b.txt")
    (repo / ".gitignore").write_text("*.log\n")
    commit_all(repo, "more")
    git(repo, "tag", "-a", "v1", "-m", "one")
    git(repo, "branch", "other")
    (repo / "a/b.txt").write_text("staged\n")
    git(repo, "add", "a/b.txt")
    (repo / "a/b.txt").write_text("staged, then changed\n")
    (repo / "a/gone.txt").unlink()
    (repo / "new.sh").write_text("#!/bin/sh\n")
    (repo / "new.sh").chmod(0o700)
    (repo / "deep" / "er").mkdir(parents=True)
    (repo / "deep" / "er" / "ünïcode \n\"'").write_text("odd\n")
    (repo / os.fsdecode(b"not-\xff-utf8")).write_text("odd\n")
    (repo / "dangling").symlink_to("./nowhere/")
    git(repo, "mv", "run.sh", "moved.sh")
    return repo


def test_it_shows_everything_as_the_user_has_it(root: Path, tmp_path: Path) -> None:
    clone, left_out = made(root, tmp_path)
    assert seen(clone) == seen(root)
    assert tree(clone) == tree(root)
    assert git(clone, "log", "--all", "--format=%H") == git(root, "log", "--all", "--format=%H")
    git(clone, "fsck")
    assert left_out == {}
    assert clone.name == root.name


def test_git_need_not_read_the_files_to_know_that_they_are_unchanged(root: Path, tmp_path: Path) -> None:
    for name in ("kept.bin", "link"):
        os.utime(root / name, (1_000_000_000, 1_000_000_000), follow_symlinks=False)
    git(root, "status")  # which writes the new times into the index
    clone, _ = made(root, tmp_path)
    assert git(clone, "diff-files", "--name-only") == "a/b.txt\na/gone.txt"


def test_a_change_in_the_second_in_which_the_file_was_staged_is_seen(root: Path, tmp_path: Path) -> None:
    """Git reads a file that is no older than the index."""
    for text in ("one\n", "two\n"):
        (root / "racy").write_text(text)
        os.utime(root / "racy", (1_000_000_000, 1_000_000_000))
        if text == "one\n":
            git(root, "add", "racy")
    os.utime(root / ".git" / "index", (1_000_000_000, 1_000_000_000))
    clone, _ = made(root, tmp_path)
    assert "+two" in git(clone, "diff", "racy")


def test_it_is_private_and_removed_with_what_an_agent_made_read_only(root: Path, tmp_path: Path) -> None:
    clone = ThrowawayClone(open_repo(root), tmp_path / "state")
    clone.make(unreported)
    assert stat.S_IMODE(clone.path.parent.stat().st_mode) == 0o700
    (clone.path / "away").symlink_to(root)
    (clone.path / "deep").chmod(0)
    clone.remove()
    assert not list((tmp_path / "state").iterdir())
    assert (root / "README.md").exists()
    clone.remove()


def test_one_that_is_there_already_is_made_anew(root: Path, tmp_path: Path) -> None:
    clone, _ = made(root, tmp_path)
    (clone / "junk").touch()
    (clone / "README.md").write_text("changed")
    assert made(root, tmp_path)[0] == clone
    assert tree(clone) == tree(root)


def test_nothing_that_git_is_told_to_do_in_it_changes_the_original(root: Path, tmp_path: Path) -> None:
    git(root, "stash", "push", "--include-untracked")
    (root / "new.txt").write_text("new\n")
    (root / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    clone, _ = made(root, tmp_path)
    before = every_byte(root)
    git(clone, "config", "user.name", "Agent")
    git(clone, "config", "user.email", "agent@example.org")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "sneaky")
    git(clone, "tag", "--force", "v1")
    git(clone, "branch", "--delete", "--force", "other")
    git(clone, "update-ref", "-d", "refs/stash")
    git(clone, "gc", "--quiet", "--prune=now")
    git(clone, "repack", "-a", "-d", "--quiet")
    git(clone, "prune", "--expire=now")
    assert git(clone, "remote") == ""
    assert every_byte(root) == before


def every_byte(root: Path) -> dict[str, bytes]:
    """Everything in a repository, git's own files included."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


# What is left out


def test_ignored_files_are_left_out_silently_and_ralphs_own_links_too(root: Path, tmp_path: Path) -> None:
    (root / "debug.log").write_text("log\n")
    (root / ".ralph").mkdir()
    (root / ".ralph" / "runs").symlink_to(tmp_path)
    clone, left_out = made(root, tmp_path)
    assert left_out == {}
    assert not (clone / "debug.log").exists()
    assert not (clone / ".ralph").exists()


def test_the_users_own_files_of_ralph_are_there_though_git_ignores_them(root: Path, tmp_path: Path) -> None:
    (root / ".gitignore").write_text("/.ralph/\n")
    (root / ".ralph" / "prompts").mkdir(parents=True)
    (root / ".ralph" / "codebase-map.md").write_text("map\n")
    (root / ".ralph" / "prompts" / "worker.md.j2").write_text("work\n")
    (root / ".ralph" / "cache").write_text("large\n")
    (root / ".ralph" / "state").mkdir()
    (root / ".ralph" / "state" / "budget.json").write_text("{}\n")
    clone, _ = made(root, tmp_path)
    own = [str(path.relative_to(clone / ".ralph")) for path in (clone / ".ralph").rglob("*") if path.is_file()]
    assert sorted(own) == ["codebase-map.md", "prompts/worker.md.j2"]


def test_secrets_are_left_out_unless_they_are_committed(root: Path, tmp_path: Path) -> None:
    (root / "old.pem").write_text("committed\n")
    commit_all(root, "a key")
    (root / ".env").write_text("TOKEN=1\n")
    (root / ".env.example").write_text("TOKEN=\n")
    (root / "deep" / ".aws").mkdir()
    (root / "deep" / ".aws" / "credentials").write_text("x\n")
    clone, left_out = made(root, tmp_path)
    assert left_out == {".env": LeftOut.SECRET, "deep/.aws/credentials": LeftOut.SECRET}
    assert not (clone / ".env").exists()
    assert not (clone / "deep" / ".aws").exists()
    assert (clone / ".env.example").exists()
    assert (clone / "old.pem").exists()


def test_large_files_are_left_out_unless_they_are_tracked(root: Path, tmp_path: Path) -> None:
    large = (64 << 20) + 1
    for name in ("tracked.bin", "data.bin"):
        (root / name).touch()
        os.truncate(root / name, large)
    git(root, "add", "--intent-to-add", "tracked.bin")
    clone, left_out = made(root, tmp_path)
    assert left_out == {"data.bin": LeftOut.LARGE}
    assert (clone / "tracked.bin").stat().st_size == large


def test_another_repository_is_left_out_and_a_work_tree_of_this_one(root: Path, tmp_path: Path) -> None:
    make_repo(root / "vendor" / "lib", {"lib.c": "int x;\n"})
    git(root, "worktree", "add", "--quiet", "side", "other")
    clone, left_out = made(root, tmp_path)
    assert left_out == {"side": LeftOut.REPOSITORY, "vendor/lib": LeftOut.REPOSITORY}
    assert not (clone / "vendor" / "lib" / "lib.c").exists()


def test_what_is_no_file_is_left_out_and_waited_for_by_nobody(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "README.md").unlink()
    os.mkfifo(root / "README.md")
    clone, _ = made(root, tmp_path)
    assert not (clone / "pipe").exists()
    assert not (clone / "README.md").exists()


def test_a_path_that_is_too_long_in_the_clone_is_named(root: Path, tmp_path: Path) -> None:
    here, name, room = os.open(root, os.O_RDONLY), "d" * 100, 4090 - len(str(root))
    while room > 250:
        os.mkdir(name, dir_fd=here)
        here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(above)
        room -= len(name) + 1
    os.close(os.open("f" * (room - 1), os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    try:
        _, left_out = made(root, tmp_path)
    finally:
        subprocess.run(["rm", "-rf", name], cwd=root, check=True)
    assert list(left_out.values()) == [LeftOut.IMPOSSIBLE]


# Links


def test_a_link_to_a_file_of_the_repository_leads_to_its_copy(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    (tmp_path / "outside.txt").write_text("outside\n")
    for name, target in {
        "absolute": root / "a" / "b.txt",
        "whole": root,
        "by-alias": tmp_path / "alias" / "a" / "b.txt",
        "round": Path("..") / root.name / "a" / "b.txt",
        "outside": tmp_path / "outside.txt",
        "loop": root / "loop",
    }.items():
        (root / name).symlink_to(target)
    clone, _ = made(root, tmp_path)
    for name in ("absolute", "by-alias", "round"):
        assert (clone / name).resolve() == clone / "a" / "b.txt"
    assert (clone / "whole").resolve() == clone
    assert (clone / "outside").resolve() == tmp_path / "outside.txt"


def test_no_folder_is_followed_that_has_become_a_link(root: Path, tmp_path: Path) -> None:
    """Of `a/b.txt`, which is tracked, git says that it is gone; what is behind the link is none of the repository."""
    elsewhere = tmp_path / "elsewhere"
    (root / "a").rename(elsewhere)
    (root / "a").symlink_to(elsewhere)
    clone, _ = made(root, tmp_path)
    assert (clone / "a").is_symlink()
    assert (elsewhere / "b.txt").read_text() == "staged, then changed\n"
    assert seen(clone) == seen(root)


def test_a_folder_where_a_tracked_file_was_is_a_folder(root: Path, tmp_path: Path) -> None:
    (root / "README.md").unlink()
    (root / "README.md").mkdir()
    (root / "README.md" / "inner").write_text("x\n")
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)
    assert tree(clone) == tree(root)


# Every kind of repository


def test_a_repository_without_any_commit(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo", {"a": "a\n"}, commit=False)
    clone, _ = made(root, tmp_path)
    git(root, "add", "a")
    (root / "b").write_text("b\n")
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)
    assert tree(clone) == tree(root)


def test_a_detached_head(root: Path, tmp_path: Path) -> None:
    commit_all(root, "last")
    git(root, "checkout", "--quiet", "HEAD^")
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)
    assert git(clone, "rev-parse", "HEAD") == git(root, "rev-parse", "HEAD")


def test_conflicts_of_a_merge(root: Path, tmp_path: Path) -> None:
    commit_all(root, "mine")
    git(root, "checkout", "--quiet", "-b", "theirs", "other")
    (root / "a" / "b.txt").write_text("theirs\n")
    commit_all(root, "theirs")
    with pytest.raises(AssertionError, match="CONFLICT"):
        git(root, "merge", "main")
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)
    assert "<<<<<<<" in (clone / "a" / "b.txt").read_text()


def test_a_work_tree_beside_the_repository(root: Path, tmp_path: Path) -> None:
    linked = tmp_path / "info"  # as a folder of git's own is called
    git(root, "worktree", "add", "--quiet", str(linked), "other")
    (linked / "new.txt").write_text("new\n")
    git(linked, "rm", "--quiet", "kept.bin")
    clone, _ = made(linked, tmp_path)
    assert seen(clone) == seen(linked)
    assert tree(clone) == tree(linked)


def test_a_shallow_repository(root: Path, tmp_path: Path) -> None:
    commit_all(root, "last")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=2", root.as_uri(), str(shallow))
    clone, _ = made(shallow, tmp_path)
    assert seen(clone) == seen(shallow)
    assert git(clone, "log", "--format=%s") == "last\nmore"


def test_a_partial_repository_still_fetches_what_it_lacks(root: Path, tmp_path: Path) -> None:
    commit_all(root, "last")
    git(root, "config", "uploadpack.allowFilter", "true")
    git(root, "config", "uploadpack.allowAnySHA1InWant", "true")
    partial = tmp_path / "partial"
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", root.as_uri(), str(partial))
    git(partial, "config", "remote.origin.url", f"../{root.name}")
    git(partial, "remote", "add", "second", root.as_uri())
    clone, _ = made(partial, tmp_path)
    assert seen(clone) == seen(partial)
    assert git(clone, "show", "HEAD^:a/b.txt") == "b"
    assert git(clone, "remote") == "origin"
    with pytest.raises(AssertionError, match="/dev/null"):
        git(clone, "push", "origin", "HEAD:refs/heads/pushed")


def test_a_repository_that_borrows_objects_itself(root: Path, tmp_path: Path) -> None:
    borrowing = tmp_path / "borrowing"
    git(tmp_path, "clone", "--quiet", "--shared", str(root), str(borrowing))
    clone, _ = made(borrowing, tmp_path)
    git(clone, "fsck")
    assert seen(clone) == seen(borrowing)


def test_objects_named_by_sha256(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    git(tmp_path, "init", "--quiet", "--object-format=sha256", str(root))
    (root / "a").write_text("a\n")
    commit_all(root, "start")
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)


def test_a_sparse_checkout_and_a_split_index(root: Path, tmp_path: Path) -> None:
    commit_all(root, "all")
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "deep")
    assert not (root / "a").exists()
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)
    git(root, "sparse-checkout", "disable")
    git(root, "update-index", "--split-index")
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)


def test_files_elsewhere_than_beside_the_git_directory(root: Path, tmp_path: Path) -> None:
    (root / ".git").rename(tmp_path / "git")
    (root / ".git").write_text(f"gitdir: {tmp_path}/git\n")
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)
    assert (clone / ".git").is_dir()


@pytest.mark.parametrize("name", ["two\nlines", '"quoted"', "# no comment", "back\\slash", "ünï"])
def test_a_repository_of_any_name(tmp_path: Path, name: str) -> None:
    root = make_repo(tmp_path / name, {"a": "a\n"})
    clone, _ = made(root, tmp_path)
    assert seen(clone) == seen(root)


def test_submodules_are_copied_as_repositories(root: Path, tmp_path: Path) -> None:
    library = make_repo(tmp_path / "library", {"lib.c": "int x;\n"})
    adding = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
    git(root, *adding, str(library), "lib")
    git(root, *adding, str(library), "empty")
    git(root, "commit", "--quiet", "-m", "submodules")
    git(root, "submodule", "--quiet", "deinit", "empty")
    (root / "lib" / "lib.c").write_text("int y;\n")
    (root / "lib" / "new.c").write_text("int z;\n")
    (root / "lib" / ".env").write_text("TOKEN=1\n")
    clone, left_out = made(root, tmp_path)
    assert left_out == {"lib/.env": LeftOut.SECRET}
    assert (clone / "lib" / "lib.c").read_text() == "int y;\n"
    assert git(clone / "lib", "log", "--format=%s") == "start"
    assert git(clone / "lib", "status", "--porcelain") == "M lib.c\n?? new.c"
    assert git(clone, "status", "--porcelain") == git(root, "status", "--porcelain")
    assert list((clone / "empty").iterdir()) == []


@pytest.mark.parametrize(
    "harm",
    [
        "echo x > lib/.git",
        "git -C lib config core.worktree /etc",
        "rm $(git -C lib rev-parse --git-dir)/HEAD",
        "echo no index > $(git -C lib rev-parse --git-dir)/index",
    ],
)
def test_a_submodule_that_is_broken_or_leads_elsewhere_is_named(root: Path, tmp_path: Path, harm: str) -> None:
    library = make_repo(tmp_path / "library", {"lib.c": "int x;\n"})
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    subprocess.run(harm, shell=True, cwd=root, check=True)
    clone, left_out = made(root, tmp_path)
    assert left_out == {"lib": LeftOut.IMPOSSIBLE}
    assert (clone / "README.md").exists()


def test_an_index_that_names_paths_outside_writes_nothing_there(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine\n")
    (root / "xx").mkdir()
    (root / "xx" / "secret").write_text("x\n")
    git(root, "add", "--force", "xx/secret")
    index = (root / ".git" / "index").read_bytes()
    forged = index[:-20].replace(b"xx/secret", b"../secret")
    (root / ".git" / "index").write_bytes(forged + hashlib.sha1(forged).digest())
    made(root, tmp_path)
    assert not (tmp_path / "state" / "clone" / "secret").exists()


# Faults


def test_it_can_be_called_off_between_files(root: Path, tmp_path: Path) -> None:
    clone, files = ThrowawayClone(open_repo(root), tmp_path / "state"), 0

    def report(progress: TaskProgress) -> None:
        nonlocal files
        files = progress.done
        if files > 0:
            raise KeyboardInterrupt

    work(root, {f"{number}.txt": "x" for number in range(60)})
    with pytest.raises(KeyboardInterrupt):
        clone.make(report)
    assert 0 < files < 60
    clone.remove()
    assert not list((tmp_path / "state").iterdir())


def test_it_reports_how_many_files_it_has_copied(root: Path, tmp_path: Path) -> None:
    work(root, {f"{number}.txt": "x" for number in range(60)})
    reports: list[TaskProgress] = []
    ThrowawayClone(open_repo(root), tmp_path / "state").make(reports.append)
    total = reports[0].total
    assert total is not None
    assert total >= 60
    assert [(each.done, each.total) for each in reports] == [(done, total) for done in range(0, total, 20)]


def test_a_disk_that_cannot_be_written_is_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(DiskError, match="state"):
        made(root, tmp_path)
