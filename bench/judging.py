"""The short form's verdict: a section fails when the same ratio is far off its target in three tries in a row."""

from collections.abc import Callable, Sequence

from bench.figures import Figure

TRIES = 3


def far_off(measure: Callable[[], Sequence[Figure]]) -> list[Figure]:
    """Measure up to three times, while a figure is far off in every try; return the figures that stayed far off."""
    failed: list[Figure] = []
    for attempt in range(TRIES):
        figures = measure()
        before = {figure.name for figure in failed}
        failed = [figure for figure in figures if figure.is_far_off and (not attempt or figure.name in before)]
        if not failed:
            break
    return failed
