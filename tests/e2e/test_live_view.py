"""`ralph run` in a real terminal: what stays, what scrolls, what keys do, and how the terminal is left."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.support.goals import result, run_directory, write_goal
from tests.support.hostile import TEXTS, steering
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, Turn, hang, run, say, summary, write
from tests.support.terminal import InTerminal, RalphInTerminal
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def until(file: Path) -> str:
    """A command that waits for a file."""
    return f"until test -e {file}; do sleep 0.05; done"


def left_as_it_was(running: RalphInTerminal) -> bool:
    return running.echoes and running.screen.is_as_a_shell_expects


def test_the_status_stays_while_the_transcript_scrolls_and_the_last_words_say_what_it_came_to(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    talk = [say(f"word number {number}") for number in range(40)]
    claude_script(
        [*talk, write("a.txt", "one\ntwo\n"), run("echo no; exit 3"), run(until(tmp_path / "go")), summary("DONE")]
    )
    with RalphInTerminal(["run", "goal.md", "--max-iterations", "3"], ralph.repo, ralph.env) as running:
        running.shows("Bash until test -e")
        running.shows("word number 39")  # a busy view draws a part of what waits in each turn
        shown = running.rows
        assert shown[-2].startswith("iteration 1 of 3 ░")
        assert shown[-1].startswith("p: pause · s: stop after this iteration")
        assert "           failing" not in shown
        (tmp_path / "go").touch()
        assert running.wait() == 0
        assert left_as_it_was(running)
        text = running.text
        assert [text.count(f"word number {number}\n") for number in range(40)] == [1] * 40
        assert "p: pause" not in text, "no foot is left anywhere"
    assert "agent      claude 2.1." in text
    assert "sandbox: none" in text
    assert "✓ Write    a.txt" in text
    assert "           1 + one\n           2 + two\n✗ Bash     echo no; exit 3" in text
    ending = text[text.index("result     ") :]
    assert "time " in ending
    assert "model " in ending
    assert "changed    1 file, +2 -0" in ending


def test_a_scout_and_a_summary_are_shown_alike(ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path) -> None:
    scout: Turn = [say("I **look** around"), run(until(tmp_path / "one")), summary("# A map")]
    steps: list[Turn] = [[write(f"{number}.txt", "x\n"), summary(f"step {number}")] for number in range(2)]
    writes: Turn = [say("I **sum** it up"), run(until(tmp_path / "two")), summary("All went well.")]
    claude_script(scout, *steps, [summary("DONE")], summarizer=[writes])
    with RalphInTerminal(["understand"], ralph.repo, ralph.env) as running:
        running.shows("Bash until test -e")
        running.shows("agent      I look around")
        assert any("tokens" in row for row in running.rows[-3:]), running.rows
        (tmp_path / "one").touch()
        assert running.wait() == 0
        assert left_as_it_was(running)
    ralph("config", "set", "summary_every", "2")
    ralph("config", "set", "summary_keep", "1")
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("── summary of iterations 1-")
        running.shows("agent      I sum it up")
        running.shows("Bash until test -e")
        running.shows("p: pause")
        (tmp_path / "two").touch()
        assert running.wait() == 0
        assert left_as_it_was(running)
        assert "summary    All went well." in running.text
        assert "goal goal:" not in running.text


def test_a_terminal_that_is_made_narrower_while_it_runs_until_ctrl_c(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("hello"), hang()])
    with RalphInTerminal(["run", "goal.md", "--max-iterations", "3"], ralph.repo, ralph.env, columns=200) as running:
        running.shows("iteration 1 of 3 ░")
        for columns in (120, 90, 61, 200, 60):
            running.resize(columns)
        wait_until(
            lambda: running.rows[-2].startswith("iteration 1 of 3 ░") and len(running.rows[-4]) == 59,
            "a status of 60 columns",
        )
        assert running.rows[-2].startswith("iteration 1 of 3 ░")
        assert len(running.rows[-2]) < 60
        running.press("\x03")
        assert running.wait() == 130
        assert left_as_it_was(running)


def test_a_storm_of_sizes_while_an_agent_speaks_loses_no_line(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    said = [step for number in range(30) for step in (say(f"line {number} of it"), run(f"sleep 0.05; echo {number}"))]
    claude_script([run(until(tmp_path / "go")), *said, run(until(tmp_path / "end")), summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env, 100, 30) as running:
        running.shows("Bash until")
        (tmp_path / "go").touch()
        sizes = itertools.cycle([(60, 20), (200, 50), (41, 9), (120, 40), (80, 24)])
        for size in itertools.islice(sizes, 70):
            running.resize(*size)
            time.sleep(0.02)
        running.resize(100, 30)
        running.shows("Bash until")
        wait_until(lambda: running.rows[-1].startswith("p: pause") and len(running.rows[-4]) == 99, "the footer")
        (tmp_path / "end").touch()
        assert running.wait() == 0
        words = " ".join(running.said.split())  # a line that was drawn in a narrow terminal is folded
        assert [number for number in range(30) if not re.search(rf"line\s+{number}\s+of\s+it", words)] == []
        assert "result     done" in running.text
        assert left_as_it_was(running)


def test_a_run_is_paused_resumed_and_stopped_by_keys(ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path) -> None:
    first: Turn = [run(until(tmp_path / "first")), summary("one")]
    second: Turn = [run(until(tmp_path / "second")), summary("two")]
    claude_script(first, second)
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("Bash until")
        running.press("p")
        running.shows("pauses before the next session")
        (tmp_path / "first").touch()
        running.shows(" paused ")
        assert running.rows[-1].startswith("p: resume")
        running.press("p")
        running.shows("── iteration 2")
        running.press("s")
        running.shows("stops after this iteration")
        (tmp_path / "second").touch()
        assert running.wait() == 130
        assert left_as_it_was(running)
    assert result(ralph.repo)["iterations"] == 2
    assert result(ralph.repo)["reason"] == "stopped after this iteration, as you asked"


def test_a_stop_by_key_is_taken_back_and_what_was_typed_before_is_no_key(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    claude_script([run(until(tmp_path / "first")), summary("one")], [say("two"), summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.press("sqqq\nsqqq")
        running.shows("Bash until")
        running.shows("p: pause · s: stop")
        running.press("s")
        running.shows("s: do not stop")
        running.press("s")
        running.shows("p: pause · s: stop")
        (tmp_path / "first").touch()
        assert running.wait() == 0
    assert result(ralph.repo)["iterations"] == 2


def test_of_keys_and_commands_the_last_word_counts_and_the_foot_knows_it(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    claude_script([run(until(tmp_path / "first")), summary("one")], [hang()])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("Bash until")
        running.press("p")
        running.shows("pauses before the next session")
        ralph("resume", "goal")
        running.shows("p: pause · s: stop after this iteration")
        running.press("s")
        running.shows("s: do not stop")
        running.press("s")
        running.shows("p: pause · s: stop after this iteration")
        ralph("stop", "goal")
        running.shows("stops after this iteration")
        (tmp_path / "first").touch()
        assert running.wait() == 130
    assert result(ralph.repo)["iterations"] == 1
    assert result(ralph.repo)["reason"] == "stopped by `ralph stop`"


def test_more_and_less_is_told_as_the_user_likes(ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path) -> None:
    claude_script(
        [run(until(tmp_path / "one") + "; echo seen"), run(until(tmp_path / "two")), say("unseen"), summary("DONE")]
    )
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("Bash until")
        running.press("d")
        running.shows("d: detail (all)")
        (tmp_path / "one").touch()
        running.shows("           seen")
        running.press("d")
        running.shows("d: detail (in brief)")
        (tmp_path / "two").touch()
        assert running.wait() == 0
        assert "unseen" not in running.text


def test_only_keys_are_keys_and_quitting_is_asked_once_and_then_is_ctrl_c(
    ralph: Ralph, claude_script: ClaudeScript
) -> None:
    """Pasted text, what a terminal answers and Ctrl-\\ are no keys; the last would leave the foot, and no result."""
    claude_script([say("hello"), hang()])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("hello")
        running.shows("p: pause")
        assert running.said.count("\x1b[?2004h") == 1
        running.press("\x1b[200~qq\nss\x1b[201~\x1b]11;rgb:qq/ss/pp\x07\x1bPqqs\x1b\\d")
        running.shows("d: detail (all)")
        assert running.rows[-1].startswith("p: pause · s: stop after"), "of all that only d was a key"
        running.press("\x1cd")
        running.shows("d: detail (in brief)")
        running.press("q")
        running.shows("stop now, as Ctrl-C does?")
        running.press("x")
        running.shows("p: pause")
        running.press("q")
        running.shows("stop now, as Ctrl-C does?")
        running.press("y")
        assert running.wait() == 130
        assert left_as_it_was(running)
        assert running.said.rindex("\x1b[?2004l") > running.said.rindex("\x1b[?2004h")
        assert "result     stopped with q\n" in running.text


def test_before_ctrl_z_stops_it_the_terminal_is_given_back(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    """Of a job that no shell waits for the kernel stops nothing: the foot is there again at once."""
    claude_script([say("hello"), run(until(tmp_path / "go")), summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("Bash until")
        running.press("\x1a")
        wait_until(lambda: running.said.count("\x1b[?2004h") == 2, "the foot again")
        assert running.said.count("\x1b[?2004l") == 1
        running.shows("p: pause")
        assert "hello" in running.text
        (tmp_path / "go").touch()
        assert running.wait() == 0
        assert left_as_it_was(running)


def test_after_ctrl_z_and_fg_the_foot_is_below_what_the_shell_wrote(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    claude_script([say("hello"), run(until(tmp_path / "go")), summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("Bash until")
        running.screen.feed(b"\r\n[1]+  Stopped\r\n$ fg\r\n")
        running.reset()
        os.kill(running.pid, signal.SIGCONT)
        wait_until(lambda: running.rows[-1].startswith("p: pause") and not running.echoes, "the foot anew")
        running.press("d")
        running.shows("d: detail (all)")
        below = running.rows[running.rows.index("$ fg") + 1 :]
        assert len(below) == 4, "one foot, drawn below what the shell wrote"
        (tmp_path / "go").touch()
        assert running.wait() == 0


def test_begun_in_the_background_it_hears_keys_when_a_shell_brings_it_forward(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    claude_script([say("hello"), run(until(tmp_path / "go")), summary("DONE")])
    shell = ["/bin/bash", "--norc", "--noprofile", "-i"]
    with InTerminal(shell, ralph.repo, {**ralph.env, "PS1": "$ "}) as running:
        running.shows("$")
        running.press(f"{sys.executable} -P -m ralph run goal.md &\r")
        running.shows("hello")
        assert "\x1b[?7l" not in running.said, "no foot, whose rows do not wrap, below a shell's prompt"
        running.press("fg\r")
        running.shows("p: pause")
        wait_until(lambda: not running.echoes, "the terminal")
        running.press("d")
        running.shows("d: detail (all)")
        (tmp_path / "go").touch()
        running.shows("result     done")
        wait_until(lambda: running.rows[-1] == "$", "the shell's prompt")
        running.press("stty -a | grep --only-matching '[-]*icanon'; exit 7\r")
        assert running.wait() == 7
        assert "icanon" in running.rows


def test_stopped_by_ctrl_z_it_leaves_the_terminal_to_the_shell_and_fg_brings_the_foot_back(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    claude_script([say("hello"), run(until(tmp_path / "go")), summary("DONE")])
    shell = ["/bin/bash", "--norc", "--noprofile", "-i"]
    with InTerminal(shell, ralph.repo, {**ralph.env, "PS1": "$ "}) as running:
        running.shows("$")
        running.press(f"{sys.executable} -P -m ralph run goal.md\r")
        running.shows("Bash until")
        for _ in range(3):  # whose turn it is first differs from time to time
            running.press("\x1a")
            running.shows("Stopped")
            wait_until(lambda: running.rows[-1] == "$", "the shell's prompt")
            assert not [row for row in running.rows if "p: pause" in row], "no foot is left above the prompt"
            said = len(running.said)
            running.press("stty -a | grep --quiet 'susp = ^Z' && stty -a | grep --quiet ' icanon' && echo fi''ne\r")
            running.shows("fine")
            assert "\x1b[?7l" not in running.said[said:], "nobody draws while it is stopped"
            running.press("clear; fg\r")
            running.shows("p: pause")
            assert len([row for row in running.rows if "p: pause" in row]) == 1
            assert running.rows[-2].startswith("iteration 1 of 50 ░"), running.rows
            wait_until(lambda: not running.echoes, "the terminal")
        running.press("d")
        running.shows("d: detail (all)")
        (tmp_path / "go").touch()
        running.shows("result     done")
        wait_until(lambda: running.rows[-1] == "$", "the shell's prompt")


def test_hostile_output_steers_nothing(ralph: Ralph, claude_script: ClaudeScript) -> None:
    texts = [
        text for text in TEXTS.values() if len(text) < 1000 and text.isprintable() is False and "\ud800" not in text
    ]
    claude_script([*map(say, texts), run("printf '\\033]0;owned\\007\\033[2J'; exit 1"), summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        assert running.wait() == 0
        assert not steering(running.said)
        assert running.screen.title == ""
        assert left_as_it_was(running)
        assert "\\x1b]0;owned\\x07" in running.said


def test_events_for_programs_steer_no_terminal_either(ralph: Ralph, claude_script: ClaudeScript) -> None:
    texts = [text for text in TEXTS.values() if text.strip() and "\ud800" not in text]
    claude_script([*map(say, texts), summary("\u202e\ufeff DONE")])
    with RalphInTerminal(["run", "goal.md", "--json", "--max-iterations", "1"], ralph.repo, ralph.env) as running:
        assert running.wait() == 4
        written = running.said
    assert not steering(written)
    events = [json.loads(line) for line in written.splitlines() if line.startswith('{"seq":')]
    spoken = [event["text"] for event in events if event["type"] == "text" and event["tag"] == "AI"]
    assert set(spoken) == set(texts)


@pytest.mark.parametrize(
    ("extra", "flags"),
    [({"TERM": "dumb"}, []), ({"CI": "true"}, []), ({}, ["--quiet"]), ({}, ["--json"])],
    ids=["dumb", "CI", "quiet", "json"],
)
def test_where_no_view_is_wanted_there_is_none(
    ralph: Ralph, claude_script: ClaudeScript, extra: dict[str, str], flags: list[str]
) -> None:
    claude_script([say("hello"), summary("DONE")])
    env = {**ralph.env, "RALPH_BELL": "false", **extra}
    with RalphInTerminal(["run", "goal.md", *flags], ralph.repo, env) as running:
        assert running.wait() == 0
        assert "\x1b" not in running.said
        assert ("hello" in running.said) is (flags != ["--quiet"])


def test_no_color_takes_the_colours_alone(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("hello"), run("exit 1"), summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, {**ralph.env, "NO_COLOR": "1"}) as running:
        assert running.wait() == 0
        assert "p: pause" in running.said
        attributes = set(re.findall("\x1b\\[([0-9;]*)m", running.said))
        assert attributes <= {"0", "1", "2"}, "bold and dim are no colours"


def test_a_terminal_that_is_held_still_does_not_hold_the_run(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    """Ctrl-S: nothing can be written until Ctrl-Q."""
    claude_script([say("hello"), run(until(tmp_path / "go")), *[say("x" * 500)] * 50, summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("Bash until")
        running.press("\x13")
        (tmp_path / "go").touch()
        wait_until((ralph.repo / ".ralph/runs/goal/result.json").exists, "the end of the run")
        running.press("\x11")
        assert running.wait() == 0
        assert left_as_it_was(running)
        assert "result     done" in running.text


def test_in_a_terminal_that_is_held_still_keys_are_heard(
    ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    claude_script([say("hello"), run(until(tmp_path / "go")), summary("one")], [hang()])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        running.shows("Bash until")
        running.press("\x13")
        time.sleep(1.5)  # in which the status has changed, and cannot be written
        running.press("s")
        words = run_directory(ralph.repo) / "steering.jsonl"
        wait_until(lambda: words.exists() and "stop" in words.read_text(), "the key is heard")
        (tmp_path / "go").touch()
        assert running.wait() == 130
        assert "stopped after this iteration, as you asked" in running.text, (
            "the last words set the terminal going again"
        )
        assert left_as_it_was(running)
