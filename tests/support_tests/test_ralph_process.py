"""The harness that runs ralph, on a stand-in for the package: one that executes its last argument."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.ralph_process import Ralph, run_ralph, start_ralph
from tests.support.scripted_agent import ClaudeScript, summary
from tests.support.waiting import is_alive, pid_in, wait_until


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "path" / "ralph"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys; exec(sys.argv[-1])")
    return {"PYTHONPATH": str(package.parent), "PATH": os.environ["PATH"]}


def test_it_runs_to_its_end_in_a_session_of_its_own(tmp_path: Path, env: dict[str, str]) -> None:
    code = "import os; print(os.getcwd(), os.getsid(0) == os.getpid(), sorted(os.environ)[:2], input()); sys.exit('no')"
    finished = run_ralph("run", code, cwd=tmp_path, env=env, input="hello\n")
    assert finished.exit_code == 1
    assert finished.stdout.startswith(f"{tmp_path} True ")
    assert finished.stdout.endswith(" hello\n")
    assert finished.stderr == "no\n"
    assert finished.events == ()


def test_json_output_is_read_as_events(tmp_path: Path, env: dict[str, str]) -> None:
    code = """print('{"type": "run_started"}\\n{"type": "run_ended", "exit_code": 0}')"""
    finished = run_ralph("run", "--json", code, cwd=tmp_path, env=env)
    assert [event["type"] for event in finished.events] == ["run_started", "run_ended"]
    assert finished.events_of("run_ended") == [{"type": "run_ended", "exit_code": 0}]


def test_a_hang_is_killed_with_its_tree_and_fails_the_test_with_what_was_printed(
    tmp_path: Path, env: dict[str, str]
) -> None:
    pidfile = tmp_path / "pid"
    code = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(pidfile)!r}, 'w').write(str(child.pid)); print('so far', flush=True)\n"
        "print('and so on', file=sys.stderr, flush=True); time.sleep(600)"
    )
    with start_ralph("run", code, cwd=tmp_path, env=env) as running:
        wait_until(lambda: "and so on" in running.stderr, "its words")
        with pytest.raises(pytest.fail.Exception, match=r"(?s)still running after 1 s.*so far.*and so on"):
            running.wait(timeout=1)
    assert not is_alive(pid_in(pidfile))


def test_a_running_one_can_be_watched_and_signalled(tmp_path: Path, env: dict[str, str]) -> None:
    code = """print('{"type": "iteration_started"}\\n{"torn', end='', flush=True); import time; time.sleep(60)"""
    with start_ralph("run", "--json", code, cwd=tmp_path, env=env) as running:
        assert running.wait_for("iteration_started") == {"type": "iteration_started"}
        running.send(signal.SIGTERM)
        assert running.wait(90).exit_code == -signal.SIGTERM
    with (
        start_ralph("run", "--json", "pass", cwd=tmp_path, env=env) as running,
        pytest.raises(pytest.fail.Exception, match="ended without run_ended"),
    ):
        running.wait_for("run_ended")


def test_who_waits_in_vain_is_told_what_it_said(tmp_path: Path, env: dict[str, str]) -> None:
    with start_ralph("run", "sys.exit('no queue')", cwd=tmp_path, env=env) as running:
        with pytest.raises(pytest.fail.Exception, match=r"(?s)ended without a goal.*ended with 1.*no queue"):
            running.wait_until(lambda: False, "a goal")
        with pytest.raises(pytest.fail.Exception, match=r"(?s)in vain: a goal.*ended with 1.*no queue"):
            wait_until(lambda: False, "a goal", timeout=0)


def test_leaving_the_block_ends_it(tmp_path: Path, env: dict[str, str]) -> None:
    with start_ralph("import time; print('up', flush=True); time.sleep(60)", cwd=tmp_path, env=env) as running:
        wait_until(lambda: running.stdout, "its first words")
    assert not is_alive(running.pid)


def test_the_fixture_finds_only_the_scripted_agent(
    ralph: Ralph, claude_script: ClaudeScript, env: dict[str, str]
) -> None:
    code = "import shutil; print(shutil.which('claude'), shutil.which('codex'), shutil.which('git') is not None)"
    assert ralph(code, env=env | {"PATH": ralph.env["PATH"]}).stdout == "None None True\n"
    agent = claude_script([summary("x")])
    finished = ralph(code, env={"PYTHONPATH": env["PYTHONPATH"]})
    assert finished.stdout == f"{agent.path} None True\n"


def test_the_fixture_gives_the_world_of_the_test(ralph: Ralph, repo: Path, world: Path, env: dict[str, str]) -> None:
    code = "import os; print(os.getcwd()); print(*(os.environ[name] for name in ('HOME', 'RALPH_DIR')))"
    with ralph.start(code, env={"PYTHONPATH": env["PYTHONPATH"]}) as running:
        assert running.wait().stdout == f"{repo}\n{world / 'home'} {world / 'ralph'}\n"
    assert os.environ["HOME"] == str(world / "home")
