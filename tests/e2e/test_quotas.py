"""A quota that is used up: waited for, visibly, wakeable, and free of charge; and what only looks like one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.api_replies import Fail, Reply, Say, tool, usage_limit_headers
from tests.support.git_repos import commits
from tests.support.goals import result, run_directory, write_check, write_goal
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.scripted_agent import ClaudeScript, Session, api_error, rate_limit, run, summary, write
from tests.support.terminal import RalphInTerminal
from tests.support.waiting import wait_until

DONE = Say(tool("StructuredOutput", summary="DONE"))
LIMIT = "You've hit your session limit · resets 12:48am (UTC)"


def used_up(resets_at: float | None) -> Session:
    return [rate_limit("rejected", None if resets_at is None else int(resets_at)), api_error(429, LIMIT, "rate_limit")]


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


@pytest.fixture
def claude(ralph: Ralph, bin_dir: Path, world: Path) -> Ralph:
    """A ralph whose `claude` is the real one, logged in with a subscription: only then it tells of quotas."""
    (bin_dir / "claude").symlink_to(tools.find("claude"))
    return Ralph(ralph.repo, {**claude_env(world / "home", "http://127.0.0.1:9", "oauth"), **ralph.env})


def limited_until(resets_at: int) -> Reply:
    return Fail(429, "rate_limit_error", "limit", usage_limit_headers("rejected", resets_at))


def kinds(done: Finished) -> list[str]:
    return [event["type"] for event in done.events]


# With the real Claude Code


@pytest.mark.long
def test_a_reset_is_waited_for_and_costs_nothing(repo: Path, claude: Ralph, messages_api: ServeMessages) -> None:
    asked_at: list[float] = []

    def model(number: int, request: dict[str, object]) -> Reply:
        asked_at.append(time.time())
        reset = int(asked_at[0]) + 20  # from the first request on: how soon that comes is the machine's affair
        return limited_until(reset) if asked_at[-1] < reset else DONE

    api = messages_api(model)

    done = claude("run", "goal.md", "--json", "--max-iterations", "1", env={"ANTHROPIC_BASE_URL": api.url})

    assert done.exit_code == 0, done
    resets_at = int(asked_at[0]) + 20
    (waiting,) = done.events_of("waiting")
    assert resets_at <= waiting["until"] <= resets_at + 10
    assert resets_at <= _seconds(done.events_of("iteration_started")[1]["at"]) <= resets_at + 20
    assert resets_at <= asked_at[-1]
    assert [event["end"] for event in done.events_of("session_ended")] == ["usage-limit", "done"]
    assert [event["iteration"] for event in done.events_of("iteration_started")] == [1, 1]
    assert [commit.subject for commit in commits(repo)] == ["start", "ralph 1/1: claims DONE"]


class FakedTime:
    """A clock that a process sees through libfaketime, and that the test sets while the process runs."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "faketime"
        self.set(0)

    def set(self, ahead: float) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead:+.0f}\n")
        new.replace(
            self._file
        )  # whoever reads an empty file, as it is while it is written anew, is ended by libfaketime

    @property
    def env(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(tools.libfaketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture
def clock(world: Path) -> FakedTime:
    return FakedTime(world)


@pytest.mark.long
def test_a_reset_in_five_hours_is_waited_for_by_the_clock_on_the_wall(
    repo: Path, claude: Ralph, messages_api: ServeMessages, clock: FakedTime
) -> None:
    """The clock is set ahead while ralph waits, as when the machine has slept meanwhile; claude keeps the real time."""
    binary = Path(claude.env["PATH"].split(os.pathsep)[0]) / "claude"
    real = binary.readlink()
    binary.unlink()
    unset = " ".join(f"-u {name}" for name in (*clock.env, "FAKETIME_SHARED"))
    binary.write_text(f'#!/bin/sh\nexec env {unset} {real} "$@"\n')
    binary.chmod(0o755)
    resets_at = int(time.time()) + 5 * 3600
    replies: Iterator[Reply] = iter([limited_until(resets_at), DONE])
    api = messages_api(lambda number, request: next(replies))
    with claude.start(
        "run", "goal.md", "--json", "--max-iterations", "1", env={"ANTHROPIC_BASE_URL": api.url, **clock.env}
    ) as running:
        running.wait_for("waiting", timeout=60)
        clock.set(5 * 3600 - 120)
        seen = api.ledger.entries[:]
        assert not [event for event in running.events if event["type"] == "iteration_started"][1:]
        set_at = time.time()
        clock.set(5 * 3600 + 30)
        done = running.wait()

    assert done.exit_code == 0, done
    assert len(api.ledger.entries) > len(seen)
    again = done.events_of("iteration_started")[1]
    assert resets_at <= _seconds(again["at"]) <= set_at + 5 * 3600 + 30 + 60
    assert commits(repo)[-1].subject == "ralph 1/1: claims DONE"


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


@pytest.mark.long
def test_a_file_that_speaks_of_a_limit_changes_nothing(repo: Path, claude: Ralph, messages_api: ServeMessages) -> None:
    (repo / "notes.txt").write_text("Claude AI usage limit reached|1794790100\nYou've hit your session limit\n")
    look = Say(tool("Bash", command="cat notes.txt; cat notes.txt >&2; exit 1", description="look"))
    quote = Say("It says: usage limit reached.", tool("StructuredOutput", summary="DONE"))
    api = messages_api([look, quote])

    done = claude("run", "goal.md", "--json", "--allow-dirty", env={"ANTHROPIC_BASE_URL": api.url})

    assert done.exit_code == 0, done
    assert "waiting" not in kinds(done)


@pytest.mark.long
def test_a_warning_is_shown(repo: Path, claude: Ralph, messages_api: ServeMessages) -> None:
    resets_at = int(time.time()) + 3600
    window = {"status": "allowed_warning", "utilization": "0.91", "surpassed-threshold": "0.9", "reset": str(resets_at)}
    headers = usage_limit_headers("allowed_warning", resets_at)
    headers |= {f"anthropic-ratelimit-unified-5h-{name}": value for name, value in window.items()}
    api = messages_api([Say(tool("StructuredOutput", summary="DONE"), headers=headers)])

    done = claude("run", "goal.md", env={"ANTHROPIC_BASE_URL": api.url})

    assert done.exit_code == 0, done
    assert "quota      nearly used up (five hour, 91 % used, resets " in done.stdout


# With the stand-in


def test_ralph_wake_ends_the_wait(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo)
    claude_script(used_up(time.time() + 4 * 3600), [write("answer.txt", "42\n"), summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("waiting")
        woken = ralph("wake")
        done = running.wait()

    assert (woken.exit_code, woken.stdout) == (0, "goal continues now\n"), woken
    assert done.exit_code == 0, done
    assert result(repo)["iterations"] == 1


def test_a_run_that_does_not_wait_cannot_be_woken(ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path) -> None:
    claude_script([run(f"while ! test -e {tmp_path}/go; do sleep 0.05; done"), summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_start")
        refused = ralph("wake", "goal")
        (tmp_path / "go").touch()
        assert running.wait().exit_code == 0

    assert refused.exit_code == 2
    assert "cannot wake goal: it is not waiting" in refused.stderr


def test_a_key_ends_the_wait_and_the_screen_counts_down(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(used_up(time.time() + 4 * 3600), [summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        wait_until(lambda: len(set(re.findall(r"3:5\d:\d\d", running.said))) > 1, "a countdown")
        assert "w: continue now" in running.said
        assert not running.echoes
        running.press("xw")
        assert running.wait() == 0
        assert running.echoes, "the terminal is as it was"
        assert "woken" in running.said


@pytest.mark.long
def test_a_terminal_that_can_redraw_nothing_is_told_once_how_to_end_the_wait(
    ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script(used_up(time.time() + 4 * 3600), [summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, {**ralph.env, "TERM": "dumb"}) as running:
        wait_until(lambda: "w: continue now" in running.said, "the key")
        time.sleep(1.1)  # in which a countdown would have gone on
        running.press("w")
        assert running.wait() == 0
        assert running.said.count("left · ") == 1
        assert "\x1b" not in running.said


@pytest.mark.long
def test_keys_are_heard_again_after_a_shell_had_the_terminal(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(used_up(time.time() + 4 * 3600), [summary("DONE")])
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        wait_until(lambda: "w: continue now" in running.said, "a countdown")
        running.reset()
        wait_until(lambda: not running.echoes, "the terminal to be ralph's again")
        running.press("w")
        assert running.wait() == 0


def test_ctrl_c_ends_the_wait_and_leaves_the_terminal_as_it_was(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(used_up(time.time() + 4 * 3600))
    with RalphInTerminal(["run", "goal.md"], ralph.repo, ralph.env) as running:
        wait_until(lambda: "w: continue now" in running.said, "a countdown")
        running.press("\x03")
        assert running.wait() == 130
        assert running.echoes


@pytest.mark.long
def test_without_a_time_it_is_tried_again_now_and_then(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(used_up(None), used_up(None), [summary("DONE")])
    with ralph.start("run", "goal.md", "--json", "--max-iterations", "1") as running:
        for count in (1, 2):
            waiting = running.wait_for("waiting", count)
            assert 25 <= waiting["until"] - time.time() <= 120
            assert ralph("wake").exit_code == 0
        done = running.wait()

    assert done.exit_code == 0, done
    assert result(repo)["iterations"] == 1


@pytest.mark.long
def test_the_text_of_an_error_is_the_second_witness(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([api_error(429, LIMIT, "rate_limit")], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("waiting")
        ralph("wake")
        done = running.wait()

    assert [event["end"] for event in done.events_of("session_ended")] == ["usage-limit", "done"]


def test_a_reset_beyond_the_duration_ends_the_run_at_once(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script(used_up(time.time() + 7200))

    done = ralph("run", "goal.md", "--duration", "1h")

    assert (done.exit_code, result(repo)["reason"]) == (4, "limit reached: --duration")
    assert "not waiting: the wait would last until 20" in done.stdout
    assert result(repo)["not_before"] > time.time() + 3600


@pytest.mark.long
def test_stop_ends_a_wait(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(used_up(time.time() + 7200))
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("waiting")
        assert ralph("stop").exit_code == 0
        assert running.wait().exit_code == 130
    assert run_directory(repo).is_dir()
