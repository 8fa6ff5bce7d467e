"""What cannot begin is refused: exit 2 (or 6) with the cause and the next step on stderr, and nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.git_repos import git
from tests.support.goals import GOAL, result, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, ScriptedAgent, summary


@pytest.fixture
def agent(claude_script: ClaudeScript) -> ScriptedAgent:
    return claude_script([summary("DONE")])


def tree(directory: Path) -> dict[str, object]:
    """Everything below a directory, for comparison; git's own index may be refreshed by a mere look."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
        if path.name != "index"
    }


@pytest.fixture
def refused(repo: Path, world: Path, ralph: Ralph, agent: ScriptedAgent):
    """Run ralph, and see that nothing was written and nothing started."""

    def run(*args: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> Finished:
        before = tree(repo)
        done = ralph("run", *args, cwd=cwd, env=env)
        assert tree(repo) == before
        assert not (world / "ralph").exists(), "the state directory was touched"
        assert not agent.starts
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_missing_goal(refused) -> None:
    done = refused("nonesuch.md")
    assert (done.exit_code, "nonesuch.md: no such file" in done.stderr) == (2, True)


def test_a_directory_as_goal(repo: Path, refused) -> None:
    (repo / "goals").mkdir()
    done = refused("goals")
    assert (done.exit_code, "goals: it is a directory" in done.stderr) == (2, True)


def test_a_goal_that_is_not_text(repo: Path, refused) -> None:
    (repo / "goal.md").write_bytes(b"# \xff\xfe\n## Objective\nx\n")
    done = refused("goal.md")
    assert (done.exit_code, "goal.md: not UTF-8 text" in done.stderr) == (2, True)


def test_two_goals_of_one_name_in_one_place(repo: Path, refused) -> None:
    write_goal(repo, name="Fix it.md")
    write_goal(repo, name="fix-it.md")
    done = refused("fix-it.md")
    assert done.exit_code == 2
    assert "Fix it.md have the same name, fix-it" in done.stderr


def test_not_a_git_repository(tmp_path: Path, refused) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_goal(elsewhere)
    done = refused("goal.md", cwd=elsewhere)
    assert done.exit_code == 2
    assert f"{elsewhere} is not in a git repository" in done.stderr


def test_a_repo_that_is_no_repository(tmp_path: Path, repo: Path, refused) -> None:
    write_goal(repo)
    (tmp_path / "plain").mkdir()
    assert refused("goal.md", "--repo", tmp_path / "plain").exit_code == 2
    assert refused("goal.md", "--repo", tmp_path / "missing").exit_code == 2


def test_a_dirty_tree_names_its_paths(repo: Path, refused, ralph: Ralph) -> None:
    write_goal(repo)
    (repo / "README.md").write_text("changed\n")
    (repo / "new file.txt").write_text("new\n")
    done = refused("goal.md")
    assert done.exit_code == 2
    assert "the working tree has uncommitted changes: README.md, new file.txt" in done.stderr
    assert "--allow-dirty" in done.stderr

    assert ralph("run", "goal.md", "--allow-dirty").exit_code == 0
    assert git(repo, "status", "--porcelain") == "?? goal.md"


BAD_FLAGS = {
    ("--duration", "4 hours"): "duration: '4 hours' is not a duration such as 90s, 30m, 4h or 1h30m",
    ("--idle-timeout", "0s"): "--idle-timeout: '0s' is not a duration above zero",
    ("--reasoning", "hihg"): "reasoning: 'hihg' is not one of none, low, med, high (did you mean high?)",
    ("--max-iterations", "-1"): "--max-iterations: '-1' is not a whole number above zero",
    ("--max-cost", "nan"): "--max-cost: 'nan' is not an amount of US dollars above zero",
    ("--max-tokens", "-1"): "--max-tokens: '-1' is not a whole number above zero",
    ("--agent", "cluade"): "agent: 'cluade' is not one of claude, codex, custom, ralph-claude, demo (did you mean",
    ("--transcript", "rtf"): "transcript: 'rtf' is not one of auto, ",
}


def test_every_bad_flag_is_named_at_once(repo: Path, refused) -> None:
    write_goal(repo)
    done = refused("goal.md", *(word for flag in BAD_FLAGS for word in flag))
    assert done.exit_code == 2
    assert [cause for cause in BAD_FLAGS.values() if cause not in done.stderr] == []


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        (["--agent", "custom"], "the agent custom needs a command"),
        (["--agent-cmd", "'x"], 'cannot parse "\'x": No closing quotation'),
        (["--check", "nonesuch-command"], "cannot run the check: 'nonesuch-command' was not found"),
        (["--check", "'unclosed"], "cannot parse the check"),
        (["--continue"], "there is no unfinished run of goal to continue"),
        (["--continue", "--fresh"], "--continue and --fresh cannot be combined"),
        (["--no-check", "--require-check"], "--no-check and --require-check cannot be combined"),
        (["--branch", "bad..name"], "'bad..name' is not a valid branch name"),
    ],
)
def test_a_bad_value(repo: Path, refused, flags: list[str], cause: str) -> None:
    write_goal(repo)
    done = refused("goal.md", *flags)
    assert done.exit_code == 2
    assert cause in done.stderr


def test_a_value_of_thousands_of_letters_is_not_echoed_whole(repo: Path, refused) -> None:
    write_goal(repo)
    done = refused("goal.md", "--max-iterations", "1" * 5000)
    assert done.exit_code == 2
    assert "characters left out" in done.stderr
    assert "is not a whole number" in done.stderr
    assert len(done.stderr) < 1500


