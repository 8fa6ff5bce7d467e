"""A work tree after a read-only pass: whatever was done in it, it is as it was, and nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.errors import DiskError, Interrupted, RepoError
from ralph.gitrepo import open_repo
from ralph.tree.snapshot import TreeSnapshot
from tests.support.git_repos import commit_all, git, make_repo

pytestmark = pytest.mark.long

Content = tuple[int, bytes | str]


@dataclass(frozen=True)
class State:
    """All that must be as before: files, what is staged byte by byte, HEAD, branches, stash."""

    files: dict[str, Content]
    index: bytes | None
    head: bytes
    refs: str
    status: str


def state(root: Path) -> State:
    index = root / ".git" / "index"
    refs = git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/stash", "refs/tags")
    raw = index.read_bytes() if index.exists() else None  # before git looks at it
    return State(files(root), raw, (root / ".git" / "HEAD").read_bytes(), refs, git(root, "stash", "list"))


def files(root: Path) -> dict[str, Content]:
    found: dict[str, Content] = {}
    for folder, folders, names in os.walk(root):
        if ".git" in folders:
            folders.remove(".git")
        for name in [*names, *folders]:
            path = Path(folder, name)
            mode = stat.S_IMODE(path.lstat().st_mode)
            if path.is_symlink():
                found[str(path.relative_to(root))] = (mode, os.readlink(path))  # noqa: PTH115 - a Path would tidy it up
            elif path.is_file():
                found[str(path.relative_to(root))] = (mode, path.read_bytes())
            elif path.is_dir() and not any(path.iterdir()):
                found[str(path.relative_to(root))] = (mode, "an empty directory")
    return found


class Place:
    """A repository with work that is not committed, its snapshot, and where things are put aside."""

    def __init__(self, base: Path) -> None:
        self.base, self.aside, self.outside = base, base / "run" / "undone", base / "outside"
        self.root = make_repo(
            base / "repo",
            {
                ".gitignore": "ignored\n*.log\n",
                "README.md": "# Example\n",
                "staged.txt": "old\n",
                "gone.txt": "to be deleted\n",
                "src/app.py": "print()\n",
                "src/deep/er/file": "deep\n",
                "run.sh": "#!/bin/sh\n",
            },
        )
        (self.root / "run.sh").chmod(0o755)
        (self.root / "link").symlink_to("./src//app.py")
        commit_all(self.root, "more")
        self.write("staged.txt", "staged\n")
        git(self.root, "add", "staged.txt")
        self.write("staged.txt", "staged, then changed\n")
        self.write("README.md", "# Dirty\n")
        (self.root / "gone.txt").unlink()
        self.write("notes.txt", "mine, in no commit\n")
        self.write("drafts/one.txt", "mine as well\n")
        self.write("ignored", "secret\n")
        self.write("src/x.log", "noise\n")
        (self.root / "private").write_text("for me\n")
        (self.root / "private").chmod(0o600)
        (self.root / "empty").mkdir()
        self.outside.mkdir()
        (self.outside / "theirs").write_text("do not touch\n")
        self.take()

    def take(self) -> None:
        self.before = state(self.root)
        self.snapshot = TreeSnapshot.take(open_repo(self.root), self.base / "run" / f"store{len(self.stores())}")

    def stores(self) -> list[Path]:
        return list((self.base / "run").glob("store*")) if (self.base / "run").exists() else []

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def restore(self) -> list[str]:
        return self.snapshot.restore(self.aside)

    def shelved(self) -> dict[str, Content]:
        return files(self.aside) if self.aside.exists() else {}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_was_not_touched_is_left_alone(place: Place) -> None:
    assert place.snapshot.changes() == []
    assert place.restore() == []
    assert state(place.root) == place.before
    assert not place.aside.exists()


def test_to_look_is_not_to_change(place: Place) -> None:
    for path in place.root.glob("*.txt"):
        os.utime(path)
    git(place.root, "status")
    git(place.root, "diff")
    assert place.snapshot.changes() == place.restore() == []
    assert state(place.root) == place.before


def test_changed_new_and_deleted_files_are_put_right_and_said(place: Place) -> None:
    place.write("README.md", "# Theirs\n")
    (place.root / "notes.txt").unlink()
    place.write("new/er/file.txt", "theirs\n")
    place.write("gone.txt", "to be deleted\n")
    said = ["changed README.md", "deleted notes.txt", "added gone.txt", "added new/er/file.txt"]
    assert sorted(place.snapshot.changes()) == sorted(said)
    assert sorted(place.restore()) == sorted(said)
    assert state(place.root) == place.before
    assert {name: content for name, (_, content) in place.shelved().items()} == {
        "1/README.md": b"# Theirs\n",
        "1/gone.txt": b"to be deleted\n",
        "1/new/er/file.txt": b"theirs\n",
    }
    assert place.snapshot.changes() == []


def modes(place: Place) -> None:
    (place.root / "run.sh").chmod(0o644)
    (place.root / "private").chmod(0o644)
    (place.root / "src").chmod(0o700)


def file_to_folder(place: Place) -> None:
    (place.root / "notes.txt").unlink()
    place.write("notes.txt/inside/file", "theirs\n")


def folder_to_file(place: Place) -> None:
    (place.root / "src" / "x.log").rename(place.base / "x.log")  # ignored: not to be brought back
    shutil.rmtree(place.root / "src")
    place.write("src", "a file now\n")


def folder_to_link(place: Place) -> None:
    shutil.rmtree(place.root / "src" / "deep")
    (place.outside / "er").mkdir()
    (place.root / "src" / "deep").symlink_to(place.outside)


def file_to_link(place: Place) -> None:
    (place.root / "notes.txt").unlink()
    (place.root / "notes.txt").symlink_to(place.outside / "theirs")


def link_to_file(place: Place) -> None:
    (place.root / "link").unlink()
    place.write("link", "print()\n")


def another_target(place: Place) -> None:
    (place.root / "link").unlink()
    (place.root / "link").symlink_to("src/app.py")  # the same file, by another name


def new_link(place: Place) -> None:
    (place.root / "new").symlink_to(place.outside)


def pipe(place: Place) -> None:
    (place.root / "notes.txt").unlink()
    os.mkfifo(place.root / "notes.txt")


def in_empty_folder(place: Place) -> None:
    place.write("empty/file", "theirs\n")


def without_empty_folder(place: Place) -> None:
    (place.root / "empty").rmdir()


def everything(place: Place) -> None:
    for path in place.root.iterdir():
        if path.name not in (".git", "ignored", "src"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def stage(place: Place) -> None:
    place.write("new.txt", "theirs\n")
    git(place.root, "add", "--all")


def stage_ignored(place: Place) -> None:
    git(place.root, "add", "--force", "ignored")


def unstage(place: Place) -> None:
    git(place.root, "reset", "--quiet")


def commit(place: Place) -> None:
    place.write("new.txt", "theirs\n")
    commit_all(place.root, "theirs")
    commit_all(place.root, "theirs again")


def reset_hard(place: Place) -> None:
    git(place.root, "reset", "--quiet", "--hard", "HEAD~1")


def clean(place: Place) -> None:
    git(place.root, "clean", "--quiet", "-fd")


def put_in_stash(place: Place) -> None:
    git(place.root, "stash", "--quiet", "--include-untracked")


def switch(place: Place) -> None:
    git(place.root, "switch", "--quiet", "--create", "theirs")
    commit_all(place.root, "on a branch of their own")
    git(place.root, "branch", "--delete", "--force", "main")
    git(place.root, "branch", "main/beside")


def detach(place: Place) -> None:
    git(place.root, "checkout", "--quiet", "--detach")
    commit_all(place.root, "on no branch")


def merge(place: Place) -> None:
    git(place.root, "stash", "--quiet")
    git(place.root, "switch", "--quiet", "--create", "other", "HEAD~1")
    commit_all(place.root, "beside")
    git(place.root, "merge", "--quiet", "--no-commit", "--no-ff", "main")


def hide(place: Place) -> None:
    """Make new files that git then ignores, and have ignored ones that it does not."""
    place.write(".gitignore", "*.hidden\n")
    (place.root / ".git" / "info" / "exclude").write_text("*.out\n")
    git(place.root, "config", "core.excludesFile", str(place.outside / "excludes"))
    (place.outside / "excludes").write_text("*.far\n")
    for name in ("a.hidden", "b.out", "c.far"):
        place.write(name, "theirs\n")


def configure(place: Place) -> None:
    git(place.root, "config", "core.bare", "true")
    (place.root / ".git" / "hooks").mkdir(exist_ok=True)
    (place.root / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\ncurl evil\n")


def lock(place: Place) -> None:
    place.write("README.md", "x")
    (place.root / ".git" / "index.lock").touch()


DEEDS: list[Callable[[Place], None]] = [
    modes, file_to_folder, folder_to_file, folder_to_link, file_to_link, link_to_file, another_target, new_link, pipe,
    in_empty_folder, without_empty_folder, everything, stage, stage_ignored, unstage, commit, reset_hard, clean,
    put_in_stash, switch, detach, merge, hide, configure, lock,
]  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_whatever_was_done_is_undone(place: Place, deed: Callable[[Place], None]) -> None:
    deed(place)
    if deed is folder_to_file:
        del place.before.files["src/x.log"]
    outside = files(place.outside)
    undone = place.restore()
    assert undone or deed is without_empty_folder
    assert state(place.root) == place.before
    assert files(place.outside) == outside
    assert place.snapshot.changes() == []
    assert not (place.root / ".git" / "index.lock").exists()
    assert place.restore() == []


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (modes, ["changed the mode of src", "changed private", "changed run.sh"]),
        (stage, ["added new.txt", "changed what is staged"]),
        (folder_to_link, ["deleted src/deep/er/file", "replaced src/deep"]),
        (detach, ["changed what is staged", "committed: kept as refs/ralph/undone/1", "moved HEAD"]),
        (reset_hard, ["changed README.md", "changed what is staged", "moved refs/heads/main", *(
            f"deleted {name}" for name in ("link",)), "changed run.sh", "changed staged.txt", "added gone.txt"]),
    ],
)  # fmt: skip
def test_what_was_undone_is_said(place: Place, deed: Callable[[Place], None], said: list[str]) -> None:
    deed(place)
    assert sorted(place.restore()) == sorted(said)


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (stage_ignored, ["changed what is staged"]),
        (folder_to_file, ["replaced src", "deleted src/app.py", "deleted src/deep/er/file"]),
        (folder_to_link, ["replaced src/deep", "deleted src/deep/er/file"]),
        (file_to_folder, ["changed notes.txt", "added notes.txt/inside/file"]),
        (configure, ["changed .git/config", "changed .git/hooks/pre-commit"]),
        (switch, ["moved HEAD", "deleted refs/heads/main", "added refs/heads/main/beside", "added refs/heads/theirs",
                  "changed what is staged"]),
    ],
)  # fmt: skip
def test_what_was_done_can_be_said_without_undoing_it(
    place: Place, deed: Callable[[Place], None], said: list[str]
) -> None:
    deed(place)
    if deed is folder_to_link:  # to a copy as faithful as can be
        (place.outside / "er" / "file").write_text("deep\n")
    done = files(place.root)
    assert sorted(place.snapshot.changes()) == sorted(said)
    assert files(place.root) == done
    assert not place.aside.exists()


def test_whatever_stood_in_the_way_is_kept_aside(place: Place) -> None:
    folder_to_file(place)
    file_to_folder(place)
    another_target(place)
    place.restore()
    assert {name: content for name, (_, content) in place.shelved().items()} == {
        "1/src": b"a file now\n",
        "1/notes.txt/inside/file": b"theirs\n",
        "1/link": "src/app.py",
    }


def test_no_empty_folder_is_left_of_what_was_added(place: Place) -> None:
    place.write("drafts/new/file", "theirs\n")
    place.write("other/new/file", "theirs\n")
    (place.root / "hollow" / "within").mkdir(parents=True)
    assert sorted(place.restore()) == ["added drafts/new/file", "added other/new/file"]
    assert state(place.root) == place.before


def test_a_file_that_comes_back_is_no_newer_than_it_was(place: Place) -> None:
    before = (place.root / "src" / "app.py").stat().st_mtime_ns
    place.write("src/app.py", "theirs\n")
    place.restore()
    assert (place.root / "src" / "app.py").stat().st_mtime_ns == before


def test_commits_are_kept_under_a_ref_of_their_own(place: Place) -> None:
    commit(place)
    theirs = git(place.root, "rev-parse", "HEAD")
    assert "committed: kept as refs/ralph/undone/1" in place.restore()
    assert git(place.root, "rev-parse", "refs/ralph/undone/1") == theirs
    assert git(place.root, "show", "refs/ralph/undone/1:new.txt") == "theirs"
    detach(place)
    assert "committed: kept as refs/ralph/undone/2" in place.restore()
    assert git(place.root, "rev-parse", "refs/ralph/undone/1") == theirs


def test_what_was_put_in_the_stash_is_kept_and_the_users_stash_stays(place: Place) -> None:
    git(place.root, "stash", "push", "--quiet", "--message", "mine", "README.md")
    place.take()
    git(place.root, "stash", "drop", "--quiet")
    put_in_stash(place)
    place.restore()
    assert state(place.root) == place.before
    assert git(place.root, "stash", "list") == "stash@{0}: On main: mine"
    assert git(place.root, "show", "refs/ralph/undone/1:staged.txt") == "staged, then changed"


def beside(place: Place, branch: str) -> Path:
    """Another work tree of the repository, in which somebody else works."""
    path = place.base / f"beside-{branch}"
    git(place.root, "worktree", "add", "--quiet", "-b", branch, str(path))
    return path


def test_a_branch_that_somebody_works_on_in_another_work_tree_is_left(place: Place) -> None:
    side = beside(place, "side")
    place.take()
    late = beside(place, "late")
    tips = {"side": commit_all(side, "theirs, as it should be"), "late": commit_all(late, "as well")}
    commit(place)
    git(place.root, "branch", "loose")
    theirs = git(place.root, "rev-parse", "main")
    undone = place.restore()
    assert {ref: git(place.root, "rev-parse", ref) for ref in tips} == tips
    assert {line for line in undone if "refs/" in line} == {
        "moved refs/heads/main",
        "added refs/heads/loose",
        "moved refs/heads/side (left: another work tree's)",
        "added refs/heads/late (left: another work tree's)",
        "committed: kept as refs/ralph/undone/1",
    }
    assert git(place.root, "rev-parse", "refs/ralph/undone/1") == theirs
    assert files(place.root) == place.before.files
    assert git(place.root, "for-each-ref", "refs/heads/loose") == ""


def test_a_branch_whose_work_tree_is_gone_since_is_left_and_a_deleted_one_comes_back(place: Place) -> None:
    side, other = beside(place, "side"), beside(place, "other")
    place.take()
    before = git(place.root, "rev-parse", "other")
    tip = commit_all(side, "finished")
    git(place.root, "worktree", "remove", "--force", str(side))
    git(place.root, "update-ref", "-d", "refs/heads/other")
    assert sorted(place.restore()) == [
        "deleted refs/heads/other",
        "moved refs/heads/side (left: another work tree's)",
    ]
    assert git(place.root, "rev-parse", "side") == tip
    assert git(other, "rev-parse", "HEAD") == before


def test_the_branch_of_a_work_tree_that_was_removed_long_ago_is_put_back(place: Place) -> None:
    shutil.rmtree(beside(place, "side"))
    place.take()
    git(place.root, "update-ref", "refs/heads/side", "HEAD~1")
    assert place.restore() == ["moved refs/heads/side"]
    assert state(place.root) == place.before


def test_a_stash_made_in_another_work_tree_is_left(place: Place) -> None:
    side = beside(place, "side")
    git(place.root, "stash", "push", "--quiet", "--message", "mine", "README.md")
    place.take()
    (side / "README.md").write_text("# Theirs\n")
    git(side, "stash", "push", "--quiet", "--message", "theirs")
    assert place.restore() == ["changed the stash (left: other work trees share it)"]
    assert len(git(place.root, "stash", "list").splitlines()) == 2
    git(place.root, "stash", "clear")
    assert place.restore() == ["changed the stash"]
    assert state(place.root) == place.before


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("deed", ["clear", "drop", "pop", "push"])
def test_the_stash_comes_back_entry_by_entry(place: Place, packed: bool, deed: str) -> None:
    for name in ("README.md", "staged.txt"):
        git(place.root, "stash", "push", "--quiet", "--message", name, name)
    if packed:
        git(place.root, "pack-refs", "--all")
    place.take()
    if deed == "push":
        for number in range(2):
            place.write("run.sh", f"theirs {number}\n")
            git(place.root, "stash", "push", "--quiet", "run.sh")
    else:
        git(place.root, "stash", *{"clear": ["clear"], "drop": ["drop", "--quiet", "stash@{1}"], "pop": ["pop"]}[deed])
    undone = place.restore()
    assert "changed the stash" in undone
    assert state(place.root) == place.before
    git(place.root, "stash", "show", "stash@{1}")
    kept = [line.rpartition(" ")[2] for line in undone if "kept as" in line]
    assert [git(place.root, "show", f"{ref}:run.sh") for ref in kept] == (["theirs 1", "theirs 0"] * (deed == "push"))
    assert place.snapshot.changes() == place.restore() == []


def test_an_alias_of_a_branch_stays_one(place: Place) -> None:
    git(place.root, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(place.root, "symbolic-ref", "refs/heads/other", "refs/heads/main")
    place.take()
    commit(place)
    git(place.root, "update-ref", "--no-deref", "refs/heads/other", "HEAD")
    place.restore()
    assert state(place.root) == place.before
    for alias in ("alias", "other"):
        assert git(place.root, "symbolic-ref", f"refs/heads/{alias}") == "refs/heads/main"


def test_tags_come_back_and_what_was_tagged_is_kept(place: Place) -> None:
    git(place.root, "tag", "light")
    git(place.root, "tag", "--annotate", "--message", "mine", "heavy")
    git(place.root, "tag", "gone")
    place.take()
    git(place.root, "tag", "--force", "light", "HEAD~1")
    git(place.root, "tag", "--force", "--annotate", "--message", "theirs", "heavy")
    theirs = git(place.root, "rev-parse", "heavy")
    git(place.root, "tag", "--delete", "gone")
    git(place.root, "tag", "new")
    git(place.root, "pack-refs", "--all")
    assert sorted(place.restore()) == [
        "added refs/tags/new",
        "committed: kept as refs/ralph/undone/1",
        "deleted refs/tags/gone",
        "moved refs/tags/heavy",
        "moved refs/tags/light",
    ]
    assert state(place.root) == place.before
    assert git(place.root, "rev-parse", "refs/ralph/undone/1") == theirs


def test_a_merge_of_the_users_is_still_in_progress(place: Place) -> None:
    git(place.root, "stash", "--quiet")
    git(place.root, "switch", "--quiet", "--create", "other", "HEAD~1")
    commit_all(place.root, "beside")
    git(place.root, "merge", "--quiet", "--no-commit", "--no-ff", "main")
    place.take()
    git(place.root, "merge", "--abort")
    assert open_repo(place.root).operation_in_progress() == ""
    place.restore()
    assert open_repo(place.root).operation_in_progress() == "merge"
    assert state(place.root) == place.before


def test_ignored_files_stay_whatever_git_was_told_of_them(place: Place) -> None:
    stage_ignored(place)
    hide(place)
    place.write("ignored", "changed by them\n")
    place.restore()
    assert (place.root / "ignored").read_text() == "changed by them\n"
    assert (place.root / "src" / "x.log").exists()
    assert not [name for name in place.shelved() if name.endswith(("/ignored", ".log"))]
    assert {"1/a.hidden", "1/b.out", "1/c.far"} <= place.shelved().keys()


def test_a_new_gitignore_hides_nothing(place: Place) -> None:
    place.write(".venv/.gitignore", "*\n")  # it ignores itself: git lists none of it
    place.write(".venv/lib.py", "mine, ignored\n")
    place.take()
    place.write("drafts/.gitignore", "*\n")
    place.write("drafts/two.txt", "theirs\n")
    place.write("other/.gitignore", "*\n")
    place.write("other/deep/.gitignore", "*\n")
    place.write("other/deep/file", "theirs\n")
    place.write(".gitignore", "*\n")
    place.write("new.txt", "theirs\n")
    place.write(".venv/.gitignore", "")
    assert sorted(place.restore()) == [
        "added drafts/.gitignore",
        "added drafts/two.txt",
        "added new.txt",
        "added other/.gitignore",
        "added other/deep/.gitignore",
        "added other/deep/file",
        "changed .gitignore",
        "changed .venv/.gitignore",
    ]
    assert state(place.root) == place.before
    assert place.restore() == place.snapshot.changes() == []


def test_a_gitignore_that_was_deleted_gives_nothing_away(place: Place) -> None:
    place.write(".venv/.gitignore", "*\n")
    place.write(".venv/lib.py", "mine, ignored\n")
    place.take()
    (place.root / ".venv" / ".gitignore").unlink()
    (place.root / ".gitignore").unlink()
    assert sorted(place.restore()) == ["deleted .gitignore", "deleted .venv/.gitignore"]
    assert state(place.root) == place.before


def test_what_is_in_ignored_folders_and_in_other_repositories_is_left_to_them(place: Place) -> None:
    place.write("ignored.d/.gitignore", "*\n")
    place.write(".git/info/exclude", "ignored.d/\n:(top)*/\n")
    make_repo(place.root / "inner", {".gitignore": "x\n"})
    place.take()
    place.write("ignored.d/.gitignore", "theirs\n")
    place.write("ignored.d/pkg/.gitignore", "*\n")
    place.write(":(top)x/.gitignore", "*\n")
    place.write("inner/.gitignore", "theirs\n")
    place.write("inner/deep/.gitignore", "theirs\n")
    make_repo(place.root / "cloned", {".gitignore": "x\n", "y": "y"})
    assert place.restore() == ["added cloned"]
    assert (place.aside / "1" / "cloned" / ".gitignore").exists()


def test_no_folder_is_hidden_by_making_it_a_repository(place: Place) -> None:
    make_repo(place.root / "drafts", {"two.txt": "theirs\n"})
    place.write("other/.git/HEAD", "no repository\n")
    place.write("other/.gitignore", "*\n")
    said = ["added drafts/.git", "added drafts/two.txt", "added other/.git", "added other/.gitignore"]
    assert sorted(place.restore()) == said
    assert state(place.root) == place.before


def test_ignore_rules_of_the_users_own_are_those_that_stood(place: Place, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("*.mine\n")
    git(place.root, "config", "core.excludesFile", str(rules))
    place.write("a.mine", "mine, ignored\n")
    place.take()
    rules.write_text("*.theirs\n")
    place.write("b.theirs", "theirs\n")
    assert place.snapshot.changes() == place.restore() == ["added b.theirs"]
    assert state(place.root) == place.before


def test_ralphs_own_files_are_none_of_it(place: Place) -> None:
    place.write(".ralph/state/budget.json", "{}")
    place.write(".ralph/logs/x", "1")
    place.take()
    place.write(".ralph/state/budget.json", "{1}")
    (place.root / ".ralph" / "logs" / "x").unlink()
    (place.root / ".ralph" / "runs").symlink_to(place.outside)
    assert place.snapshot.changes() == place.restore() == []


def test_what_is_put_aside_within_the_tree_is_not_put_aside_again(place: Place) -> None:
    store, aside = place.root / "mine" / "store", place.root / "mine" / "aside"
    snapshot = TreeSnapshot.take(open_repo(place.root), store)
    place.write("new.txt", "theirs\n")
    assert snapshot.changes() == snapshot.restore(aside) == ["added new.txt"]
    assert (aside / "1" / "new.txt").exists()
    assert snapshot.restore(aside) == []


NAMES = [
    b"new\nline",
    b"-dash",
    b'"quoted"',
    b" spaces ",
    b"tab\t",
    b"*",
    b"[a]",
    b":(top)x",
    b"a\\b",
    b"bytes-\xff\xfe",
]


def test_any_name_will_do(place: Place) -> None:
    def path(name: bytes, number: int) -> Path:
        return place.root / f"odd{number}" / os.fsdecode(name) / os.fsdecode(name)

    for name in NAMES:
        for number in (1, 2):
            path(name, number).parent.mkdir(parents=True)
            path(name, number).write_bytes(name)
    git(place.root, "add", "odd1")
    place.take()
    for name in NAMES:
        path(name, 1).write_bytes(b"theirs")
        path(name, 2).unlink()
        path(name, 3).parent.mkdir(parents=True)
        path(name, 3).write_bytes(b"new")
    assert len(place.restore()) == 3 * len(NAMES)
    assert state(place.root) == place.before


def test_bytes_come_back_as_they_were_whatever_git_would_make_of_them(place: Place) -> None:
    place.write(".gitattributes", "* text=auto eol=crlf\n*.up filter=up\n*.id ident\n")
    git(place.root, "config", "filter.up.clean", "tr a-z A-Z")
    git(place.root, "config", "filter.up.smudge", "tr A-Z a-z")
    for name in ("a.txt", "b.up", "c.id"):
        (place.root / name).write_bytes(b"lf\ncrlf\r\nMiXed $Id: x $\n")
    git(place.root, "add", "a.txt")
    place.take()
    for name in ("a.txt", "b.up", "c.id"):
        (place.root / name).write_bytes(b"theirs")
    place.restore()
    assert state(place.root) == place.before


def test_a_large_file_comes_back(place: Place) -> None:
    with (place.root / "large").open("wb") as file:
        file.seek(50_000_000)
        file.write(b"end")
    place.take()
    with (place.root / "large").open("r+b") as file:
        file.seek(25_000_000)
        file.write(b"x")
    assert place.restore() == ["changed large"]
    assert state(place.root) == place.before


@pytest.mark.parametrize("staged", [True, False])
def test_a_repository_without_any_commit_is_put_right(tmp_path: Path, staged: bool) -> None:
    root = make_repo(tmp_path / "new", {"mine.txt": "mine\n"}, commit=False)
    if staged:
        git(root, "add", "mine.txt")
    before = state(root)
    snapshot = TreeSnapshot.take(open_repo(root), tmp_path / "store")
    (root / "mine.txt").write_text("theirs\n")
    commit_all(root, "theirs")
    git(root, "branch", "other")
    undone = snapshot.restore(tmp_path / "aside")
    assert {"changed mine.txt", "added refs/heads/main", "committed: kept as refs/ralph/undone/1"} <= set(undone)
    assert state(root) == before
    assert git(root, "show", "refs/ralph/undone/1:mine.txt") == "theirs"
    assert snapshot.changes() == []


def test_a_work_tree_beside_the_repository_is_put_right(place: Place) -> None:
    beside = place.base / "beside"
    git(place.root, "worktree", "add", "--quiet", "-b", "side", str(beside))
    before, index = files(beside), Path(git(beside, "rev-parse", "--git-dir")) / "index"
    staged = index.read_bytes()
    snapshot = TreeSnapshot.take(open_repo(beside), place.base / "run" / "store")
    (beside / "new.txt").write_text("theirs\n")
    commit_all(beside, "theirs")
    git(beside, "config", "core.hooksPath", "/elsewhere")
    snapshot.restore(place.aside)
    assert (files(beside), index.read_bytes()) == (before, staged)
    assert git(beside, "rev-parse", "side") == git(place.root, "rev-parse", "main")
    assert state(place.root).files == place.before.files
    assert "hooksPath" not in (place.root / ".git" / "config").read_text()


def test_repositories_within_are_not_looked_into(place: Place) -> None:
    make_repo(place.root / "inner", {"x": "y"})
    library = make_repo(place.base / "library", {"x": "y"})
    git(place.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub")
    place.take()
    for folder in ("inner", "sub"):
        (place.root / folder / "x").write_text("theirs\n")
    shutil.rmtree(place.root / "inner" / ".git")
    make_repo(place.root / "cloned", {"x": "y"})
    assert place.restore() == ["deleted inner/.git/ (not kept)", "added cloned"]
    assert (place.root / "inner" / "x").read_text() == (place.root / "sub" / "x").read_text() == "theirs\n"
    assert (place.aside / "1" / "cloned" / ".git").is_dir()


def test_repositories_within_that_are_gone_are_said(place: Place) -> None:
    for name in ("inner", "deep/er", "replaced"):
        make_repo(place.root / name, {"x": "y"})
    place.take()
    for name in ("inner", "deep", "replaced"):
        shutil.rmtree(place.root / name)
    place.write("replaced", "theirs\n")
    said = [f"deleted {name}/ (not kept)" for name in ("deep/er", "inner", "replaced")]
    assert sorted(place.snapshot.changes()) == sorted(place.restore()) == ["added replaced", *said]
    assert (place.aside / "1" / "replaced").read_text() == "theirs\n"


def test_what_a_user_keeps_behind_a_link_is_not_in_the_tree(place: Place) -> None:
    shutil.rmtree(place.root / "src")
    (place.outside / "deep").mkdir()
    (place.outside / "app.py").write_text("behind the link\n")
    (place.root / "src").symlink_to(place.outside)
    place.take()
    (place.outside / "app.py").write_text("theirs\n")
    assert place.restore() == []
    (place.root / "src").unlink()
    place.write("src/app.py", "theirs\n")
    assert place.restore() == ["changed src"]
    assert state(place.root) == place.before


def may_read_anything() -> bool:
    """As root does, unless it was denied (setpriv --bounding-set=-dac_override,-dac_read_search)."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).chmod(0)
        return os.access(file.name, os.R_OK, effective_ids=True)


