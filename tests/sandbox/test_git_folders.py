"""Git inside a sandbox: an agent may do what it likes there, and nothing of it is left but its files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ralph.git.repo import open_repo
from ralph.sandbox.policy import Bubblewrap, Mount, MountKind, SandboxMode, SandboxOptions, SandboxPolicy
from ralph.sandbox.policy import bubblewrap_command as command_of
from ralph.sandbox.sandbox import open_sandbox
from tests.support import tools
from tests.support.git_repos import commit_all, git, make_repo
from tests.support.git_vectors import make_trap, planting

VERSION_CONTROL = """
export GIT_AUTHOR_NAME=E GIT_AUTHOR_EMAIL=e@e GIT_COMMITTER_NAME=E GIT_COMMITTER_EMAIL=e@e
set -e
echo more > more.txt; git add more.txt; git commit -qm "agent's"
echo half >> README.md; git stash -q; git stash pop -q
git switch -qc side; git commit -q --allow-empty -m empty; git rebase -q --autostash HEAD~1 > /dev/null
git tag mark; git config core.hooksPath .husky; git update-index --assume-unchanged README.md
g=$(git rev-parse --git-common-dir); mkdir -p $g/hooks $g/info
echo exit 1 > $g/hooks/pre-commit; echo '*.txt' >> $g/info/exclude
git log --oneline | wc -l
"""


def run(script: str, root: Path) -> subprocess.CompletedProcess[str]:
    tools.bubblewrap()
    env = dict(os.environ)
    sandbox = open_sandbox(SandboxOptions(SandboxMode.AUTO), env, root, [Path(env["RALPH_DIR"])])
    assert isinstance(sandbox.bubblewrap, Bubblewrap)
    if not sandbox.bubblewrap.overlays:
        pytest.skip("this bubblewrap has no overlays")
    contained = sandbox.contain(["/bin/sh", "-c", script], env, root)
    return subprocess.run(
        contained.argv, env=dict(contained.environment), capture_output=True, text=True, check=False, timeout=60
    )


def state_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("linked", [False, True], ids=["its own", "linked"])
def test_whatever_an_agent_does_with_git_only_its_files_remain(repo: Path, world: Path, *, linked: bool) -> None:
    tree = repo
    if linked:
        tree = world / "linked"
        git(repo, "worktree", "add", "--quiet", "-b", "work", str(tree))
    before = state_of(repo / ".git")

    done = run(VERSION_CONTROL, tree)

    assert (done.returncode, done.stdout.strip()) == (0, "3"), done
    assert state_of(repo / ".git") == before
    ours = open_repo(tree)
    assert ours.branch() == ("work" if linked else "main")
    made = ours.commit_all("ralph 1: more", tree / "goal.md")
    assert git(tree, "show", f"{made.sha}:more.txt") == "more"
    assert git(tree, "show", f"{made.sha}:README.md").endswith("half")
    assert len(git(tree, "rev-list", "HEAD").split()) == 2


def test_the_way_to_the_repository_cannot_be_changed(repo: Path, world: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "-b", "work", str(world / "linked"))
    for tree in (repo, world / "linked"):
        done = run("mv .git .moved; rm -rf .git; echo gitdir: /tmp/evil > .git; git status --short", tree)
        assert not (tree / ".moved").exists()
        assert git(tree, "status", "--short") == "", done


def test_what_an_agent_plants_does_not_reach_ralphs_git(repo: Path, world: Path) -> None:
    trap = make_trap(world / "trap", world / "canary")
    before = state_of(repo / ".git")

    run(f"export RALPH_ITERATION=1; {planting(trap)}", repo)

    assert state_of(repo / ".git") == before
    open_repo(repo).commit_all("ralph 1: planted", repo / "goal.md")
    assert not (world / "canary").exists()


def test_work_in_a_submodule_and_with_one(repo: Path, world: Path) -> None:
    inner = make_repo(world / "inner", {"lib.txt": "library\n"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "lib")
    commit_all(repo, "submodule")
    before = state_of(repo / ".git")

    done = run("cat lib/lib.txt; git -C lib log --oneline | wc -l; git submodule status; echo x > x.txt", repo)
    assert done.stdout.split()[:2] == ["library", "1"], done
    done = run("git log --oneline | wc -l; echo y > y.txt; git add y.txt", repo / "lib")
    assert done.stdout.split() == ["1"], done

    assert state_of(repo / ".git") == before
    assert (repo / "lib" / "y.txt").exists()
    made = open_repo(repo).commit_all("ralph 1: x", repo / "goal.md")
    assert git(repo, "show", "--format=", "--name-only", made.sha).split() == ["x.txt"]


def test_without_overlays_it_is_the_repository_itself() -> None:
    policy = SandboxPolicy((Mount("/w/.git", MountKind.DISPOSABLE),), "/w")
    plain = " ".join(command_of(Bubblewrap("bwrap", overlays=False), policy, ["true"]))
    layered = " ".join(command_of(Bubblewrap("bwrap", overlays=True), policy, ["true"]))
    assert "--bind /w/.git /w/.git" in plain
    assert "--overlay-src /w/.git --tmp-overlay /w/.git" in layered
