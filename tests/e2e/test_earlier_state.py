"""State of the ralph before the restructuring still works: a run, a queue in mid-batch, settings, JSON output.

That ralph recorded it in `tests/fixtures/before_restructuring`. A failure here is a user who cannot continue after an
upgrade: fix ralph, not the fixture.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ralph.core import ndjson
from ralph.core.records import from_json, from_record, parse, to_json, to_record
from ralph.core.run import Iteration
from ralph.queue.child import AttemptResult
from ralph.queue.merge.task import recorded_merge
from ralph.queue.news import decoded
from ralph.state.journal import RunRecord
from tests.support.batches import Batch, merged_goals, require_linear
from tests.support.earlier_state import (
    FIXTURES,
    Relocation,
    golden,
    missing,
    play_story,
    restore,
    restore_sqlite,
    shape,
)
from tests.support.git_repos import commits, git, make_repo
from tests.support.goals import result
from tests.support.postgres import Postgres
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, ScriptedAgent, run, summary, write
from tests.support.terminal import RalphInTerminal
from tests.support.tokens import ONE_MESSAGE

# Stored in every queue: DBOS finds unfinished work by these names, so a new name loses that work.
WORKFLOW, STEPS, VERSION = "goal", {"attempt", "merge"}, "goals-1"

SPENT_USD, SPENT_TOKENS = 0.12, 15_672
"""What `run.json` says was spent; it leaves out the killed session."""


@pytest.fixture
def moved(request: pytest.FixtureRequest, world: Path) -> Relocation:
    """Restore the archive that the test names."""
    return restore(request.param, world)


an_earlier_run = pytest.mark.parametrize("moved", ["run"], indirect=True)
an_earlier_queue = pytest.mark.parametrize("moved", ["queue-sqlite"], indirect=True)


@pytest.fixture
def repo(world: Path) -> Path:
    """The restored repository of the run."""
    return world / "repo"


@pytest.fixture
def directory(world: Path, moved: Relocation) -> Path:
    """The run directory, found without ralph."""
    (found,) = (world / "ralph" / "runs").glob("repo-*/goal")
    return found


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@an_earlier_run
def test_an_unfinished_run_goes_on_with_all_that_it_knew(
    repo: Path, ralph: Ralph, directory: Path, claude_script: ClaudeScript
) -> None:
    before = read_json(directory / "run.json")
    killed = [event["usage"] for event in lines(directory / "events.ndjson") if event["type"] == "usage"][-1]
    agent = claude_script([write("answer.txt", "42\n"), summary("DONE")])

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 0, done.stdout + done.stderr
    (started,) = done.events_of("run_started")
    assert (started["continued"], started["iteration"], started["run"]) == (True, 5, before["run"])
    assert started["tokens"] == SPENT_TOKENS + killed["total_tokens"]
    (prompt,) = agent.heard
    for known in (
        "Iterations 1 to 3 wrote a.txt, b.txt, c.txt.",  # the summary
        "## Iteration 4",  # what it leaves out
        "not 42 but: 41",  # the check that was red
        before["notes"][0],
        "Mind the spelling.",  # guidance that was received, and never acknowledged
        "And be quick.",  # and guidance that nobody had read yet
    ):
        assert known in prompt
    assert agent.starts[0]["env"]["GREETING"] == "hello", "the .envrc is not trusted any more"
    made = [commit for commit in commits(repo) if "Ralph-Run" in commit.trailers]
    assert [commit.trailers["Ralph-Iteration"] for commit in made] == ["1", "2", "3", "4", "5"]
    assert {commit.trailers["Ralph-Run"] for commit in made} == {before["run"]}
    assert git(repo, "show", "HEAD:half.txt") == "half of it", "the files of the killed session are lost"
    assert [entry["iteration"] for entry in lines(directory / "progress.jsonl")] == [1, 2, 3, 4, 5]
    ended = result(repo)
    assert (ended["proven"], ended["iterations"], ended["base"]) == (True, 5, before["base"])
    assert ended["tokens"] == started["tokens"] + 2 * ONE_MESSAGE.total
    # The killed session counts at list prices, which may change.
    assert ended["cost_usd"] == pytest.approx(SPENT_USD + killed["cost_usd"] + 0.02, abs=0.003)


@an_earlier_run
@pytest.mark.parametrize("limit", ["--max-iterations=5", f"--max-cost={SPENT_USD}", f"--max-tokens={SPENT_TOKENS}"])
def test_limits_count_what_was_spent_before(
    repo: Path, ralph: Ralph, moved: Relocation, claude_script: ClaudeScript, limit: str
) -> None:
    agent = claude_script([summary("DONE")])

    done = ralph("run", "goal.md", limit)

    assert done.exit_code == 4, done.stdout + done.stderr
    assert not agent.starts
    assert result(repo)["limit"] == limit.partition("=")[0]


STATE_IN_WORDS = ("interrupted; the same command continues it", "cut off; the same command goes on")
"""What a state is called for people, now and then."""


@an_earlier_run
def test_status_and_config_say_of_a_run_what_they_said(repo: Path, ralph: Ralph, moved: Relocation) -> None:
    for name in ("status", "config"):
        said = ralph(name, "--json")
        assert said.exit_code == 0, said.stderr
        now = moved.back(said.stdout).replace(*STATE_IN_WORDS)
        assert missing(golden(name), json.loads(now)) == []

    for_people = ralph("status", "goal")
    assert "$0.12" in for_people.stdout
    assert f"{SPENT_TOKENS:,} tokens" in for_people.stdout


@an_earlier_run
def test_settings_of_both_files_count_and_the_project_does_not_decide_what_is_the_users(
    repo: Path, ralph: Ralph, moved: Relocation, world: Path
) -> None:
    shown = json.loads(ralph("config", "--json").stdout)

    assert shown["model"] == {"value": "sonnet", "source": str(repo / ".ralph" / "config.toml")}
    assert shown["max"] == {"value": 3, "source": str(world / "home" / "config" / "ralph" / "config.toml")}
    assert shown["idle_timeout"] == {"value": "8m", "source": str(repo / ".env")}
    defaults = [name for name in golden("config") if shown[name]["source"] == "default"]
    assert len(defaults) < 10, f"few keys are left unset in these files: {defaults}"


@an_earlier_run
def test_every_event_is_read_as_it_was_written(directory: Path) -> None:
    for event in [*lines(directory / "events.ndjson"), *lines(FIXTURES / "output" / "run.ndjson")]:
        stamp = {"seq": event.pop("seq"), "at": event.pop("at")}
        again = json.loads(json.dumps(to_json(from_json(event)), default=str))
        assert missing(event, again) == [], stamp


@an_earlier_run
def test_every_record_is_written_as_it_was_read(directory: Path) -> None:
    for name in ("run.json", "begun.json"):
        before = read_json(directory / name)
        after = to_record(parse(RunRecord, (directory / name).read_bytes()))
        assert keeps(before, json.loads(ndjson.encode(after))), f"{name}: it may only gain keys"
    for line in (directory / "progress.jsonl").read_bytes().splitlines(keepends=True):
        assert ndjson.encode_line(to_record(parse(Iteration, line))) == line


@an_earlier_queue
def test_a_bulletin_and_the_records_of_steps_are_written_as_they_were_read(queue: Batch, query: Query) -> None:
    ((bulletin,),) = query("SELECT value FROM ralph_marks WHERE name = 'bulletin'")
    read = decoded(bulletin)
    assert read is not None
    assert keeps(json.loads(bulletin), json.loads(read.encoded()))
    for step, output in query("SELECT function_name, output FROM operation_outputs WHERE output IS NOT NULL"):
        again = {
            "attempt": lambda record: to_record(from_record(AttemptResult, record)),
            "merge": lambda record: recorded_merge(record).record(),
        }.get(step)
        if again is not None:
            record = json.loads(output)
            written = json.loads(ndjson.encode(again(record)))
            assert keeps(record, written), f"{step}: it may only gain keys"


def keeps(before: object, after: object) -> bool:
    """Tell whether a record still says all that it said before; it may have gained keys at any depth.

    A sentence may have become a reason, which keeps it as its `line`.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and keeps(value, after[key]) for key, value in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(keeps, before, after))
    if isinstance(before, str) and isinstance(after, dict):
        return after.get("line") == before
    return before == after


