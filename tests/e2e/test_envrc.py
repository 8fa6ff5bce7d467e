"""The repository's `.envrc`: executed only in a version that the user trusts, and for the agent and the check alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.git_repos import commit_all, commits, git
from tests.support.goals import result, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, ScriptedAgent, run, summary, write
from tests.support.waiting import is_alive, pid_in, wait_until

SECRET = "s3cr3t-value"
ENVRC = f"export FROM_ENVRC={SECRET}\nsource_env lib.sh\n"
LIB = "export FROM_LIB=lib\n"


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    write_envrc(repo, ENVRC, lib=LIB)
    return write_goal(repo)


@pytest.fixture
def direnv(bin_dir: Path) -> Path:
    """Put direnv on ralph's PATH."""
    (bin_dir / "direnv").symlink_to(tools.direnv())
    return bin_dir / "direnv"


@pytest.fixture
def without_direnv(bin_dir: Path) -> dict[str, str]:
    """A PATH that has git and a shell, and no direnv."""
    for name in ("git", "sh", "bash", "env", "cat", "test", "python3"):
        if (found := shutil.which(name)) is not None and not (bin_dir / name).exists():
            (bin_dir / name).symlink_to(found)
    return {"PATH": str(bin_dir)}


def write_envrc(repo: Path, text: str, *, lib: str | None = None) -> None:
    (repo / ".envrc").write_text(text)
    if lib is not None:
        (repo / "lib.sh").write_text(lib)
    commit_all(repo, "its environment")


def allow(ralph: Ralph, direnv: Path) -> None:
    subprocess.run([direnv, "allow"], cwd=ralph.repo, env=ralph.env, check=True, capture_output=True)


def header(done: Finished) -> str:
    """The line of the header that speaks of .envrc; empty without one."""
    said = re.search(r"^envrc +(.*(?:\n {2,}.*)*)", done.stdout, re.MULTILINE)
    return " ".join(said[1].split()) if said else ""


def executed(trace: Path) -> list[str]:
    """The programs that were started, by name."""
    return [Path(name).name for name in re.findall(r'execve\("([^"]*)"', trace.read_text())]


def traced(ralph: Ralph, trace: Path, *args: str, env: dict[str, str] | None = None) -> Finished:
    under = [tools.strace(), "-f", "-qq", "-e", "trace=execve,execveat", "-o", str(trace)]
    return ralph(*args, env=env, under=under, timeout=120)


def seen(agent: ScriptedAgent, start: int = -1) -> dict[str, str]:
    return agent.starts[start]["env"]


def done_once(claude_script: ClaudeScript) -> ScriptedAgent:
    return claude_script([write("answer.txt", "42\n"), summary("DONE")])


MARK = 'touch "$PWD/.git/evaluated"\n'
"""What an evaluation leaves: where git does not see it, and in any version of the file."""


def evaluated(repo: Path) -> bool:
    mark = repo / ".git" / "evaluated"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found


