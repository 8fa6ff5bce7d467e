"""The run directory: what is saved is found again, whatever moment the process ended at, and by nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.config.paths import repo_key
from ralph.core.errors import StateError
from ralph.core.events import Tag, Text
from ralph.core.limits import Limit
from ralph.core.run import CheckRecord, Ending, History, Iteration, Run, RunResult
from ralph.core.summary import Condensed
from ralph.core.usage import Spend
from ralph.core.verdict import Verdict
from ralph.state.journal import Damaged, Journal, Saved, mode_of
from ralph.state.lock import RepoLock
from ralph.system.files import make_private_directory, replace_file

TEXT = st.text(st.characters(), max_size=60)


@contextmanager
def opened(directory: Path) -> Iterator[Journal]:
    journal = Journal(directory)
    journal.open()
    try:
        yield journal
    finally:
        journal.close()


def iteration(number: int, summary: str = "a step", verdict: Verdict = Verdict.CONTINUE) -> Iteration:
    return Iteration(number, "2026-11-16T00:00:00.000Z", summary, "c" * 40, verdict)


def saved_and_loaded(directory: Path, run: Run, exit_code: int | None = None) -> Run:
    with opened(directory) as journal:
        for item in run.history.iterations:
            journal.record(item)
        journal.save(
            Saved(
                run,
                "/goals/speed.md",
                "d1",
                check="c",
                agent="codex",
                transcript="plain",
                model="gpt",
                exit_code=exit_code,
                dotenv={"max_cost": "5"},
                counted="l",
                repo="/repo",
            ),
            durable=True,
        )
    saved = Journal(directory).load()
    assert isinstance(saved, Saved)
    assert (saved.goal_path, saved.goal_digest, saved.exit_code) == ("/goals/speed.md", "d1", exit_code)
    assert (saved.check, saved.agent, saved.transcript, saved.model, saved.counted) == (
        "c",
        "codex",
        "plain",
        "gpt",
        "l",
    )
    return saved.run


@pytest.mark.parametrize("mode", ["worker", "summarizer"])
@pytest.mark.parametrize("goal", ["speed", "a-worker-Z-summarizer-1"])
def test_the_name_of_a_log_tells_its_mode(tmp_path: Path, mode: str, goal: str) -> None:
    logs = Journal(tmp_path / goal).log_files("claude", mode, 7, "2026-11-16T00:48:20.123Z")
    assert mode_of(logs.stdout.name) == mode
    assert mode_of("") == ""


def test_without_a_directory_there_is_no_run(tmp_path: Path) -> None:
    assert Journal(tmp_path / "speed").load() is None
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    summaries=st.lists(TEXT, max_size=4),
    notes=st.lists(TEXT, max_size=2),
    output=TEXT,
    exit_code=st.none() | st.integers(min_value=-64, max_value=255),
    cost=st.floats(min_value=0, max_value=1e6),
    verdict=st.sampled_from(Verdict),
)
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory,
    summaries: list[str],
    notes: list[str],
    output: str,
    exit_code: int | None,
    cost: float,
    verdict: Verdict,
) -> None:
    history = History()
    for number, summary in enumerate(summaries, 1):
        history = history.after(iteration(number, summary, verdict))
    run = Run(
        id="0123456789ab",
        goal="speed",
        branch="main",
        base="b" * 40,
        history=history,
        spend=Spend(cost, 1234, costed=True),
        failures=1,
        failed=2,
        check=CheckRecord(3, exit_code, output),
        notes=tuple(notes),
        condensed=Condensed(not_before=len(summaries), spend=Spend(cost / 2, 617, costed=True)),
    )
    assert saved_and_loaded(tmp_path_factory.mktemp("runs") / "speed", run) == run


def test_a_state_tells_through_which_iteration_it_speaks(tmp_path: Path) -> None:
    saved_and_loaded(tmp_path / "goal", Run("id", "goal", "main", None, History((iteration(1),))))
    Journal(tmp_path / "goal").record(iteration(2))  # and then ralph was killed
    saved = Journal(tmp_path / "goal").load()
    assert isinstance(saved, Saved)
    assert (saved.run.finished, saved.through) == (2, 1)


def test_a_run_that_has_barely_begun_is_loaded(tmp_path: Path) -> None:
    run = Run(id="r", goal="speed", branch="", base=None)
    assert saved_and_loaded(tmp_path / "speed", run) == run


@pytest.mark.parametrize(("exit_code", "finished"), [(None, False), (0, True), (1, False), (4, False), (130, False)])
def test_only_a_run_that_ended_0_is_finished(tmp_path: Path, exit_code: int | None, finished: bool) -> None:
    saved_and_loaded(tmp_path / "speed", Run("r", "speed", "main", None), exit_code)
    saved = Journal(tmp_path / "speed").load()
    assert isinstance(saved, Saved)
    assert saved.finished is finished


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"version": 1}', b'{"version": "1"}', b"{}", b"[" * 100_000],
    ids=["empty", "torn", "list", "null", "bytes", "no run", "text", "none", "deep"],
)
def test_a_damaged_state_is_told_from_none_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    damaged = Journal(tmp_path).load()
    assert isinstance(damaged, Damaged)
    assert str(tmp_path / "run.json") in damaged.reason


def test_a_damaged_state_is_told_by_the_field_that_is_wrong(tmp_path: Path) -> None:
    saved_and_loaded(tmp_path, Run("r", "speed", "main", None))
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "spend": {"cost_usd": "much"}}))
    damaged = Journal(tmp_path).load()
    assert isinstance(damaged, Damaged)
    assert "spend.cost_usd" in damaged.reason


def test_a_directory_without_a_state_is_damaged(tmp_path: Path) -> None:
    assert isinstance(Journal(tmp_path).load(), Damaged)


def test_a_newer_state_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"version": 2}')
    with pytest.raises(StateError) as caught:
        Journal(tmp_path).load()
    assert str(tmp_path / "run.json") in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("torn", [b'{"iteration":3,"summ', b"\xff\xfe", b"{", b"17", b'{"iteration":3,"verdict":"X"}'])
def test_a_torn_last_line_of_progress_is_tolerated_and_the_next_stands_alone(tmp_path: Path, torn: bytes) -> None:
    run = Run("r", "speed", "main", None, history=History((iteration(1), iteration(2))))
    saved_and_loaded(tmp_path, run)
    with (tmp_path / "progress.jsonl").open("ab") as file:
        file.write(torn)
    saved = Journal(tmp_path).load()
    assert isinstance(saved, Saved)
    assert saved.run == run
    Journal(tmp_path).record(iteration(3))
    again = Journal(tmp_path).load()
    assert isinstance(again, Saved)
    assert [item.number for item in again.run.history.iterations] == [1, 2, 3]


def test_progress_is_written_as_documented(tmp_path: Path) -> None:
    Journal(tmp_path).record(iteration(1, "zwei\nZeilen \u2028 \ud800", Verdict.DONE))
    (line,) = (tmp_path / "progress.jsonl").read_bytes().splitlines()
    assert json.loads(line) == {
        "iteration": 1,
        "at": "2026-11-16T00:00:00.000Z",
        "summary": "zwei\nZeilen \u2028 \ud800",
        "commit": "c" * 40,
        "verdict": "DONE",
    }


@pytest.mark.parametrize(("costed", "cost"), [(True, 0.5), (False, None)])
def test_the_result_is_written_as_documented(tmp_path: Path, costed: bool, cost: float | None) -> None:
    run = Run("r", "speed", "main", "b" * 40, spend=Spend(0.5 if costed else 0.0, 9, costed=costed))
    result = RunResult(run, Ending.LIMIT, hint="spend less", again=True, limit=Limit.COST)
    Journal(tmp_path).write_result(
        result, "too dear", "spend less, then again", head="h" * 40, end="budget", sandbox="auto"
    )
    assert json.loads((tmp_path / "result.json").read_text()) == {
        "version": 1,
        "goal": "speed",
        "run": "r",
        "exit_code": 4,
        "end": "budget",
        "ending": "limit",
        "reason": "too dear",
        "hint": "spend less, then again",
        "todo": "spend less",
        "limit": "--max-cost",
        "not_before": None,
        "proven": False,
        "iterations": 0,
        "failed": 0,
        "cost_usd": cost,
        "tokens": 9,
        "base": "b" * 40,
        "head": "h" * 40,
        "sandbox": "auto",
        "proof": None,
        "judged_by": None,
        "why_tree": "",
        "protected": {"changed": [], "deleted": [], "picked_up": [], "added": [], "locks": []},
        "tests": {"passed": None, "skipped": None},
        "lost_tests": 0,
        "newly_skipped": 0,
    }


def test_everything_is_for_the_user_alone(tmp_path: Path) -> None:
    base = tmp_path / "ralph"
    before = os.umask(0o022)
    try:
        with RepoLock(base / "runs" / "key", "speed", tmp_path), opened(base / "runs" / "key" / "speed") as journal:
            write(journal)
            logs = journal.log_files("claude", "worker", 1, "2026-11-16T00:00:00.000Z")
            saved_and_loaded(journal.directory, Run("r", "speed", "main", None, history=History((iteration(1),))))
            journal.write_result(RunResult(Run("r", "speed", "main", None), Ending.PROVEN), "done", head=None)
    finally:
        os.umask(before)
    assert logs.stdout.parent.is_dir()
    modes = {path: path.stat().st_mode & 0o777 for path in [base, *base.rglob("*")]}
    assert {str(path): oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


@pytest.mark.spec("3.5-q", "3.8-b")
def test_log_names_tell_time_mode_goal_and_iteration(tmp_path: Path) -> None:
    logs = Journal(tmp_path / "speed").log_files("claude", "worker", 7, "2026-11-16T00:48:20.123Z")
    assert logs.stdout == tmp_path / "speed" / "logs" / "claude" / "2026-11-16T004820123Z-worker-speed-7.ndjson"
    assert logs.stderr == logs.stdout.with_suffix(".stderr")


def test_archiving_keeps_everything_and_never_overwrites(tmp_path: Path) -> None:
    kept: list[Path] = []
    for text in ("one", "two", "three"):
        with opened(tmp_path / "speed") as journal:
            (journal.directory / "note").write_text(text)
        moved = journal.archive()
        assert moved is not None
        kept.append(moved)
    assert [(path / "note").read_text() for path in kept] == ["one", "two", "three"]
    assert not (tmp_path / "speed").exists()


def test_archiving_nothing_is_nothing(tmp_path: Path) -> None:
    assert Journal(tmp_path / "speed").archive() is None


@pytest.mark.parametrize("goal", ["lock", "archive"])
def test_any_slug_can_name_a_goal(tmp_path: Path, goal: str) -> None:
    with RepoLock(tmp_path, goal, tmp_path):
        saved_and_loaded(tmp_path / goal, Run("r", goal, "main", None))
        assert Journal(tmp_path / goal).archive() is not None
        saved_and_loaded(tmp_path / "other", Run("r", "other", "main", None))
        assert Journal(tmp_path / "other").archive() is not None
        assert Journal(tmp_path / goal).load() is None


# Events


def write(journal: Journal, *texts: str) -> list[int]:
    """Journal texts as one moment's events; return the numbers they were given."""
    events = [Text(Tag.AI, text) for text in texts or ["hello"]]
    lines = journal.write_events(events, "2026-11-16T00:00:00.000Z").splitlines()
    return [json.loads(line)["seq"] for line in lines]


