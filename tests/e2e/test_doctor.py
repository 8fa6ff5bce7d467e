"""`ralph doctor`: one line for each thing that ralph needs, and the command that helps."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.goals import write_check
from tests.support.ralph_process import Ralph
from tests.support.real_claude import Auth, claude_env
from tests.support.terminal import RalphInTerminal

LOGGED_IN, LOGGED_OUT = '{"loggedIn": true}', '{"loggedIn": false}'
SECRET = "sk-ant-do-not-say-this"
Found = Mapping[str, Mapping[str, str]]


def diagnosis(ralph: Ralph, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> tuple[int, Found]:
    """The exit code, and the findings by their names."""
    done = ralph("doctor", "--json", env=env, cwd=cwd)
    assert done.stderr == ""
    assert SECRET not in done.stdout
    (line,) = done.stdout.splitlines()
    return done.exit_code, {finding["name"]: finding for finding in json.loads(line)}


def agent(bin_dir: Path, name: str, version: str, answer: str, exit_code: int = 0) -> Path:
    """A program that knows its version, and says this when it is asked for anything else: then it leaves a mark."""
    program, mark = bin_dir / name, bin_dir / f"{name}.asked"
    program.write_text(
        f'#!/bin/sh\n[ "$*" = --version ] && {{ echo "{version} ({name})"; exit; }}\n'
        f"echo \"$* $ANTHROPIC_API_KEY\" >> '{mark}'; echo '{answer}'; exit {exit_code}\n"
    )
    program.chmod(0o755)
    return mark


def test_where_nothing_is_wrong_it_exits_with_0(ralph: Ralph, repo: Path, bin_dir: Path) -> None:
    agent(bin_dir, "claude", "2.1.325", LOGGED_IN)
    write_check(repo)

    done = ralph("doctor")

    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok     system          Linux ")
    assert f"ok     claude          your agent: 2.1.325, logged in, {bin_dir}/claude" in lines
    assert "note   codex           cannot find the agent: `codex` is not on PATH" in lines
    assert any(
        line.startswith(("ok     sandbox         auto (bubblewrap)", "note   sandbox         none: ")) for line in lines
    )
    assert "ok     check           .ralph/check; to try it: ralph check" in lines
    assert not any(line.startswith("wrong") for line in lines)
    code, found = diagnosis(ralph)
    assert code == 0
    names = (
        "system ralph python git settings claude codex ralph-claude direnv sandbox disk state repository check setup"
    )
    assert list(found) == names.split()
    assert not Path(ralph.env["RALPH_DIR"]).exists(), "it only looks"


def test_an_agent_that_is_slow_to_answer_is_waited_for_in_sight(ralph: Ralph, bin_dir: Path, tmp_path: Path) -> None:
    agent(bin_dir, "claude", "2.1.325", LOGGED_IN)
    slow = bin_dir / "codex"
    slow.write_text(f"#!/bin/sh\nuntil test -e {tmp_path}/go; do sleep 0.05; done\necho codex-cli 0.163.0\n")
    slow.chmod(0o755)
    with RalphInTerminal(["doctor"], ralph.repo, ralph.env, 120) as running:
        running.shows("asking programs for their versions and logins")
        (tmp_path / "go").touch()
        running.wait()
        assert "asking programs" not in running.text
        assert "your agent: 2.1.325, logged in" in running.text
        assert running.screen.is_as_a_shell_expects


def test_an_agent_that_is_logged_out_is_wrong_if_it_is_the_one_to_be_used(ralph: Ralph, bin_dir: Path) -> None:
    mark = agent(bin_dir, "claude", "2.1.325", LOGGED_OUT, 1)
    agent(bin_dir, "codex", "0.163.0", f"Logged in using an API key - {SECRET}")

    code, found = diagnosis(ralph)

    assert code == 1
    assert found["claude"]["says"] == "your agent: 2.1.325, not logged in"
    assert (found["claude"]["health"], found["claude"]["next"]) == ("wrong", "claude auth login")
    assert found["codex"]["says"].startswith("0.163.0, logged in, ")
    code, found = diagnosis(ralph, {"RALPH_AGENT": "codex", "ANTHROPIC_API_KEY": SECRET})
    assert code == 0
    assert found["claude"]["health"] == "note"
    assert found["claude"]["next"].startswith("ralph config set agents.claude.auth api-key ")
    assert SECRET not in mark.read_text(), "a session would not see the key either"


@pytest.mark.parametrize(
    ("version", "answer"), [("2.0.9", LOGGED_OUT), ("2.1.325", "unknown command"), ("2.1.325", "[]")]
)
def test_a_login_that_nobody_can_tell_is_no_fault(version: str, answer: str, ralph: Ralph, bin_dir: Path) -> None:
    mark = agent(bin_dir, "claude", version, answer, 1)

    code, found = diagnosis(ralph)

    assert code == 0
    assert found["claude"]["says"] == f"your agent: {version}, login unknown, {bin_dir}/claude"
    assert mark.exists() is (version == "2.1.325"), "to an old claude the question would be a prompt"


def test_what_is_wrong_names_the_command_that_helps(ralph: Ralph, repo: Path) -> None:
    write_check(repo).chmod(0o644)
    state = Path(ralph.env["RALPH_DIR"])
    state.mkdir(mode=0o755)

    code, found = diagnosis(ralph)

    assert code == 1
    wrong = {name: finding["next"] for name, finding in found.items() if finding["health"] == "wrong"}
    assert wrong == {
        "claude": "install Claude Code (npm install -g @anthropic-ai/claude-code) and log in by running `claude` once",
        "check": "make it executable: chmod +x .ralph/check",
        "state": f"chmod 700 {state}",
    }
    shown = ralph("doctor").stdout
    assert f"\n{' ' * 23}chmod 700 {state}\n" in shown


def test_invalid_settings_do_not_hide_the_rest(ralph: Ralph) -> None:
    code, found = diagnosis(ralph, {"RALPH_MAX_COST": "a lot"})
    assert code == 1
    assert found["settings"]["says"].startswith("invalid settings: RALPH_MAX_COST: 'a lot' ")
    assert found["git"]["health"] == "ok"
    assert found["claude"]["health"] == "note"


def test_outside_of_a_repository_nothing_is_wrong_with_the_machine(ralph: Ralph, bin_dir: Path, tmp_path: Path) -> None:
    agent(bin_dir, "claude", "2.1.325", LOGGED_IN)
    code, found = diagnosis(ralph, cwd=tmp_path)
    assert code == 0
    assert (found["repository"]["health"], found["repository"]["next"]) == (
        "note",
        "cd to your repository, or: git init",
    )
    assert "check" not in found


def test_without_git_it_says_so(ralph: Ralph, bin_dir: Path) -> None:
    code, found = diagnosis(ralph, {"PATH": str(bin_dir)})
    assert code == 1
    assert (found["git"]["health"], found["git"]["says"]) == ("wrong", "cannot find git")
    (bin_dir / "git").write_text("#!/bin/sh\necho git version 2.30.2\n")
    (bin_dir / "git").chmod(0o755)
    (bin_dir / "sh").symlink_to(shutil.which("sh") or "")
    assert diagnosis(ralph, {"PATH": str(bin_dir)})[1]["git"]["says"] == "2.30.2: ralph needs 2.36 or newer"


def test_elsewhere_than_on_linux_it_says_that_plainly(ralph: Ralph) -> None:
    # What Linux alone has is taken away as well: nothing that needs it may be loaded.
    code = "import os, sys; sys.platform = 'darwin'; del os.O_PATH; from ralph.cli.main import main; main()"
    argv = [sys.executable, "-P", "-c", code, "doctor"]
    for more in ([], ["--json"]):
        done = subprocess.run([*argv, *more], cwd=ralph.repo, env=ralph.env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, "")
        assert "ralph runs on Linux only, and this is darwin" in done.stdout


def test_the_real_agents_tell_whether_they_are_logged_in(ralph: Ralph, bin_dir: Path) -> None:
    for name in ("claude", "codex"):
        (bin_dir / name).symlink_to(tools.find(name))
    home = Path(ralph.env["HOME"])
    cases: tuple[tuple[Auth, str], ...] = (("none", "not logged in"), ("oauth", "logged in"))
    for auth, says in cases:
        env = {**claude_env(home, "http://127.0.0.1:9", auth), "PATH": ralph.env["PATH"]}
        _, found = diagnosis(ralph, env)
        assert f", {says}" in found["claude"]["says"]
        assert found["claude"]["health"] == ("ok" if auth == "oauth" else "wrong")
        assert "not logged in" in found["codex"]["says"]
