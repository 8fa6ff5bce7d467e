"""Every colour that is shown can be read on dark and on light backgrounds, by the palettes of two terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from ralph.core.limits import Limits
from ralph.core.status import StatusFold
from ralph.core.text import instant
from ralph.dashboard.view import View
from ralph.ui.status_line import status_line
from ralph.ui.terminal import Row, painted
from ralph.ui.theme import render
from ralph.ui.transcript import TranscriptRenderer
from tests.dashboard import boards
from tests.support import live_scene
from tests.support.terminal import Screen

_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
_GNOME = ("171421", "c01c28", "26a269", "a2734c", "12488b", "a347ba", "2aa1b3", "d0cfcc")
_GNOME_BRIGHT = ("5e5c64", "f66151", "33da7a", "e9ad0c", "2a7bde", "c061cb", "33c7de", "ffffff")
_CODE_DARK = ("000000", "cd3131", "0dbc79", "e5e510", "2472c8", "bc3fbc", "11a8cd", "e5e5e5")
_CODE_DARK_BRIGHT = ("666666", "f14c4c", "23d18b", "f5f543", "3b8eea", "d670d6", "29b8db", "e5e5e5")
_CODE_LIGHT = ("000000", "cd3131", "107c10", "949800", "0451a5", "bc05bc", "0598bc", "555555")
_CODE_LIGHT_BRIGHT = ("666666", "cd3131", "14ce14", "b5ba00", "0451a5", "bc05bc", "0598bc", "a5a5a5")


def palette(
    text: str, ground: str, colours: tuple[str, ...], bright: tuple[str, ...]
) -> Mapping[tuple[str, bool], str]:
    """Colours by pyte's names, of letters and of what is behind them."""
    named = dict(zip(_NAMES, colours, strict=True)) | {
        f"bright{name}": value for name, value in zip(_NAMES, bright, strict=True)
    }
    return {
        **{(name, is_ground): value for name, value in named.items() for is_ground in (True, False)},
        ("default", False): text,
        ("default", True): ground,
    }


PALETTES = {
    "GNOME, dark": palette("ffffff", "1e1e1e", _GNOME, _GNOME_BRIGHT),
    "GNOME, light": palette("000000", "ffffff", _GNOME, _GNOME_BRIGHT),
    "VS Code, dark": palette("cccccc", "1f1f1f", _CODE_DARK, _CODE_DARK_BRIGHT),
    "VS Code, light": palette("3b3b3b", "ffffff", _CODE_LIGHT, _CODE_LIGHT_BRIGHT),
}
_LEAST = 2.5
"""The contrast of GNOME's own red on its own dark ground is 2.7; of blue there 1.8, of bright yellow on white 2.0."""


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG has it: 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def live() -> Iterator[Row]:
    """All that a run shows, and its footer."""
    view, fold, now = TranscriptRenderer(), StatusFold(), instant(live_scene.LATER) or 0.0
    for event in [*live_scene.WORK, *live_scene.CLAIM, *live_scene.REST]:
        fold.take(event, live_scene.BEGUN)
        for said in view.tell(event, live_scene.BEGUN):
            yield from view.rows(said, 100)
    limits = Limits(iterations=3, duration=3600, cost_usd=5.0)
    yield from render(status_line(fold.status, columns=100, now=now, seconds=3500.0, limits=limits), 100)


def dashboard() -> Iterator[Row]:
    """A board on which much needs a person, at two sizes, with its help."""
    for columns, height in ((80, 24), (200, 50)):
        for view in (View(), View(cursor=7, moved=True), View(helping=True)):
            yield from boards.frame(boards.needy(), view, columns, height)[1]


@pytest.mark.parametrize("name", PALETTES)
@pytest.mark.parametrize("view", [live, dashboard])
def test_what_is_shown_can_be_read(view: Callable[[], Iterator[Row]], name: str) -> None:
    colours, used, faint = PALETTES[name], set[str](), set[str]()
    for row in view():
        screen = Screen(220, 1)
        screen.feed(painted(row, 220, colour=True).encode())
        for front, back in screen.colours:
            used.add(front)
            if contrast(colours[front, False], colours[back, True]) < _LEAST:
                faint.add(f"{front} on {back}")
    assert not faint
    assert used >= {"red", "green", "brown", "cyan", "magenta"}
