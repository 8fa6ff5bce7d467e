"""What `ralph-runs gc` may remove: random histories of clones, made with real git, and never a commit lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ralph.queue.clone import Obstacle, examine, kept
from ralph.queue.database import default_url
from ralph.queue.gc import GarbageCollection, Holding, What
from ralph.queue.goals import BatchGoal, State, Submission
from ralph.queue.open import sole_worker, unless_served
from ralph.queue.paths import QueuePaths, queue_paths
from ralph.queue.repos.mirror import Mirror
from ralph.queue.repos.remote import Bare
from ralph.queue.store import Store, open_store
from tests.support.git_repos import EMAIL, NAME, git, make_repo
from tests.support.upstreams import make_upstream, refreshed, work

EXAMPLES = int(os.environ.get("GC_EXAMPLES", "12"))  # a second each; give it hundreds after a change
WHO = ("-c", f"user.name={NAME}", "-c", f"user.email={EMAIL}")


@dataclass
class Scene:
    """A queue with one goal, which is over, and the clone that it was worked on in."""

    store: Store
    place: QueuePaths
    mirror: Mirror
    goal: BatchGoal
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def clone(self) -> Path:
        return self.place.clone(self.goal)

    def clear(self) -> dict[What, str]:
        """Remove what can go; say of each that does not why."""
        goals = {self.place.clone(goal).name: goal for goal in self.store.goals()}
        clearing = GarbageCollection(self.place, goals)
        return {found.what: self._cleared(clearing, found) for found in clearing.survey()}

    def _cleared(self, clearing: GarbageCollection, found: Holding) -> str:
        return clearing.remove(found, self.claim) if found.goes else found.why

    def force(self) -> dict[What, str]:
        """Remove all clones of the goal, whatever they hold."""
        clearing = GarbageCollection(self.place, {})
        assert clearing.in_use(self.goal) == ""
        return {found.what: self._forced(clearing, found) for found in clearing.forced([self.goal])}

    def _forced(self, clearing: GarbageCollection, found: Holding) -> str:
        return clearing.remove(found, self.claim, forced=True) if found.goes else found.why

    def unsaved(self) -> dict[Obstacle, tuple[str, ...]]:
        """What of the clone the mirror cannot take over."""
        found = examine(self.mirror, self.clone, self.goal.branch).unsaved
        return {each.what: each.items for each in found}

    def claim(self, goal: BatchGoal | None) -> contextlib.AbstractContextManager[bool]:
        return unless_served(default_url(self.place.ralph_dir)) if goal is None else self.store.as_seen(goal)

    def new_text(self) -> str:
        return f"text number {next(self.numbers)}\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An upstream repository that all scenes are about."""
    ignoring = {".gitignore": "ignored/\n*.o\n"}
    return make_upstream(tmp_path_factory.mktemp("upstream") / "up.git", {"a.txt": "a\n", **ignoring})


def made(base: Path, folder: Path, state: State = State.DONE) -> Scene:
    ralph_dir = folder / "ralph"
    ralph_dir.mkdir(parents=True)
    store = open_store(default_url(ralph_dir))
    assert store is not None
    asked = Submission("speed", "Speed", "## Objective\nx\n", "/goals/speed.md", str(base))
    (submitted,) = store.submit([asked], State.QUEUED)
    goal = submitted.goal
    mirror = refreshed(folder, base)
    place = queue_paths(ralph_dir, store.queue_id)
    mirror.clone(place.clone(goal), goal.branch)
    if state in (State.DONE, State.STUCK):
        store.move(goal, State.RUNNING)
        store.move(store.goal(goal.id), state)
    elif state is State.CANCELLED:
        store.cancel(goal)
    return Scene(store, place, mirror, store.goal(goal.id))


@pytest.fixture
def scene(base: Path, tmp_path: Path) -> Iterator[Scene]:
    scene = made(base, tmp_path)
    yield scene
    scene.store.close()


# What an agent may do to its clone. Each is handed a random number to choose by.


def commit(scene: Scene, number: int) -> None:
    (scene.clone / f"f{number % 3}.txt").write_text(scene.new_text())
    _commit(scene.clone, "work")


def amend(scene: Scene, number: int) -> None:
    (scene.clone / "amended.txt").write_text(scene.new_text())
    git(scene.clone, "add", "--all")
    git(scene.clone, *WHO, "commit", "--quiet", "--amend", "-mamended")


def reset(scene: Scene, number: int) -> None:
    commit(scene, number)
    git(scene.clone, "reset", "--quiet", "--hard", "HEAD^")


def branch(scene: Scene, number: int) -> None:
    git(scene.clone, "switch", "--quiet", "--force-create", f"idea-{number}")
    commit(scene, number)
    if number % 2:
        git(scene.clone, "switch", "--quiet", "--force", "ralph/speed")
        if number % 3 == 0:
            git(scene.clone, "branch", "--quiet", "--delete", "--force", f"idea-{number}")


def detach(scene: Scene, number: int) -> None:
    git(scene.clone, "switch", "--quiet", "--detach", "--force")
    commit(scene, number)
    if number % 2:
        git(scene.clone, "switch", "--quiet", "--force", "ralph/speed")