@pytest.mark.spec("1.3.2-a")
def test_one_that_nobody_trusts_is_not_executed(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    write_envrc(repo, MARK + "sleep 1000 &\nsleep 1000\n")
    agent = done_once(claude_script)

    done = traced(ralph, tmp_path / "trace", "run", "goal.md")

    assert done.exit_code == 0
    assert not evaluated(repo)
    assert {"direnv", "bash", "sleep", "touch"} & set(executed(tmp_path / "trace")) == set()
    assert header(done) == f"not used: you have not trusted it yet; review it, then: ralph trust {repo}"
    assert done.stdout.count("you have not trusted it yet") == 1
    events = (run_directory(repo) / "events.ndjson").read_text()
    assert f'"envrc":"{header(done)}"' in events
    assert '"envrc_used":false,"envrc_why":"you have not trusted it yet"' in events
    assert "FROM_ENVRC" not in seen(agent)


@pytest.mark.spec("1.3.2-a")
@pytest.mark.parametrize("trust", ["ralph trust", "direnv allow", "--trust-envrc"])
def test_one_that_is_trusted_reaches_the_agent_and_the_check(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path, trust: str
) -> None:
    write_check(repo, f'#!/bin/sh\n[ "${{#FROM_ENVRC}} $FROM_LIB $RALPH_GOAL" = "{len(SECRET)} lib goal" ]\n')
    agent = claude_script([run("echo $FROM_ENVRC $FROM_LIB > answer.txt"), summary("DONE")])
    if trust == "ralph trust":
        assert ralph("trust").exit_code == 0
    if trust == "direnv allow":
        allow(ralph, direnv)

    flags = ["--trust-envrc"] if trust.startswith("--") else []
    done = ralph("run", "goal.md", "--max-iterations", "1", *flags)

    assert (done.exit_code, result(repo)["proven"]) == (0, True)
    assert (repo / "answer.txt").read_text() == f"{SECRET} lib\n"
    assert header(done) == "2 variables by direnv: FROM_ENVRC, FROM_LIB"
    assert seen(agent)["RALPH_GOAL"] == "goal"
    assert [name for name in seen(agent) if name.startswith("DIRENV_")] == []
    assert SECRET not in done.stdout + done.stderr
    kept = [path for folder in (world / "ralph", run_directory(repo)) for path in folder.rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    own = subprocess.run([direnv, "export", "json"], cwd=repo, env=ralph.env, capture_output=True, text=True)
    assert ("is blocked" in own.stderr) is (trust != "direnv allow"), "ralph tells direnv to allow nothing"


def test_a_trusted_one_that_is_direnv_s_stays_direnv_s(ralph: Ralph, claude_script: ClaudeScript, direnv: Path) -> None:
    agent = done_once(claude_script)
    allow(ralph, direnv)
    assert header(ralph("run", "goal.md")).startswith("2 variables")
    subprocess.run([direnv, "deny"], cwd=ralph.repo, env=ralph.env, check=True, capture_output=True)

    assert header(ralph("run", "goal.md")).startswith("not used: you have not trusted it yet")
    assert "FROM_ENVRC" not in seen(agent)


def test_what_the_user_s_own_direnv_knows_is_known_to_it(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, direnv: Path
) -> None:
    config = Path(ralph.env["XDG_CONFIG_HOME"]) / "direnv"
    config.mkdir(parents=True)
    (config / "direnvrc").write_text("greet() { export GREETING=$1; }\n")
    (config / "direnv.toml").write_text("[global]\nstrict_env = true\n[whitelist]\nprefix = ['/']\n")
    write_envrc(repo, 'greet hello\nexport DATA="$XDG_DATA_HOME"\n')
    agent = done_once(claude_script)
    assert header(ralph("run", "goal.md")).startswith("not used: you have not trusted it yet")

    done = ralph("run", "goal.md", "--trust-envrc")

    assert (seen(agent)["GREETING"], seen(agent)["DATA"]) == ("hello", ralph.env["XDG_DATA_HOME"])
    assert header(done) == "2 variables by direnv: DATA, GREETING · not covered by trust: line 1 of .envrc (greet)"


@pytest.mark.parametrize(
    ("trust", "changed"),
    [
        ("ralph trust", ".envrc"),
        ("--trust-envrc", "lib.sh"),
        pytest.param("ralph trust", "lib.sh", marks=pytest.mark.long),
        pytest.param("direnv allow", ".envrc", marks=pytest.mark.long),
        pytest.param("direnv allow", "lib.sh", marks=pytest.mark.long),
        pytest.param("--trust-envrc", ".envrc", marks=pytest.mark.long),
    ],
)
def test_what_the_agent_changed_is_not_executed_at_the_next_start(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path, trust: str, changed: str
) -> None:
    deed = f"echo 'touch .git/evaluated' >> {changed}"
    agent = claude_script([run(deed), summary("one")], [summary("two")], [summary("three")])
    flags = ["--trust-envrc"] if trust == "--trust-envrc" else []
    if trust == "ralph trust":
        ralph("trust")
    if trust == "direnv allow":
        allow(ralph, direnv)
    first = ralph("run", "goal.md", "--max-iterations", "1", *flags)
    assert (first.exit_code, header(first)) == (4, "2 variables by direnv: FROM_ENVRC, FROM_LIB")
    assert "--trust-envrc" not in first.stdout

    second = traced(ralph, tmp_path / "trace", "run", "goal.md", "--max-iterations", "2", *flags)

    assert (second.exit_code, len(commits(repo))) == (4, 4)
    assert not evaluated(repo)
    assert {"direnv", "bash", "touch"} & set(executed(tmp_path / "trace")) == set()
    assert header(second).startswith(f"not used: {changed} changed since this run started")
    assert header(second).endswith(f"; review it, then: ralph trust {repo}")
    assert "FROM_ENVRC" not in seen(agent)

    ralph("trust")
    third = ralph("run", "goal.md", "--max-iterations", "3")
    assert (third.exit_code, evaluated(repo)) == (4, True)
    assert seen(agent)["FROM_ENVRC"] == SECRET


def test_an_agent_that_allows_what_it_wrote_is_not_the_user(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    allow(ralph, direnv)
    deed = "echo 'touch .git/evaluated' >> .envrc; direnv allow; ralph trust"
    claude_script([run(deed), summary("one")], [summary("two")])
    ralph("run", "goal.md", "--max-iterations", "1")

    second = ralph("run", "goal.md", "--max-iterations", "2")

    assert not evaluated(repo)
    assert header(second).startswith("not used: .envrc changed since this run started")


@pytest.mark.parametrize("words", [["trust"], ["run", "goal.md", "--trust-envrc"]])
def test_an_agent_cannot_say_that_it_is_trusted(
    ralph: Ralph, claude_script: ClaudeScript, direnv: Path, words: list[str]
) -> None:
    done_once(claude_script)
    refused = ralph(*words, env={"RALPH_RUN_ID": "1"})

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "an agent's session cannot decide what ralph trusts" in refused.stderr


def test_one_that_appears_is_not_what_was_trusted(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    (repo / ".envrc").unlink()
    commit_all(repo, "without")
    claude_script([run("echo 'touch .git/evaluated' > .envrc"), summary("one")], [summary("two")])
    first = ralph("run", "goal.md", "--max-iterations", "1", "--trust-envrc")
    assert header(first) == "there is no .envrc here to trust"

    second = ralph("run", "goal.md", "--max-iterations", "2", "--trust-envrc")

    assert header(second).startswith("not used: .envrc changed since this run started")
    assert not evaluated(repo)


@pytest.mark.parametrize(
    ("first", "stands"),
    [
        ([], True),
        pytest.param(["--trust-envrc"], False, marks=pytest.mark.long),
        pytest.param(["--trust-envrc"], True, marks=pytest.mark.long),
        pytest.param([], False, marks=pytest.mark.long),
    ],
)
def test_the_flag_of_a_new_run_does_not_trust_what_an_agent_wrote(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path, first: list[str], stands: bool
) -> None:
    if not stands:
        (repo / ".envrc").unlink()
    write_goal(repo, name="g2.md")
    commit_all(repo, "two goals")
    claude_script([run("echo 'touch .git/evaluated' >> .envrc"), summary("DONE")], [summary("DONE")])
    assert ralph("run", "goal.md", *first).exit_code == 0

    second = ralph("run", "g2.md", "--trust-envrc")

    assert (second.exit_code, evaluated(repo)) == (0, False)
    assert "and --trust-envrc does not cover a file that an agent may have changed" in header(second)
    assert header(second).endswith(f"; review it, then: ralph trust {repo}")

    ralph("trust")
    assert header(ralph("run", "g2.md", "--trust-envrc")).startswith(f"{2 if stands else 0} variable")


def test_the_flag_does_not_trust_what_an_agent_wrote_in_another_work_tree(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    claude_script([run(f"echo 'touch {tmp_path}/evaluated' >> .envrc"), summary("DONE")], [summary("DONE")])
    assert ralph("run", "goal.md").exit_code == 0
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    write_goal(tmp_path / "tree", name="two.md")

    second = ralph("run", "two.md", "--trust-envrc", cwd=tmp_path / "tree")

    assert second.exit_code == 0
    assert "--trust-envrc does not cover a file that an agent may have changed" in header(second)
    assert not (tmp_path / "evaluated").exists()


@pytest.mark.spec("1.3.2-c")
def test_folders_of_the_repository_that_were_on_path_keep_their_place(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    (repo / "scripts").mkdir()
    write_envrc(repo, "PATH_add scripts\n")
    agent = done_once(claude_script)
    path = f"{repo}/.venv/bin:{ralph.env['PATH']}"

    assert ralph("run", "goal.md", "--trust-envrc", env={"PATH": path}).exit_code == 0

    assert agent.starts[0]["env"]["PATH"] == f"{repo}/scripts:{path}"


def test_a_run_whose_directory_was_lost_does_not_begin_anew(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    claude_script([run("echo 'touch .git/evaluated' >> .envrc"), summary("one")], [summary("two")])
    ralph("run", "goal.md", "--max-iterations", "1")
    shutil.rmtree(world / "ralph")
    allow(ralph, direnv)  # as the agent could have

    second = ralph("run", "goal.md", "--max-iterations", "2", "--trust-envrc")

    assert "rebuilt from 1 commits" in second.stdout
    assert not evaluated(repo)
    assert header(second).startswith("not used: its version at the start of this run is unknown, and --trust-envrc")


def test_the_agent_s_edits_change_nothing_in_the_start_that_runs(
    ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    agent = claude_script([run("echo 'export FROM_ENVRC=new' > .envrc"), summary("one")], [summary("DONE")])

    ralph("run", "goal.md", "--trust-envrc")

    assert [start["env"]["FROM_ENVRC"] for start in agent.starts] == [SECRET, SECRET]


def test_a_new_run_takes_the_version_that_direnv_allows_by_then(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    agent = done_once(claude_script)
    allow(ralph, direnv)
    ralph("run", "goal.md")
    write_envrc(repo, ENVRC.replace(SECRET, "other"))
    assert header(ralph("run", "goal.md")).startswith("not used: .envrc changed since it was trusted")
    allow(ralph, direnv)

    assert header(ralph("run", "goal.md")).startswith("2 variables by direnv")
    assert seen(agent)["FROM_ENVRC"] == "other"

    write_envrc(repo, ENVRC.replace(SECRET, "other"), lib=LIB + MARK)  # direnv does not look at what it sources
    assert header(ralph("run", "goal.md")).startswith("not used: lib.sh changed since it was trusted")
    assert not evaluated(repo)


def test_neither_ralph_s_git_nor_its_settings_see_it(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path, bin_dir: Path
) -> None:
    log, theirs = tmp_path / "git.log", tmp_path / "theirs"
    real = shutil.which("git")
    theirs.mkdir()
    for folder, name in ((bin_dir, "ours"), (theirs, "theirs")):
        (folder / "git").write_text(f'#!/bin/sh\necho "{name} ${{FROM_ENVRC-none}}" >> {log}\nexec {real} "$@"\n')
        (folder / "git").chmod(0o755)
    write_envrc(repo, f"{ENVRC}export RALPH_MAX_ITERATIONS=7\nPATH_add {theirs}\n", lib=LIB)
    agent = claude_script([run("git status >/dev/null"), summary("DONE")])

    done = ralph("run", "goal.md", "--trust-envrc")

    said = log.read_text().splitlines()
    assert (done.exit_code, set(said)) == (0, {"ours none", f"theirs {SECRET}"})
    assert said.count(f"theirs {SECRET}") == 1
    assert "50 iterations, because you set no limit" in done.stdout
    assert "RALPH_MAX_ITERATIONS" not in seen(agent)


@pytest.mark.parametrize("place", ["bin", "."])
def test_programs_of_the_repository_s_that_are_on_path_are_not_run_by_ralph(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path, place: str
) -> None:
    (repo / "bin").mkdir()
    for name in ("git", "direnv", "bash", "env"):
        (repo / "bin" / name).write_text(f"#!/bin/sh\ntouch {repo}/.git/evaluated\n")
        (repo / "bin" / name).chmod(0o755)
    write_envrc(repo, "export FROM_ENVRC=1\nenv_vars_required FROM_ENVRC\nPATH_add tools\n")
    agent = done_once(claude_script)
    folder = repo / "bin" if place == "bin" else "../repo/bin"  # as a shell's direnv has it, or anyhow

    done = ralph("run", "goal.md", "--trust-envrc", env={"PATH": f"{folder}:{ralph.env['PATH']}"})

    assert (done.exit_code, evaluated(repo)) == (0, False)
    assert header(done) == "2 variables by direnv: FROM_ENVRC, PATH"
    assert f"ralph skips {folder}/git, because it is inside the repository" in " ".join(done.stdout.split())
    assert {str(folder), f"{repo}/tools"} <= set(seen(agent)["PATH"].split(":"))


@pytest.mark.spec("1.3.2-b")
def test_what_would_change_other_programs_is_dropped(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    names = (
        "GIT_DIR",
        "LD_PRELOAD_X",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "BASH_ENV",
        "ANTHROPIC_API_KEY",
        "RALPH_ITERATION",
    )
    write_envrc(repo, "".join(f"export {name}=/of/envrc\n" for name in names) + "unset TO_GO\n")
    agent = done_once(claude_script)

    done = ralph("run", "goal.md", "--trust-envrc", env={"TO_GO": "1", "TO_STAY": "1"})

    env = seen(agent)
    assert (done.exit_code, [name for name in names[:5] if name in env]) == (0, [])
    assert (env["ANTHROPIC_API_KEY"], env["RALPH_ITERATION"], env.get("TO_GO"), env["TO_STAY"]) == ("", "1", None, "1")
    assert header(done) == (
        "1 variable by direnv: ANTHROPIC_API_KEY · unset: TO_GO"
        " · dropped: BASH_ENV, GIT_DIR, LD_PRELOAD_X, NODE_OPTIONS, PYTHONPATH, RALPH_ITERATION"
        " · not covered by trust: line 2 of .envrc (what LD_PRELOAD_X loads), line 5 of .envrc (what BASH_ENV loads)"
    )


def test_a_trusted_one_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    write_envrc(
        repo,
        f"export FROM_ENVRC=1\nsetsid sleep 1000 </dev/null &\necho $! > {tmp_path}/away\n"
        f"echo $BASHPID > {tmp_path}/shell\ntrap '' TERM INT\nwhile :; do sleep 1000; done\n",
    )
    agent = done_once(claude_script)

    done = ralph("run", "goal.md", "--trust-envrc", env={"RALPH_ENVRC_TIMEOUT": "8s"})

    assert done.exit_code == 0
    assert header(done) == (
        "not used: direnv took longer than 8.0s and was stopped; allow more time: ralph config set envrc_timeout 5m"
    )
    assert [name for name in ("away", "shell") if is_alive(pid_in(tmp_path / name))] == []
    assert "FROM_ENVRC" not in seen(agent)


def test_one_that_hangs_can_be_interrupted(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    write_envrc(repo, f"echo $BASHPID > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/shell\nsleep 1000\n")
    agent = done_once(claude_script)
    with ralph.start("run", "goal.md", "--trust-envrc") as running:
        wait_until((tmp_path / "shell").exists, ".envrc is evaluated")
        running.send(signal.SIGINT)
        stopped = running.wait()

    assert (stopped.exit_code, len(agent.starts), is_alive(pid_in(tmp_path / "shell"))) == (130, 0, False)


def test_a_dry_run_does_not_execute_it(repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path) -> None:
    write_envrc(repo, MARK)
    done_once(claude_script)

    assert ralph("run", "goal.md", "--dry-run", "--trust-envrc").exit_code == 0
    assert not evaluated(repo)


def test_a_scout_is_given_it_too(ralph: Ralph, claude_script: ClaudeScript, direnv: Path) -> None:
    agent = claude_script([summary("A map of everything there is.")])
    said = [event["text"] for event in ralph("understand", "--json").events_of("text")]
    assert [text for text in said if ".envrc is not used: you have not trusted it yet" in text]
    assert "FROM_ENVRC" not in seen(agent)
    ralph("trust")

    done = ralph("understand")

    assert (done.exit_code, seen(agent)["FROM_ENVRC"]) == (0, SECRET)
    assert header(done) == "2 variables by direnv: FROM_ENVRC, FROM_LIB"


def test_what_a_trusted_one_leaves_running_is_ended(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    write_envrc(repo, f"export FROM_ENVRC=1\nsetsid sleep 1000 >/dev/null 2>&1 3>&- &\necho $! > {tmp_path}/away\n")
    agent = claude_script([run(f"ps -p $(cat {tmp_path}/away) > {tmp_path}/listed; true"), summary("DONE")])

    assert ralph("run", "goal.md", "--trust-envrc").exit_code == 0

    assert not is_alive(pid_in(tmp_path / "away"))
    assert "sleep" not in (tmp_path / "listed").read_text()
    assert seen(agent)["FROM_ENVRC"] == "1"


def test_one_that_fails_is_left_out_whole(repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path) -> None:
    write_envrc(repo, f"export FROM_ENVRC=1\n{SECRET}-no-such-command\nexit 3\n")
    agent = done_once(claude_script)

    done = ralph("run", "goal.md", "--trust-envrc")

    assert (done.exit_code, "FROM_ENVRC" in seen(agent)) == (0, False)
    assert header(done).startswith("not used: direnv failed (exit 1); run `direnv allow` there")
    assert SECRET not in done.stdout + done.stderr


def test_one_that_is_loaded_in_the_user_s_shell_is_evaluated_all_the_same(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    allow(ralph, direnv)
    said = subprocess.run([direnv, "export", "json"], cwd=repo, env=ralph.env, check=True, capture_output=True)
    loaded = json.loads(said.stdout)
    agent = done_once(claude_script)

    done = ralph("run", "goal.md", env=loaded | {"FROM_LIB": "stale"})

    assert (done.exit_code, seen(agent)["FROM_LIB"]) == (0, "lib")

    write_envrc(repo, MARK)
    done = ralph("run", "goal.md", env=loaded)
    assert (done.exit_code, evaluated(repo)) == (0, False)
    assert header(done).endswith("(variables that your shell already loaded stay)")


def test_the_check_may_be_a_program_that_it_puts_on_path(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "judge").write_text("#!/bin/sh\ngrep -qx 42 answer.txt\n")
    (tmp_path / "bin" / "judge").chmod(0o755)
    write_envrc(repo, f"PATH_add {tmp_path}/bin\n")
    done_once(claude_script)

    refused = ralph("run", "goal.md", "--check", "judge")
    assert (refused.exit_code, (repo / ".ralph" / "runs").exists()) == (2, False)
    assert "cannot run the check: 'judge' was not found" in refused.stderr

    done = ralph("run", "goal.md", "--check", "judge", "--trust-envrc")
    assert (done.exit_code, result(repo)["proven"]) == (0, True)


@pytest.mark.spec("1.3.2-d")
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_agent_that_only_its_path_has_is_not_taken(
    tmp_path: Path, repo: Path, ralph: Ralph, direnv: Path, agent: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / agent).write_text("#!/bin/sh\ntouch .git/evaluated\n")
    (tmp_path / "bin" / agent).chmod(0o755)
    write_envrc(repo, f"PATH_add {tmp_path}/bin\n")

    refused = ralph("run", "goal.md", "--agent", agent, "--trust-envrc")

    assert (refused.exit_code, evaluated(repo), len(commits(repo))) == (6, False, 3)
    assert f"ralph config set agents.{agent}.path" in refused.stderr
    assert "ralph does not look for the agent on the PATH that .envrc sets" in refused.stderr


def test_a_fake_agent_on_its_path_is_not_taken_for_the_real_one(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").write_text("#!/bin/sh\ntouch .git/evaluated\n")
    (tmp_path / "bin" / "claude").chmod(0o755)
    write_envrc(repo, f"PATH_add {tmp_path}/bin\n")
    agent = done_once(claude_script)

    assert ralph("run", "goal.md", "--trust-envrc").exit_code == 0
    assert (len(agent.starts), evaluated(repo)) == (1, False)


def test_without_direnv_its_plain_assignments_are_read(
    tmp_path: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, without_direnv: dict[str, str]
) -> None:
    text = (
        f"export FROM_ENVRC='{SECRET}' # mine\nPLAIN=\"a b\"\nexport RUN=$(touch .git/evaluated)\nexport PYTHONPATH=x\n"
    )
    write_envrc(repo, text + "source_env lib.sh\n")
    agent = done_once(claude_script)
    assert header(ralph("run", "goal.md", env=without_direnv)).startswith("not used: you have not trusted it yet")

    done = traced(ralph, tmp_path / "trace", "run", "goal.md", "--trust-envrc", env=without_direnv)

    assert (done.exit_code, evaluated(repo)) == (0, False)
    assert "touch" not in executed(tmp_path / "trace")
    assert (seen(agent)["FROM_ENVRC"], seen(agent)["PLAIN"], seen(agent).get("RUN")) == (SECRET, "a b", None)
    assert header(done).startswith(
        "2 variables read as text; skipped without direnv: lines 3, 5: FROM_ENVRC, PLAIN · dropped: PYTHONPATH"
    )


def test_ralph_trust_says_what_it_covers_and_what_not(repo: Path, ralph: Ralph) -> None:
    write_envrc(repo, f"{ENVRC}source_env_if_exists .private\nsource $ELSEWHERE/x.sh\nexport T=$(pass {SECRET})\n")

    trusted = ralph("trust", repo / ".envrc", cwd=repo.parent)

    first, *files, title, one, other = trusted.stdout.splitlines()
    assert (trusted.exit_code, first) == (0, f"{repo}/.envrc is now trusted, with the files that it reads:")
    assert [line.split()[0] for line in files] == [".envrc", "lib.sh", ".private"]
    assert files[2] == "  .private  (missing; creating it ends trust)"
    assert title.startswith("not covered")
    assert (one, other) == ("  line 4 of .envrc (source)", "  line 5 of .envrc (a command in a value)")
    assert SECRET not in trusted.stdout


def test_trust_is_private_and_can_be_taken_back(
    world: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    done_once(claude_script)
    ralph("trust")
    (record,) = (world / "ralph" / "trust").iterdir()
    assert (record.stat().st_mode & 0o777, record.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    assert ralph("trust", "--forget").stdout == f"{repo}/.envrc: no longer trusted\n"
    assert header(ralph("run", "goal.md")).startswith("not used: you have not trusted it yet")
    assert ralph("trust", "--forget").stdout == f"{repo}/.envrc: was not trusted\n"


def test_ralph_trust_refuses_where_there_is_nothing_to_trust(tmp_path: Path, repo: Path, ralph: Ralph) -> None:
    (repo / ".envrc").unlink()
    os.mkfifo(repo / ".envrc")
    assert "error: cannot trust .envrc: .envrc is not a regular file" in ralph("trust").stderr
    (repo / ".envrc").unlink()
    (repo / ".envrc").symlink_to("gone")
    assert "error: cannot trust .envrc: .envrc is a link that leads nowhere" in ralph("trust").stderr
    (repo / ".envrc").unlink()

    none, nowhere = ralph("trust"), ralph("trust", cwd=tmp_path)

    assert (none.exit_code, nowhere.exit_code) == (2, 2)
    assert f"cannot trust {repo}/.envrc: no such file" in none.stderr
    assert "is not in a git repository" in nowhere.stderr


def test_ralph_trust_says_that_only_the_one_at_the_root_is_used(repo: Path, ralph: Ralph) -> None:
    (repo / "sub").mkdir()
    (repo / "sub" / ".envrc").write_text("export A=1\n")

    named, there = ralph("trust", "sub/.envrc"), ralph("trust", cwd=repo / "sub")

    assert (named.exit_code, named.stdout) == (2, "")
    assert f"ralph uses only {repo}/.envrc" in " ".join(named.stderr.split())
    assert there.exit_code == 0
    assert there.stdout.startswith(f"{repo}/.envrc is now trusted")
    assert f"{repo}/sub/.envrc" in there.stderr


def test_what_is_no_file_is_not_to_be_trusted_but_mended(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    (repo / ".envrc").unlink()
    (repo / ".envrc").symlink_to("gone")
    commit_all(repo, "a link")
    done_once(claude_script)

    done = ralph("run", "goal.md", "--trust-envrc")

    said = "not used: .envrc is a link that leads nowhere; replace it with a small regular file, or remove it"
    assert (done.exit_code, header(done)) == (0, said)


def test_that_it_is_not_used_is_one_event_and_one_line_of_a_scout_s(ralph: Ralph, claude_script: ClaudeScript) -> None:
    done_once(claude_script)
    said = [event["text"] for event in ralph("run", "goal.md", "--json").events_of("text")]
    assert sum(".envrc is not used: you have not trusted it yet" in text for text in said) == 1
    assert ralph("understand").stdout.count("you have not trusted it yet") == 1


def test_a_value_that_is_no_text_is_left_out(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    write_envrc(repo, "export ODD=$'a\\xff'\nexport FROM_ENVRC=1\n")
    agent = done_once(claude_script)

    done = ralph("run", "goal.md", "--trust-envrc")

    assert header(done).startswith("1 variable by direnv: FROM_ENVRC · skipped (not UTF-8): ODD")
    assert "ODD" not in seen(agent)


def test_a_record_that_cannot_be_read_trusts_nothing(
    world: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path
) -> None:
    write_envrc(repo, MARK)
    done_once(claude_script)
    ralph("trust")
    (record,) = (world / "ralph" / "trust").iterdir()
    record.write_text("not TOML")

    done = ralph("run", "goal.md")

    assert (done.exit_code, evaluated(repo)) == (0, False)
    assert f"cannotread{record}" in header(done).replace(" ", "")


def test_a_clone_has_a_trust_of_its_own(repo: Path, ralph: Ralph, claude_script: ClaudeScript, direnv: Path) -> None:
    agent = done_once(claude_script)
    ralph("trust")
    (repo / "goal.md").rename(repo.parent / "goal.md")

    done = ralph("run", "../goal.md", "--repo", repo)
    assert (done.exit_code, "FROM_ENVRC" in seen(agent)) == (0, False)
    clone = header(done).rpartition("ralph trust ")[2].replace(" ", "")

    assert ralph("trust", clone).exit_code == 0
    assert ralph("run", "../goal.md", "--repo", repo).exit_code == 0
    assert seen(agent)["FROM_ENVRC"] == SECRET
