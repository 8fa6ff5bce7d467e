"""`ralph understand`: a map of the code base, and a tree that is otherwise as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support import any_agent
from tests.support.any_agent import any_agent as make_agent
from tests.support.any_agent import run as shell
from tests.support.any_agent import say
from tests.support.git_repos import commits, git
from tests.support.goals import write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, Step, api_error, hang, run, summary, write
from tests.support.scripted_agent import exit as exit_with

THE_MAP = "# What this is\n\nAn example.\n\n## Layout\n\n- README.md"


def the_map(repo: Path) -> str:
    return (repo / ".ralph" / "codebase-map.md").read_text()


def everything(repo: Path) -> dict[str, bytes]:
    """Every file of the tree but ralph's own and git's."""
    ours = (repo / ".git", repo / ".ralph")
    files = [path for path in repo.rglob("*") if path.is_file() and not any(path.is_relative_to(own) for own in ours)]
    return {str(path.relative_to(repo)): path.read_bytes() for path in files}


def test_the_map_is_written_and_given_to_later_workers(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary(THE_MAP)], [summary("DONE")])
    done = ralph("understand")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(repo) == THE_MAP + "\n"
    assert "result     the map is .ralph/codebase-map.md, 7 lines" in done.stdout
    assert git(repo, "status", "--porcelain") == "?? .ralph/"
    assert len(commits(repo)) == 1

    (prompt,) = agent.heard
    assert "read-only" in prompt
    start = agent.starts[0]
    assert start["argv"][start["argv"].index("--tools") + 1] == "Read,Glob,Grep,StructuredOutput"

    write_goal(repo)
    assert ralph("run", "goal.md").exit_code == 0
    assert THE_MAP in agent.heard[1]


def test_whatever_else_the_scout_changes_is_undone_and_said(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    (repo / "mine.txt").write_text("not committed yet\n")
    (repo / "staged.txt").write_text("staged\n")
    git(repo, "add", "staged.txt")
    before, head, status = everything(repo), git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")
    claude_script(
        [
            write("README.md", "overwritten"),
            write("junk.txt", "junk"),
            run(
                "rm mine.txt; git add -A; git commit -qm sneaky; git switch -qc elsewhere; echo x > .ralph/config.toml"
            ),
            summary(THE_MAP),
        ]
    )

    done = ralph("understand")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert everything(repo) == before
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "branch", "--show-current") == "main"
    assert git(repo, "status", "--porcelain").replace("?? .ralph/\n", "") == status
    assert not (repo / ".ralph" / "config.toml").exists()
    for deed in ("README.md", "junk.txt", "mine.txt"):
        assert any(deed in line and "undone" in line for line in done.stdout.splitlines()), deed
    assert the_map(repo) == THE_MAP + "\n"


def test_a_scout_that_writes_the_map_itself_may(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([run("mkdir -p .ralph"), write(".ralph/codebase-map.md", THE_MAP), summary("I wrote the map.")])
    done = ralph("understand")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert the_map(repo) == THE_MAP + "\n"
    assert "that was undone" not in done.stdout


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
    assert "sandbox: codex's own, read-only" in shown.stdout
    assert done.events[-1]["type"] == "run_ended"


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


def test_a_tree_that_cannot_be_put_back_keeps_its_copies_and_names_them(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path
) -> None:
    claude_script([write("README.md", "overwritten"), summary(THE_MAP)])
    assert ralph("understand").exit_code == 0
    (undone,) = (world / "ralph" / "runs").glob("*/.understand/undone")
    shutil.rmtree(undone)
    undone.touch()  # nothing can be moved aside any more
    (repo / "README.md").write_text("my own, not committed\n")

    done = ralph("understand")

    assert done.exit_code == 1, done.stdout
    assert "while the tree was put back" in done.stderr
    store = Path(done.stderr.split("is in ")[1].strip())
    assert (store / "README.md").read_text() == "my own, not committed\n"
    assert ralph("understand").exit_code == 2, "nor is anything begun before the user has looked"


def test_the_judge_is_put_back_even_where_git_ignores_it(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    (repo / ".gitignore").write_text("/.ralph/\n")
    write_check(repo)
    before = (repo / ".ralph" / "check").read_text()
    claude_script(
        [run("printf '#!/bin/sh\\n' > .ralph/check; echo 'agent = \"codex\"' > .ralph/config.toml"), summary(THE_MAP)]
    )
    done = ralph("understand")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert (repo / ".ralph" / "check").read_text() == before
    assert not (repo / ".ralph" / "config.toml").exists()
    assert "the scout changed .ralph/check; that was undone" in done.stdout


def test_a_bare_claim_is_no_map(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("DONE")])
    done = ralph("understand")
    assert (done.exit_code, "the scout ended without a map" in done.stdout) == (1, True)
    assert not (repo / ".ralph" / "codebase-map.md").exists()


def test_a_scout_that_deletes_the_repository_is_named(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    before = everything(repo)
    claude_script([run("rm -rf .git README.md"), summary(THE_MAP)])
    done = ralph("understand")
    assert (done.exit_code, "the agent deleted .git" in done.stderr) == (1, True), done.stderr
    assert everything(repo) == before


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


def test_an_interrupt_undoes_what_was_begun(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    before = everything(repo)
    claude_script([write("README.md", "overwritten"), write("junk.txt", "junk"), hang()])
    with ralph.start("understand", "--json") as running:
        running.wait_for("tool_end", 2)
        running.send(2)
        done = running.wait()
    assert done.exit_code == 130
    assert everything(repo) == before


def kill_a_pass(ralph: Ralph, *args: str, cwd: Path | None = None) -> None:
    """Kill ralph when its scout has done what the script says."""
    with ralph.start("understand", "--json", *args, cwd=cwd) as running:
        running.wait_for("tool_end")
        running.send(9)
        running.wait()


def test_nothing_is_built_on_what_a_killed_pass_had_changed(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    claude_script([write("README.md", "overwritten"), hang()], [summary(THE_MAP)])
    kill_a_pass(ralph)

    refused = [
        ralph("understand"),
        ralph("run", "goal.md", "--allow-dirty"),
        ralph("run", "goal.md", "--branch", "new"),
    ]

    assert [done.exit_code for done in refused] == [2, 2, 2]
    assert "ralph understand --put-back" in refused[1].stderr
    store = Path(refused[0].stderr.strip().rpartition("rm -r ")[2])
    assert (store / "tree" / "README.md").read_bytes() == b"# Example\n"
    back = ralph("understand", "--put-back")
    assert (back.exit_code, back.stdout.splitlines()[0]) == (0, "changed README.md; that was undone")
    assert (repo / "README.md").read_text() == "# Example\n"
    assert not store.exists()
    assert ralph("understand").exit_code == 0
    assert ralph("understand", "--put-back").exit_code == 2


def test_nor_is_a_run_continued_on_it(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    claude_script([hang()], [write("README.md", "overwritten"), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("session_started")
        running.send(9)
        running.wait()
    kill_a_pass(ralph)
    assert ralph("run", "goal.md").exit_code == 2
    assert ralph("understand", "--put-back").exit_code == 0
    assert ralph("run", "goal.md").exit_code == 0


def test_a_killed_pass_that_changed_nothing_is_forgotten(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, world: Path
) -> None:
    """What is done later must not be taken for its agent's doing, and taken back."""
    write_goal(repo)
    claude_script([run("true"), hang()], [write("a.txt", "a"), summary("DONE")])
    kill_a_pass(ralph)
    assert [ralph("run", "goal.md").exit_code for _ in range(2)] == [0, 0]
    assert not list((world / "ralph" / "runs").glob("*/.understand/before-*"))
    assert ralph("understand", "--put-back").exit_code == 2
    assert len(commits(repo)) == 3