def stash(scene: Scene, number: int) -> None:
    (scene.clone / "a.txt").write_text(scene.new_text())
    git(scene.clone, *WHO, "stash", "--quiet")
    if number % 2:
        git(scene.clone, "stash", "drop", "--quiet")


def tag(scene: Scene, number: int) -> None:
    git(scene.clone, *WHO, "tag", "--force", *(["-mtag"] if number % 2 else []), f"t{number}")
    if number % 3 == 0:
        git(scene.clone, "tag", "--delete", f"t{number}")


def worktree(scene: Scene, number: int) -> None:
    inside = (scene.clone / "ignored", scene.clone, scene.clone.parent.parent.parent.parent)[number % 3]
    tree = inside / f"tree-{number}-{next(scene.numbers)}"
    git(scene.clone, "worktree", "add", "--quiet", "--detach", str(tree))
    (tree / "in-tree.txt").write_text(scene.new_text())
    _commit(tree, "in a tree")
    if number % 2:
        git(scene.clone, "worktree", "remove", "--force", str(tree))


def pack(scene: Scene, number: int) -> None:
    options = (["repack", "-a", "-d", "-l", "--quiet"], ["pack-refs", "--all"], ["gc", "--quiet", "--prune=never"])
    git(scene.clone, *options[number % 3])


def indices(scene: Scene, number: int) -> None:
    git(scene.clone, "commit-graph", "write", "--reachable", "--no-progress")
    git(scene.clone, "multi-pack-index", "write", "--no-progress")


def write(scene: Scene, number: int) -> None:
    text = scene.new_text()
    (scene.clone / ("a.txt", "new.txt", "deep/er/new.txt")[number % 3]).parent.mkdir(parents=True, exist_ok=True)
    (scene.clone / ("a.txt", "new.txt", "deep/er/new.txt")[number % 3]).write_text(text)


def stage(scene: Scene, number: int) -> None:
    write(scene, number)
    git(scene.clone, "add", "--all")
    if number % 2:
        write(scene, number)


def ignored(scene: Scene, number: int) -> None:
    (scene.clone / "ignored").mkdir(exist_ok=True)
    (scene.clone / "ignored" / "built").write_text("built\n")


def nested(scene: Scene, number: int) -> None:
    where = scene.clone / ("ignored", ".", ".git/modules")[number % 3] / f"inner-{next(scene.numbers)}"
    make_repo(where, {"x.txt": scene.new_text()})


def bare_nested(scene: Scene, number: int) -> None:
    first = make_repo(scene.place.root.parent / f"seed-{next(scene.numbers)}", {"x.txt": scene.new_text()})
    where = scene.clone / "ignored" / f"bare-{next(scene.numbers)}"
    where.parent.mkdir(exist_ok=True)
    git(first, "clone", "--quiet", "--bare", str(first), str(where))
    shutil.rmtree(first)


def cloned_nested(scene: Scene, number: int) -> None:
    """A repository that seems to have come from elsewhere: its source is gone, or only said, or in the clone, too."""
    inside = scene.clone / "ignored"
    seed = make_repo(
        (inside, scene.place.root.parent)[number % 2] / f"seed-{next(scene.numbers)}", {"x": scene.new_text()}
    )
    where = inside / f"copy-{next(scene.numbers)}"
    git(seed, "clone", "--quiet", str(seed), str(where))
    if number % 3 == 0:
        git(where, "remote", "remove", "origin")
        git(where, "update-ref", "refs/remotes/origin/main", "HEAD")
    if number % 4:
        shutil.rmtree(seed)