@pytest.mark.skipif(may_read_anything(), reason="root may write anywhere")
def test_folders_that_nobody_may_enter_are_opened_and_closed_again(place: Place) -> None:
    (place.root / "src" / "deep").chmod(0o500)
    place.take()
    (place.root / "src" / "deep").chmod(0o700)
    shutil.rmtree(place.root / "src" / "deep" / "er")
    (place.root / "drafts").chmod(0o000)
    place.restore()
    assert stat.S_IMODE((place.root / "src" / "deep").stat().st_mode) == 0o500
    assert state(place.root) == place.before
    (place.root / "src" / "deep").chmod(0o700)


@pytest.mark.skipif(may_read_anything(), reason="root may read anything")
def test_what_cannot_be_read_is_named_and_left_alone(place: Place) -> None:
    place.write("closed/tracked", "mine\n")
    git(place.root, "add", "closed")
    place.write("closed/new", "mine, and git cannot know of it\n")
    place.write("blind/file", "mine\n")
    place.before = state(place.root)
    (place.root / "notes.txt").chmod(0)
    (place.root / "closed").chmod(0)
    (place.root / "blind").chmod(0o300)
    snapshot = TreeSnapshot.take(open_repo(place.root), place.base / "run" / "blind")
    assert snapshot.unread == ("blind", "closed", "notes.txt")
    assert snapshot == TreeSnapshot.stored(open_repo(place.root), snapshot.store)
    for name, mode in {"notes.txt": 0o644, "closed": 0o755, "blind": 0o755}.items():
        (place.root / name).chmod(mode)
    place.write("new.txt", "theirs\n")
    assert snapshot.restore(place.aside)[-1] == "added new.txt"
    assert stat.S_IMODE((place.root / "closed").stat().st_mode) == 0
    for name in ("closed", "blind"):
        (place.root / name).chmod(0o755)
    assert state(place.root) == place.before


