"""Where a run stands and what it does now, in lines that fit.

Where there is little room, what matters less is said shorter, then not at all. rich's own progress bars draw what is
used and what is free with the same letter, which nobody can tell apart without colours, so `gauge` draws blocks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from rich.spinner import Spinner
from rich.text import Text

from ralph.core.events import QuotaStatus
from ralph.core.limits import Limits
from ralph.core.status import RunStatus
from ralph.core.text import format_clock, format_count, format_money, instant, lasting
from ralph.core.usage import Spend
from ralph.ui.terminal import Look
from ralph.ui.theme import safe, style

_GAP = " · "
_ROOM = (
    *("tokens", "tokens", "time", "iteration", "context", "cost"),
    *("quota", "time", "iteration", "context", "cost", "cost", "context", "iteration", "time"),
)
"""What is shortened by one form each, one after the other, until the line fits."""

_BARS = (16, 12, 10, 8, 6, 5, 4)
"""Cells of a bar: as many as fit."""

_NO_LIMITS = Limits()
_FULL, _EMPTY = "█", "░"
_TIGHT, _NEARLY_FULL = 80.0, 95.0
"""Percent from which a share is shown as tight, and as nearly used up."""

Forms = Sequence[Text]
"""Ways to say one thing, from the fullest to none."""


def gauge(percent: float, cells: int) -> Text:
    """Return a bar that shows how much of something is used."""
    share = max(0.0, min(percent, 100.0)) / 100
    full = round(share * cells)
    return Text.assemble((_FULL * full, style(alarm(percent))), (_EMPTY * (cells - full), style(Look.QUIET)))


def alarm(percent: float, calm: Look = Look.ACCENT) -> Look:
    """Return the look of a share that should not become the whole."""
    return Look.BAD if percent >= _NEARLY_FULL else Look.WARN if percent >= _TIGHT else calm


def status_line(
    stands: RunStatus, *, columns: int, now: float, seconds: float | None = None, limits: Limits = _NO_LIMITS
) -> Text:
    """Return where a run stands, in one line; `seconds`: how long it has taken so far, where that is known."""
    said = partial(_parts, stands, limits, seconds, now)
    parts = said(_BARS[-1])
    chosen = dict.fromkeys(parts, 0)
    for name in _ROOM:
        if _joined(parts, chosen).cell_len <= columns:
            break
        if name in chosen:
            chosen[name] = min(chosen[name] + 1, len(parts[name]) - 1)
    line = Text()
    for cells in _BARS:
        line = _joined(said(cells), chosen)
        if line.cell_len <= columns:
            break
    return fitting(line, columns)


def fitting(line: Text, columns: int) -> Text:
    """Cut a line at so many cells."""
    if columns < 1:
        return Text(end="")
    line.truncate(columns, overflow="ellipsis")
    return line


def _joined(parts: Mapping[str, Forms], chosen: Mapping[str, int]) -> Text:
    line = Text(end="")
    for forms in (parts[name][number] for name, number in chosen.items()):
        if forms and line:
            line.append(_GAP, style(Look.QUIET))
        line.append_text(forms)
    return line


def _parts(stands: RunStatus, limits: Limits, seconds: float | None, now: float, cells: int) -> dict[str, Forms]:
    """All that can be said, in the order in which it is."""
    spend = stands.meter.total
    parts = {
        "stand-in": [_said(stands.stand_in, Look.WARN)] if stands.stand_in else (),
        "iteration": _iteration(stands.iteration, limits.iterations, cells),
        "context": _context(stands.meter.context_pct, cells),
        "cost": _cost(spend, limits.cost_usd, cells),
        "tokens": _tokens(spend, limits.tokens),
        "time": _time(seconds, limits.duration, cells),
        "quota": _quota(stands, now),
    }
    return {name: forms for name, forms in parts.items() if forms}


def _iteration(number: int | None, most: int | None, cells: int) -> Forms:
    if number is None:
        return ()
    if not most:
        return [_said(f"iteration {number}"), _said(f"#{number}")]
    share = gauge((number - 1) / most * 100, cells)
    share.stylize(style(Look.ACCENT), 0, share.plain.count(_FULL))  # the last iteration is no cause for alarm
    short = _said(f"#{number}/{most}")
    return [_barred(_said(f"iteration {number} of {most}"), share), _barred(short, share), short]


def _context(pct: float | None, cells: int) -> Forms:
    if pct is None:
        return ()
    figure = _said(f"{min(pct, 999.0):.0f} %", alarm(pct, calm=Look.PLAIN))
    bar = gauge(pct, cells)
    return [
        _barred(_said("context"), bar, figure),
        _barred(_said("ctx"), bar, figure),
        _barred(_said("ctx"), figure),
        _said(""),
    ]


def _cost(spend: Spend, most: float | None, cells: int) -> Forms:
    if not spend.costed:
        return ()
    said = f"{'≈' if spend.estimated else ''}{format_money(spend.cost_usd)}"
    if most is None:
        return [_said(said)]
    used = _percent(spend.cost_usd, most)
    look = alarm(used, calm=Look.PLAIN)
    bar, short = gauge(used, cells), _said(f"{said}/${most:g}", look)
    return [_barred(_said(f"{said} of {format_money(most)}", look), bar), _barred(short, bar), short, _said(said, look)]


def _tokens(spend: Spend, most: int | None) -> Forms:
    if not spend.knows_tokens:
        return ()
    count = format_count(spend.tokens)
    look = Look.PLAIN if most is None else alarm(_percent(spend.tokens, most), calm=Look.PLAIN)
    of = f" of {format_count(most)}" if most else ""
    return [_said(f"{count}{of} tokens", look), _said(f"{count} tok", look), _said("")]


def _time(seconds: float | None, most: float | None, cells: int) -> Forms:
    if seconds is None:
        return ()
    if most is None:
        return [_said(lasting(seconds)), _said("")]
    used = _percent(seconds, most)
    look = alarm(used, calm=Look.PLAIN)
    left = _said(f"{lasting(most - seconds)} left", look)
    return [
        _barred(_said(f"{lasting(seconds)} of {lasting(most)}", look), gauge(used, cells)),
        left,
        _said(""),
    ]


def _quota(stands: RunStatus, now: float) -> Forms:
    """What was last heard of it, as long as that can still be so."""
    quota = stands.quota
    if quota is None or stands.is_waiting or (quota.resets_at is not None and quota.resets_at <= now):
        return ()
    if quota.status == QuotaStatus.USED_UP:
        return [_said("quota used up", Look.BAD), _said("quota!", Look.BAD)]
    share = "nearly used up" if quota.used is None else f"{min(quota.used, 10) * 100:.0f} %"
    return [_said(f"quota {share}", Look.WARN), _said("quota!", Look.WARN)]


def _percent(used: float, most: float) -> float:
    return used / most * 100 if most else 0.0


def _said(text: str, look: Look = Look.PLAIN) -> Text:
    return safe(text, look, one_line=True)


def _barred(*parts: Text) -> Text:
    return Text(" ", end="").join(parts)


_FRAME = 0.25
"""Seconds between two frames; each shows the spinner's next sign."""

