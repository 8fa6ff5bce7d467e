"""What `ralph-runs list`, `show`, `stats` and `gc`, `ralph config` and `status` print: in terminals, and in pipes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ralph.core.reason import Reason
from ralph.queue.database import default_url
from ralph.queue.goals import State, Submission
from ralph.queue.store import Store, open_store
from tests.support.hostile import TEXTS, steering
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary
from tests.support.terminal import RalphInTerminal

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
GOAL = "# Do it\n\n## Objective\nDo it.\n"
SHAPES = [
    pytest.param(40, {}, id="40 columns"),
    pytest.param(80, {}, id="80 columns"),
    pytest.param(200, {}, id="200 columns"),
    pytest.param(80, {"NO_COLOR": "1"}, id="no colour"),
    pytest.param(80, {"TERM": "dumb"}, id="dumb"),
]


@pytest.fixture
def store(world: Path) -> Iterator[Store]:
    (world / "ralph").mkdir()
    store = open_store(default_url(world / "ralph"))
    assert store is not None
    yield store
    store.close()


@pytest.fixture
def three(store: Store) -> Store:
    """A queue with a goal that is done, one that is stuck for a long reason, and a queued one."""
    submit(store, {"log-in": "Let people in", "payments": "Take their money 名前", "emails": "Write to them"})
    move(store, "g1", State.DONE, cost=1.5)
    move(store, "g2", State.STUCK, Reason("the check is red: tests/test_pay.py::test_refunds expected 3, got 4"))
    return store


@pytest.fixture
def hostile(store: Store) -> Store:
    """A queue whose goals have titles, reasons and comments that would take a terminal over."""
    texts = [text[:3000].encode("utf-8", "replace").decode() for text in TEXTS.values()]
    submit(store, {f"goal-{number}": text or "x" for number, text in enumerate(texts)})
    for number, text in enumerate(texts, start=1):
        move(store, f"g{number}", State.STUCK, Reason(text))
        store.comment(store.find(f"g{number}"), text[:100] or "x", text or "x")
    return store


def submit(store: Store, titles: dict[str, str]) -> None:
    goals = [
        Submission(name, title, GOAL, f"/goals/{name}.md", "/srv/shop.git", branch=f"ralph/{name}")
        for name, title in titles.items()
    ]
    store.submit(goals, State.QUEUED)


def move(store: Store, goal: str, to: State, why: Reason | None = None, cost: float | None = None) -> None:
    store.move(store.find(goal), State.RUNNING, starts=1, attempts=1)
    facts = {"why": why or Reason(), "cost_usd": cost or 0.0, "costed": cost is not None}
    assert store.move(store.find(goal), to, facts) is to


def written(ralph: Ralph, args: Sequence[str], columns: int, env: dict[str, str]) -> str:
    """All that a command writes to a terminal."""
    with RalphInTerminal(args, ralph.repo, {**ralph.env, **env}, columns, module=ralph.module) as terminal:
        assert terminal.wait() == 0, terminal.said
        return terminal.said


def shown(ralph: Ralph, args: Sequence[str], columns: int = 80) -> list[str]:
    """The lines that a command shows in a terminal."""
    return ESCAPES.sub("", written(ralph, args, columns, {})).replace("\r\n", "\n").rstrip("\n").split("\n")


def test_a_wide_terminal_shows_titles_times_and_reasons_beside_the_goals(three: Store, ralph_runs: Ralph) -> None:
    heading, done, stuck, queued, _, tally = shown(ralph_runs, ["list"], 200)
    assert heading.split() == ["id", "state", "goal", "tries", "cost", "changed", "title"]
    assert re.fullmatch(r"g1 +done +log-in +1 +\$1\.50 +\d{4}-\d\d-\d\d \d\d:\d\d +Let people in *", done)
    assert stuck.rstrip().endswith("got 4")
    assert "Take their money 名前" in stuck
    assert queued.split()[:3] == ["g3", "queued", "emails"]
    assert tally == "3 goals: 1 queued, 1 done, 1 stuck · $1.50"


def test_a_narrow_terminal_shows_reasons_in_full_below_the_goals(three: Store, ralph_runs: Ralph) -> None:
    lines = shown(ralph_runs, ["list"], 40)
    assert lines[0].split() == ["id", "state", "goal", "cost"]
    start = next(number for number, line in enumerate(lines) if line.startswith("g2"))
    below = [line for line in lines[start + 1 :] if line.startswith("    ")]
    assert " ".join(" ".join(below).split()) == "the check is red: tests/test_pay.py::test_refunds expected 3, got 4"
    assert all(len(line) <= 40 for line in lines[:-2])


def test_a_pipe_gets_every_column_whatever_the_environment_says(three: Store, ralph_runs: Ralph) -> None:
    plain = ralph_runs("list").stdout
    assert plain.splitlines()[0].split() == ["id", "state", "goal", "repo", "tries", "cost", "changed", "title"]
    for env in ({"COLUMNS": "40", "FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1", "TERM": "xterm-256color"}):
        assert ralph_runs("list", env=env).stdout == plain


def test_times_are_those_of_the_clocks_here(three: Store, ralph_runs: Ralph) -> None:
    def hour(zone: str) -> int:
        found = re.search(r" \d{4}-\d\d-\d\d (\d\d):", ralph_runs("list", env={"TZ": zone}).stdout)
        assert found is not None
        return int(found[1])

    assert (hour("XXX-5") - hour("UTC")) % 24 in (5, 6)  # an hour may have begun between the two


def test_a_list_shows_what_is_unfinished_and_the_latest_of_the_rest(store: Store, ralph_runs: Ralph) -> None:
    submit(store, {f"goal-{number}": "x" for number in range(1, 251)})
    for number in range(1, 150):
        move(store, f"g{number}", State.DONE)

    lines = ralph_runs("list").stdout.splitlines()

    assert lines[-3:] == ["and 50 more: ralph-runs list --all", "", "250 goals: 101 queued, 149 done"]
    assert [line.split()[0] for line in lines[1:-3]] == [f"g{number}" for number in range(51, 251)]
    assert len(ralph_runs("list", "--all").stdout.splitlines()) == 253
    assert len(json.loads(ralph_runs("list", "--json").stdout)) == 250
    assert "more: " not in ralph_runs("list", "--state", "queued").stdout
    assert "and 50 more: ralph-runs list --all" in shown(ralph_runs, ["list"], 60)


def test_a_goal_that_never_started_has_nothing_to_read_and_says_why(three: Store, ralph_runs: Ralph) -> None:
    for command in (["log", "g2"], ["logs", "g2"], ["diff", "g2"]):
        done = ralph_runs(*command)
        assert done.exit_code == 2
        assert "g2 payments never started: it is stuck\n\nhint: see why: ralph-runs show g2\n" in done.stderr
    shown = ralph_runs("show", "g2").stdout
    assert "the check is red: tests/test_pay.py::test_refunds" in shown
    assert "log g2" not in shown, "advice that cannot work"


@pytest.mark.parametrize(("columns", "env"), SHAPES)
def test_hostile_goals_steer_no_terminal(columns: int, env: dict[str, str], hostile: Store, ralph_runs: Ralph) -> None:
    commands = [["list"], ["stats"], ["gc"], ["run", "--dry-run"]]
    commands += [["show", f"g{number}"] for number in (2, len(TEXTS) // 2, len(TEXTS) - 9)]
    said = "".join(written(ralph_runs, command, columns, env) for command in commands)
    assert not steering(said)
    assert "\\x1b" in said
    if env:
        assert not re.search(r"\x1b\[(?:3|4|9|10)[0-9]", said), "a colour"
    if env.get("TERM") == "dumb":
        assert "\x1b" not in said


def test_hostile_goals_steer_no_pipe_and_no_json_in_a_terminal(hostile: Store, ralph_runs: Ralph) -> None:
    commands = [["list"], ["stats"], ["gc"], *(["show", f"g{number}"] for number in range(1, len(TEXTS) + 1))]
    said = "".join(ralph_runs(*command).stdout for command in commands)
    assert not steering(said)
    in_terminal = written(ralph_runs, ["list", "--json"], 80, {})
    assert not steering(in_terminal)
    assert json.loads(in_terminal) == json.loads(ralph_runs("list", "--json").stdout)


@pytest.mark.parametrize(("columns", "env"), SHAPES)
def test_settings_and_runs_fit_the_terminal(
    columns: int, env: dict[str, str], ralph: Ralph, claude_script: ClaudeScript
) -> None:
    (ralph.repo / "goal.md").write_text(GOAL)
    (ralph.repo / ".ralph").mkdir()
    (ralph.repo / ".ralph" / "config.toml").write_text(f'model = "{"a long name " * 12}\\u001b[2J\\u202e"\n')
    claude_script([summary("I wrote a part of it.\x1b]0;owned\x07 More of it is to come. " * 3)])
    assert ralph("run", "goal.md", "--max-iterations", "1").exit_code == 4
    for command in (["config"], ["status"]):
        said = written(ralph, command, columns, env)
        assert not steering(said)
        lines = ESCAPES.sub("", said).split("\r\n")
        folded = [line for line in lines if "/" not in line]  # paths are copied, and so left to the terminal
        assert max(map(len, folded)) <= columns
        told = " ".join(" ".join(lines).split())
        assert "a long name a long name" in told or "I wrote a part of it." in told
        assert ("\x1b[" in said) is (env.get("TERM") != "dumb")


@pytest.mark.parametrize("columns", [None, 40, 200])
def test_a_dry_run_of_a_goal_of_1000_hostile_lines(columns: int | None, ralph: Ralph) -> None:
    lines = [line for text in TEXTS.values() for line in text[:2000].split("\n")]
    lines = [lines[number % len(lines)] for number in range(1000)]
    text = "\n".join(["# Do it", "", "## Objective", *lines]) + "\n"
    (ralph.repo / "hostile.md").write_bytes(text.encode("utf-8", "replace"))
    command = ["run", "hostile.md", "--dry-run", "--agent", "demo"]

    said = ralph(*command).stdout if columns is None else written(ralph, command, columns, {})

    assert said.count("\n") > 1000
    assert "\\x1b]0;owned" in said
    assert not steering(said)
    document = json.loads(ralph(*command, "--json").stdout)
    assert "\x1b]0;owned" in document["prompt"], "a program gets the prompt as it is"