def test_run_json_keeps_its_keys_and_values(ralph: Ralph, bin_dir: Path, repo: Path) -> None:
    make_repo(repo, {"README.md": "# Example\n"})
    before = shape(lines(FIXTURES / "output" / "run.ndjson"))

    now = shape(play_story(repo, bin_dir, ralph.env).events)

    assert set(before) - set(now) == set(), "keys are gone"
    assert {key: before[key] - now[key] for key in before if before[key] - now[key]} == {}, "values are gone"


# The queue.


@pytest.fixture
def queue(moved: Relocation, world: Path, ralph_runs: Ralph) -> Batch:
    """The restored queue."""
    restore_sqlite(moved, world / "ralph" / "runs.sqlite")
    return Batch(replace(ralph_runs, repo=world), world)


Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def query(world: Path) -> Query:
    """Query the queue's database without ralph."""

    def ask(statement: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(world / "ralph" / "runs.sqlite", timeout=30)) as database:
            return database.execute(statement).fetchall()

    return ask


RUNNING = {"landed", "settled", "merging", "conflicting", "attempting"}
"""Goals that were running when the worker was killed.

`attempting` and `conflicting` were inside the step `attempt`, the latter on its second attempt; `merging` was inside
the step `merge`, as was `landed`, whose push had arrived; the merge of `settled` was recorded, but not in its row.
"""
UNFINISHED = RUNNING | {"next", "waiting"}
ID = {goal["name"]: int(goal["id"].removeprefix("g")) for goal in golden("list")}