_MOST_CALLS = 4
_LEAST_SECONDS = 1.0
"""Seconds that a call takes before what it prints is shown: most are over by then, and the footer stays still."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What goes on right now: the words for it, when it began, and the last lines it printed."""

    words: str
    since: float | None = None
    output: Sequence[str] = ()


def activities(
    stands: RunStatus,
    *,
    now: float,
    output_of: Callable[[str], Sequence[str]],
    check_output: Sequence[str],
    root: str = "",
) -> list[Activity]:
    """Return the calls that are open, or else what the agent or ralph does.

    `output_of` names the last lines that an open call printed, `check_output` those of the check.
    """
    if stands.until is not None:
        return [Activity(f"waiting {format_clock(stands.until - now)}")]
    words, since = ("paused", stands.since) if stands.is_paused else stands.activity
    if stands.is_paused or len(stands.calls) < 2:
        output = check_output if stands.is_checking else output_of(stands.calls[0].id) if stands.calls else ()
        return [_activity(words, since, now, output, root)]
    shown = stands.calls[:_MOST_CALLS]
    others = len(stands.calls) - len(shown) + stands.more_calls
    calls = [_activity(f"{call.tool} {call.about}", call.since, now, output_of(call.id), root) for call in shown]
    return [*calls, *([Activity(f"and {others:,} more")] if others else [])]


def _activity(words: str, since: str, now: float, output: Sequence[str], root: str) -> Activity:
    begun = instant(since) if since else None
    is_long = begun is not None and now - begun >= _LEAST_SECONDS
    return Activity(words.replace(f"{root}/", "") if root else words, begun, output if is_long else ())


def activity_lines(going_on: Sequence[Activity], *, columns: int, now: float, room: int) -> list[Text]:
    """Return a line for each thing that goes on, and in the rows that are left of `room`, the last it printed."""
    spinning, lines = str(_spinner().render(now)), list[Text]()
    room = max(room - len(going_on), 0)
    for activity in going_on[: room + len(going_on)]:
        took = "" if activity.since is None else f" {lasting(now - activity.since)}"
        words = safe(activity.words, Look.STRONG, one_line=True)
        words = fitting(words, columns - 2 - len(took))
        lines.append(Text.assemble((spinning, style(Look.ACCENT)), " ", words, (took, style(Look.QUIET)), end=""))
        printed = activity.output[max(len(activity.output) - room, 0) :]
        room -= len(printed)
        for each in printed:
            words = safe(f"  {each[: columns * 2].expandtabs(4)}", Look.QUIET, one_line=True)
            lines.append(fitting(words, columns))
    return lines


@cache
def _spinner() -> Spinner:
    spinner = Spinner("dots")
    spinner.speed = spinner.interval / 1000 / _FRAME
    return spinner
