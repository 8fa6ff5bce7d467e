"""`ralph understand`: a map of the code base, by a scout that works in a throwaway clone."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support import any_agent, tools
from tests.support.any_agent import any_agent as make_agent
from tests.support.any_agent import run as shell
from tests.support.any_agent import say
from tests.support.git_repos import commit_all, commits, git, make_repo
from tests.support.goals import write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, Step, api_error, hang, run, summary, write
from tests.support.scripted_agent import exit as exit_with
from tests.support.waiting import wait_until

THE_MAP = "# What this is\n\nAn example.\n\n## Layout\n\n- README.md"


def the_map(repo: Path) -> str:
    return (repo / ".ralph" / "codebase-map.md").read_text()


def everything(repo: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and link of the repository with its mode: the tree, and git's own index, refs, hooks and settings.

    Less what ralph itself shows of the session, and the lines that keep this out of commits.
    """
    found: dict[str, tuple[int, bytes]] = {}
    for path in repo.rglob("*"):
        state = path.lstat()
        shown = path.parent.match(".ralph/state") or path.match(".git/info/exclude")
        if not stat.S_ISDIR(state.st_mode) and not shown:
            content = os.fsencode(path.readlink()) if stat.S_ISLNK(state.st_mode) else path.read_bytes()
            found[str(path.relative_to(repo))] = (state.st_mode, content)
    return found


def clones(world: Path) -> list[Path]:
    """The throwaway clones that are there."""
    return list((world / "ralph").glob("runs/*/.understand/clone"))


@pytest.mark.spec("2.1-f")
@pytest.mark.spec("3.7-c")
def test_the_map_is_written_and_given_to_later_workers(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary(THE_MAP)], [summary("DONE")])
    done = ralph("understand")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(repo) == THE_MAP + "\n"
    assert "result     wrote .ralph/codebase-map.md (7 lines)" in done.stdout
    assert git(repo, "status", "--porcelain") == "?? .ralph/"
    assert len(commits(repo)) == 1

    (prompt,) = agent.heard
    assert "read-only" in prompt
    start = agent.starts[0]
    assert start["argv"][start["argv"].index("--tools") + 1] == "Read,Glob,Grep,StructuredOutput"

    write_goal(repo)
    assert ralph("run", "goal.md").exit_code == 0
    assert THE_MAP in agent.heard[1]