def sha256_nested(scene: Scene, number: int) -> None:
    where = scene.clone / "ignored" / f"long-{next(scene.numbers)}"
    git(scene.clone, "init", "--quiet", "--object-format=sha256", str(where))
    (where / "x.txt").write_text(scene.new_text())
    _commit(where, "long names")
    if number % 2:
        git(where, "repack", "-a", "-d", "--quiet")
    if number % 3 == 0:
        (where / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")


def hide(scene: Scene, number: int) -> None:
    write(scene, number + 1)
    (scene.clone / ".git" / "info" / "exclude").write_text(("*\n", "new.txt\n", "deep/\n")[number % 3])


def break_object(scene: Scene, number: int) -> None:
    loose = sorted((scene.clone / ".git" / "objects").glob("[0-9a-f][0-9a-f]/*"))
    packs = sorted((scene.clone / ".git" / "objects" / "pack").glob("*"))
    files = loose + packs
    if not files:
        return
    file = files[number % len(files)]
    file.chmod(0o600)
    if number % 3 == 0:
        file.write_bytes(b"")
    elif number % 3 == 1:
        file.write_bytes(file.read_bytes()[: number % 64] + b"junk")
    else:
        file.unlink()


def empty_ref(scene: Scene, number: int) -> None:
    (scene.clone / ".git" / "refs" / "heads" / "empty").write_text("")


def lose_branch(scene: Scene, number: int) -> None:
    git(scene.clone, "switch", "--quiet", "--detach", "--force")
    git(scene.clone, "update-ref", "-d", "refs/heads/ralph/speed")


DEEDS: tuple[Callable[[Scene, int], None], ...] = (
    commit, amend, reset, branch, detach, stash, tag, worktree, pack, indices, write, stage, ignored, nested,
    bare_nested, cloned_nested, sha256_nested, hide, break_object, empty_ref, lose_branch,
)  # fmt: skip
USUAL = (commit, amend, reset, branch, detach, stash, tag, pack, indices, write, stage, hide, ignored)


def _commit(tree: Path, message: str) -> None:
    git(tree, "add", "--all", ":!inner-*", ":!tree-*")
    git(tree, *WHO, "commit", "--quiet", "--allow-empty", f"-m{message}")


def all_commits(place: Path) -> set[str]:
    """Every commit in every repository below a place that git can still read, by git's own word."""
    found: set[str] = set()
    for folder, inside, _ in os.walk(place):
        if Path(folder).name == "objects" and "pack" in inside:
            found |= _listed(Path(folder).parent, "commit")
    return found


def _listed(git_dir: Path, kind: str) -> set[str]:
    listing = ["cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"]
    done = subprocess.run(["git", f"--git-dir={git_dir}", *listing], capture_output=True, text=True)
    return {line.split()[1] for line in done.stdout.splitlines() if line.startswith(f"{kind} ")}


def texts(clone: Path) -> set[bytes]:
    """What is written in files of a clone that are not ignored, and in its index."""
    named = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-per-directory=.gitignore", "-z"],
        cwd=clone,
        capture_output=True,
    ).stdout.split(b"\0")
    files = [clone / os.fsdecode(name) for name in named if name]
    staged = subprocess.run(["git", "ls-files", "--stage"], cwd=clone, capture_output=True, text=True).stdout
    blobs = [line.split()[1] for line in staged.splitlines() if not line.startswith("160000")]
    shown = (subprocess.run(["git", "cat-file", "blob", sha], cwd=clone, capture_output=True) for sha in blobs)
    return {file.read_bytes() for file in files if file.is_file()} | {
        done.stdout for done in shown if done.returncode == 0
    }


def is_kept(mirror: Mirror, text: bytes) -> bool:
    """Tell whether refs of the mirror lead to a text: what is merely there goes with the next `git gc`."""
    sha = subprocess.run(
        ["git", "hash-object", "--stdin"], input=text, cwd=mirror.path, capture_output=True
    ).stdout.decode()
    return sha.strip() in git(mirror.path, "rev-list", "--objects", "--no-object-names", "--all").split()


def reachable(mirror: Mirror) -> set[str]:
    """What the mirror's refs lead to, with every tree and file: a collection of garbage would leave all of it."""
    git(mirror.path, "rev-list", "--objects", "--all", "--quiet")
    return set(git(mirror.path, "rev-list", "--all").split())


@pytest.mark.parametrize("forced", [False, True])
def test_no_commit_and_no_text_is_ever_lost(base: Path, tmp_path: Path, forced: bool) -> None:
    """By force a clone goes unless it is damaged; lost is what is listed: repositories of its own, gaps in history."""
    numbers = itertools.count()
    steps = st.one_of(*(st.lists(st.tuples(st.sampled_from(each), st.integers(0, 1000)), min_size=1, max_size=7)
                        for each in (USUAL, DEEDS)))  # fmt: skip

    # Not shrunk: an example takes a second, and names its few deeds.
    @settings(
        max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None,
        phases=[Phase.generate],
    )  # fmt: skip
    @given(steps, st.sampled_from([State.DONE, State.CANCELLED]))
    def holds(chosen: list[tuple[Callable[[Scene, int], None], int]], state: State) -> None:
        folder = tmp_path / str(next(numbers))
        scene = made(base, folder, state)
        try:
            for deed, number in chosen:
                with contextlib.suppress(AssertionError):  # git may refuse it, in the state that the clone is in
                    deed(scene, number)
            unsaved = scene.unsaved() if forced else {}
            commits = _listed(scene.clone / ".git", "commit") if forced else all_commits(scene.clone)
            written = texts(scene.clone)
            why = (scene.force if forced else scene.clear)()[What.CLONE]
            assert scene.clone.exists() == bool(why)
            if why:  # it reads the mirror's objects, too, and these may have become more
                assert (_listed(scene.clone / ".git", "commit") if forced else all_commits(scene.clone)) >= commits
                assert texts(scene.clone) >= written
            if forced and why:  # git can no longer tell what of a damaged clone can be read: then all of it stays
                assert any(deed is break_object for deed, _ in chosen), why
                return
            if Obstacle.COMMITS in unsaved:
                return
            if not why:
                assert commits <= reachable(scene.mirror)
                assert not [text for text in written if not is_kept(scene.mirror, text)]
            if all(deed in USUAL for deed, _ in chosen):
                assert why == ""
        finally:
            scene.store.close()
            shutil.rmtree(folder)

    holds()


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_each_deed_can_be_done(scene: Scene, deed: Callable[[Scene, int], None]) -> None:
    """Above, one that git refuses is passed over; none of them always is."""
    commit(scene, 0)
    pack(scene, 0)
    deed(scene, 1)


