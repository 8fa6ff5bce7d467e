"""Agents that have git run their programs: ralph's own git runs none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.batches import Batch, says, shell
from tests.support.git_repos import git, make_repo
from tests.support.git_vectors import VECTORS, Vector, execute_with_plain_git, make_trap, planting
from tests.support.goals import run_directory, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, hang, run, summary, write


@pytest.fixture
def trap(world: Path) -> Path:
    return make_trap(world / "trap", world / "canary")


def require_silence(trap: Path) -> None:
    canary = trap.with_name("canary")
    assert not canary.exists(), canary.read_text()


@pytest.mark.long
@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_with_plain_git_each_of_them_runs(vector: Vector, world: Path) -> None:
    assert execute_with_plain_git(vector, world / "plain")


def test_nothing_that_an_agent_plants_runs_in_the_git_of_a_run(
    repo: Path, ralph: Ralph, trap: Path, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    plant = run(planting(trap, without=("commondir",)))
    before = (repo / ".git" / "config").read_text()
    agent = claude_script(
        [write("a.txt", "a\n"), plant, summary("planted")], [write("b.txt", "b\n"), plant, summary("DONE")]
    )

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    require_silence(trap)
    assert (repo / ".git" / "config").read_text() == before
    assert not (repo / ".git" / "info" / "attributes").exists()
    assert "ralph undid that" in agent.heard[1]
    assert ".git/config" in agent.heard[1]
    assert "filter" in (run_directory(repo) / "undone" / "config").read_text()
    assert {"a.txt", "b.txt"} <= set(git(repo, "ls-tree", "--name-only", "HEAD").split())
    assert not (run_directory(repo) / "git").exists()


def test_another_directory_in_place_of_the_repositorys_own_is_not_used(
    repo: Path, ralph: Ralph, trap: Path, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    claude_script([write("a.txt", "a\n"), run(f"export TRAP={trap}; {VECTORS['commondir'].plant}"), summary("DONE")])

    ralph("run", "goal.md", "--max-iterations", "1")

    require_silence(trap)


def test_what_a_killed_ralph_could_not_put_back_is_put_back_before_git_runs(
    repo: Path, ralph: Ralph, trap: Path, claude_script: ClaudeScript
) -> None:
    """Also if the next start is for another goal."""
    write_goal(repo)
    write_goal(repo, name="other.md")
    plant, pid = planting(trap, without=("commondir",)), repo.parent / "ralph.pid"
    ralphs_pid = f"until test -s {pid}; do sleep 0.1; done; cat {pid}"
    claude_script([write("a.txt", "a\n"), run(f"{plant}; kill -9 $({ralphs_pid})"), hang()])
    with ralph.start("run", "goal.md", "--allow-dirty") as first:
        pid.write_text(f"{first.pid}\n")
        first.wait()
    assert "filter" in (repo / ".git" / "config").read_text()
    claude_script([summary("DONE")])

    done = ralph("run", "other.md", "--allow-dirty")

    assert done.exit_code == 0, done
    require_silence(trap)
    assert "filter" not in (repo / ".git" / "config").read_text()
    assert ".git/config" in done.stdout


def test_the_users_own_filters_and_hidden_files_keep_working(
    repo: Path, ralph: Ralph, world: Path, claude_script: ClaudeScript
) -> None:
    """In the repository's settings and in the user's; and an index flag that he has set stays set."""
    git(repo, "config", "filter.own.clean", "sed s/plain/stored/")
    with Path(ralph.env["GIT_CONFIG_GLOBAL"]).open("a") as config:
        config.write('[filter "global"]\n\tclean = sed s/plain/kept/\n[user]\n\tname = Global\n')
    folder = Path(ralph.env["XDG_CONFIG_HOME"]) / "git"
    folder.mkdir(parents=True)
    (folder / "ignore").write_text("*.scratch\n")
    (repo / ".gitattributes").write_text("*.own filter=own\n*.global filter=global\n")
    (repo / "local.txt").write_text("tracked\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-msettings")
    git(repo, "update-index", "--assume-unchanged", "local.txt")
    (repo / "local.txt").write_text("mine\n")
    write_goal(repo)
    hide = run("git update-index --assume-unchanged README.md; echo '*.txt' >> .git/info/exclude")
    claude_script(
        [write("a.own", "plain\n"), write("a.global", "plain\n"), write("a.scratch", "x"), write("README.md", "new\n"),
         write("new.txt", "new\n"), hide, summary("DONE")]
    )  # fmt: skip

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    assert git(repo, "show", "HEAD:a.own") == "stored"
    assert git(repo, "show", "HEAD:a.global") == "kept"
    assert git(repo, "show", "HEAD:README.md") == "new"
    assert git(repo, "show", "HEAD:new.txt") == "new"
    assert git(repo, "show", "HEAD:local.txt") == "tracked"
    assert "a.scratch" not in git(repo, "ls-tree", "--name-only", "HEAD")
    assert "*.txt" not in (repo / ".git" / "info" / "exclude").read_text()


def test_what_an_agent_writes_into_the_users_settings_is_not_read_in_this_run(
    repo: Path, ralph: Ralph, trap: Path, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    (repo / ".gitattributes").write_text("* filter=evil\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-mattributes")
    evil = f"git config --file $GIT_CONFIG_GLOBAL filter.evil.clean {trap}"
    claude_script([run(evil), write("a.txt", "a\n"), summary("one")], [write("b.txt", "b\n"), summary("DONE")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    assert "filter" in Path(ralph.env["GIT_CONFIG_GLOBAL"]).read_text()
    require_silence(trap)


def test_a_setting_that_runs_nothing_may_change_while_a_run_works(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    claude_script([run("git config branch.side.remote origin"), summary("DONE")])

    done = ralph("run", "goal.md")

    assert git(repo, "config", "branch.side.remote") == "origin"
    assert ".git/config" not in done.stdout


def test_settings_that_git_cannot_read_are_refused_by_name(ralph: Ralph, repo: Path) -> None:
    write_goal(repo)
    Path(ralph.env["GIT_CONFIG_GLOBAL"]).write_text("[user\n")

    done = ralph("run", "goal.md")

    assert done.exit_code == 2
    assert done.complaints.startswith("error: cannot read git's settings: fatal: bad config line 1 in file")
    assert "hint: " in done.complaints


def test_an_address_that_is_an_option_of_git_is_refused(
    ralph: Ralph, repo: Path, world: Path, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    done = ralph("run", "goal.md", f"--repo=--upload-pack=touch {world}/canary;")
    assert done.exit_code in (1, 2)
    assert not (world / "canary").exists()


@pytest.mark.long
def test_nothing_that_an_agent_plants_in_its_clone_runs_in_a_queue(batch: Batch, trap: Path) -> None:
    """In the run, in its retry, at the merge, when the goal is cancelled, and when its clone is removed."""
    batch.upstream()
    plant = planting(trap, without=("commondir",))
    work = "mkdir -p texts; echo Fine. > texts/$ME.txt"
    for name in ("merged", "retried", "cancelled"):
        first = f"ME={name}; {work if name == 'merged' else 'true'}; {plant}"
        if name == "merged":
            batch.goal(name, [[shell(first), says("DONE")]], repo="upstream", max_iterations=1)
        else:
            red = f"ME={name}; mkdir -p texts; echo no > texts/$ME.txt; {plant}"
            sessions = [[shell(red), says("DONE")], [shell(f"ME={name}; {work}; {plant}"), says("DONE")]]
            batch.goal(name, sessions, repo="upstream", max_iterations=2)

    batch.run(batch.root / "goals", "--max", "2")
    for name, state in batch.states().items():
        if state != "done":
            batch.runs("cancel", str(batch.goals()[name]["id"]), cwd=batch.root)
    cleared = batch.runs("gc", cwd=batch.root)

    assert cleared.exit_code == 0, cleared
    assert batch.states()["merged"] == "done"
    require_silence(trap)


@pytest.mark.long
def test_work_in_a_repository_of_linked_working_trees(
    ralph: Ralph, tmp_path: Path, claude_script: ClaudeScript
) -> None:
    main = make_repo(tmp_path / "main", {"README.md": "main\n"})
    git(main, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    write_goal(tmp_path / "side")
    claude_script([write("a.txt", "a\n"), run("git config core.fsmonitor /bin/false"), summary("DONE")])

    done = ralph("run", "goal.md", cwd=tmp_path / "side")

    assert done.exit_code == 0, done
    assert git(main, "show", "side:a.txt") == "a"
    assert "fsmonitor" not in (main / ".git" / "config").read_text()