@an_earlier_queue
def test_a_queue_is_read_as_it_was_written(queue: Batch, moved: Relocation, world: Path) -> None:
    def said(*args: str | Path) -> Any:
        done = queue.runs(*args, "--json", cwd=world)
        assert done.exit_code == 0, done.stderr
        return json.loads(moved.back(done.stdout))

    assert missing(golden("list"), said("list")) == []
    for name, known in golden("show").items():
        known["merge"] = known["merge"] or "direct"  # as its workers did unless told otherwise
        assert missing(known, said("show", name)) == [], name
    assert missing(golden("stats"), said("stats")) == []
    asked_again = [world / "goals" / f"{name}.md" for name in ("pushed", "kept")]
    added = said("add", *asked_again, "--repo", world / "upstream" / "plain.git")
    assert missing(golden("add"), added) == [], "goals that are done would be done again"


@an_earlier_queue
def test_the_next_step_for_each_goal_is_the_one_that_helps(queue: Batch, world: Path) -> None:
    def step(name: str) -> str:
        (line,) = [line for line in queue.runs("show", name, cwd=world).stdout.splitlines() if line.startswith("next")]
        return line

    assert f"ralph-runs run {world}/goals/limited.md" in step("limited")
    assert "ralph-runs run --all --merge-unproven" in step("unproven")
    assert f"ralph-runs retry g{ID['failing']}" in step("failing")
    assert "--merge-unproven" not in step("failing")
    assert f"ralph-runs queue g{ID['wanted']}" in step("wanted")
    assert f"ralph-runs retry g{ID['unwanted']}" in step("unwanted")
    for name in RUNNING:
        assert "ralph-runs run --all" in step(name)


@an_earlier_queue
def test_logs_and_the_workers_bulletin_are_read(queue: Batch, query: Query, world: Path) -> None:
    for name in ("first", "attempting"):
        (file,) = (world / "ralph" / "runs").glob(f"g*-{name}-*/{name}/events.ndjson")
        assert [json.loads(line) for line in queue.runs("logs", name, "--json").stdout.splitlines()] == lines(file)
    written = json.loads(query("select value from ralph_marks where name = 'bulletin'")[0][0])

    told = queue.bulletin()

    assert told is not None
    assert (told.host, told.pid, told.slots, told.stopping) == ("tower", 4242, 3, False)
    assert (told.budget.cost_usd, told.budget.tokens, told.budget.seconds) == (5.0, 5_000_000, 8 * 3600.0)
    assert (told.at, told.since, told.spent_usd) == (written["at"], written["since"], written["spent_usd"])
    assert sorted(told.merging) == [ID["landed"], ID["merging"]]
    assert sorted(told.statuses) == [ID["conflicting"], ID["attempting"]]
    status = told.statuses[ID["attempting"]]
    assert (status.iteration, status.tokens) == (2, written["sights"][str(ID["attempting"])]["tokens"])
    assert len(told.cautions) == len(written["cautions"]) > 0


@an_earlier_queue
def test_the_dashboard_shows_the_queue(queue: Batch, world: Path) -> None:
    with RalphInTerminal(["watch"], world, {**queue.runs.env, "CI": ""}, 120, 40, "ralph.cli.runs") as terminal:
        for name in (*RUNNING, "limited", "unproven", "waiting"):
            terminal.shows(name)
        terminal.press("q")
        assert terminal.wait() == 0


FINISH = """
mkdir -p texts
echo Fine. > texts/$RALPH_GOAL.txt
if grep -q '<<<<' texts/shared.txt 2>/dev/null; then echo Both. > texts/shared.txt; fi
"""


def finisher(claude_script: ClaudeScript) -> ScriptedAgent:
    """An agent that finishes any goal in one session."""
    return claude_script([run(FINISH), summary("DONE")])


PUSHED = {"landed": "gamma.git", "settled": "delta.git"}
"""Goals whose push had arrived, and where."""


def pushed_tips(world: Path) -> dict[str, str]:
    return {name: git(world / "upstream" / repo, "rev-parse", "main") for name, repo in PUSHED.items()}