def test_a_scout_that_writes_the_map_itself_may(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([run("mkdir -p .ralph"), write(".ralph/codebase-map.md", THE_MAP), summary("I wrote the map.")])
    done = ralph("understand")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(repo) == THE_MAP + "\n"


@pytest.mark.spec("2.1-f")
def test_codex_is_held_to_reading(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    codex = make_agent(bin_dir, "codex", [shell("echo x > junk"), say(json.dumps({"summary": THE_MAP * 200}))])
    done = ralph("understand", "--agent", "codex", "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(repo) == THE_MAP * 200 + "\n"
    start = codex.starts[0]
    assert start["argv"][start["argv"].index("--sandbox") + 1] == "read-only"
    assert not (repo / "junk").exists()
    assert done.events[0]["type"] == "run_started"
    shown = ralph("understand", "--agent", "codex")
    assert "codex's own sandbox: read-only" in shown.stdout
    assert done.events[-1]["type"] == "run_ended"


@pytest.mark.spec("2.1-f")
@pytest.mark.parametrize("transcript", ["plain", pytest.param("rtf1", marks=pytest.mark.long)])
def test_any_command_can_scout(repo: Path, ralph: Ralph, tmp_path: Path, transcript: str) -> None:
    agent = tmp_path / "agent"
    more = "- more\n" * 1000
    agent.write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{THE_MAP}\n{more}END\n")
    agent.chmod(0o755)
    done = ralph("understand", "--agent-cmd", str(agent), "--transcript", transcript)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(repo).startswith("# What this is\n")
    assert the_map(repo).count("- more\n") == 1000


@pytest.mark.long
def test_every_earlier_map_is_kept_to_the_byte(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path
) -> None:
    claude_script([summary("second")], [summary("third")])
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "codebase-map.md").write_bytes(b"caf\xe9, by hand\n")
    assert [ralph("understand").exit_code for _ in range(2)] == [0, 0]
    assert the_map(repo) == "third\n"
    kept = sorted((world / "ralph" / "runs").glob("*/.understand/codebase-map-*.md"))
    assert [path.read_bytes() for path in kept] == [b"caf\xe9, by hand\n", b"second\n"]


def test_a_scout_that_fails_leaves_no_map_and_the_old_one_stands(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([summary("old map")], [write("junk.txt", "junk"), exit_with(3)])
    assert ralph("understand").exit_code == 0
    done = ralph("understand")
    assert done.exit_code == 1
    assert "result     failed: crashed: the agent exited with 3" in done.stdout
    assert the_map(repo) == "old map\n"
    assert not (repo / "junk.txt").exists()


@pytest.mark.long
@pytest.mark.parametrize("deed", ["rm .ralph/codebase-map.md", "echo half a m > .ralph/codebase-map.md"])
@pytest.mark.parametrize("end", [exit_with(3), api_error(403, "no", "authentication_failed")])
def test_whatever_a_failing_scout_does_to_the_old_map_it_stands(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, deed: str, end: Step
) -> None:
    claude_script([summary("old map")], [run(deed), end])
    assert ralph("understand").exit_code == 0
    assert ralph("understand").exit_code in (1, 6)
    assert the_map(repo) == "old map\n"


@pytest.mark.long
def test_half_a_map_of_a_crashed_scout_is_no_match_for_the_next_ones_answer(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    half = run("mkdir -p .ralph; echo half a m > .ralph/codebase-map.md")
    claude_script([half, exit_with(3)], [summary(THE_MAP)])
    assert ralph("understand").exit_code == 0
    assert the_map(repo) == THE_MAP + "\n"


def test_a_bare_claim_is_no_map(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("DONE")])
    done = ralph("understand")
    assert (done.exit_code, "the scout ended without a map" in done.stdout) == (1, True)
    assert not (repo / ".ralph" / "codebase-map.md").exists()


def test_a_place_for_the_map_that_is_none_is_refused_at_once(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary(THE_MAP)])
    (repo / ".ralph" / "codebase-map.md").mkdir(parents=True)
    done = ralph("understand")
    assert (done.exit_code, agent.starts) == (2, [])


@pytest.mark.long
def test_a_refused_login_blocks(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([api_error(403, "Failed to authenticate", "authentication_failed")])
    done = ralph("understand")
    assert done.exit_code == 6
    assert "/login" in done.stdout


def test_an_interrupt_leaves_nothing_behind(repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path) -> None:
    before = everything(repo)
    claude_script([write("README.md", "overwritten"), write("junk.txt", "junk"), hang()])
    with ralph.start("understand", "--json") as running:
        running.wait_for("tool_end", 2)
        assert clones(world)
        running.send(2)
        done = running.wait()
    assert done.exit_code == 130
    assert everything(repo) == before
    assert not clones(world)


@pytest.mark.long
def test_a_map_that_is_written_again_as_it_was_is_the_map(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([summary("good map")], [run("echo 'good map' > .ralph/codebase-map.md"), summary("I wrote the map.")])
    assert [ralph("understand").exit_code for _ in range(2)] == [0, 0]
    assert the_map(repo) == "good map\n"


@pytest.mark.long
def test_a_map_that_is_made_after_a_run_was_cut_off_stands(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("old map")], [hang()], [summary(THE_MAP)], [summary("DONE")])
    write_goal(repo)
    assert ralph("understand").exit_code == 0
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("session_started")
        running.send(9)
        running.wait()
    assert ralph("understand").exit_code == 0
    done = ralph("run", "goal.md")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(repo) == THE_MAP + "\n"
    assert THE_MAP in agent.heard[-1]


@pytest.mark.long
def test_the_cost_is_counted_over_retries(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    make_agent(bin_dir, "codex", [say("no JSON"), any_agent.resumed(say(json.dumps({"summary": THE_MAP})))])
    done = ralph("understand", "--agent", "codex")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert f" · {2 * (any_agent.INPUT + any_agent.OUTPUT):,} tokens · " in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--agent", "nobody"], 2, "'nobody' is not one of"),
        pytest.param(["--quiet", "--verbose"], 2, "cannot be combined", marks=pytest.mark.long),
        pytest.param(["--agent-cmd", "no-such-program"], 6, "was not found", marks=pytest.mark.long),
        ([], 6, "cannot find the agent: `claude` is not on PATH"),
    ],
)
def test_bad_usage_is_refused_with_nothing_written(
    repo: Path, ralph: Ralph, world: Path, args: list[str], code: int, said: str
) -> None:
    done = ralph("understand", *args)
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
    assert not (repo / ".ralph").exists()
    assert not (world / "ralph").exists()


# The throwaway clone


def test_the_scout_sees_the_repository_as_the_user_has_it(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path, world: Path
) -> None:
    (repo / ".gitignore").write_text("*.log\n")
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "gone.txt").write_text("gone\n")
    commit_all(repo, "more")
    (repo / "gone.txt").unlink()
    (repo / "run.sh").chmod(0o755)
    (repo / "README.md").write_text("staged\n")
    git(repo, "add", "README.md")
    (repo / "README.md").write_text("not committed\n")
    (repo / "new.txt").write_text("untracked\n")
    (repo / "link").symlink_to("new.txt")
    (repo / "debug.log").write_text("ignored\n")
    (repo / ".env").write_text("TOKEN=secret\n")
    asked = {
        "cwd": "pwd; echo $PWD",
        "status": "git status --porcelain",
        "staged": "git show :README.md",
        "files": "cat README.md new.txt; readlink link; ls -a; ./run.sh && echo runs",
    }
    agent = claude_script(
        [*(run(f"({command}) > {tmp_path}/{name} 2>&1") for name, command in asked.items()), summary(THE_MAP)]
    )

    done = ralph("understand", cwd=repo, env={"PWD": str(repo), "OLDPWD": str(tmp_path)})

    assert done.exit_code == 0, done.stdout + done.stderr
    seen = {name: (tmp_path / name).read_text() for name in asked}
    (journal,) = (world / "ralph").glob("runs/*/.understand")
    assert seen["cwd"] == f"{journal}/clone/repo\n" * 2
    assert agent.starts[0]["env"]["PWD"] == f"{journal}/clone/repo"
    assert "OLDPWD" not in agent.starts[0]["env"]
    assert seen["status"] == "MM README.md\n D gone.txt\n M run.sh\n?? link\n?? new.txt\n"
    assert seen["staged"] == "staged\n"
    words = seen["files"].split()
    assert words[:5] == ["not", "committed", "untracked", "new.txt", "."]
    assert words[-1] == "runs"
    assert {"gone.txt", "debug.log", ".env"}.isdisjoint(words)
    assert "hidden from the scout (looks like a secret): .env\n" in done.stdout
    assert not clones(world)


def test_nothing_the_scout_does_reaches_the_repository(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path
) -> None:
    (repo / ".gitignore").write_text("/.ralph/\n")
    write_check(repo)
    (repo / "stashed.txt").write_text("stashed\n")
    git(repo, "stash", "push", "--include-untracked")
    git(repo, "branch", "mine")
    git(repo, "tag", "v1")
    (repo / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (repo / ".gitignore").write_text("/.ralph/\n")
    write_check(repo)
    (repo / "mine.txt").write_text("not committed yet\n")
    (repo / "staged.txt").write_text("staged\n")
    git(repo, "add", "staged.txt")
    (repo / "absolute").symlink_to(repo / "mine.txt")
    before = everything(repo)
    commands = (
        "rm mine.txt; echo x > junk; chmod +x README.md; echo x >> absolute",
        "git config user.name a; git config user.email a@b; git config core.hooksPath /tmp",
        "mkdir .git/hooks; echo x > .git/hooks/pre-push",
        "git add -A; git commit -qm sneaky; git branch -D mine; git tag -d v1; git switch -qc elsewhere",
        "git push origin HEAD:main; git gc -q --prune=now; git update-ref -d refs/stash; git reset -q --hard",
        "echo x > .ralph/check; echo x > .ralph/config.toml; mkdir .ralph/prompts; touch .ralph/prompts/worker.md.j2",
        "chmod -R a-w .; rm -rf .git README.md; true",
    )
    claude_script([write("README.md", "overwritten"), *map(run, commands), summary(THE_MAP)])

    done = ralph("understand")

    assert done.exit_code == 0, done.stdout + done.stderr
    after = everything(repo)
    assert after.pop(".ralph/codebase-map.md")[1].decode() == THE_MAP + "\n"
    assert after == before
    assert not clones(world)


def test_a_scout_that_is_tried_again_gets_a_fresh_clone(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    left = run("echo junk > junk; rm README.md; rm -rf .git")
    claude_script([left, exit_with(3)], [run(f"ls -a > {tmp_path}/seen"), summary(THE_MAP)])
    assert ralph("understand").exit_code == 0
    assert (tmp_path / "seen").read_text().split() == [".", "..", ".git", "README.md"]


def test_the_map_names_the_repository_and_not_the_clone(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([run('mkdir -p .ralph; echo "It is in $(pwd)/src." > .ralph/codebase-map.md'), summary("done")])
    assert ralph("understand").exit_code == 0
    assert the_map(repo) == f"It is in {repo}/src.\n"


def test_an_interrupt_while_the_files_are_copied_leaves_nothing_behind(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path
) -> None:
    for number in range(3000):
        (repo / f"{number}.txt").write_text("x\n")
    before = everything(repo)
    claude_script([hang()])
    with ralph.start("understand") as running:
        wait_until(lambda: clones(world), "the clone is begun")
        running.send(2)
        done = running.wait()
    assert done.exit_code == 130, done.stdout + done.stderr
    assert everything(repo) == before
    assert not clones(world)


def kill_a_pass(ralph: Ralph, cwd: Path | None = None) -> None:
    """Kill ralph when its scout has done what the script says."""
    with ralph.start("understand", "--json", cwd=cwd) as running:
        running.wait_for("tool_end")
        running.send(9)
        running.wait()


@pytest.mark.parametrize(("following", "answer"), [("understand", "a map"), ("run goal.md", "DONE")])
def test_a_killed_pass_leaves_the_repository_untouched_and_the_next_start_cleans_up(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path, following: str, answer: str
) -> None:
    write_goal(repo)
    (repo / "mine.txt").write_text("not committed yet\n")
    before = everything(repo)
    harm = run("echo x > README.md; rm mine.txt; mkdir closed; touch closed/file; chmod 0 closed; ln -s / root")
    claude_script([harm, hang()], [summary(answer)])
    kill_a_pass(ralph)
    assert everything(repo) == before
    assert clones(world)

    (repo / "mine.txt").unlink()
    done = ralph(*following.split())

    assert done.exit_code == 0, done.stdout + done.stderr
    assert not clones(world)


def test_a_second_one_at_once_is_refused(repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path) -> None:
    write_goal(repo)
    claude_script([run("true"), hang()])
    with ralph.start("understand", "--json") as running:
        running.wait_for("tool_end")
        refused = [ralph("understand"), ralph("run", "goal.md")]
        assert clones(world), "it is another one's"
        running.send(2)
        running.wait()
    assert [done.exit_code for done in refused] == [2, 2]
    assert all("another run is using this repository: goal ralph understand" in done.stderr for done in refused)


def test_two_work_trees_of_a_repository_can_be_mapped_at_once(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "--quiet", "-b", "other", str(linked))
    claude_script([run("true"), hang()], [run("rm .git -rf"), summary(THE_MAP)])
    before = everything(repo)
    with ralph.start("understand", "--json") as running:
        running.wait_for("tool_end")
        done = ralph("understand", cwd=linked)
        running.send(2)
        running.wait()
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(linked) == THE_MAP + "\n"
    assert git(linked, "branch", "--show-current") == "other"
    assert everything(repo) == before


def test_a_repository_without_any_commit_is_mapped(ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path) -> None:
    empty = make_repo(tmp_path / "empty", {"a.txt": "a\n"}, commit=False)
    claude_script([run("test -f a.txt && git status --porcelain > .ralph-seen"), summary(THE_MAP)])
    done = ralph("understand", cwd=empty)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(empty) == THE_MAP + "\n"


def test_a_repository_that_cannot_be_read_is_refused_with_gits_own_words(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path
) -> None:
    agent = claude_script([summary(THE_MAP)])
    (repo / ".git" / "index").write_text("no index")
    done = ralph("understand")
    assert (done.exit_code, agent.starts) == (1, [])
    assert "git ls-files failed" in done.stderr
    assert not clones(world)


def test_a_copy_of_an_older_ralph_is_the_users_to_remove(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path
) -> None:
    """It let the scout work in the repository itself, and kept the files as they were before."""
    write_goal(repo)
    claude_script([summary("map")], [summary("map")], [summary("DONE")])
    assert ralph("understand").exit_code == 0
    (journal,) = (world / "ralph").glob("runs/*/.understand")
    for name in ("before-1", "before-2"):
        (journal / name / "tree").mkdir(parents=True)
        (journal / name / "tree" / "README.md").write_text("# Example\n")
    (journal / "before-2" / "manifest.json").write_text("{}\n")

    refused = [ralph("understand"), ralph("run", "goal.md")]

    assert [done.exit_code for done in refused] == [2, 2]
    assert not (journal / "before-1").exists(), "that one was killed before its agent began"
    assert (journal / "before-2" / "tree" / "README.md").exists()
    said = {" ".join(done.stderr.split()) for done in refused}
    assert len(said) == 1
    assert f"the original files are in {journal}/before-2/tree" in said.copy().pop()
    subprocess.run(said.pop().rpartition("remove the copy: ")[2].split(), check=True)
    assert ralph("understand").exit_code == 0
    assert ralph("run", "goal.md").exit_code == 0


def test_put_back_is_gone(ralph: Ralph) -> None:
    assert ralph("understand", "--put-back").exit_code == 2


@pytest.fixture
def without_rights() -> list[str]:
    """What a command is run by so that also root may only read and write what its modes allow."""
    denied = "-dac_override,-dac_read_search"
    argv = ["setpriv", f"--bounding-set={denied}", f"--inh-caps={denied}"]
    if shutil.which("setpriv") is None or subprocess.run([*argv, "true"], capture_output=True).returncode != 0:
        tools.lacking("setpriv is not installed, or may not drop capabilities")
    return argv


def test_what_cannot_be_read_is_not_shown_and_said(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, without_rights: list[str]
) -> None:
    for name in ("closed.txt", "folder/file"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("mine\n")
    commit_all(repo, "more")
    (repo / "closed.txt").chmod(0)
    (repo / "folder").chmod(0)
    claude_script([summary(THE_MAP)])
    done = ralph("understand", under=without_rights)
    (repo / "folder").chmod(0o700)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "hidden from the scout (cannot be copied): closed.txt, folder/file\n" in done.stdout


def test_a_repository_that_cannot_be_written_is_refused_at_once(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, without_rights: list[str], world: Path
) -> None:
    agent = claude_script([summary(THE_MAP)])
    repo.chmod(0o500)
    done = ralph("understand", under=without_rights)
    repo.chmod(0o700)
    assert (done.exit_code, agent.starts) == (2, [])
    assert f"cannot write {repo}/.ralph/codebase-map.md: {repo} is not writable" in " ".join(done.stderr.split())
    assert not (world / "ralph").exists()


def test_outside_a_repository_it_is_refused(ralph: Ralph, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = ralph("understand", cwd=elsewhere)
    assert done.exit_code == 2
    assert "is not in a git repository" in done.stderr
    assert "--repo" not in done.stderr
