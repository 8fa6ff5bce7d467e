"""Agents and transcripts that other packages bring: the example, installed as a user would, and packages gone wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ralph.agents.base import OWN_FORMATS, OWN_TRANSCRIPTS
from ralph.agents.registry import AGENTS, TRANSCRIPTS
from tests.support.git_repos import commits
from tests.support.goals import result, write_goal
from tests.support.ralph_process import Finished, Ralph

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "plugin"


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed by pip into a folder of its own."""
    folder = tmp_path_factory.mktemp("plugins")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    done = subprocess.run([*pip, "--no-build-isolation", "--target", folder, EXAMPLE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def broken(folder: Path, module: str, points: str) -> Path:
    """A package with these entry points, as an installer leaves it."""
    info = folder / "faulty-1.dist-info"
    info.mkdir(parents=True)
    (folder / "faulty.py").write_text(module)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    (info / "entry_points.txt").write_text(points)
    return folder


def run(ralph: Ralph, plugins: Path, *args: str) -> Finished:
    write_goal(ralph.repo)
    return ralph("run", "goal.md", "--json", "--no-check", *args, env={"PYTHONPATH": str(plugins)})


@pytest.mark.spec("2.14-a", "2.19-b")
def test_the_examples_agent_and_transcript_hold_a_session(ralph: Ralph, bin_dir: Path, installed: Path) -> None:
    says = "echo i think so\necho ALL IS WELL\necho '<promise>COMPLETE</promise>'\n"
    executable(bin_dir / "shout", f"#!/bin/sh\ngrep -q answer.txt || exit 9\n{says}")

    done = run(ralph, installed, "--agent", "shout")

    assert done.exit_code == 0, done.stdout + done.stderr
    (started,) = done.events_of("run_started")
    assert (started["agent"], started["transcript"], started["model"]) == ("shout", "shout", "loud")
    texts = [(event["tag"], event["text"]) for event in done.events_of("text")]
    assert ("THINK", "i think so") in texts
    assert ("AI", "ALL IS WELL") in texts
    assert commits(ralph.repo)[-1].body.startswith("ALL IS WELL")


@pytest.mark.spec("2.1-d")
def test_its_transcript_reads_any_command_and_any_log(ralph: Ralph, tmp_path: Path, installed: Path) -> None:
    executable(tmp_path / "agent", "#!/bin/sh\ncat > /dev/null\necho quiet\necho LOUD\n")
    done = run(ralph, installed, "--agent-cmd", str(tmp_path / "agent"), "--transcript", "shout", "--max-iterations=1")
    assert done.exit_code == 4, done.stdout + done.stderr
    assert [event["text"] for event in done.events_of("text") if event["tag"] == "AI"] == ["LOUD"]
    (tmp_path / "log").write_text("hm\nYES\n")
    read = ralph("transcript", str(tmp_path / "log"), "--transcript", "shout", env={"PYTHONPATH": str(installed)})
    assert (read.exit_code, read.stdout) == (0, "PLAN       hm\nagent      YES\n")


def test_it_is_listed_beside_ours_when_a_name_is_wrong(ralph: Ralph, installed: Path) -> None:
    done = run(ralph, installed, "--agent", "shoot", "--transcript", "shot")
    assert done.exit_code == 2
    assert "'shoot' is not one of claude, codex, custom, ralph-claude, demo, shout (did you mean shout?)" in done.stderr
    assert "shout" in done.stderr.split("'shot'")[1]


def test_without_its_program_it_says_how_to_get_it(ralph: Ralph, installed: Path) -> None:
    done = run(ralph, installed, "--agent", "shout")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (6, "error: the agent `shout` was not found on PATH")


FAULTY = """
import nothing_of_that_name
"""
RAISING = """
from ralph.core.events import Tag, Text, Usage
class Transcript:
    def feed(self, line):
        if line == "bad":
            raise RuntimeError("cannot read this")
        return [Text(Tag.AI, line), "not an event", Text(Tag.AI, None), Usage(total_tokens="12")]
    def flush(self):
        raise KeyError("flush")
def runner(options, env):
    return object()
"""


def test_a_package_that_cannot_be_imported_is_named(ralph: Ralph, tmp_path: Path) -> None:
    plugins = broken(tmp_path / "plugins", FAULTY, "[ralph.runners]\nfaulty = faulty:runner\n")
    done = run(ralph, plugins, "--agent", "faulty")
    assert done.exit_code == 6
    assert "cannot use faulty (entry point group ralph.runners): ModuleNotFoundError" in done.stderr
    assert not (ralph.repo / ".ralph").exists()


def test_a_runner_that_is_none_is_refused(ralph: Ralph, tmp_path: Path) -> None:
    plugins = broken(tmp_path / "plugins", RAISING, "[ralph.runners]\nfaulty = faulty:runner\n")
    done = run(ralph, plugins, "--agent", "faulty")
    assert done.exit_code == 6
    assert "its runner lacks path, transcript" in done.stderr


def test_a_transcript_that_raises_ends_no_run(ralph: Ralph, tmp_path: Path) -> None:
    plugins = broken(tmp_path / "plugins", RAISING, "[ralph.transcripts]\nfaulty = faulty:Transcript\n")
    executable(tmp_path / "agent", "#!/bin/sh\necho good\necho bad\necho '<promise>COMPLETE</promise>'\n")
    done = run(ralph, plugins, "--agent-cmd", str(tmp_path / "agent"), "--transcript", "faulty")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert result(ralph.repo)["iterations"] == 1
    told = [event["meta"] for event in done.events_of("meta")]
    assert {"transcript_fault": "RuntimeError: cannot read this"} in told
    assert {"unknown_event": "'not an event'"} in told
    assert {"invalid_event": "Text: text is missing"} in told
    assert {"invalid_event": "Usage: usage.total_tokens is not a count"} in told
    assert {"transcript_fault": "KeyError: 'flush'"} in told
    assert ("SYS", "bad") in [(event["tag"], event["text"]) for event in done.events_of("text")]


def test_the_names_of_our_own_are_those_of_the_registry() -> None:
    """They are written twice, so that settings are read without loading any agent."""
    assert (set(OWN_TRANSCRIPTS), set(OWN_FORMATS)) == (set(AGENTS), set(TRANSCRIPTS))
