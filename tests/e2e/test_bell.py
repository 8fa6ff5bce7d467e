"""The terminal calls its user when a run or a batch has ended: a bell, and a notification by OSC 9."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.goals import write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, hang, say, structured, summary
from tests.support.terminal import RalphInTerminal

CALL = re.compile(r"\x1b\]9;(ralph: [^\x00-\x1f\x7f-\x9f]*)\x07\x07")


def called(said: str) -> list[str]:
    """Every call in what was written to a terminal; there is no bell besides."""
    assert "\x07" not in CALL.sub("", said)
    return CALL.findall(said)


@pytest.mark.parametrize("flags", [[], ["--quiet"]])
def test_a_run_calls_once_after_its_last_words(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, flags: list[str]
) -> None:
    write_goal(repo)
    write_check(repo, "#!/bin/sh\nexit 0\n")
    claude_script([say("hello"), summary("DONE")])
    with RalphInTerminal(["run", "goal.md", *flags], repo, ralph.env) as running:
        assert running.wait() == 0
        assert called(running.said) == ["ralph: goal: done"]
        assert running.said.endswith("\x07\x07")
        assert running.screen.is_as_a_shell_expects


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ([], {"RALPH_BELL": "false"}),
        (["--json"], {}),
        ([], {"TERM": "dumb"}),
        ([], {"CI": "true"}),
    ],
    ids=["bell = false", "--json", "TERM=dumb", "CI"],
)
def test_it_calls_nobody_who_does_not_want_it_or_reads_something_else(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, flags: list[str], env: dict[str, str]
) -> None:
    write_goal(repo)
    claude_script([say("hello"), summary("DONE")])
    with RalphInTerminal(["run", "goal.md", *flags], repo, {**ralph.env, **env}) as running:
        assert running.wait() == 0
        assert called(running.said) == []


def test_a_pipe_is_never_called(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    claude_script([say("hello"), summary("DONE")])
    done = ralph("run", "goal.md")
    assert done.exit_code == 0
    assert not {"\x07", "\x1b"} & {*done.stdout, *done.stderr}


def test_who_stops_a_run_is_there_and_not_called(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    claude_script([say("hello"), hang()])
    with RalphInTerminal(["run", "goal.md"], repo, ralph.env) as running:
        running.shows("hello")
        running.press("\x03")
        assert running.wait() == 130
        assert called(running.said) == []


def test_a_map_calls_too(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([structured({"summary": "# Map\n\nAll is in one file."})])
    with RalphInTerminal(["understand"], repo, ralph.env) as running:
        assert running.wait() == 0
        assert called(running.said) == [f"ralph: map of {repo.name}: done"]