def test_a_path_that_is_too_long_to_be_read_is_named_and_left_alone(place: Place) -> None:
    """Git works from the tree's root, and so knows of more than can be reached by an absolute path."""
    # Short names, because the path from the root must just fit: the root's own may be no longer than 30 letters.
    depth, room, name = 0, 4096 - len(str(place.root)), "d" * 20
    here = os.open(place.root, os.O_RDONLY)
    while depth < room // (len(name) + 1) + 1:
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, depth = below, depth + 1
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    place.snapshot.discard()
    snapshot = TreeSnapshot.take(open_repo(place.root), place.base / "run" / "long")
    try:
        assert [path.rpartition("/")[2] for path in snapshot.unread] == ["file"]
        place.write("new.txt", "theirs\n")
        assert snapshot.changes() == snapshot.restore(place.aside) == ["added new.txt"]
    finally:
        subprocess.run(["rm", "-rf", name], cwd=place.root, check=True)


def test_a_pass_can_be_called_off_while_the_tree_is_copied(place: Place) -> None:
    store, seen = place.base / "run" / "half", 0

    def pause() -> None:
        nonlocal seen
        seen += 1
        if (store / "tree" / "README.md").exists():
            raise Interrupted(2)

    with pytest.raises(Interrupted):
        TreeSnapshot.take(open_repo(place.root), store, pause=pause)
    assert not store.exists()
    assert seen > 1
    assert state(place.root) == place.before