def test_a_text_that_the_mirror_has_by_chance_is_kept_as_any_other(scene: Scene) -> None:
    """It was staged, and is in no file any more; `git gc` would remove it from the mirror, where no ref leads to it."""
    (scene.clone / "staged.txt").write_text("staged\n")
    git(scene.clone, "add", "staged.txt")
    (scene.clone / "staged.txt").unlink()
    subprocess.run(["git", "hash-object", "-w", "--stdin"], input=b"staged\n", cwd=scene.mirror.path, check=True)
    assert not is_kept(scene.mirror, b"staged\n")
    assert scene.clear()[What.CLONE] == ""
    assert is_kept(scene.mirror, b"staged\n")


@pytest.mark.parametrize(
    "deed", [commit, amend, reset, branch, detach, stash, stage, write, hide], ids=lambda deed: deed.__name__
)
def test_what_an_agent_usually_leaves_is_saved_and_the_clone_goes(
    scene: Scene, deed: Callable[[Scene, int], None]
) -> None:
    deed(scene, 3)
    commits, written = all_commits(scene.clone), texts(scene.clone)
    assert scene.clear()[What.CLONE] == ""
    assert not scene.clone.exists()
    assert commits <= reachable(scene.mirror)
    assert all(is_kept(scene.mirror, text) for text in written)


@pytest.mark.parametrize(
    ("deed", "number", "why"),
    [
        (nested, 0, "it contains another repository in ignored/inner-0, whose history may exist nowhere else"),
        (nested, 2, "it contains another repository in .git/modules/inner-0, whose history may exist nowhere else"),
        (bare_nested, 0, "it contains another repository in ignored/bare-2, whose history may exist nowhere else"),
        (cloned_nested, 1, "it contains another repository in ignored/copy-2, whose history may exist nowhere else"),
        (cloned_nested, 3, "it contains another repository in ignored/copy-2, whose history may exist nowhere else"),
        (cloned_nested, 4, "it contains another repository in ignored/"),
        (sha256_nested, 2, "it contains another repository in ignored/long-0, whose history may exist nowhere else"),
        (sha256_nested, 3, "it contains another repository in ignored/long-0, whose history may exist nowhere else"),
        (worktree, 0, "it has another worktree in "),
        (worktree, 2, "it has another worktree in "),
        (lose_branch, 0, "branch ralph/speed"),
    ],
)  # fmt: skip
def test_what_cannot_be_saved_stays(scene: Scene, deed: Callable[[Scene, int], None], number: int, why: str) -> None:
    deed(scene, number)
    assert scene.clear()[What.CLONE].startswith(f"it is done, but {why}")
    assert scene.clone.exists()


