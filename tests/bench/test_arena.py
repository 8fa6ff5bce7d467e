"""The arena for real: the stand-in agent, the short form on a tiny section, and the Ruby original's harness."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import comparison, iterations, stream
from bench.__main__ import RALPH, judge
from bench.arena import LIMIT_REACHED, Arena, arena, noted_time
from bench.figures import Figure, Unmeasurable
from bench.peers import Peers, Ruby
from bench.sections import Section
from tests.support.waiting import wait_until

RUBY_STAND_IN = """#!/bin/sh
# The Ruby original's loop, as far as the harness sees it: a line for each iteration, until the agent says DONE.
[ "$*" = "--goal=../goal.md --log-mode" ] || exit 9
i=0
while :; do
    i=$((i+1))
    echo "Iteration $i"
    echo '{"type":"user"}' | claude | grep -q '"summary":"DONE"' && exit 0
done
"""


@pytest.fixture
def place() -> Iterator[Arena]:
    try:
        with arena(RALPH, Peers({})) as built:
            yield built
    except Unmeasurable as error:
        pytest.skip(str(error))


def said(place: Arena, **plan: str | int) -> list[dict[str, object]]:
    with place.prompt.open("rb") as prompt:
        argv = [str(place.agent)]
        done = subprocess.run(argv, env=place.environment(plan), stdin=prompt, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_agents_summaries_differ_and_hold_the_text(place: Arena) -> None:
    results = [said(place, MODE="turn", TEXT=place.text(2000))[-1]["structured_output"] for _ in range(2)]
    first, second = [result["summary"] for result in results if isinstance(result, dict)]
    assert first != second
    assert (
        first.partition(": ")[2] == second.partition(": ")[2] == json.loads(f'"{Path(place.text(2000)).read_text()}"')
    )
    assert noted_time(place.born) <= noted_time(place.started)


def test_a_stream_has_pairs_of_the_payload(place: Arena) -> None:
    _, *events, result = said(place, MODE="stream", TEXT=place.text(200), COUNT=3)
    assert [event["type"] for event in events] == ["assistant", "user"] * 3
    assert all("größe" in json.dumps(event, ensure_ascii=False) for event in events)
    assert result["structured_output"] == {"summary": "ok"}


def test_a_session_is_played_as_it_is_written_at_its_pace(place: Arena) -> None:
    began = time.monotonic()
    _, *events, result = said(place, MODE="play", TEXT=place.session(6), GAP_US=20_000)
    assert time.monotonic() - began >= 6 * 0.02
    assert [event["type"] for event in events] == ["assistant", *["assistant", "user"] * 2] * 2
    for word, count in (("**last**", 2), ('"Edit"', 2), ('"Bash"', 2)):
        assert json.dumps(events).count(word) == count
    assert result["type"] == "result"


def test_the_end_of_a_process_is_told_also_of_one_that_is_gone_already(place: Arena) -> None:
    began = time.monotonic_ns()
    with place.repository() as tree, place.running(["sleep", "0.1"], tree, {}) as process:
        assert place.finish(process) - began >= 1e8
        assert place.finish(process) > began
    with place.repository() as tree, place.running(["false"], tree, {}) as process:
        wait_until(lambda: process.poll() is not None, "its end")
        with pytest.raises(Unmeasurable, match="ended with 1"):
            place.finish(process)


def test_the_short_form_measures_a_section_and_fails_what_stays_far_off(capfd: pytest.CaptureFixture[str]) -> None:
    tries: list[bool] = []

    def measure(place: Arena, brief: bool) -> list[Figure]:
        tries.append(brief)
        with place.repository() as tree, place.running(place.run_argv(), tree, {"MODE": "turn"}) as process:
            seconds = (place.finish(process, LIMIT_REACHED) - place.message_came_at()) / 1e9
        assert seconds > 0
        return [Figure("possible", [1.0 / seconds], target=0.0, at_least=True), Figure("hopeless", [seconds], target=0)]

    assert judge([Section("Tiny", measure)]) == 1
    assert tries == [True] * 3, "a brief measurement, in three tries"
    out, err = capfd.readouterr()
    assert out.count("| hopeless |") == 3
    assert "error: far off its target in 3 tries: hopeless" in err
    assert "possible" not in err


def short_form(section: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bench", "--short", "--only", section]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **env})


def test_the_short_form_fails_without_its_peer_where_everything_must_be_real(tmp_path: Path) -> None:
    done = short_form(
        "stream", RALPH_REQUIRE_REAL="1", PIP_NO_INDEX="1", PIP_FIND_LINKS="", XDG_CACHE_HOME=str(tmp_path)
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot measure: claude-agent-sdk ")
    assert "can't be installed" in done.stderr


def test_the_short_form_refuses_sections_without_ratios() -> None:
    done = short_form("latency")
    assert done.returncode == 2
    assert "--short judges ratios, and there are none in the chosen sections" in done.stderr


@pytest.mark.long
def test_two_versions_are_compared_figure_by_figure(place: Arena) -> None:
    figures = comparison.measure(place, place.ralph, brief=True)
    assert len(figures) == 5
    assert all(len(figure.values) == 2 and 0.1 < figure.median < 10 for figure in figures)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--against", "no/ralph"], "--against: no/ralph is no program"),
        (["--against", sys.executable, "--short"], "leave --short and --only out"),
    ],
)
def test_a_comparison_needs_a_program_and_no_sections(flags: list[str], words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "bench", *flags], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_the_ruby_original_is_measured_where_a_checkout_is_named(tmp_path: Path, place: Arena) -> None:
    assert str(place.peers.ruby) == "RALPH_RUBY names no checkout"
    assert str(Peers({"RALPH_RUBY": str(tmp_path)}).ruby) == "RALPH_RUBY names no checkout"
    program = tmp_path / "scripts" / "ralph" / "run"
    program.parent.mkdir(parents=True)
    program.write_text(RUBY_STAND_IN)
    program.chmod(0o755)
    ruby = Peers({"RALPH_RUBY": str(tmp_path)}).ruby
    assert isinstance(ruby, Ruby)
    assert len(iterations.by_ruby(place, ruby, 3)) == 3
    plan = {"MODE": "stream", "TEXT": place.text(200), "COUNT": 5}
    assert stream.by_ruby(place, ruby, plan) > 0