def test_numbers_go_on_where_they_ended(tmp_path: Path) -> None:
    for start in (1, 4, 7):
        with opened(tmp_path) as journal:
            assert write(journal, "one", "two") + write(journal) == [start, start + 1, start + 2]


@pytest.mark.parametrize("length", [70_000, 1_000_000])
def test_numbers_go_on_after_a_very_long_last_line(tmp_path: Path, length: int) -> None:
    with opened(tmp_path) as journal:
        write(journal, "short", "x" * length)
    with opened(tmp_path) as again:
        assert write(again) == [3]


def test_numbers_go_on_after_a_torn_last_line(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        write(journal)
    with (tmp_path / "events.ndjson").open("ab") as file:
        file.write(b'{"seq":2,"at":"20')
    with opened(tmp_path) as again:
        write(again)
    lines = (tmp_path / "events.ndjson").read_bytes().splitlines()
    assert len(lines) == 3
    assert json.loads(lines[2])["text"] == "hello"


@settings(max_examples=40, deadline=None)
@given(TEXT)
def test_an_event_is_one_line_whatever_it_says(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with opened(tmp_path_factory.mktemp("run")) as journal:
        line = journal.write_events([Text(Tag.AI, text)], "")
    written = (journal.directory / "events.ndjson").read_bytes()
    assert written == line
    told = json.loads(written)
    assert (told["seq"], told["type"], told["tag"], told["text"]) == (1, "text", "AI", text)


# Files


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    replace_file(path, "old\n")
    replace_file(path, "new\n")
    assert path.read_text() == "new\n"
    assert list(tmp_path.iterdir()) == [path]


FULL_DISK = """
import resource, sys
from pathlib import Path
from ralph.core.errors import DiskError
from ralph.system.files import replace_file
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    replace_file(Path(sys.argv[1]), "n" * 100_000)
except DiskError as error:
    print(error.message)
"""


def test_the_old_file_stays_when_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    replace_file(path, "old\n")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True)
    assert done.stdout == f"{path}: File too large\n", done.stderr
    assert path.read_text() == "old\n"


def test_a_private_directory_that_is_there_already_is_fine(tmp_path: Path) -> None:
    make_private_directory(tmp_path)
    assert tmp_path.is_dir()


@pytest.mark.parametrize("name", ["repo", "my repo!", "répo", "..."])
def test_a_repositorys_key_is_readable_and_its_own(tmp_path: Path, name: str) -> None:
    one, other = tmp_path / "a" / name, tmp_path / "b" / name
    assert repo_key(one) != repo_key(other)
    assert "/" not in repo_key(one)
    assert repo_key(one).isascii()


def test_a_repository_reached_through_a_link_has_the_same_key(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    assert repo_key(tmp_path / "link") == repo_key(tmp_path / "repo")
