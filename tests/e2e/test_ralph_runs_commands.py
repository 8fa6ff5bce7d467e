"""`ralph-runs` as its user sees it: what each command prints, what it refuses, and what it leaves alone."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ralph.config.paths import repo_key
from ralph.core.reason import Cause, Reason
from ralph.queue.database import default_url
from ralph.queue.goals import State
from ralph.queue.open import sole_worker
from ralph.queue.paths import queue_paths
from ralph.queue.store import open_store
from tests.support.batches import Batch, says, shell, wrote
from tests.support.git_repos import commit_all, commits, git, make_repo
from tests.support.ralph_process import Finished, Ralph
from tests.support.waiting import wait_until

NO_WORKER = "the queue has no worker; start one with: ralph-runs run --all\n"


def queue(world: Path) -> str:
    return default_url(world / "ralph")


def goal(place: Path, front_matter: str = "", title: str = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    head = f"---\n{front_matter}\n---\n" if front_matter else ""
    place.write_text(f"{head}# {title or place.stem}\n\n## Objective\nDo it.\n")
    return place


def cells(table: str) -> dict[str, list[str]]:
    """The cells of a table in a pipe, by those of the first column."""
    rows = [re.split("  +", line) for line in table.splitlines() if line]
    return {row[0]: row[1:] for row in rows}


def document(done: Finished) -> Any:
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: Finished, *words: str) -> None:
    assert done.exit_code == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    for word in words:
        assert word in done.stderr


@pytest.fixture
def goals(tmp_path: Path) -> Path:
    folder = tmp_path / "goals"
    goal(folder / "set-up.md", "priority: 2")
    goal(folder / "log-in.md", "after: [set-up]\nmodel: opus", "Let people in")
    return folder


@pytest.fixture
def queued(goals: Path, ralph_runs: Ralph) -> Path:
    assert ralph_runs("add", goals, "--queue").exit_code == 0
    return goals


def test_an_empty_queue_is_said_and_not_made(ralph_runs: Ralph, world: Path) -> None:
    said = ralph_runs("list")
    assert (said.exit_code, said.stdout) == (0, "the queue is empty; add goals with: ralph-runs add GOAL.md --queue\n")
    assert document(ralph_runs("list", "--json")) == []
    refused(ralph_runs("show", "g1"), "goal g1: the queue is empty")
    assert not (world / "ralph").exists()


def test_drafts_are_added_and_queued(goals: Path, repo: Path, ralph_runs: Ralph) -> None:
    said = ralph_runs("add", goals)
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        "id  state  goal    repo",
        "g1  draft  log-in  repo  added",
        "g2  draft  set-up  repo  added",
        "",
        "queue them with: ralph-runs queue g1 g2",
    ]
    assert ralph_runs("queue", "g1", "set-up").stdout == f"g1 log-in: queued\ng2 set-up: queued\n{NO_WORKER}"
    assert document(ralph_runs("list", "--json")) == [
        {
            "id": "g1",
            "name": "log-in",
            "title": "Let people in",
            "repo": str(repo),
            "state": "queued",
            "reason": "",
            "cut_off": False,
            "attempts": 0,
            "priority": 0,
            "after": ["g2"],
            "branch": "ralph/log-in",
            "cost_usd": 0.0,
            "tokens": 0,
            "iterations": 0,
            "seconds": 0.0,
        },
        {
            "id": "g2",
            "name": "set-up",
            "title": "set-up",
            "repo": str(repo),
            "state": "queued",
            "reason": "",
            "cut_off": False,
            "attempts": 0,
            "priority": 2,
            "after": [],
            "branch": "ralph/set-up",
            "cost_usd": 0.0,
            "tokens": 0,
            "iterations": 0,
            "seconds": 0.0,
        },
    ]


def test_a_goal_that_is_added_again_is_brought_up_to_date(goals: Path, ralph_runs: Ralph) -> None:
    first = document(ralph_runs("add", goals, "--json"))
    assert [each["what"] for each in first] == ["added", "added"]
    goal(goals / "set-up.md", "priority: 7")
    again = document(ralph_runs("add", goals / "set-up.md", "--queue", "--json"))
    assert [(each["id"], each["what"], each["state"], each["priority"]) for each in again] == [
        ("g2", "updated", "queued", 7)
    ]


def test_a_draft_of_which_anything_changes_is_not_said_to_be_left_as_it_is(goals: Path, ralph_runs: Ralph) -> None:
    third = goal(goals / "third.md")
    ralph_runs("add", goals)
    for flags in (["--priority", "5"], ["--priority", "5", "--after", "set-up"]):
        for what in ("updated", "left as it is"):
            (row,) = document(ralph_runs("add", third, *flags, "--json"))
            assert (row["what"], row["priority"], row["state"]) == (what, 5, "draft"), flags


def test_what_add_says_of_every_goal(goals: Path, ralph_runs: Ralph) -> None:
    ralph_runs("add", goals / "set-up.md")
    goal(goals / "third.md")
    flags = ("--priority", "-3", "--after", "set-up", "--model", "haiku", "--duration", "2h", "--merge", "branch")
    document(ralph_runs("add", goals / "third.md", *flags, "--json"))
    shown = document(ralph_runs("show", "third", "--json"))
    assert (shown["priority"], shown["after"], shown["merge"]) == (-3, ["g1"], "branch")
    assert shown["settings"] == {"model": "haiku", "duration": "2h"}


def test_a_list_for_a_pipe_is_whole_and_harmless(tmp_path: Path, ralph_runs: Ralph) -> None:
    for name in ("one", "two"):
        make_repo(tmp_path / f"a-repository-with-a-long-name-{name}", {"README.md": "x"})
        goal(
            tmp_path / name / f"{name}-{'a-goal-with-a-very-long-name' * 2}.md",
            f"repo: ../a-repository-with-a-long-name-{name}",
            "\x1b[31mred\u202e and 名前" * 20,
        )
        assert ralph_runs("add", tmp_path / name).exit_code == 0
    ralph_runs("cancel", "g1")
    said = ralph_runs("list")
    assert "…" not in said.stdout
    assert "\x1b" not in said.stdout
    assert said.stdout.splitlines()[-1] == "2 goals: 1 draft, 1 cancelled"
    assert "\x1b" not in ralph_runs("show", "g2").stdout


def test_a_list_of_one_state(queued: Path, ralph_runs: Ralph) -> None:
    ralph_runs("cancel", "set-up")
    assert [each["id"] for each in document(ralph_runs("list", "--state", "cancelled", "--json"))] == ["g2"]
    assert ralph_runs("list", "--state", "done").stdout == "no goal is done; 2 goals: 1 queued, 1 cancelled\n"
    listed = cells(ralph_runs("list").stdout)
    assert listed["g1"][:5] == ["queued", "log-in", "repo", "-", "-"]
    assert listed["g1"][6:] == ["Let people in", "waits for g2, which is cancelled"]
    refused(ralph_runs("list", "--state", "cancelld"), "'cancelld' is not one of", "(did you mean cancelled?)")


def test_show_tells_all_that_is_known_and_the_next_step(queued: Path, repo: Path, ralph_runs: Ralph) -> None:
    ralph_runs("comment", "1", "Use the old form.\nIt is in forms/.")
    said = ralph_runs("show", "log-in").stdout
    assert "goal       g1 · log-in · Let people in\n" in said
    assert "state      queued · after g2\n" in said
    assert f"repo       {repo} · branch ralph/log-in\n" in said
    assert f"file       {queued / 'log-in.md'}\n" in said
    assert "after      g2 set-up (queued)\n" in said
    assert "next       start a worker: ralph-runs work\n" in said
    assert said.endswith("  user\n  Use the old form.\n  It is in forms/.\n")
    shown = document(ralph_runs("show", "g1", "--json"))
    assert shown["comments"][0]["text"] == "Use the old form.\nIt is in forms/."
    assert shown["body"] == (queued / "log-in.md").read_text()
    assert (shown["name"], shown["reason"], shown["clone"], shown["starts"]) == ("log-in", "", "", 0)


def test_a_goal_that_is_not_there(queued: Path, ralph_runs: Ralph) -> None:
    for command in (["show"], ["queue"], ["retry"], ["cancel"], ["logs"], ["comment"]):
        words = [*command, "setup", *(["hello"] if command == ["comment"] else [])]
        refused(ralph_runs(*words), "there is no goal setup in the queue (did you mean set-up?)")


def test_a_name_of_two_goals_is_not_guessed_at(tmp_path: Path, ralph_runs: Ralph) -> None:
    file = goal(tmp_path / "a.md")
    for name in ("one", "two"):
        ralph_runs("add", file, "--repo", make_repo(tmp_path / name, {"README.md": "x"}))
    refused(ralph_runs("show", "a"), "a: g1 (", "use its id")


def test_cancelled_goals_are_taken_up_again(queued: Path, ralph_runs: Ralph) -> None:
    assert ralph_runs("cancel", "g1", "g2", "g1").stdout == "g1 log-in: cancelled\ng2 set-up: cancelled\n"
    assert [each["state"] for each in document(ralph_runs("retry", "g2", "g1", "--json"))] == ["queued", "queued"]


def test_nothing_is_decided_when_one_goal_refuses(queued: Path, ralph_runs: Ralph) -> None:
    ralph_runs("cancel", "g1")
    refused(ralph_runs("retry", "g1", "g2"), "cannot retry g2: it is queued, not stuck, cancelled or undone")
    assert [each["state"] for each in document(ralph_runs("list", "--json"))] == ["cancelled", "queued"]


def test_comments_that_cannot_be(queued: Path, ralph_runs: Ralph) -> None:
    refused(ralph_runs("comment", "g1", "  "), "the comment is empty")
    refused(ralph_runs("comment", "g1", "x" * 10_001), "the comment is too long: 10,001 characters")
    assert (
        ralph_runs("comment", "g1", "-- not a flag").stdout == "g1 log-in: comment saved; its next attempt reads it\n"
    )


def test_who_comments_is_told_all_that_is_known_as_by_show(cut_off: Path, ralph_runs: Ralph) -> None:
    said = document(ralph_runs("comment", "g2", "hurry", "--json"))
    assert said == document(ralph_runs("show", "g2", "--json"))
    assert (said["cut_off"], said["comments"][-1]["text"]) == (True, "hurry")


def test_logs_of_what_has_not_run(queued: Path, ralph_runs: Ralph) -> None:
    refused(ralph_runs("logs", "g2"), "g2 set-up has not run yet: it is queued")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("add", "nonesuch.md"), ["nonesuch.md: no such file"]),
        (("add", "good.md", "--model", ""), ["--model: must not be empty"]),
        (("add", "good.md", "--duration", "soon"), ["--duration: 'soon' is not a duration"]),
        (("add", "good.md", "--repo", ""), ["--repo is empty"]),
        (("add", "good.md", "--repo", "nowhere"), ["nowhere: it is not a directory"]),
        (("add", "good.md", "--merge", "squash"), ["--merge: 'squash' is not one of direct, pr, branch, none"]),
        (("add", "good.md", "--after", "gud"), ["good.md: after gud: no such goal, here or in the queue"]),
        (("add", "good.md", "bad.md"), ["bad.md: front matter: unknown key `modle` (did you mean model?)"]),
        (("add", "one.md", "two.md"), ["these goals wait for each other"]),
        (("add", "good.md", "--db", "mysql://x"), ["--db"]),
        (("list", "--db", "nonsense"), ["--db: 'nonsense'"]),
    ],
)
def test_what_cannot_be_is_refused_with_nothing_written(
    args: tuple[str, ...], words: list[str], repo: Path, world: Path, ralph_runs: Ralph
) -> None:
    goal(repo / "good.md")
    goal(repo / "bad.md", "modle: opus")
    goal(repo / "one.md", "after: [two]")
    goal(repo / "two.md", "after: [one]")
    refused(ralph_runs(*args), *words)
    assert not (world / "ralph").exists(), "the state directory was touched"


def test_where_the_queue_is(goals: Path, world: Path, tmp_path: Path, ralph: Ralph, ralph_runs: Ralph) -> None:
    ralph_runs("add", goals)
    assert (world / "ralph" / "runs.sqlite").is_file()
    flag, variable, setting = (f"sqlite:///{tmp_path / name}.sqlite" for name in ("flag", "variable", "setting"))
    assert ralph("config", "set", "db", setting).exit_code == 0
    ralph_runs("add", goals / "set-up.md")
    ralph_runs("add", goals / "set-up.md", env={"RALPH_DB": variable})
    ralph_runs("add", goals / "set-up.md", "--db", flag, env={"RALPH_DB": variable})
    assert sorted(path.name for path in tmp_path.glob("*.sqlite")) == [
        "flag.sqlite",
        "setting.sqlite",
        "variable.sqlite",
    ]


def test_next_steps_name_the_queue_that_they_are_about(goals: Path, tmp_path: Path, ralph_runs: Ralph) -> None:
    """Of the usual queue g2 may be another goal."""
    url = f"sqlite:///{tmp_path / 'other queue'}.sqlite"
    flag = f"--db '{url}'"
    refused(ralph_runs("pause", "--db", url), f"add goals first: ralph-runs add {flag} GOAL.md")
    assert f"queue them with: ralph-runs queue {flag} g1 g2" in ralph_runs("add", goals, "--db", url).stdout
    ralph_runs("queue", "g2", "--db", url)
    assert f"start a worker: ralph-runs work {flag}" in ralph_runs("show", "g2", "--db", url).stdout
    assert f"resume with: ralph-runs resume {flag} (" in ralph_runs("pause", "--db", url).stdout
    assert ralph_runs("list", "--db", url).stdout.endswith(f"resume with: ralph-runs resume {flag}\n")
    assert f"the queue is paused: ralph-runs resume {flag}\n" in ralph_runs("tell", "g2", "hi", "--db", url).stdout
    store = open_store(url)
    assert store is not None
    store.move(store.find("g2"), State.RUNNING, starts=1, attempts=1)
    assert f"continue with: ralph-runs run {flag} --all\n" in ralph_runs("list", "--db", url).stdout
    first, then = f"ralph-runs resume {flag}", f"ralph-runs run {flag} --all"
    assert f"continue it: {first}, then: {then}; or cancel it" in ralph_runs("show", "g2", "--db", url).stdout
    assert ralph_runs("tell", "g2", "hi", "--db", url).stdout.endswith(f"goal continues: {first}, then: {then}\n")
    assert f"start one with: ralph-runs run {flag} --all" in ralph_runs("resume", "--db", url).stdout
    store.move(store.find("g2"), State.STUCK, why=Reason("red"), run="0123456789ab")
    store.close()
    stuck = ralph_runs("show", "g2", "--db", url).stdout
    for command in ("log", "comment", "retry"):
        assert f"ralph-runs {command} {flag} g2" in stuck


def test_a_repository_does_not_choose_the_queue(goals: Path, repo: Path, tmp_path: Path, ralph_runs: Ralph) -> None:
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "config.toml").write_text(f'db = "sqlite:///{tmp_path}/evil.sqlite"\n')
    (repo / ".env").write_text(f"RALPH_DB=sqlite:///{tmp_path}/evil.sqlite\n")
    assert ralph_runs("add", goals).exit_code == 0
    assert not (tmp_path / "evil.sqlite").exists()


LOOKS = """
import sys
from ralph.cli.runs import app

