"""How much of something is used, and how long something lasts: the same in all views."""

from ralph.core.text import format_duration
from ralph.ui.paint import Line, Tone

_FULL, _EMPTY = "█", "░"
_TIGHT, _NEARLY_FULL = 80.0, 95.0
"""Percent from which it is to be seen that something is used up soon, and from which it nearly is."""


def gauge(percent: float, cells_wide: int) -> Line:
    """How much of something is used, as a bar."""
    share = max(0.0, min(percent, 100.0)) / 100
    full = round(share * cells_wide)
    return ((_FULL * full, alarm(percent)), (_EMPTY * (cells_wide - full), Tone.DIM))


def alarm(percent: float, calm: Tone = Tone.CALM) -> Tone:
    """How a share that should not become the whole looks."""
    return Tone.BAD if percent >= _NEARLY_FULL else Tone.WARN if percent >= _TIGHT else calm


def lasting(seconds: float) -> str:
    """A time as it goes by: whole seconds, so that it does not flicker."""
    whole = max(0, int(seconds))
    return f"{whole}s" if whole < 10 else format_duration(whole)
