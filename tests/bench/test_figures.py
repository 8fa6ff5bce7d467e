"""Figures: verdicts against a target, the short form's tolerance, and ratios within a round."""

import math

import pytest

from bench.figures import Figure, interleave, ratios
from bench.judging import far_off


@pytest.mark.parametrize(
    ("values", "at_least", "met", "is_far_off"),
    [
        ([1.4, 1.5, 9.0], False, True, False),
        ([1.6], False, False, False),
        ([3.0], False, False, False),
        ([3.1], False, False, True),
        ([math.inf], False, False, True),
        ([1.5], True, True, False),
        ([1.4], True, False, False),
        ([0.75], True, False, False),
        ([0.74], True, False, True),
        ([], False, False, False),
    ],
)
def test_the_median_decides_and_only_twice_the_target_is_far_off(
    values: list[float], at_least: bool, met: bool, is_far_off: bool
) -> None:
    figure = Figure("figure", values, target=1.5, at_least=at_least)
    assert (figure.met, figure.is_far_off) == (met, is_far_off)


def test_absolute_figures_and_goals_are_never_far_off() -> None:
    assert not Figure("time", [100.0], "ms", target=1.0).is_far_off
    assert not Figure("without a target", [0.1], at_least=True, goal=3.0).is_far_off
    assert Figure("without a target", [0.1], at_least=True, goal=3.0).met is None


def test_the_spread_is_the_middle_half_or_all_of_a_few_values() -> None:
    assert Figure("many", [5.0, 1.0, 2.0, 3.0, 4.0]).quartiles == (2.0, 4.0)
    assert Figure("few", [9.0, 1.0, 2.0]).quartiles == (1.0, 9.0)


def test_every_contestant_is_measured_once_a_round() -> None:
    order: list[str] = []
    taken = interleave({name: lambda name=name: order.append(name) or float(len(order)) for name in "abc"}, 4)
    assert [sorted(order[at : at + 3]) for at in range(0, 12, 3)] == [["a", "b", "c"]] * 4
    assert {name: len(values) for name, values in taken.items()} == {"a": 4, "b": 4, "c": 4}
    assert ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]


def judged(*tries: dict[str, float]) -> tuple[list[str], int]:
    """Play tries, each with the ratios of figures whose target is 1; return what failed, and after how many tries."""
    left = list(tries)
    failed = far_off(lambda: [Figure(name, [value], target=1.0) for name, value in left.pop(0).items()])
    return [figure.name for figure in failed], len(tries) - len(left)


def test_a_ratio_fails_only_when_it_is_far_off_in_three_tries() -> None:
    bad, good = {"a": 2.1}, {"a": 1.9}
    assert judged(good) == ([], 1)
    assert judged(bad, good) == ([], 2)
    assert judged(bad, bad, good) == ([], 3)
    assert judged(bad, bad, bad, good) == (["a"], 3)


def test_another_ratio_in_a_later_try_does_not_fail() -> None:
    assert judged({"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 3.0}) == ([], 2)
    assert judged({"a": 3.0, "b": 3.0}, {"a": 1.0, "b": 3.0}, {"a": 3.0, "b": 3.0}) == (["b"], 3)