def test_an_unknown_flag(repo: Path, ralph: Ralph) -> None:
    done = ralph("run", "goal.md", "--max-iteration", "3")
    assert done.exit_code == 2
    assert "--max-iteration" in done.stderr


def test_an_invalid_configuration_names_all_its_faults_at_once(repo: Path, refused) -> None:
    write_goal(repo, f"---\nduration: soon\n---\n{GOAL}")
    config = repo / ".ralph" / "config.toml"
    config.parent.mkdir()
    config.write_text('model = 7\nreasonning = "low"\nidle_timeout = "x"\n[agents.claude]\nmax_retries = "many"\n')
    (repo / ".env").write_text("RALPH_MAX_COST=free\n")

    done = refused("goal.md", "--max-tokens", "few", env={"RALPH_FAILURES": "no"})

    assert done.exit_code == 2
    for cause in (
        f"{config}: model: must be a string, not 7",
        f"{config}: unknown key reasonning (did you mean reasoning?)",
        f"{config}: idle_timeout: 'x' is not a duration",
        f"{config}: agents.claude.max_retries:",
        f"{repo / '.env'}: RALPH_MAX_COST: 'free'",
        f"{repo / 'goal.md'}: duration: 'soon'",
        "RALPH_FAILURES: 'no'",
        "--max-tokens: 'few'",
    ):
        assert cause in done.stderr, cause


def test_a_check_that_is_not_executable(repo: Path, refused) -> None:
    write_goal(repo)
    write_check(repo).chmod(0o644)
    done = refused("goal.md")
    assert done.exit_code == 2
    assert "chmod +x .ralph/check" in done.stderr


def test_a_ralph_directory_that_leads_elsewhere(repo: Path, tmp_path: Path, refused) -> None:
    write_goal(repo)
    (tmp_path / "outside").mkdir()
    (repo / ".ralph").symlink_to(tmp_path / "outside")
    assert refused("goal.md").exit_code == 2


def test_a_required_check_that_is_missing_blocks_before_a_cent_is_spent(repo: Path, refused) -> None:
    write_goal(repo)
    done = refused("goal.md", "--require-check")
    assert done.exit_code == 6
    assert "write .ralph/check" in done.stderr


def test_a_missing_agent_is_blocked_with_the_ways_on(repo: Path, world: Path, ralph: Ralph) -> None:
    write_goal(repo)
    before = tree(repo)
    done = ralph("run", "goal.md")
    assert done.exit_code == 6
    assert "cannot find the agent: `claude` is not on PATH" in done.stderr
    for way in ("ralph config set agents.claude.path", "--agent ralph-claude", "make demo"):
        assert way in done.stderr
    assert tree(repo) == before
    assert not (world / "ralph").exists()


def test_an_agent_that_cannot_start_is_blocked_in_every_place(repo: Path, bin_dir: Path, ralph: Ralph) -> None:
    write_goal(repo)
    (bin_dir / "claude").write_text("#!/no/such/interpreter\n")
    (bin_dir / "claude").chmod(0o755)
    done = ralph("run", "goal.md")
    assert (done.exit_code, result(repo)["exit_code"]) == (6, 6)
    assert f"cannot start {bin_dir / 'claude'}" in done.stderr


@pytest.mark.spec("3.2-e", "3.11-a")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_bypassing_permissions_as_root_is_refused_outside_a_sandbox(
    repo: Path, ralph: Ralph, refused, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    agent = claude_script([summary("DONE")])
    ralph("config", "set", "agents.claude.permission_mode", "bypassPermissions")
    done = refused("goal.md")
    assert done.exit_code == 2
    assert "as root" in done.stderr
    assert not agent.starts
    assert ralph("run", "goal.md", env={**ralph.env, "IS_SANDBOX": "1"}).exit_code == 0
    argv = agent.starts[0]["argv"]
    assert argv[argv.index("--permission-mode") + 1] == "bypassPermissions"


def test_the_same_goal_name_from_another_path_names_both(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    first = write_goal(repo)
    (repo / "sub").mkdir()
    second = write_goal(repo / "sub", name="Goal.md")
    git(repo, "add", "sub")
    git(repo, "commit", "--quiet", "-m", "another")
    claude_script([summary("a step")])
    assert ralph("run", "goal.md", "--max-iterations", "1").exit_code == 4

    done = ralph("run", second)

    assert done.exit_code == 2
    assert str(first) in done.stderr
    assert str(second) in done.stderr


def test_an_unfinished_run_on_another_branch_is_not_continued_here(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    claude_script([summary("a step")])
    assert ralph("run", "goal.md", "--max-iterations", "1").exit_code == 4
    git(repo, "switch", "--quiet", "-c", "other")

    done = ralph("run", "goal.md")

    assert done.exit_code == 2
    assert "git switch main" in done.stderr


def test_a_broken_template_of_the_project_is_named(repo: Path, refused) -> None:
    write_goal(repo)
    template = repo / ".ralph" / "prompts" / "worker.md.j2"
    template.parent.mkdir(parents=True)
    template.write_text("Do {{ nonesuch }}.\n")

    done = refused("goal.md")

    assert done.exit_code == 2
    assert f"{template}: cannot render the template: 'nonesuch' is undefined" in done.stderr