def test_the_judge_that_git_ignores_is_put_back_after_a_kill_as_well(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    (repo / ".gitignore").write_text("/.ralph/\n")
    git(repo, "add", ".gitignore")
    git(repo, "commit", "--quiet", "--message", "ignore")
    write_goal(repo)
    write_check(repo)
    (repo / ".ralph" / "codebase-map.md").write_text("my own map\n")
    before = (repo / ".ralph" / "check").read_text()
    claude_script([run("printf '#!/bin/sh\\n' > .ralph/check; echo junk > .ralph/codebase-map.md"), hang()])
    kill_a_pass(ralph)
    assert ralph("run", "goal.md").exit_code == 2
    assert ralph("understand", "--put-back").exit_code == 0
    assert (repo / ".ralph" / "check").read_text() == before
    assert the_map(repo) == "my own map\n"


@pytest.mark.parametrize("deed", ["rm .git", pytest.param("echo 'gitdir: /nowhere' > .git", marks=pytest.mark.long)])
def test_a_linked_work_tree_stays_linked(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path, deed: str
) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "--quiet", "-b", "other", str(linked))
    claude_script([run(deed), summary(THE_MAP)])
    done = ralph("understand", cwd=linked)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "the scout changed .git; that was undone" in done.stdout
    assert git(linked, "branch", "--show-current") == "other"
    assert the_map(linked) == THE_MAP + "\n"


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
        pytest.param(["--quiet", "--verbose"], 2, "contradict", marks=pytest.mark.long),
        pytest.param(["--agent-cmd", "no-such-program"], 6, "was not found", marks=pytest.mark.long),
        ([], 6, "the agent `claude` was not found on PATH"),
    ],
)
def test_bad_usage_is_refused_with_nothing_written(
    repo: Path, ralph: Ralph, world: Path, args: list[str], code: int, said: str
) -> None:
    done = ralph("understand", *args)
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
    assert not (repo / ".ralph").exists()
    assert not (world / "ralph").exists()


def test_outside_a_repository_it_is_refused(ralph: Ralph, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = ralph("understand", cwd=elsewhere)
    assert done.exit_code == 2
    assert "is not in a git repository" in done.stderr
    assert "--repo" not in done.stderr
