"""Frames as one SVG that plays: each row of letters is drawn once for every stretch of time in which it stood."""

import itertools
from collections.abc import Sequence
from html import escape

from pictures.recording import Frame, Row, Run

_WIDTH, _HEIGHT, _SIZE = 8.4, 18, 14
_MARGIN, _BAR = 14, 30
_LONGEST_STILL = 2.5
"""Seconds that nothing may happen for; what took longer is cut."""
_APART = 0.7
"""Seconds that a frame is shown for at least."""
_LAST = 5.0
"""Seconds that the end stands before it begins anew."""

_INK = {
    "default": "#c9d1d9", "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341", "blue": "#79c0ff",
    "magenta": "#d2a8ff", "cyan": "#76e3ea", "white": "#c9d1d9", "black": "#484f58", "brightblack": "#8b949e",
}  # fmt: skip
_PAPER = "#0d1117"


def film(frames: Sequence[Frame], columns: int, rows: int, title: str, *, slower: float = 1.0) -> str:
    """The whole recording, so many times slower than it was; who shows no animation shows its last frame."""
    frames = thinned(frames, _APART / slower)
    times = [slower * at for at in _paced(frames)]
    end = times[-1] + _LAST
    width, height = columns * _WIDTH + 2 * _MARGIN, rows * _HEIGHT + _BAR + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">',
        f"<style>{_style()}</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{_PAPER}"/>',
        *(f'<circle cx="{20 + 18 * n}" cy="16" r="5" fill="{ink}"/>' for n, ink in enumerate(_BUTTONS)),
        f'<text x="{width / 2:.0f}" y="20" fill="#8b949e" text-anchor="middle">{escape(title)}</text>',
        # Its beginning is what everything else is timed by; it begins again when it ends.
        f'<rect width="0" height="0"><animate id="film" attributeName="x" begin="0s;film.end" dur="{end:.2f}s"'
        ' values="0;0"/></rect>',
    ]
    for number in range(rows):
        parts += [_drawn(number, *stretch, end) for stretch in _stretches(number, frames, times, end)]
    return "\n".join([*parts, "</svg>", ""])


def _style() -> str:
    fonts = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    inks = "".join(f".{name}{{fill:{ink}}}" for name, ink in _INK.items())
    return f"text{{font:{_SIZE}px {fonts};white-space:pre}}.bold{{font-weight:bold}}.paper{{fill:{_PAPER}}}{inks}"


_BUTTONS = ("#ff5f57", "#febc2e", "#28c840")


def thinned(frames: Sequence[Frame], apart: float) -> list[Frame]:
    """Those frames that nobody would miss left out: of two that are closer together the later one stands."""
    kept: list[Frame] = []
    for frame in frames:
        if len(kept) > 1 and frame.at - kept[-2].at < apart:
            kept.pop()
        kept.append(frame)
    return kept


def _paced(frames: Sequence[Frame]) -> list[float]:
    times, shift = [0.0], frames[0].at
    for before, frame in itertools.pairwise(frames):
        shift += max(frame.at - before.at - _LONGEST_STILL, 0.0)
        times.append(frame.at - shift)
    return times


def _stretches(
    number: int, frames: Sequence[Frame], times: Sequence[float], end: float
) -> list[tuple[Row, float, float]]:
    """What stood in a row, from when to when."""
    found: list[tuple[Row, float, float]] = []
    for frame, begins, ends in zip(frames, times, [*times[1:], end], strict=True):
        row = frame.rows[number]
        if found and found[-1][0] == row:
            found[-1] = (row, found[-1][1], ends)
        else:
            found.append((row, begins, ends))
    return [stretch for stretch in found if stretch[0]]


def _drawn(number: int, row: Row, begins: float, ends: float, end: float) -> str:
    runs = "".join(_run(run, number) for run in row)
    if begins == 0 and ends == end:
        return f"<g>{runs}</g>"
    stays = ends == end
    word = "hidden" if stays else "visible"
    start, length = (0.0, begins) if stays else (begins, ends - begins)
    timing = f'begin="film.begin+{start:.2f}s" dur="{length:.2f}s"'
    base = "visible" if stays else "hidden"
    return f'<g visibility="{base}"><set attributeName="visibility" to="{word}" {timing}/>{runs}</g>'


def _run(run: Run, number: int) -> str:
    x, y = _MARGIN + run.column * _WIDTH, _BAR + number * _HEIGHT
    text = run.text if run.reverse else run.text.rstrip()
    width = len(text) * _WIDTH
    kind = run.colour if run.colour in _INK else "default"
    paper = f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT}"/>' if run.reverse else ""
    look = " ".join(["paper" if run.reverse else kind, *(["bold"] if run.bold else [])])
    fit = f' textLength="{width:.1f}"' if len(text) > 1 else ""  # every font has its own idea of how wide a letter is
    return f'{paper}<text class="{look}" x="{x:.1f}" y="{y + 14}"{fit}>{escape(text, quote=False)}</text>'