def require_finished(world: Path, agent: ScriptedAgent, tips: Mapping[str, str]) -> None:
    """Fail unless every goal continued where it was killed, and was merged once."""
    upstream = world / "upstream"
    alpha = merged_goals(upstream / "alpha.git")
    assert (alpha[0], sorted(alpha[1:])) == ("first", ["attempting", "conflicting", "next"])
    assert merged_goals(upstream / "beta.git") == ["merging", "waiting"]
    for name, repo in PUSHED.items():
        assert merged_goals(upstream / repo) == [name]
        assert git(upstream / repo, "rev-parse", "main") == tips[name], f"{name} was pushed again"
    for name in ("alpha", "beta", "gamma", "delta"):
        require_linear(upstream / f"{name}.git")
    texts = {path: git(upstream / "alpha.git", "show", f"main:texts/{path}.txt") for path in ("half", "left", "shared")}
    assert texts == {"half": "Half.", "left": "Left.", "shared": "Both."}
    assert sorted(start["env"]["RALPH_GOAL"] for start in agent.starts) == [
        "attempting",
        "conflicting",
        "next",
        "waiting",
    ]
    told = {start["env"]["RALPH_GOAL"]: prompt for start, prompt in zip(agent.starts, agent.heard, strict=True)}
    assert "wrote half of it" in told["attempting"]
    assert "Mind the full stops." in told["attempting"]
    assert "texts/shared.txt" in told["conflicting"]
    (start,) = [start for start in agent.starts if start["env"]["RALPH_GOAL"] == "attempting"]
    assert start["env"]["RALPH_ITERATION"] == "2"


def require_names(query: Query, schema: str = "") -> None:
    """Fail if old and new work do not have the same names in DBOS's tables, or old work was not recovered."""
    rows = query(f"select distinct name, application_version, status from {schema}workflow_status")
    assert set(rows) == {(WORKFLOW, VERSION, "SUCCESS")}
    steps = {name for (name,) in query(f"select distinct function_name from {schema}operation_outputs")}
    assert steps == STEPS
    taken_up = query(f"select workflow_uuid from {schema}workflow_status where recovery_attempts > 1")
    assert {label for (label,) in taken_up} == {f"g{ID[name]}.{2 if name == 'conflicting' else 1}" for name in RUNNING}


@an_earlier_queue
def test_a_queue_that_was_cut_off_is_finished(
    queue: Batch, query: Query, world: Path, claude_script: ClaudeScript
) -> None:
    agent = finisher(claude_script)
    tips = pushed_tips(world)
    before = queue.goals()
    assert queue.runs("cancel", "away").exit_code == 0  # its repository cannot be reached

    with queue.runs.start("work", cwd=world) as worker:
        worker.wait_until(
            lambda: {goal["name"] for goal in queue.goals().values() if goal["state"] == "done"} >= UNFINISHED,
            "every goal to be done",
        )
        worker.send(signal.SIGTERM)
        stopped = worker.wait()

    assert stopped.exit_code == 143, stopped.stdout + stopped.stderr
    require_finished(world, agent, tips)
    require_names(query)
    after = {goal["name"]: goal for goal in queue.goals().values()}
    known = {goal["name"]: goal for goal in before.values()}
    assert {name: goal["attempts"] for name, goal in after.items() if name in UNFINISHED} == {
        name: 2 if name == "conflicting" else 1 for name in UNFINISHED
    }
    for name in ("attempting", "conflicting"):
        assert after[name]["tokens"] == known[name]["tokens"] + 2 * ONE_MESSAGE.total, (
            "what was spent before is not counted"
        )
    assert after["attempting"]["iterations"] == known["attempting"]["iterations"] + 1
    untouched = known.keys() - UNFINISHED - {"away"}
    assert {name: after[name] for name in untouched} == {name: known[name] for name in untouched}


@pytest.mark.long
@pytest.mark.parametrize("moved", ["queue-postgresql"], indirect=True)
def test_a_queue_on_postgresql_that_was_cut_off_is_finished(
    moved: Relocation, world: Path, ralph_runs: Ralph, postgres: Postgres, claude_script: ClaudeScript
) -> None:
    db = postgres.database()
    with psycopg.connect(db, autocommit=True) as connection:
        connection.execute(moved((FIXTURES / "queue-postgresql.sql").read_text()).encode())
    agent = finisher(claude_script)
    tips = pushed_tips(world)

    def runs(*args: str) -> str:
        done = ralph_runs(*args, "--db", db, cwd=world)
        assert done.exit_code == 0, done.stdout + done.stderr
        return done.stdout

    def query(statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(db) as connection:
            return connection.execute(statement.encode()).fetchall()

    def states() -> dict[str, str]:
        return {goal["name"]: goal["state"] for goal in json.loads(runs("list", "--json"))}

    assert {name for name, state in states().items() if state == "running"} == RUNNING
    runs("cancel", "away")

    runs("run", "--all")

    assert {name for name, state in states().items() if state == "done"} == UNFINISHED | {"first", "pushed", "kept"}
    require_finished(world, agent, tips)
    require_names(query, "dbos.")
