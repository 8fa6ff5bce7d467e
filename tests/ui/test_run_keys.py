"""What keys do, and what the foot says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

from ralph.core.events import IterationStarted, Waiting
from ralph.core.guidance import Act, Instruction, Steering
from ralph.core.status import RunStatus, status_of
from ralph.ui.keys import decode
from ralph.ui.render import Detail
from ralph.ui.run_keys import RunControls, RunKeys
from tests.support.rows import rows

AT = "2026-11-16T00:48:20.000Z"
BEGUN = (IterationStarted(1, "s", "log"), AT)
WORKING = status_of([BEGUN])
WAITING = status_of([BEGUN, (Waiting("quota", 9e9), AT)])
PAUSED = status_of([BEGUN, (Waiting("paused", None), AT)])


@dataclass
class Run:
    asked: list[Act] = field(default_factory=list)
    ends: int = 0
    _heard: int = 0

    def keys(self) -> RunKeys:
        return RunKeys(self.controls(), Detail.NORMAL)

    def controls(self, *, can_steer: bool = True) -> RunControls:
        return RunControls(self.asked.append, Steering(self._hear), self.end, lambda: self.ends > 0, can_steer)

    def _hear(self) -> list[Instruction]:
        heard, self._heard = self._heard, len(self.asked)
        return [Instruction(number, act) for number, act in enumerate(self.asked[heard:], heard + 1)]

    def end(self) -> None:
        self.ends += 1


def press(view: RunKeys, keys: str, stands: RunStatus = WORKING) -> str:
    """Press keys, one after the other."""
    for key in keys:
        view.press_all([key], stands)
    return view.words(stands, 200).plain


def test_a_pause_can_be_taken_back() -> None:
    run = Run()
    view = run.keys()
    assert press(view, "p").startswith("pauses before the next session · p: do not pause")
    assert press(view, "p").startswith("p: pause")
    assert run.asked == [Act.PAUSE, Act.RESUME]


def test_a_paused_run_is_resumed_whoever_paused_it() -> None:
    run = Run()
    assert press(run.keys(), "", PAUSED).startswith("p: resume")
    press(run.keys(), "p", PAUSED)
    assert run.asked == [Act.RESUME]


def test_what_somebody_else_asks_for_is_told_and_can_be_taken_back_here() -> None:
    run = Run()
    view = run.keys()
    run.asked += [Act.STOP, Act.PAUSE]  # `ralph stop` and `ralph pause` in another terminal
    assert press(view, "").startswith("pauses before the next session · stops after this iteration · p: do not pause")
    assert press(view, "sp").startswith("p: pause · s: stop after")
    assert run.asked == [Act.STOP, Act.PAUSE, Act.CARRY_ON, Act.RESUME]


def test_what_somebody_else_takes_back_is_not_told_any_more() -> None:
    run = Run()
    view = run.keys()
    press(view, "p")
    run.asked.append(Act.RESUME)
    assert press(view, "").startswith("p: pause")


def test_a_stop_is_told_and_can_be_taken_back() -> None:
    run = Run()
    view = run.keys()
    assert press(view, "s").startswith("stops after this iteration · p: pause · s: do not stop · d:")
    assert press(view, "s").startswith("p: pause · s: stop after this iteration")
    assert run.asked == [Act.STOP, Act.CARRY_ON]


def test_only_a_wait_can_be_ended() -> None:
    run = Run()
    assert "w:" not in press(run.keys(), "w")
    assert press(run.keys(), "", WAITING).startswith("w: continue now")
    assert run.asked == []
    press(run.keys(), "w", WAITING)
    assert run.asked == [Act.WAKE]


def test_the_detail_goes_round() -> None:
    view = Run().keys()
    assert [press(view, "d").partition("detail ")[2].partition(" ·")[0] for _ in range(3)] == [
        "(all)",
        "(in brief)",
        "(usual)",
    ]


def test_quitting_is_asked_once() -> None:
    run = Run()
    view = run.keys()
    assert press(view, "q") == "stop now, as Ctrl-C does?  y: yes  any other key: no"
    assert press(view, "x").startswith("p: pause")
    assert press(view, "y").startswith("p: pause"), "nothing was asked"
    assert press(view, "q").startswith("stop now")
    assert run.ends == 0
    assert press(view, "y").startswith("stopping · q: kill the session at once")
    assert press(view, "q").startswith("kill the session at once?")
    assert run.ends == 1
    press(view, "y")
    assert run.ends == 2


def test_a_q_that_is_held_down_answers_nothing() -> None:
    run = Run()
    view = run.keys()
    for read in (["q"], ["q", "q"], ["q"] * 9):
        view.press_all(read, WORKING)
    assert run.ends == 0


def test_who_has_not_seen_the_question_does_not_answer_it() -> None:
    run = Run()
    view = run.keys()
    view.press_all(["q", "y"], WORKING)
    assert run.ends == 0
    assert press(view, "").startswith("stop now")


@pytest.mark.parametrize("text", ["please stop, quit", "sq\r", "dps?"])
def test_a_text_that_a_terminal_does_not_mark_as_pasted_is_no_key(text: str) -> None:
    run = Run()
    view = run.keys()
    view.press_all(decode(text), WORKING)
    assert (run.asked, run.ends) == ([], 0)
    assert press(view, "").startswith("p: pause · s: stop after this iteration · d: detail (usual)")


@rows("detail", [0, 1, 2])
@rows(
    ("stands", "asked", "keys"),
    [
        (WORKING, [], "psdq"),
        (WORKING, [Act.PAUSE], "psdq"),
        (WORKING, [Act.STOP], "psdq"),
        (WORKING, [Act.PAUSE, Act.STOP], "psdq"),
        (WAITING, [], "wpsdq"),
        (WAITING, [Act.PAUSE], "wpsdq"),
        (PAUSED, [], "psdq"),
    ],
)
def test_at_sixty_columns_every_key_can_be_read(stands: RunStatus, asked: list[Act], keys: str, detail: int) -> None:
    run = Run(list(asked))
    view = run.keys()
    press(view, "d" * detail)
    words = view.words(stands, 59).plain
    assert len(words) < 60
    assert re.findall(r"\b([a-z]): ", words) == list(keys)
    assert ("pauses" in words, "stops" in words) == (Act.PAUSE in asked, Act.STOP in asked)


def test_what_cannot_be_steered_offers_no_pause_and_no_stop() -> None:
    run = Run()
    view = RunKeys(run.controls(can_steer=False), Detail.NORMAL)
    assert press(view, "psw") == "d: detail (usual) · q: quit"
    assert press(view, "w", WAITING) == "w: continue now · d: detail (usual) · q: quit"
    assert view.words(WAITING, 30).plain == "w: now · d: usual · q: quit"
    assert run.asked == [Act.WAKE]