def test_files_come_back_even_where_there_is_no_repository_any_more(place: Place) -> None:
    everything(place)
    shutil.rmtree(place.root / ".git")
    with pytest.raises(DiskError, match=r"\.git"):
        place.restore()
    assert files(place.root) == place.before.files


def test_the_copies_can_be_read_as_they_are_and_are_private(place: Place) -> None:
    store = place.snapshot.store
    assert (store / "tree" / "notes.txt").read_text() == "mine, in no commit\n"
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    place.snapshot.discard()
    assert not store.exists()


def test_a_store_that_is_there_already_is_not_written_to(place: Place) -> None:
    store = place.snapshot.store
    with pytest.raises(DiskError, match="exists"):
        TreeSnapshot.take(open_repo(place.root), store)
    assert (store / "tree" / "notes.txt").exists()


def test_where_not_everything_can_be_kept_nothing_is(place: Place) -> None:
    store = place.base / "run" / "other"
    (place.root / ".git" / "index").write_bytes(b"broken")
    with pytest.raises(RepoError, match="index"):
        TreeSnapshot.take(open_repo(place.root), store)
    assert not store.exists()


# After ralph was killed


def test_a_snapshot_can_be_taken_up_by_another_process(place: Place) -> None:
    name = os.fsdecode(b"bytes-\xff\n")
    place.write(f"odd/{name}", "mine\n")
    git(place.root, "stash", "push", "--quiet", "--message", "mine", "README.md")
    make_repo(place.root / "src" / "inner", {"x": "y"})
    beside(place, "side")
    place.take()
    stored = TreeSnapshot.stored(open_repo(place.root), place.snapshot.store)
    assert stored == place.snapshot
    for deed in (hide, commit, switch, everything, configure):
        deed(place)
    git(place.root, "config", "core.bare", "false")
    (place.root / "odd").mkdir()
    place.write(f"odd/{name}", "theirs\n")
    script = (
        "import sys; from pathlib import Path; from ralph.gitrepo import open_repo;"
        "from ralph.tree.snapshot import TreeSnapshot;"
        "root, store, aside = map(Path, sys.argv[1:]);"
        "TreeSnapshot.stored(open_repo(root), store).restore(aside)"
    )
    subprocess.run(
        [sys.executable, "-c", script, place.root, place.snapshot.store, place.aside],
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert state(place.root) == place.before
    assert place.snapshot.changes() == place.restore() == []


def test_what_is_stored_of_a_work_tree_beside_the_repository_is_taken_up(place: Place) -> None:
    side = beside(place, "side")
    store = place.base / "run" / "store"
    assert TreeSnapshot.take(open_repo(side), store) == TreeSnapshot.stored(open_repo(side), store)
    assert TreeSnapshot.stored(open_repo(place.root), store) is None


def without_manifest(store: Path) -> None:
    (store / "manifest.json").unlink()


def torn_manifest(store: Path) -> None:
    whole = (store / "manifest.json").read_bytes()
    (store / "manifest.json").write_bytes(whole[:-10])


def other_version(store: Path) -> None:
    whole = (store / "manifest.json").read_text()
    (store / "manifest.json").write_text(whole.replace('"version":1', '"version":2'))


def other_shape(store: Path) -> None:
    (store / "manifest.json").write_text("[]")


def astray(store: Path) -> None:
    whole = (store / "manifest.json").read_text()
    assert '"notes.txt"' in whole
    (store / "manifest.json").write_text(whole.replace('"notes.txt"', '"../notes.txt"'))
    shutil.copy(store / "tree" / "notes.txt", store / "notes.txt")


def elsewhere(store: Path) -> None:
    whole = (store / "manifest.json").read_text()
    common = re.compile(r'"common":"[^"]*"')
    assert common.search(whole)
    (store / "manifest.json").write_text(common.sub(f'"common":"{store}"', whole))


def without_copy(store: Path) -> None:
    (store / "tree" / "notes.txt").unlink()


def short_copy(store: Path) -> None:
    (store / "git" / "config").write_bytes(b"")


def copy_to_link(store: Path) -> None:
    (store / "tree" / "notes.txt").rename(store / "notes.txt")
    (store / "tree" / "notes.txt").symlink_to(store / "notes.txt")


def without_rules(store: Path) -> None:
    (store / "excludes").unlink()


HARMS: list[Callable[[Path], None]] = [
    without_manifest, torn_manifest, other_version, other_shape, astray, elsewhere, without_copy, short_copy,
    copy_to_link, without_rules, shutil.rmtree,
]  # fmt: skip


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_an_incomplete_or_damaged_store_is_none(place: Place, harm: Callable[[Path], None]) -> None:
    harm(place.snapshot.store)
    assert TreeSnapshot.stored(open_repo(place.root), place.snapshot.store) is None


def test_what_is_being_forgotten_is_not_taken_up_again(place: Place) -> None:
    """Of a store that is a link nothing can be removed as a whole: as if ralph had been killed before it was."""
    place.snapshot.store.rename(place.base / "real")
    place.snapshot.store.symlink_to(place.base / "real")
    place.snapshot.discard()
    assert (place.base / "real" / "tree" / "notes.txt").exists()
    assert TreeSnapshot.stored(open_repo(place.root), place.base / "real") is None


def test_a_restore_that_was_cut_off_is_finished_by_the_next(place: Place) -> None:
    commit(place)
    everything(place)
    aside = place.aside
    aside.parent.mkdir(exist_ok=True)
    aside.write_text("in the way: the first restore fails when it wants to put something aside\n")
    with pytest.raises(DiskError):
        place.restore()
    aside.unlink()
    stored = TreeSnapshot.stored(open_repo(place.root), place.snapshot.store)
    assert stored is not None
    stored.restore(aside)
    assert state(place.root) == place.before


# Anything at all

PATHS = ["README.md", "notes.txt", "src", "src/app.py", "src/deep", "new", "new/a", "new/a/b", "link", "drafts/one.txt"]
DEED = st.tuples(
    st.sampled_from(["write", "delete", "link", "folder", "mode", "add", "commit", "reset", "checkout"]),
    st.sampled_from(PATHS),
    st.binary(max_size=5),
)


def do(place: Place, what: str, path: Path, content: bytes) -> None:
    match what:
        case "write":
            path.write_bytes(content)
        case "delete":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        case "link":
            path.symlink_to(place.outside)
        case "folder":
            path.mkdir(parents=True)
        case "mode":
            path.chmod(0o777)
        case "add":
            git(place.root, "add", "--all")
        case "commit":
            commit_all(place.root, "theirs")
        case "reset":
            git(place.root, "reset", "--quiet", "--hard")
        case _:
            git(place.root, "checkout", "--quiet", "--force", "--detach", "HEAD~1")


@settings(max_examples=12, deadline=None)
@given(st.lists(DEED, min_size=1, max_size=8))
def test_any_deeds_in_any_order_are_undone(deeds: list[tuple[str, str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as base:
        place = Place(Path(base))
        for what, path, content in deeds:
            inside = not (place.root / path).parent.resolve().is_relative_to(place.outside)
            try:
                if inside and not (what in ("write", "mode") and (place.root / path).is_symlink()):
                    do(place, what, place.root / path, content)
            except (OSError, AssertionError):
                pass  # it could not be done
        theirs = {name: content for name, (_, content) in files(place.root).items() if isinstance(content, bytes)}
        outside = files(place.outside)
        if not (place.root / "src" / "x.log").exists():
            place.before.files.pop("src/x.log")  # ignored
        place.restore()
        assert state(place.root) == place.before
        assert files(place.outside) == outside
        kept = {content for files_of in (place.root, place.aside) for _, content in files(files_of).values()}
        assert set(theirs.values()) <= kept
