"""The dashboard of a queue in a real terminal, driven by keys: as the worker shows it, and as somebody else sees it."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from tests.support.batches import Batch, Session, says, shell, write, wrote
from tests.support.hostile import TEXTS, steering
from tests.support.scripted_agent import ClaudeScript, api_error, rate_limit, run, summary
from tests.support.terminal import InTerminal, RalphInTerminal
from tests.support.waiting import wait_until

CALL = re.compile(r"\x1b\]9;ralph: ([^\x07]*)\x07\x07")
UP, DOWN, ESC = "\x1b[A", "\x1b[B", "\x1b"


def in_terminal(batch: Batch, *args: str | Path, columns: int = 100, rows: int = 30, ci: str = "") -> RalphInTerminal:
    words = [str(arg) for arg in args]
    return RalphInTerminal(words, batch.root, {**batch.runs.env, "CI": ci}, columns, rows, "ralph.cli.runs")


def waits(name: str, gate: Path) -> list[Session]:
    """A goal that says something, and goes on when a file is there."""
    command = f"echo hello from {name}; until [ -e {gate} ]; do sleep 0.1; done"
    return [[shell(command), *wrote(name)[0]]]


def row_of(terminal: RalphInTerminal, name: str) -> str:
    """The row of a goal; news and needs begin otherwise."""
    return next((row for row in terminal.rows if row[:1] in "●◌◆○✓✗-" and f" {name} " in row), "")


def test_a_batch_is_driven_by_keys(batch: Batch) -> None:
    upstream = batch.upstream()
    gate = batch.root / "gate"
    for name in ("alpha", "beta", "gamma"):
        batch.goal(name, waits(name, gate))
    args = ("run", batch.root / "goals", "--repo", upstream, "--max", "2")

    with in_terminal(batch, *args) as terminal:
        terminal.shows("1 queued")
        wait_until(lambda: "Bash" in row_of(terminal, "alpha"), "alpha is in a call")
        terminal.shows("2 running")
        assert "queued" in row_of(terminal, "gamma")

        terminal.press("r")
        terminal.shows("cannot retry g1: it is running, not stuck, cancelled or undone")
        terminal.press("p")  # nothing new starts
        terminal.shows("PAUSED")

        terminal.press("\r")  # the first one's transcript
        terminal.shows("Esc back")
        terminal.shows("iteration 1")
        assert any("g1 alpha" in row and "running" in row for row in terminal.rows)
        terminal.press(ESC)
        terminal.shows("Enter open")

        terminal.press(f"{DOWN}c")  # beta is given up
        terminal.shows("cancel g2 beta?")
        terminal.press("y")
        wait_until(lambda: batch.states()["beta"] == "cancelled", "beta is cancelled")
        wait_until(lambda: row_of(terminal, "beta").startswith("-"), "the row says so")
        terminal.press("r")  # the cursor has stayed with it
        wait_until(lambda: row_of(terminal, "beta").startswith("○"), "beta is queued again")
        terminal.press("t")
        terminal.shows("tell g2 beta:")
        terminal.press("mind the gap\r")
        terminal.shows("g2 beta: the agent gets this when the goal starts")
        assert "mind the gap" in json.dumps(batch.show("beta")["comments"])
        assert batch.states()["gamma"] == "queued", "a paused queue starts nothing"

        terminal.resize(60, 24)
        terminal.press(UP)
        terminal.shows("q stop")
        wait_until(lambda: max(map(len, terminal.rows)) <= 60 and row_of(terminal, "alpha"), "it fits 60 columns")

        terminal.press("p")  # what waits may start
        wait_until(lambda: list(batch.states().values()).count("running") == 2, "another one starts")
        gate.touch()
        assert terminal.wait() == 0
        said = terminal.said

    assert set(batch.states().values()) == {"done"}
    before, _, shown = said.partition("\x1b[?1049h")
    shown, _, after = shown.rpartition("\x1b[?1049l")
    assert "alpha" in before, "what was submitted stays in the normal screen"
    assert shown
    assert "3 goals: 3 done" in after, "and so does how it ended"
    assert "started on" not in after, "lines are not told twice"
    assert "\x1b[?25h" in said[said.rindex("\x1b[?25l") :]


def test_q_stops_as_ctrl_c_does_and_says_what_came_of_it(batch: Batch) -> None:
    upstream = batch.upstream()
    batch.goal("endless", [[shell("sleep 300"), says("DONE")]])

    with in_terminal(batch, "run", batch.root / "goals", "--repo", upstream, "--max-cost", "9") as terminal:
        wait_until(lambda: "Bash" in row_of(terminal, "endless"), "it runs")
        terminal.press("\x1cq")  # Ctrl-\\ ends nothing
        terminal.shows("stop? goals continue at the next start  y: yes")
        terminal.press("n")
        terminal.shows("q stop")
        assert batch.states() == {"endless": "running"}
        terminal.press("quit\r")  # as a terminal sends a text that it does not mark as pasted
        terminal.shows("too many keys at once")
        terminal.press("qy")  # whoever has pressed the second one has not seen the question
        terminal.shows("stop? goals continue at the next start  y: yes")
        assert batch.states() == {"endless": "running"}
        terminal.press("y")
        assert terminal.wait() == 130
        assert terminal.echoes
        after = terminal.said.rpartition("\x1b[?1049l")[2]

    assert "stopping; goals continue at the next start" in after
    assert "1 queued" in after
    assert after.split("\r\n")[-2] == "continue with: ralph-runs run --all --max-cost 9"


def test_a_batch_stays_open_while_a_goal_is_stuck_and_goes_on_when_it_is_retried(batch: Batch) -> None:
    upstream = batch.upstream()
    batch.goal("fine", wrote("fine"))
    asks = [says("BLOCKED: which currency do refunds use?")]
    batch.goal("red", [asks, asks, *wrote("red")])

    with in_terminal(batch, "run", batch.root / "goals", "--repo", upstream, columns=130, rows=40) as terminal:
        terminal.shows("nothing can continue by itself: r retries, q leaves")
        assert batch.states() == {"fine": "done", "red": "stuck"}
        terminal.shows("which currency do refunds use?")
        terminal.press("o")
        terminal.shows("sorted by need")
        terminal.shows("g2 red · stuck")
        terminal.press("g")  # the first goal, which nobody has moved to: r would ask whether it is meant
        assert CALL.findall(terminal.said) == ["1 goal stuck, and nothing else is left to do"]
        terminal.press("r")
        assert terminal.wait() == 0
        _, end = CALL.findall(terminal.said)
        assert end.startswith("2 goals: 2 done")
    assert set(batch.states().values()) == {"done"}


def test_a_batch_with_a_stuck_goal_is_left_with_the_exit_code_that_it_had(batch: Batch) -> None:
    upstream = batch.upstream()
    batch.goal("red", [[says("BLOCKED: which currency do refunds use?")]])
    with in_terminal(batch, "run", batch.root / "goals", "--repo", upstream) as terminal:
        terminal.shows("nothing can continue by itself: r retries, q leaves")
        terminal.press("q")
        assert terminal.wait() == 1
        assert terminal.echoes
        assert len(CALL.findall(terminal.said)) == 1, "who leaves was called before"
        after = terminal.said.rpartition("\x1b[?1049l")[2]
    assert "1 goal: 1 stuck" in after
    assert batch.runs("run", "--all", cwd=batch.root).exit_code == 0, "without a terminal nothing stays open"


def test_a_goals_diff_and_log_are_read(batch: Batch) -> None:
    upstream = batch.upstream()
    gate = batch.root / "gate"
    batch.goal("alpha", [[*wrote("alpha")[0][:-1], says("halfway")], *waits("alpha", gate)])
    with in_terminal(batch, "run", batch.root / "goals", "--repo", upstream) as terminal:
        wait_until(lambda: "  2" in row_of(terminal, "alpha"), "the second iteration")
        terminal.press("l")
        terminal.shows("iteration 1 · CONTINUE · $0.00 · ")
        terminal.shows("halfway")
        terminal.press("v")
        terminal.shows("+++ b/texts/alpha.txt")
        terminal.press("v")
        terminal.shows("hello from alpha")
        terminal.press(ESC)
        terminal.shows("Enter open")
        gate.touch()
        assert terminal.wait() == 0


def test_a_merged_goals_diff_is_read(batch: Batch) -> None:
    upstream = batch.upstream()
    batch.goal("alpha", wrote("alpha"))
    batch.goal("red", [[says("BLOCKED: which currency do refunds use?")]])
    with in_terminal(batch, "run", batch.root / "goals", "--repo", upstream) as terminal:
        terminal.shows("nothing can continue by itself: r retries, q leaves")
        wait_until(lambda: "merged to main" in row_of(terminal, "alpha"), "alpha is below the stuck goal")
        terminal.press(DOWN)
        terminal.shows("alpha · done")
        terminal.press("v")
        terminal.shows("+++ b/texts/alpha.txt")
        terminal.press("l")
        terminal.shows("iteration 1 · DONE · check green · $0.00 · ")
        terminal.press(ESC)
        terminal.shows("Enter open")
        terminal.press("q")
        assert terminal.wait() == 1


@pytest.mark.long
def test_a_thousand_hostile_lines_steer_neither_transcript_nor_diff_nor_log(batch: Batch) -> None:
    parts = [part.encode("utf-8", "replace").decode().replace("\0", "") for part in TEXTS.values()]
    hostile = "\n".join(f"{number} {parts[number % len(parts)][:200]}" for number in range(1000))
    upstream = batch.upstream()
    session = [
        write("hostile.txt", f"{hostile}\n"),
        shell("cat hostile.txt; exit 1"),
        says(f"not yet\n{hostile[:3000]}"),
    ]
    goal = batch.goal("one", [session], max_iterations=1, body=hostile)
    for columns in (80, 200):
        with in_terminal(batch, "run", goal, "--repo", upstream, "--merge", "none", columns=columns) as terminal:
            terminal.shows("1 stuck")
            for key, page in (("\r", "g1 one"), ("v", "· diff ─"), ("l", "· log ─")):
                terminal.press(key)
                terminal.shows("Esc back")
                terminal.shows(page)
                wait_until(lambda: "reading…" not in "".join(terminal.rows), "it is read")
                terminal.press(ESC)
                terminal.shows("Enter open")
            terminal.press("q")
            assert terminal.wait() != 3
            assert not steering(terminal.said)
            assert "\\x1b]0;owned" in terminal.said
            assert terminal.screen.is_as_a_shell_expects
            assert terminal.screen.title == ""


def test_pastes_and_a_storm_of_sizes_change_nothing(batch: Batch) -> None:
    gate = batch.root / "gate"
    batch.goal("alpha", waits("alpha", gate))
    with in_terminal(batch, "run", batch.root / "goals", "--repo", batch.upstream(), "--merge", "none") as terminal:
        terminal.shows("1 running")
        terminal.press("\x1b[200~cy\nqy\np\x1b[201~")
        for number in range(60):
            terminal.resize(20 + number * 37 % 200, 3 + number * 11 % 50)
        terminal.resize(120, 40)
        terminal.shows("latest ─")
        wait_until(lambda: len(row_of(terminal, "alpha")) <= 120 and len(terminal.rows) <= 40, "it fits")
        assert batch.states() == {"alpha": "running"}, "what was pasted is no key"
        assert not any("PAUSED" in row for row in terminal.rows)
        gate.touch()
        assert terminal.wait() == 0
        assert terminal.screen.is_as_a_shell_expects


@pytest.mark.long
def test_a_terminal_that_is_held_still_does_not_hold_a_batch(batch: Batch) -> None:
    gate = batch.root / "gate"
    for name in ("alpha", "beta", "gamma"):
        batch.goal(name, waits(name, gate))
    args = ("run", batch.root / "goals", "--repo", batch.upstream(), "--merge", "direct", "--max", "1")
    with in_terminal(batch, *args, columns=200, rows=50) as terminal:
        terminal.shows("1 running")
        terminal.press("\x13")  # Ctrl-S: nothing can be written from here on, and nobody reads
        gate.touch()
        wait_until(lambda: set(batch.states().values()) == {"done"}, "all is done, and merged")
        assert terminal.wait() == 0
        assert "3 goals: 3 done" in terminal.text
        assert terminal.screen.is_as_a_shell_expects


def test_somebody_else_watches_and_steers(batch: Batch) -> None:
    upstream = batch.upstream()
    gate = batch.root / "gate"
    batch.goal("alpha", waits("alpha", gate))
    assert (
        batch.runs("add", str(batch.root / "goals"), "--queue", "--repo", str(upstream), cwd=batch.root).exit_code == 0
    )

    with in_terminal(batch, "watch") as terminal:
        terminal.shows("this queue has no worker")
        terminal.shows("ralph-runs work")
        with contextlib.closing(sqlite3.connect(batch.ralph_dir / "runs.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # nobody else can write
            terminal.press("p")
            terminal.shows("waiting for the queue, which is locked or slow")
            terminal.press("?")
            terminal.shows("any key goes back")
            terminal.press("x")
            other.execute("ROLLBACK")
        terminal.shows("PAUSED")
        terminal.press("p")
        wait_until(lambda: not any("PAUSED" in row for row in terminal.rows), "it is resumed")
        with batch.runs.start("work", cwd=batch.root) as worker:
            wait_until(lambda: "Bash" in row_of(terminal, "alpha"), "the worker's goal is seen at work")
            assert any(f":{worker.pid}" in row for row in terminal.rows)
            terminal.press("\r")
            terminal.shows("iteration 1")
            terminal.press(ESC)
            terminal.shows("Enter open")
            gate.touch()
            wait_until(lambda: row_of(terminal, "alpha").startswith("✓"), "it is done")
            terminal.press("q")
            assert terminal.wait() == 0
            assert terminal.echoes
            assert "alpha" in worker.stdout, "the worker is none the worse for it"


def test_without_a_terminal_nobody_watches(batch: Batch) -> None:
    refused = batch.runs("watch", cwd=batch.root)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "ralph-runs list" in refused.stderr
    assert "log ID -f" in refused.stderr


def test_where_there_is_no_queue_there_is_nothing_to_watch(batch: Batch) -> None:
    with in_terminal(batch, "watch") as terminal:
        assert terminal.wait() == 2
        assert "cannot watch: the queue is empty" in terminal.said
    assert not (batch.ralph_dir / "runs.sqlite").exists()


@pytest.mark.long
def test_where_nobody_watches_lines_are_printed_as_ever(batch: Batch) -> None:
    upstream = batch.upstream()
    batch.goal("alpha", wrote("alpha"))
    with in_terminal(batch, "run", batch.root / "goals" / "alpha.md", "--repo", upstream, ci="1") as terminal:
        assert terminal.wait() == 0
        said = terminal.said
    assert "\x1b" not in said
    assert "started on ralph/alpha" in said
    assert "1 goal: 1 done" in said


@pytest.mark.long
def test_a_goal_that_waits_for_a_quota_is_woken(batch: Batch, claude_script: ClaudeScript) -> None:
    """And so is its account: another goal of it, held back meanwhile, starts at once."""
    upstream = batch.upstream()
    for name in ("first", "second"):
        batch.goal(name, [], agent="claude", model="sonnet")
    limited = [rate_limit("rejected", int(time.time()) + 3600), api_error(429, "You've hit your limit", "rate_limit")]
    claude_script(limited, [run('mkdir -p texts; echo Fine. > "texts/$RALPH_GOAL.txt"'), summary("DONE")])

    with in_terminal(batch, "run", batch.root / "goals", "--repo", upstream, "--max", "1") as terminal:
        terminal.shows("w wake")
        wait_until(lambda: any("quota" in row and "claude" in row for row in terminal.rows), "the account is held back")
        refused = batch.runs("wake", "first", "second")
        assert (refused.exit_code, "is not waiting for a usage limit" in refused.stderr) == (2, True)
        assert "waiting" in row_of(terminal, "first"), "all of them or none"
        terminal.press("w")
        wait_until(lambda: "g1 first: woken" in terminal.said, "the key to be heeded")
        assert terminal.wait() == 0
    assert set(batch.states().values()) == {"done"}
    refused = batch.runs("wake", "first")
    assert (refused.exit_code, "the queue has no worker" in refused.stderr) == (2, True)


@pytest.mark.long
def test_ctrl_z_gives_the_terminal_back_first(batch: Batch) -> None:
    """Of a job that no shell waits for the kernel stops nothing: the dashboard is there again at once."""
    upstream = batch.upstream()
    gate = batch.root / "gate"
    batch.goal("alpha", waits("alpha", gate))
    with in_terminal(batch, "run", batch.root / "goals", "--repo", upstream) as terminal:
        terminal.shows("1 running")
        terminal.press("\x1a")
        wait_until(lambda: terminal.said.count("\x1b[?1049h") == 2, "the dashboard comes back")
        left, _, _ = terminal.said.partition("\x1b[?1049l")
        assert "\x1b[?1049h" in left
        terminal.shows("1 running")
        gate.touch()
        assert terminal.wait() == 0
        assert terminal.echoes


@pytest.mark.long
def test_a_shell_that_ctrl_z_goes_back_to_has_its_terminal(batch: Batch) -> None:
    upstream = batch.upstream()
    gate = batch.root / "gate"
    batch.goal("alpha", waits("alpha", gate))
    shell = ["/bin/bash", "--norc", "--noprofile", "-i"]
    ralph_runs = f"{sys.executable} -P -m ralph.cli.runs"
    with InTerminal(shell, batch.root, {**batch.runs.env, "CI": "", "PS1": "$ "}, 100, 30) as terminal:
        terminal.shows("$")
        terminal.press(f"{ralph_runs} run goals --repo {upstream} --max-cost 5\r")
        for stops in range(1, 4):
            terminal.shows("1 running")
            terminal.press("\x1a")
            terminal.shows("Ctrl-Z again")  # the agent works on, and nobody would watch its budget
            terminal.press("\x1a")
            wait_until(lambda stops=stops: terminal.said.count("Stopped") == stops, "the shell's word")
            assert terminal.said.count("\x1b[?1049l") == terminal.said.count("\x1b[?1049h") == stops
            assert terminal.screen.is_as_a_shell_expects
            terminal.press("\x15fg\r")  # whatever else is in the shell's line goes
            wait_until(lambda stops=stops: terminal.said.count("\x1b[?1049h") == stops + 1, "the dashboard again")
        gate.touch()
        wait_until(lambda: "1 goal: 1 done" in terminal.text, "the table")
        terminal.press("exit 7\r")
        assert terminal.wait() == 7
