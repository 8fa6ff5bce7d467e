"""What keys do, and what the foot says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count

import pytest

from ralph.events import IterationStarted, Waiting
from ralph.standing import Standing
from ralph.steering import Act, Helm, Word
from ralph.ui.columns import width
from ralph.ui.paint import plain
from ralph.ui.reins import Bit, Reins
from ralph.ui.telling import Detail

AT = "2026-11-16T00:48:20.000Z"
WORKING = Standing().after(IterationStarted(1, "s", "log"), AT)
WAITING = WORKING.after(Waiting("quota", 9e9), AT)
PAUSED = WORKING.after(Waiting("paused", None), AT)


@dataclass
class Run:
    asked: list[Act] = field(default_factory=list)
    ends: int = 0
    _heard: int = 0

    def reins(self) -> Reins:
        return Reins(Bit(self.asked.append, Helm(self._hear), self.end, lambda: self.ends > 0), Detail.NORMAL)

    def _hear(self) -> list[Word]:
        heard, self._heard = self._heard, len(self.asked)
        return [Word(number, act) for number, act in enumerate(self.asked[heard:], heard + 1)]

    def end(self) -> None:
        self.ends += 1


CLOCK = count()


def press(reins: Reins, keys: str, stands: Standing = WORKING) -> str:
    """Press keys, one each second."""
    for key in keys:
        reins.press(key, stands, next(CLOCK))
    return plain(reins.words(stands, 200))


def test_a_pause_can_be_taken_back() -> None:
    run = Run()
    reins = run.reins()
    assert press(reins, "p").startswith("pauses before the next session · p: do not pause")
    assert press(reins, "p").startswith("p: pause")
    assert run.asked == [Act.PAUSE, Act.RESUME]


def test_a_paused_run_is_resumed_whoever_paused_it() -> None:
    run = Run()
    assert press(run.reins(), "", PAUSED).startswith("p: resume")
    press(run.reins(), "p", PAUSED)
    assert run.asked == [Act.RESUME]


def test_what_somebody_else_asks_for_is_told_and_can_be_taken_back_here() -> None:
    run = Run()
    reins = run.reins()
    run.asked += [Act.STOP, Act.PAUSE]  # `ralph stop` and `ralph pause` in another terminal
    assert press(reins, "").startswith("pauses before the next session · stops after this iteration · p: do not pause")
    assert press(reins, "sp").startswith("p: pause · s: stop after")
    assert run.asked == [Act.STOP, Act.PAUSE, Act.CARRY_ON, Act.RESUME]


def test_what_somebody_else_takes_back_is_not_told_any_more() -> None:
    run = Run()
    reins = run.reins()
    press(reins, "p")
    run.asked.append(Act.RESUME)
    assert press(reins, "").startswith("p: pause")


def test_a_stop_is_told_and_can_be_taken_back() -> None:
    run = Run()
    reins = run.reins()
    assert press(reins, "s").startswith("stops after this iteration · p: pause · s: do not stop · d:")
    assert press(reins, "s").startswith("p: pause · s: stop after this iteration")
    assert run.asked == [Act.STOP, Act.CARRY_ON]


def test_only_a_wait_can_be_ended() -> None:
    run = Run()
    assert "w:" not in press(run.reins(), "w")
    assert press(run.reins(), "", WAITING).startswith("w: go on now")
    assert run.asked == []
    press(run.reins(), "w", WAITING)
    assert run.asked == [Act.WAKE]


def test_the_detail_goes_round() -> None:
    reins = Run().reins()
    assert [press(reins, "d").partition("detail ")[2].partition(" ·")[0] for _ in range(3)] == [
        "(all)",
        "(in brief)",
        "(usual)",
    ]


def test_quitting_is_asked_once() -> None:
    run = Run()
    reins = run.reins()
    assert press(reins, "q").startswith("q again: stop now")
    assert press(reins, "x").startswith("p: pause")
    assert press(reins, "q").startswith("q again: stop now")
    assert run.ends == 0
    assert press(reins, "q").startswith("stopping · q: kill the session at once")
    press(reins, "q")
    assert run.ends == 2


def test_a_q_that_is_held_down_answers_nothing() -> None:
    run = Run()
    reins = run.reins()
    for at in (10.0, 10.66, 10.69, 10.7, 10.7, 10.8, 10.9, 11.0):  # as a terminal repeats a key, some at one look
        reins.press("q", WORKING, at)
    assert run.ends == 0
    assert plain(reins.words(WORKING, 200)).startswith("q again: stop now")
    for at in (12.0, 12.5, 12.6, 12.6):
        reins.press("q", WORKING, at)
    assert run.ends == 1, "it was answered, and nothing is killed by that"
    reins.press("q", WORKING, 13.4)
    assert run.ends == 2


def test_a_q_that_is_pressed_time_and_again_quits() -> None:
    run = Run()
    reins = run.reins()
    for at in (10.0, 10.5, 11.0):
        reins.press("q", WORKING, at)
    assert run.ends == 1


@pytest.mark.parametrize("detail", [0, 1, 2])
@pytest.mark.parametrize(
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
def test_at_sixty_columns_every_key_can_be_read(stands: Standing, asked: list[Act], keys: str, detail: int) -> None:
    run = Run(list(asked))
    reins = run.reins()
    press(reins, "d" * detail)
    words = plain(reins.words(stands, 59))
    assert width(words) < 60
    assert re.findall(r"\b([a-z]): ", words) == list(keys)
    assert ("pauses" in words, "stops" in words) == (Act.PAUSE in asked, Act.STOP in asked)
