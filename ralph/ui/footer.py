"""Where a run stands, in one line that fits: what matters less is said shorter, then not at all."""

from collections.abc import Sequence

from ralph.core.limits import Limits
from ralph.core.status import Standing
from ralph.core.text import format_clock, format_count, format_money, instant
from ralph.core.usage import Spend
from ralph.ui.draw import cut, width
from ralph.ui.gauges import alarm, gauge, lasting
from ralph.ui.paint import Line, Tone, Words

_GAP = " · "
_LEAST_ACTIVITY = 16
"""Cells that the activity keeps while there is anything else to shorten."""

_ROOM = ("iteration", "gauge", "tokens", "cost", "quota", "tokens", "gauge", "time", "cost", "time", "gauge")
"""What is shortened by one form each, one after the other, until the line fits."""

_NO_LIMITS = Limits()

Forms = Sequence[Line]
"""Ways to say one thing, from the fullest to none."""


def status_line(
    stands: Standing,
    *,
    columns: int,
    now: float,
    seconds: float | None = None,
    limits: Limits = _NO_LIMITS,
    root: str = "",
) -> Line:
    """The line at an instant; `seconds`: how long the run has taken so far, where that is known."""
    parts = _parts(stands, limits, seconds, now)
    chosen = dict.fromkeys(parts, 0)
    activity, took = _activity(stands, now, root)
    wanted = min(width(activity) + width(took), max(_LEAST_ACTIVITY, columns // 4))
    for name in _ROOM:
        if _width(parts, chosen) + wanted <= columns:
            break
        if name in chosen:
            chosen[name] = min(chosen[name] + 1, len(parts[name]) - 1)
    shown = [forms[chosen[name]] for name, forms in parts.items() if forms[chosen[name]]]
    left = columns - sum(_cells(form) + width(_GAP) for form in shown)
    about = cut(activity, left - width(took))
    shown += [((about, Tone.STRONG), (took, Tone.DIM))] if about else []
    line: list[Words] = []
    for form in shown:
        line += [(_GAP, Tone.DIM), *form] if line else form
    return tuple(line)


def _activity(stands: Standing, now: float, root: str) -> tuple[str, str]:
    """What goes on, and for how long."""
    if stands.until is not None:
        return f"waiting {format_clock(stands.until - now)}", ""
    words, since = ("paused", stands.since) if stands.is_paused else stands.activity
    begun = instant(since) if since else None
    took = "" if begun is None else f" {lasting(now - begun)}"
    return words.replace(f"{root}/", "") if root else words, took


def _parts(stands: Standing, limits: Limits, seconds: float | None, now: float) -> dict[str, Forms]:
    """All that can be said, in the order in which it is."""
    spend = stands.meter.total
    parts = {
        "iteration": _iteration(stands.iteration, limits.iterations),
        "gauge": _gauge(stands.meter.context_pct),
        "cost": _cost(spend, limits.cost_usd),
        "tokens": _tokens(spend, limits.tokens),
        "time": _time(seconds, limits.duration),
        "quota": _quota(stands, now),
    }
    return {name: forms for name, forms in parts.items() if forms}


def _iteration(number: int | None, most: int | None) -> Forms:
    if number is None:
        return ()
    of, short = (f" of {most}", f"/{most}") if most else ("", "")
    return [_said(f"iteration {number}{of}"), _said(f"#{number}{short}")]


def _gauge(pct: float | None) -> Forms:
    if pct is None:
        return ()
    shown = min(pct, 999.0)
    figure, tone = f"{shown:.0f} %", alarm(pct)
    return [
        (("context ", Tone.PLAIN), *gauge(pct, 10), (f" {figure}", tone)),
        (*gauge(pct, 5), (f" {figure}", tone)),
        (("ctx ", Tone.PLAIN), (figure, tone)),
        (),
    ]


def _cost(spend: Spend, most: float | None) -> Forms:
    if not spend.costed:
        return ()
    about = "≈" if spend.estimated else ""
    said, tone = f"{about}{format_money(spend.cost_usd)}", _used(spend.cost_usd, most)
    if most is None:
        return [_said(said, tone)]
    return [_said(f"{said} of {format_money(most)}", tone), _said(f"{said}/${most:g}", tone), _said(said, tone)]


def _tokens(spend: Spend, most: int | None) -> Forms:
    if not spend.knows_tokens:
        return ()
    count, tone = format_count(spend.tokens), _used(spend.tokens, most)
    of = f" of {format_count(most)}" if most else ""
    return [_said(f"{count}{of} tokens", tone), _said(f"{count} tok", tone), ()]


def _time(seconds: float | None, most: float | None) -> Forms:
    if seconds is None:
        return ()
    if most is None:
        return [_said(lasting(seconds)), _said(lasting(seconds)), ()]
    left, tone = f"{lasting(most - seconds)} left", _used(seconds, most)
    return [((f"{lasting(seconds)}, ", Tone.PLAIN), (left, tone)), _said(left, tone), ()]


def _quota(stands: Standing, now: float) -> Forms:
    """What was last heard of it, as long as that can still be so."""
    quota = stands.quota
    if quota is None or stands.is_waiting or (quota.resets_at is not None and quota.resets_at <= now):
        return ()
    if quota.status == "rejected":
        return [_said("quota used up", Tone.BAD), _said("quota!", Tone.BAD)]
    share = "nearly used up" if quota.used is None else f"{min(quota.used, 10) * 100:.0f} %"
    return [_said(f"quota {share}", Tone.WARN), _said("quota!", Tone.WARN)]


def _used(used: float, most: float | None) -> Tone:
    return alarm(used / most * 100 if most else 0.0, calm=Tone.PLAIN)


def _said(text: str, tone: Tone = Tone.PLAIN) -> Line:
    return ((text, tone),)


def _cells(form: Line) -> int:
    return sum(width(text) for text, _ in form)


def _width(parts: dict[str, Forms], chosen: dict[str, int]) -> int:
    forms = [parts[name][number] for name, number in chosen.items()]
    return sum(_cells(form) + width(_GAP) for form in forms if form)