for args in (["list"], ["show", "g1"], ["add", sys.argv[1]], ["stats"], ["--help"]):
    app(args, standalone_mode=False)
    print("looked by", *args, "dbos" in sys.modules)
"""


def test_looking_imports_no_engine(queued: Path, repo: Path, ralph_runs: Ralph) -> None:
    looked = subprocess.run(
        [sys.executable, "-P", "-c", LOOKS, queued], cwd=repo, env=ralph_runs.env, capture_output=True, text=True
    )
    assert looked.returncode == 0, looked.stderr
    told = [line.removeprefix("looked by ") for line in looked.stdout.splitlines() if line.startswith("looked by ")]
    assert told == ["list False", "show g1 False", f"add {queued} False", "stats False", "--help False"]


def test_every_command_has_help_and_a_version(ralph_runs: Ralph) -> None:
    said = ralph_runs("--help").stdout
    commands = ("run", "work", "add", "queue", "list", "show", "comment", "retry", "cancel", "log", "diff")
    for command in (*commands, "tell", "pause", "resume", "stats"):
        assert f"\n  {command} " in said
        assert ralph_runs(command, "--help").exit_code == 0
    assert ralph_runs("--version").stdout.startswith("ralph-runs ")


@pytest.fixture
def events(queued: Path, world: Path) -> Path:
    """Where the run of g2 writes its events, as `ralph run` in its clone would."""
    store = open_store(f"sqlite:///{world}/ralph/runs.sqlite")
    assert store is not None
    place = queue_paths(world / "ralph", store.queue_id)
    store.close()
    clone = place.root / "clones" / "g2-set-up"
    file = place.ralph_dir / "runs" / repo_key(clone) / "set-up" / "events.ndjson"
    file.parent.mkdir(parents=True)
    return file


def event(kind: str, **fields: object) -> str:
    return json.dumps({"type": kind, "seq": 1, "at": "2026-11-16T12:00:00.000Z", **fields}) + "\n"


def test_logs_tell_the_latest_run_again(events: Path, ralph_runs: Ralph) -> None:
    lines = [
        event("iteration_started", iteration=1, session_id="s", log="l"),
        "what a crash has torn\n",
        event("text", tag="AI", text="I begin.\x1b[2J"),
        event("run_ended", exit_code=0, reason="done: proven by .ralph/check", proven=True),
        '{"type":"text","tag":"AI","te',
    ]
    events.write_text("".join(lines))
    assert ralph_runs("logs", "set-up").stdout.splitlines() == [
        "",
        f"── iteration 1 {'─' * 40}",
        "agent      I begin.\\x1b[2J",
        "result     done: proven by .ralph/check (exit 0)",
    ]
    assert ralph_runs("logs", "g2", "--follow").exit_code == 0  # it does not run: there is nothing to wait for
    said = [json.loads(line)["type"] for line in (lines[0], lines[2], lines[3])]
    assert [told["type"] for told in ralph_runs("logs", "g2", "--json").events] == said


def test_logs_are_followed_until_the_goal_no_longer_runs(events: Path, world: Path, ralph_runs: Ralph) -> None:
    store = open_store(f"sqlite:///{world}/ralph/runs.sqlite")
    assert store is not None
    store.move(store.find("g2"), State.RUNNING)
    with sole_worker(queue(world)), ralph_runs.start("logs", "g2", "-f", "--json") as following:
        events.write_text(event("text", tag="AI", text="one"))
        following.wait_for("text")
        events.rename(events.with_name("archived"))  # as `ralph run --fresh` does
        events.write_text(event("text", tag="AI", text="two"))
        following.wait_for("text", 2)
        store.move(store.find("g2"), State.DONE)
        done = following.wait()
    store.close()
    assert (done.exit_code, [told["text"] for told in done.events]) == (0, ["one", "two"])


@pytest.fixture
def cut_off(events: Path, world: Path) -> Path:
    """g2 is said to be running, and nobody serves the queue: as a worker that was killed leaves it."""
    store = open_store(queue(world))
    assert store is not None
    store.move(store.find("g2"), State.RUNNING, starts=1, attempts=1)
    store.close()
    return events


def test_what_was_cut_off_is_told_from_what_runs(cut_off: Path, world: Path, ralph_runs: Ralph) -> None:
    cut_off.write_text(event("text", tag="AI", text="one"))
    listed = cells(ralph_runs("list").stdout)
    assert listed["g2"][:5] == ["interrupted", "set-up", "repo", "1", "-"]
    assert listed["g2"][-1] == "continue with: ralph-runs run --all"
    assert "2 goals: 1 interrupted, 1 queued" in ralph_runs("list").stdout
    said = ralph_runs("show", "g2").stdout
    assert "state      interrupted · continue with: ralph-runs run --all\n" in said
    assert "next       interrupted; continue it: ralph-runs run --all; or cancel it: ralph-runs cancel g2\n" in said
    assert [(each["state"], each["cut_off"]) for each in document(ralph_runs("list", "--json"))] == [
        ("queued", False),
        ("running", True),
    ]
    followed = ralph_runs("logs", "g2", "-f")
    assert (followed.exit_code, followed.stdout) == (0, "agent      one\n")
    assert followed.stderr == "note: g2 was interrupted; continue it with: ralph-runs run --all\n"
    with sole_worker(queue(world)):
        assert cells(ralph_runs("list").stdout)["g2"][:2] == ["running", "set-up"]
        assert not document(ralph_runs("show", "g2", "--json"))["cut_off"]


@pytest.mark.long
def test_a_killed_worker_is_missed_and_what_it_had_started_given_up(batch: Batch) -> None:
    batch.upstream()
    sessions = [[shell("touch begun; sleep 600"), says("never said")]]
    with batch.start(batch.goal("slow", sessions, repo="upstream"), "--json") as worker:
        wait_until(lambda: any((clone / "begun").exists() for clone in batch.clones()), "the agent to be at work")
        assert not batch.goals()["slow"]["cut_off"]
        worker.send(signal.SIGKILL)
        worker.wait()
    assert (batch.goals()["slow"]["state"], batch.goals()["slow"]["cut_off"]) == ("running", True)
    assert batch.runs("cancel", "slow", cwd=batch.root).stdout == "g1 slow: cancelled\n"
    done = batch.run()
    assert done.stdout == "no goal was worked on: nothing is queued; 1 goal: 1 cancelled · cost of 1 unknown\n"
    other = batch.run(batch.goal("other", wrote("other"), repo="upstream"))  # the engine recovers what it knows
    assert other.exit_code == 0, other.stdout + other.stderr
    assert batch.states() == {"slow": "cancelled", "other": "done"}
    assert batch.show("slow")["starts"] == 2


def test_who_follows_a_goal_is_told_when_it_is_cut_off(cut_off: Path, world: Path, ralph_runs: Ralph) -> None:
    with contextlib.ExitStack() as serving:
        serving.enter_context(sole_worker(queue(world)))
        with ralph_runs.start("logs", "g2", "-f", "--json") as following:
            cut_off.write_text(event("text", tag="AI", text="one"))
            following.wait_for("text")
            serving.close()
            done = following.wait()
    assert (done.exit_code, done.stderr) == (0, "note: g2 was interrupted; continue it with: ralph-runs run --all\n")


def test_what_was_cut_off_is_cancelled_at_once(cut_off: Path, world: Path, ralph_runs: Ralph) -> None:
    with sole_worker(queue(world)):
        assert ralph_runs("cancel", "g2").stdout == "g2 set-up: cancelling\n"
    assert ralph_runs("cancel", "g2").stdout == "g2 set-up: cancelled\n"
    assert ralph_runs("retry", "g2").stdout == f"g2 set-up: queued\n{NO_WORKER}"


def test_the_text_of_what_was_cut_off_may_change(cut_off: Path, queued: Path, world: Path, ralph_runs: Ralph) -> None:
    goal(queued / "set-up.md", title="Another text")
    with sole_worker(queue(world)):
        refused(ralph_runs("add", queued / "set-up.md"), "cannot update set-up: g2 is running with another text")
    (added,) = document(ralph_runs("add", queued / "set-up.md", "--queue", "--json"))
    assert (added["what"], added["state"], added["title"]) == ("updated", "queued", "Another text")


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        ({"why": Reason("no such repository")}, "fix that, then: ralph-runs retry g2"),
        ({"why": Reason("it could not begin"), "starts": 1}, "fix that, then: ralph-runs retry g2"),
        (
            {"why": Reason("limit reached: 3 iterations", Cause.LIMIT), "starts": 1},
            "raise it in {file}, then: ralph-runs run {file}; the queue works from its own copy",
        ),
        (
            {
                "why": Reason("limit reached: 3 iterations", Cause.LIMIT),
                "starts": 1,
                "settings": {"max_iterations": "3"},
            },
            "raise it in the manifest or with its flag, then run the same command again",
        ),
        (
            {
                "why": Reason("limit reached: --duration", Cause.LIMIT, "--duration"),
                "starts": 1,
                "settings": {"max_cost": "5"},
            },
            "raise it in {file}, then: ralph-runs run {file}; the queue works from its own copy",
        ),
        (
            {
                "why": Reason("not proven: --merge-unproven merges it", Cause.UNPROVEN),
                "starts": 1,
                "unmerged": {"proven": False},
            },
            "merge it without proof: ralph-runs retry g2, then: ralph-runs run --all --merge-unproven;"
            " or commit a .ralph/check to the main branch, then: ralph-runs retry g2; an agent works on it again",
        ),
        (
            {"why": Reason("main is protected"), "starts": 1, "unmerged": {"proven": True}},
            "resolve that, then: ralph-runs retry g2; only the merge runs again",
        ),
        (
            {"why": Reason("stalled"), "starts": 4, "run": "0123456789ab"},
            "see what it did: ralph-runs log g2; tell it what to do: ralph-runs comment g2 '...';"
            " then: ralph-runs retry g2",
        ),
    ],
)
def test_the_way_out_of_each_kind_of_stuck(
    facts: dict[str, object], step: str, queued: Path, world: Path, ralph_runs: Ralph
) -> None:
    store = open_store(queue(world))
    assert store is not None
    assert store.move(store.find("g2"), State.STUCK, facts)
    store.close()
    assert f"next       {step.format(file=queued / 'set-up.md')}\n" in ralph_runs("show", "g2").stdout


def test_a_queue_that_is_not_there_is_named(tmp_path: Path, ralph_runs: Ralph) -> None:
    said = ralph_runs("list", "--db", f"sqlite:///{tmp_path}/typo/x.sqlite")
    assert said.exit_code == 0
    assert said.stdout.startswith(f"there is no queue at sqlite:///{tmp_path}/typo/x.sqlite; add goals with: ")
    assert not (tmp_path / "typo").exists()


EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "batch"
BY_SCRIPT = {"RALPH_DEMO_SCRIPT": str(EXAMPLE / "script.json")}
SITE_CHECK = "#!/bin/sh\ngrep -q '<h1>' pages/*.html\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = make_repo(tmp_path / "site", {".ralph/check": SITE_CHECK}, commit=False)
    (site / ".ralph" / "check").chmod(0o755)
    commit_all(site, "A site without pages")
    return site


def test_a_dry_run_tells_order_clones_and_limits_and_writes_nothing(site: Path, world: Path, ralph_runs: Ralph) -> None:
    said = ralph_runs("run", EXAMPLE / "batch.toml", "--repo", site, "--max", "3", "--dry-run", "--model", "opus")
    assert said.exit_code == 0
    lines = said.stdout.splitlines()
    assert lines[0] == "4 goals, at most 3 at once, in this order:"
    assert [line for line in lines[1:] if line[:1].isdigit()] == [
        "1. g1 layout: A first page",
        "2. g2 about: A page about us",
        "3. g3 contact: A contact page",
        "4. g4 sitemap: A map of the site",
    ]
    assert f"   clone   {world}/ralph/batch/…/clones/g4-sitemap" in lines
    assert lines.count("   limits  5 iterations · $1.00") == 3
    assert lines.count("   limits  5 iterations · $0.50") == 1
    assert lines.count("   agent   claude · model opus · reasoning med") == 4
    assert "   waits   after g2, g3" in lines
    budget = ("--max-cost", "20", "--max-time", "2h")
    limited = ralph_runs("run", EXAMPLE / "batch.toml", "--repo", site, "--dry-run", *budget)
    assert "for all of them together: 2h00m · $20.00" in limited.stdout.splitlines()
    assert "for all of them" not in said.stdout
    planned = document(ralph_runs("run", EXAMPLE / "batch.toml", "--repo", site, "--dry-run", "--json", *budget))
    assert planned[0]["budget"] == {"cost_usd": 20.0, "tokens": None, "seconds": 7200.0}
    assert [(each["id"], each["max_cost"], each["merge"]) for each in planned][-1] == ("g4", 0.5, "direct")
    assert not (world / "ralph").exists()


def test_a_dry_run_counts_in_what_is_queued_and_leaves_it_alone(queued: Path, ralph_runs: Ralph) -> None:
    goal(queued / "more.md", "priority: 9")
    before = ralph_runs("list", "--json").stdout
    planned = document(ralph_runs("run", queued / "more.md", "--dry-run", "--json"))
    assert [each["name"] for each in planned] == ["more", "set-up", "log-in"]
    assert ralph_runs("list", "--json").stdout == before


def test_how_many_run_at_once_is_a_setting(queued: Path, ralph: Ralph, ralph_runs: Ralph) -> None:
    assert ", at most 2 at once," in ralph_runs("run", "--dry-run").stdout
    ralph("config", "set", "max", "7")
    assert ", at most 7 at once," in ralph_runs("run", "--dry-run").stdout
    assert ", at most 5 at once," in ralph_runs("run", "--dry-run", env={"RALPH_MAX": "5"}).stdout
    assert ", at most 3 at once," in ralph_runs("run", "--dry-run", "--max", "3", env={"RALPH_MAX": "5"}).stdout


def test_a_password_in_an_address_is_not_shown(goals: Path, ralph_runs: Ralph) -> None:
    for host in ("one", "two"):
        address = f"https://me:hunter2@{host}.example.org/o/r.git"
        assert "hunter2" not in ralph_runs("run", goals, "--repo", address, "--dry-run").stdout
        assert "hunter2" not in ralph_runs("add", goals, "--repo", address, "--json").stdout
    for args in (("list",), ("list", "--json"), ("show", "g1"), ("show", "g1", "--json"), ("show", "set-up")):
        done = ralph_runs(*args)
        assert "hunter2" not in done.stdout + done.stderr


def test_nothing_to_do_is_no_failure(ralph_runs: Ralph, world: Path) -> None:
    done = ralph_runs("run")
    assert (done.exit_code, done.stdout) == (0, "no goal was worked on: nothing is queued\n")
    assert not (world / "ralph").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("run", "--max", "0"), ["--max: '0' is not a whole number above zero"]),
        (("run", "--max-cost", "much"), ["--max-cost: 'much' is not an amount of US dollars above zero"]),
        (("run", "--model", "opus"), ["need at least one GOAL"]),
        (("run", "--merge", "squash"), ["--merge: 'squash' is not one of direct, pr, branch, none"]),
        (("work", "--max", "many"), ["--max: 'many' is not a whole number above zero"]),
        (("run", "nonesuch"), ["nonesuch: no such file"]),
        (("run", "good.md", "--trust-envrc"), ["an agent's session cannot decide what ralph trusts"]),
    ],
)
def test_work_that_cannot_be_is_refused_with_nothing_written(
    args: tuple[str, ...], words: list[str], repo: Path, world: Path, ralph_runs: Ralph
) -> None:
    goal(repo / "good.md")
    refused(ralph_runs(*args, env={"RALPH_RUN_ID": "someone"} if "--trust-envrc" in args else None), *words)
    assert not (world / "ralph").exists(), "the state directory was touched"


def test_a_batch_is_worked_on_and_its_summary_is_a_table(site: Path, ralph_runs: Ralph) -> None:
    args = ("run", EXAMPLE / "batch.toml", "--repo", site, "--agent", "demo")
    done = ralph_runs(*args, "--quiet", env=BY_SCRIPT)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert {label: [*row[:5], row[-1]] for label, row in cells(done.stdout).items() if label.startswith("g")} == {
        f"g{number}": ["done", name, "site", "1", "$0.00", "merged to main"]
        for number, name in enumerate(["layout", "about", "contact", "sitemap"], start=1)
    }
    assert done.stdout.splitlines()[-2:] == ["", "4 goals: 4 done"]
    assert sorted(commit.trailers["Ralph-Goal"] for commit in commits(site)[1:]) == [
        "about",
        "contact",
        "layout",
        "sitemap",
    ]
    again = ralph_runs(*args, env=BY_SCRIPT)
    assert (again.exit_code, again.stdout.count("done already")) == (0, 4)
    assert "\n\n\n" not in again.stdout
    assert "result     done" in ralph_runs("logs", "about").stdout


def test_what_else_is_queued_is_worked_on_and_named(site: Path, ralph_runs: Ralph) -> None:
    layout, about, contact = (EXAMPLE / "goals" / f"{name}.md" for name in ("layout", "about", "contact"))
    flags = ("--repo", site, "--agent", "demo", "--merge", "none")
    assert ralph_runs("add", layout, *flags, "--queue").exit_code == 0
    done = ralph_runs("run", about, *flags, env=BY_SCRIPT)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "also works on other queued goals: g1\n" in done.stdout
    again = ralph_runs("run", about, *flags, "--quiet", env=BY_SCRIPT)
    assert "what else is queued" not in again.stdout
    assert "done already; kept as ralph/about, not merged" in ralph_runs("add", about, *flags).stdout
    assert ralph_runs("add", contact, *flags, "--queue").exit_code == 0
    quiet = ralph_runs("run", about, *flags, "--quiet", env=BY_SCRIPT)
    assert quiet.stdout.endswith("also worked on other queued goals: g3\n")
    shown = ralph_runs("show", "about")
    (fetch,) = [line.split(maxsplit=1)[1] for line in shown.stdout.splitlines() if line.startswith("work ")]
    git(site, *fetch.split()[1:])
    assert "pages/about.html" in git(site, "ls-tree", "-r", "--name-only", "FETCH_HEAD")


def test_nothing_is_said_to_be_queued_that_is(queued: Path, ralph_runs: Ralph) -> None:
    ralph_runs("cancel", "g1", "g2")
    said = ralph_runs("run").stdout
    assert said == "no goal was worked on: nothing is queued; 2 goals: 2 cancelled\n"


def test_progress_is_told_line_by_line(site: Path, repo: Path, ralph_runs: Ralph) -> None:
    """And a state directory may be named from where one stands."""
    args = ("run", EXAMPLE / "goals" / "about.md", "--repo", site, "--agent", "demo")
    done = ralph_runs(*args, env={**BY_SCRIPT, "RALPH_DIR": "state"})
    assert done.exit_code == 0, done.stdout + done.stderr
    assert (repo / "state" / "runs.sqlite").exists()
    assert [commit.trailers["Ralph-Goal"] for commit in commits(site)[1:]] == ["about"]
    told = [line[10:] for line in done.stdout.splitlines() if line[2:3] == ":"]
    assert told == [
        "g1 about              started on ralph/about",
        "g1 about              iteration 1: claims DONE",
        "g1 about              check green",
        "g1 about              merging to main",
        "g1 about              done: merged to main",
    ]


def test_programs_get_one_object_a_line(site: Path, ralph_runs: Ralph) -> None:
    args = ("run", EXAMPLE / "goals" / "about.md", "--repo", site, "--agent", "demo", "--json")
    done = ralph_runs(*args, env=BY_SCRIPT)
    assert [event["type"] for event in done.events] == [
        "submitted",
        "started",
        "iteration",
        "check",
        "merging",
        "done",
        "summary",
    ]
    assert done.events[0]["goals"][0]["what"] == "added"
    assert (done.events[1]["id"], done.events[1]["name"]) == ("g1", "about")
    (ended,) = done.events[-1]["goals"]
    assert (done.events[-1]["exit_code"], ended["state"], ended["reason"]) == (0, "done", "merged to main")


def test_a_worker_serves_what_is_added_until_it_is_stopped(
    site: Path, goals: Path, world: Path, ralph_runs: Ralph
) -> None:
    lock = world / "ralph" / "runs.sqlite.lock"
    with ralph_runs.start("work", "--json", env=BY_SCRIPT) as worker:
        wait_until(lambda: lock.exists() and str(worker.pid) in lock.read_text(), "the queue to be served")
        refused(ralph_runs("run", goals), f"this queue already has a worker: process {worker.pid} on ")
        assert document(ralph_runs("list", "--json")) == []  # what is refused is not queued, either
        about = (EXAMPLE / "goals" / "about.md", "--repo", site, "--agent", "demo")
        assert ralph_runs("add", *about, "--queue").exit_code == 0
        worker.wait_for("done")
        worker.send(signal.SIGTERM)
        done = worker.wait()
    assert done.exit_code == 143
    assert (done.events[-1]["type"], done.events[-1]["exit_code"]) == ("summary", 143)
    assert [(each["title"], each["state"]) for each in done.events[-1]["goals"]] == [("A page about us", "done")]


@pytest.mark.parametrize(
    ("entrance", "number"),
    [
        ("flag", 2**63),
        ("flag", "1" * 5000),
        ("front matter", -(2**63) - 1),
        ("front matter", 10**4000),
        ("manifest entry", 2**63),
        ("manifest defaults", 10**4000),
    ],
    ids=lambda value: value if str(value)[0].isalpha() else f"{len(str(value))}-characters",
)
def test_a_priority_beyond_64_bits_is_refused_wherever_it_is_said(
    tmp_path: Path, repo: Path, world: Path, ralph_runs: Ralph, entrance: str, number: int | str
) -> None:
    huge = goal(tmp_path / "goals" / "huge.md", f"priority: {number}" if entrance == "front matter" else "")
    sound = goal(tmp_path / "goals" / "sound.md")
    manifest = tmp_path / "goals" / "batch.toml"
    defaults, entry = (
        f"priority = {number}\n" if entrance == f"manifest {part}" else "" for part in ("defaults", "entry")
    )
    manifest.write_text(f'[defaults]\n{defaults}[[goal]]\nfile = "sound.md"\n[[goal]]\nfile = "huge.md"\n{entry}')
    sources = [manifest] if entrance.startswith("manifest") else [sound, huge]
    flags = ["--priority", str(number)] if entrance == "flag" else []
    done = ralph_runs("add", *sources, "--repo", repo, *flags, cwd=tmp_path)
    refused(done, "priority: it must be between -9223372036854775808 and 9223372036854775807")
    assert len(done.stderr) < 500
    assert not (world / "ralph").exists(), "nothing is written"


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_priority_of_64_bits_is_taken(tmp_path: Path, repo: Path, ralph_runs: Ralph, number: int) -> None:
    file = goal(tmp_path / "goals" / "edge.md", f"priority: {number}")
    (row,) = document(ralph_runs("add", file, "--repo", repo, "--json", cwd=tmp_path))
    assert row["priority"] == number
    assert document(ralph_runs("list", "--json", cwd=tmp_path))[0]["priority"] == number