@pytest.mark.parametrize("place", [".gitignore", "deep/.gitattributes", ".git/index", ".git/info/exclude"])
def test_a_pipe_that_git_would_wait_for_keeps_the_clone(scene: Scene, place: str) -> None:
    work(scene.clone, {"b.txt": "b"})
    pipe = scene.clone / place
    pipe.parent.mkdir(exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    assert scene.clear()[What.CLONE] == f"it is done, but git would wait forever to read {place}"
    assert pipe.exists()


def test_a_pipe_goes_by_force_and_the_rest_is_saved(scene: Scene) -> None:
    tip = work(scene.clone, {"b.txt": "b"})
    (scene.clone / "deep").mkdir()
    os.mkfifo(scene.clone / "deep" / ".gitignore")
    (scene.clone / "deep" / "c.txt").write_text("not committed")
    assert scene.unsaved() == {Obstacle.BLOCKING: ("deep/.gitignore",)}
    assert scene.force()[What.CLONE] == ""
    assert not scene.clone.exists()
    assert tip in reachable(scene.mirror)
    assert is_kept(scene.mirror, b"not committed")


def test_a_socket_of_gits_and_a_pipe_that_git_passes_over_keep_nothing(scene: Scene) -> None:
    with socket.socket(socket.AF_UNIX) as daemon, contextlib.chdir(scene.clone / ".git"):
        daemon.bind("fsmonitor--daemon.ipc")
    (scene.clone / "ignored").mkdir()
    os.mkfifo(scene.clone / "ignored" / "pipe")
    assert scene.clear()[What.CLONE] == ""


def test_a_commit_that_is_broken_keeps_the_clone(scene: Scene) -> None:
    lost = work(scene.clone, {"b.txt": "b"})
    git(scene.clone, "reset", "--quiet", "--hard", "HEAD^")
    file = scene.clone / ".git" / "objects" / lost[:2] / lost[2:]
    file.chmod(0o600)
    file.write_bytes(b"")
    assert scene.clear()[What.CLONE] == f"it is done, but its object {lost[:12]} is broken"
    assert scene.clone.exists()


def test_objects_that_cannot_be_looked_at_keep_the_clone(scene: Scene) -> None:
    work(scene.clone, {"b.txt": "b"})
    (scene.clone / ".git" / "objects" / "zz").mkdir()
    folder = next((scene.clone / ".git" / "objects").glob("[0-9a-f][0-9a-f]"))
    folder.rename(scene.clone / ".git" / "aside")
    folder.symlink_to(folder.name)
    assert scene.clear()[What.CLONE] != ""
    assert scene.clone.exists()


def empty(source: Path, inner: Path) -> None:
    git(source, "init", "--quiet", str(inner))


def fetched(source: Path, inner: Path) -> None:
    git(source, "clone", "--quiet", str(source), str(inner))


def fetched_from_a_server(source: Path, inner: Path) -> None:
    """As its settings say, which are an agent's to write; nobody is asked."""
    fetched(source, inner)
    git(inner, "config", "remote.origin.url", "https://example.org/lib.git")


def fetched_tag(source: Path, inner: Path) -> None:
    git(source, "clone", "--quiet", "--branch=v1", "--depth=1", f"file://{source}", str(inner))


def without_head(source: Path, inner: Path) -> None:
    """No repository any more by git's own word, but the objects are there."""
    fetched(source, inner)
    (inner / ".git" / "HEAD").rename(inner / "HEAD")
    shutil.rmtree(inner / ".git" / "refs")


def only_packs(source: Path, inner: Path) -> None:
    git(source, "repack", "-a", "-d", "--quiet")
    shutil.copytree(source / ".git" / "objects", inner / "objects")


def only_objects(source: Path, inner: Path) -> None:
    shutil.copytree(source / ".git" / "objects", inner / "objects")


def mirrored(source: Path, inner: Path) -> None:
    git(source, "clone", "--quiet", "--mirror", str(source), str(inner))


def patched(source: Path, inner: Path) -> None:
    fetched(source, inner)
    work(inner, {"lib.c": "int patched;"})


@pytest.mark.parametrize(
    "deed",
    [empty, fetched, fetched_from_a_server, fetched_tag, without_head, only_packs, only_objects, mirrored, patched],
    ids=lambda deed: deed.__name__,
)
def test_every_repository_in_a_clone_keeps_it(scene: Scene, tmp_path: Path, deed: Callable[[Path, Path], None]) -> None:
    """Also one that a build has fetched into an ignored folder, as CMake and pip do."""
    source = make_repo(tmp_path / "source", {"lib.c": "int x;"})
    git(source, "tag", "v1")
    (scene.clone / "ignored").mkdir()
    deed(source, scene.clone / "ignored" / "lib")
    why = "it is done, but it contains another repository in ignored/lib, whose history may exist nowhere else"
    assert scene.clear()[What.CLONE] == why
    assert scene.clone.exists()


def test_so_does_a_copy_of_the_clone_in_itself(scene: Scene) -> None:
    """The mirror has its commits, but not what is staged or changed there."""
    fetched(scene.clone, scene.clone / "ignored" / "copy")
    assert "it contains another repository in ignored/copy, " in scene.clear()[What.CLONE]


def test_so_does_a_repository_right_in_its_folder(scene: Scene) -> None:
    git(scene.clone, "init", "--quiet", "--bare", ".")
    assert "it contains another repository in ., " in scene.clear()[What.CLONE]


def test_so_does_a_store_of_git_lfs(scene: Scene) -> None:
    file = scene.clone / ".git" / "lfs" / "objects" / "ab" / "cd" / ("abcd" * 16)
    file.parent.mkdir(parents=True)
    file.write_text("large")
    assert "it contains another repository in .git/lfs, " in scene.clear()[What.CLONE]


def test_folders_that_are_only_called_as_those_of_git_do_not(scene: Scene) -> None:
    work(scene.clone, {"game/objects/info/x.txt": "x", "game/objects/pack/y.txt": "y", "game/objects/ab/z.txt": "z"})
    assert scene.clear()[What.CLONE] == ""


def test_all_reasons_are_said_and_of_many_things_a_few_are_named(scene: Scene) -> None:
    lose_branch(scene, 0)
    for name in ("e", "d", "c", "b", "a"):
        make_repo(scene.clone / "ignored" / name, {"x.txt": name})
    (scene.clone / "a.txt").unlink()
    os.mkfifo(scene.clone / "a.txt")
    assert scene.clear()[What.CLONE] == (
        "it is done, but branch ralph/speed or part of its history is missing; it contains another repository in"
        " ignored/a, ignored/b, ignored/c and 2 more, whose history may exist nowhere else; not committed: a.txt"
    )


def test_a_folder_that_cannot_be_looked_into_keeps_the_clone(scene: Scene) -> None:
    """Here for the length of its path: nothing that is called by it can be opened."""
    deep = bury(scene.clone / "ignored")
    assert scene.clear()[What.CLONE].startswith("it is done, but cannot read ignored/nnn")
    assert scene.clone.exists()
    shutil.rmtree(deep)


def bury(folder: Path) -> Path:
    """Make a folder that is so deep that its path is longer than any may be."""
    folder.mkdir(exist_ok=True)
    place = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("n" * 250, dir_fd=place)
        inside = os.open("n" * 250, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inside
    os.close(place)
    return folder


def test_nothing_that_an_agent_planted_runs(scene: Scene, tmp_path: Path) -> None:
    """Settings, hooks and a commit-graph of the clone's and of repositories in it have no say."""
    reset(scene, 0)
    nested(scene, 0)
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexec cat\n")
    trap.chmod(0o755)
    named = ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "uploadpack.packObjectsHook",
             "diff.external", "core.alternateRefsCommand", "core.sshCommand", "core.pager",
             "extensions.partialClone")  # fmt: skip
    for config in scene.clone.rglob("config"):
        for name in named:
            git(tmp_path, "config", f"--file={config}", name, str(trap))
        (config.parent / "info").mkdir(exist_ok=True)
        (config.parent / "info" / "attributes").write_text("* filter=evil diff=evil\n")
        (config.parent / "hooks").mkdir(exist_ok=True)
        for hook in ("reference-transaction", "post-checkout", "post-index-change", "pre-auto-gc"):
            shutil.copy(trap, config.parent / "hooks" / hook)
    (scene.clone / "a.txt").write_text("changed\n")
    assert "another repository" in scene.clear()[What.CLONE]
    shutil.rmtree(scene.clone / "ignored")
    assert scene.clear()[What.CLONE] == ""
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("state", [State.QUEUED, State.STUCK])
def test_a_clone_that_is_still_needed_stays(base: Path, tmp_path: Path, state: State) -> None:
    scene = made(base, tmp_path, state)
    assert scene.clear()[What.CLONE] == f"it is {state}: its next attempt continues in it"
    assert scene.clone.exists()
    scene.store.close()


def test_a_goal_that_is_tried_again_meanwhile_keeps_its_clone(base: Path, tmp_path: Path) -> None:
    scene = made(base, tmp_path, State.CANCELLED)
    clearing = GarbageCollection(scene.place, {scene.clone.name: scene.goal})
    (found,) = [each for each in clearing.survey() if each.what is What.CLONE]
    assert found.goes
    scene.store.retry(scene.goal)
    assert clearing.remove(found, scene.claim) == "it is in use again"
    assert scene.clone.exists()
    scene.store.close()


def test_a_branch_that_another_goal_has_by_now_is_not_touched(scene: Scene) -> None:
    """The name of a branch is free when its goal is done: what a clone still has of it goes elsewhere."""
    mine = work(scene.clone, {"b.txt": "b"})
    theirs = git(scene.mirror.path, "rev-parse", "main")
    git(scene.mirror.path, "update-ref", "refs/heads/ralph/speed", theirs)
    assert scene.clear()[What.CLONE] == ""
    assert git(scene.mirror.path, "rev-parse", "refs/heads/ralph/speed") == theirs
    assert mine in reachable(scene.mirror)


def test_a_cancelled_goal_goes_on_where_its_clone_was(base: Path, tmp_path: Path) -> None:
    scene = made(base, tmp_path, State.CANCELLED)
    tip = work(scene.clone, {"b.txt": "b"})
    assert scene.clear()[What.CLONE] == ""
    scene.mirror.clone(scene.clone, scene.goal.branch)
    assert git(scene.clone, "rev-parse", "HEAD") == tip
    scene.store.close()


def test_half_made_directories_go_when_nobody_serves_the_queue(scene: Scene) -> None:
    half, checkout = scene.clone.parent / ".g9-x.new", scene.place.checkouts / "merge-1"
    aside, stray = scene.clone.with_name(f"{scene.clone.name}.broken-1"), scene.clone.parent / "mine"
    for folder in (half, checkout, stray):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x" * 10_000)
    shutil.copytree(scene.clone, aside, symlinks=True)
    goals = {scene.clone.name: scene.goal}
    busy = {each.path: each for each in GarbageCollection(scene.place, goals, "process 7 on here").survey()}
    assert [path for path, each in busy.items() if each.goes] == [scene.clone, aside]
    assert busy[half].why == busy[checkout].why == "process 7 on here works on the queue and may be using it"
    assert busy[half].size >= 10_000
    scene.clear()
    assert [path.exists() for path in (half, checkout, aside, stray)] == [False, False, False, True]


def test_clones_are_told_in_the_order_of_their_goals(scene: Scene) -> None:
    clones = scene.clone.parent
    for name in ("g10-b", "g2-a", "g2-a.broken-10", "g2-a.broken-9", "g100-c", "mine"):
        (clones / name).mkdir()
    told = [each.path.name for each in GarbageCollection(scene.place, {}).survey() if each.path.parent == clones]
    assert told == [scene.clone.name, "g2-a", "g2-a.broken-9", "g2-a.broken-10", "g10-b", "g100-c", "mine"]


def test_what_a_queue_worker_that_has_begun_since_may_be_at_stays(scene: Scene) -> None:
    checkout = scene.place.checkouts / "merge-1"
    checkout.mkdir(parents=True)
    clearing = GarbageCollection(scene.place, {})
    (found,) = [each for each in clearing.survey() if each.what is What.CHECKOUT]
    assert found.goes
    with sole_worker(default_url(scene.place.ralph_dir)):
        assert "a worker has started on the queue" in clearing.remove(found, scene.claim)
        assert checkout.exists()
    assert clearing.remove(found, scene.claim) == ""
    assert list(scene.place.checkouts.iterdir()) == []
    assert clearing.remove(found, scene.claim) == ""  # somebody else was quicker


def test_a_clone_that_somebody_works_in_stays(scene: Scene) -> None:
    clearing = GarbageCollection(scene.place, {scene.clone.name: scene.goal})
    (before,) = [each for each in clearing.survey() if each.what is What.CLONE]
    runs = scene.place.run_directory(scene.goal).parent
    program = (
        "import sys; from pathlib import Path; from ralph.state.lock import RepoLock;"
        "lock = RepoLock(Path(sys.argv[1]), 'speed', Path(sys.argv[2])); lock.__enter__(); print(flush=True); input()"
    )
    argv = [sys.executable, "-P", "-c", program, str(runs), str(scene.clone)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "\n"
        (found,) = [each for each in clearing.survey() if each.what is What.CLONE]
        why = f"process {run.pid} on {socket.gethostname()} is working in it"
        assert (before.goes, found.goes, found.why) == (True, False, why)
        assert clearing.remove(before, scene.claim) == why  # it has begun since
        assert scene.clone.exists()
        run.communicate("\n")
    assert clearing.remove(before, scene.claim) == ""


def test_no_link_among_the_clones_is_followed(scene: Scene, tmp_path: Path) -> None:
    """An agent can write beside its clone."""
    documents = tmp_path / "documents"
    documents.mkdir(mode=0o755)
    (documents / "letter.txt").write_text("dear")
    clones = scene.clone.parent
    (clones / ".evil").symlink_to(documents)
    (clones / ".dangling").symlink_to(tmp_path / "nothing")
    (clones / ".DS_Store").write_text("x")
    (clones / f"{scene.clone.name}.broken-1").symlink_to(tmp_path / "nothing")
    scene.place.checkouts.symlink_to(documents)
    found = scene.clear()
    assert (found[What.HALF], found[What.CHECKOUT]) == (
        "",
        "checkouts is a link: what it points to may not belong to ralph",
    )
    assert found[What.SET_ASIDE] == "it is done, but it is not a directory"
    assert [path.name for path in clones.iterdir()] == [f"{scene.clone.name}.broken-1"]
    assert (documents / "letter.txt").read_text() == "dear"
    assert documents.stat().st_mode & 0o777 == 0o755


def test_a_file_that_stays_elsewhere_frees_nothing(scene: Scene, tmp_path: Path) -> None:
    """As uv and pnpm link what they install to a store of theirs."""
    (scene.clone / "ignored").mkdir()
    (tmp_path / "stored").write_bytes(os.urandom(1_000_000))
    (scene.clone / "ignored" / "installed").hardlink_to(tmp_path / "stored")
    clearing = GarbageCollection(scene.place, {scene.clone.name: scene.goal})
    (before,) = [each.size for each in clearing.survey() if each.goes]
    (tmp_path / "stored").unlink()
    (after,) = [each.size for each in clearing.survey() if each.goes]
    assert before < 500_000
    assert after >= before + 1_000_000


def test_of_a_mirror_that_is_broken_nothing_is_kept_and_nobody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    assert kept(Bare(tmp_path / "mirror"), tmp_path / "clone", "ralph/goal") == []


def test_by_force_everything_goes_but_what_can_be_saved_is(scene: Scene) -> None:
    tip = commit_and_drop(scene)
    nested(scene, 0)
    write(scene, 1)
    aside = scene.clone.with_name(f"{scene.clone.name}.broken-7")
    going = scene.clone.with_name(f".{scene.clone.name}.going")
    shutil.copytree(scene.clone, aside, symlinks=True)
    going.mkdir()
    (scene.clone.parent / "g10-other").mkdir()
    written = texts(scene.clone)
    assert scene.force() == {What.CLONE: "", What.SET_ASIDE: "", What.HALF: ""}
    assert [path.name for path in scene.clone.parent.iterdir()] == ["g10-other"]
    assert tip in reachable(scene.mirror)
    assert all(is_kept(scene.mirror, text) for text in written)


def commit_and_drop(scene: Scene) -> str:
    tip = work(scene.clone, {"dropped.txt": "dropped"})
    git(scene.clone, "reset", "--quiet", "--hard", "HEAD^")
    return tip


def test_what_is_lost_of_a_history_with_a_gap_is_named(scene: Scene) -> None:
    """And what can be had of it is saved all the same: another branch, files."""
    git(scene.clone, "switch", "--quiet", "--create", "idea")
    idea = work(scene.clone, {"idea.txt": "idea"})
    git(scene.clone, "switch", "--quiet", scene.goal.branch)
    gone = work(scene.clone, {"b.txt": "b"}, "the first")
    last = work(scene.clone, {"c.txt": "c"}, "the last")
    (scene.clone / ".git" / "objects" / gone[:2] / gone[2:]).unlink()
    (scene.clone / "loose.txt").write_text("loose")
    assert set(scene.unsaved()[Obstacle.COMMITS]) == {f"{last} the last", f"{idea} work"}
    assert scene.force()[What.CLONE] == ""
    assert idea in reachable(scene.mirror)
    assert last not in reachable(scene.mirror)
    assert is_kept(scene.mirror, b"loose")
    assert is_kept(scene.mirror, b"c")


def test_a_clone_that_was_made_shallow_goes_by_force_and_nothing_is_lost(base: Path, tmp_path: Path) -> None:
    """Its branch cannot be fetched, but its commits are there."""
    scene = made(base, tmp_path, State.CANCELLED)
    work(scene.clone, {"b.txt": "b"})
    tip = work(scene.clone, {"c.txt": "c"})
    (scene.clone / ".git" / "shallow").write_text(f"{tip}\n")
    assert "part of its history is missing" in scene.clear()[What.CLONE]
    assert scene.force()[What.CLONE] == ""
    assert tip in reachable(scene.mirror)
    scene.store.close()


def test_a_clone_with_a_gap_stays_if_the_mirror_cannot_take_the_rest_over(scene: Scene) -> None:
    """A full disk must not pass for the gap that was agreed to."""
    git(scene.clone, "switch", "--quiet", "--create", "idea")
    (scene.clone / "large.bin").write_bytes(random.Random(7).randbytes(2_000_000))
    idea = work(scene.clone, {"idea.txt": "idea"})
    git(scene.clone, "switch", "--quiet", scene.goal.branch)
    broken = git(scene.clone, "hash-object", "-w", str(Path(__file__))).strip()
    loose = scene.clone / ".git" / "objects" / broken[:2] / broken[2:]
    loose.chmod(0o600)
    loose.write_bytes(b"")
    with largest_file(1_000_000):
        why = scene.force()[What.CLONE]
    assert why.startswith(f"cannot save its object {idea[:12]} in the mirror: ")
    assert scene.clone.exists()
    assert scene.force()[What.CLONE] == "", "there is room again"
    assert idea in reachable(scene.mirror)


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no program write a larger file: as a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_has_come_since_the_user_agreed_keeps_the_clone(scene: Scene) -> None:
    nested(scene, 0)
    clearing = GarbageCollection(scene.place, {})
    (found,) = clearing.forced([scene.goal])
    nested(scene, 0)
    why = "it contains another repository in ignored/inner-0, ignored/inner-2, whose history may exist nowhere else"
    assert clearing.remove(found, scene.claim, forced=True) == why
    assert scene.clone.exists()
    (found,) = clearing.forced([scene.goal])
    assert clearing.remove(found, scene.claim, forced=True) == ""


def test_a_goal_that_is_tried_again_meanwhile_keeps_its_clone_from_force(base: Path, tmp_path: Path) -> None:
    scene = made(base, tmp_path, State.STUCK)
    clearing = GarbageCollection(scene.place, {})
    (found,) = clearing.forced([scene.goal])
    scene.store.retry(scene.goal)
    assert clearing.remove(found, scene.claim, forced=True) == "it is in use again"
    assert scene.clone.exists()
    scene.store.close()


def test_which_goals_are_in_use(base: Path, tmp_path: Path) -> None:
    scene = made(base, tmp_path, State.STUCK)
    clearing, goal = GarbageCollection(scene.place, {}), scene.goal
    in_use = {
        "is running": replace(goal, state=State.RUNNING),
        "is being merged": replace(goal, state=State.RUNNING, unmerged={}),
        "is queued to be merged": replace(goal, state=State.QUEUED, unmerged={}),
    }
    assert {clearing.in_use(each): each for each in in_use.values()} == in_use
    for state in (State.DRAFT, State.QUEUED, State.STUCK, State.CANCELLED, State.DONE):
        assert clearing.in_use(replace(goal, state=state)) == ""
    scene.store.close()


def test_force_follows_no_link(scene: Scene, tmp_path: Path) -> None:
    """Neither one in the place of a clone, nor one in the place of all of them: nothing says whose that is."""
    clones = scene.clone.parent
    mine = clones.rename(tmp_path / "mine")
    clones.symlink_to(mine)
    assert scene.force() == {What.CLONE: "clones is a link: what it points to may not belong to ralph"}
    assert (mine / scene.clone.name).exists()
    clones.unlink()
    clones.mkdir()
    scene.clone.symlink_to(mine / scene.clone.name)
    assert scene.force() == {What.CLONE: ""}
    assert not os.path.lexists(scene.clone)
    assert (mine / scene.clone.name / ".git").exists()


def test_a_folder_that_cannot_be_looked_into_goes_by_force(scene: Scene) -> None:
    bury(scene.clone / "ignored")
    (lost,) = scene.unsaved()[Obstacle.UNREADABLE]
    assert lost.startswith("ignored/nnn")
    assert scene.force()[What.CLONE] == ""
    assert not os.path.lexists(scene.clone)


def test_a_ref_that_a_crash_has_emptied_keeps_nothing(scene: Scene) -> None:
    tip = commit_and_drop(scene)
    empty_ref(scene, 0)
    assert scene.clear()[What.CLONE] == ""
    assert tip in reachable(scene.mirror)


def test_a_branch_whose_last_commit_is_gone_keeps_the_clone(scene: Scene) -> None:
    lost = work(scene.clone, {"b.txt": "b"})
    (scene.clone / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    assert scene.clear()[What.CLONE] == "it is done, but its HEAD points to a missing object"
    assert f"{lost} refs/heads/ralph/speed" in scene.unsaved()[Obstacle.COMMITS]
    assert scene.force()[What.CLONE] == ""
    assert is_kept(scene.mirror, b"b")  # the file was there
