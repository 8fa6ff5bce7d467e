"""Where a run stands, in one line that fits: what matters less is said shorter, then not at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ralph.core.guidance import Act, Steering
from ralph.core.limits import Limits
from ralph.core.status import RunStatus
from ralph.core.text import format_clock, format_count, format_money, instant
from ralph.core.usage import Spend
from ralph.ui.draw import Line, Tone, Words, alarm, cut, gauge, lasting, line, painted, plain, width
from ralph.ui.keys import WAKE_KEY, Paste, is_text
from ralph.ui.render import Detail
from ralph.ui.terminal import Output
from ralph.ui.transcript import folded, holds_command

_GAP = " · "
_LEAST_ACTIVITY = 16
"""Cells that the activity keeps while there is anything else to shorten."""

_ROOM = ("iteration", "gauge", "tokens", "cost", "quota", "tokens", "gauge", "time", "cost", "time", "gauge")
"""What is shortened by one form each, one after the other, until the line fits."""

_NO_LIMITS = Limits()

Forms = Sequence[Line]
"""Ways to say one thing, from the fullest to none."""


def status_line(
    stands: RunStatus,
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


def _activity(stands: RunStatus, now: float, root: str) -> tuple[str, str]:
    """What goes on, and for how long."""
    if stands.until is not None:
        return f"waiting {format_clock(stands.until - now)}", ""
    words, since = ("paused", stands.since) if stands.is_paused else stands.activity
    begun = instant(since) if since else None
    took = "" if begun is None else f" {lasting(now - begun)}"
    return words.replace(f"{root}/", "") if root else words, took


def _parts(stands: RunStatus, limits: Limits, seconds: float | None, now: float) -> dict[str, Forms]:
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


def _quota(stands: RunStatus, now: float) -> Forms:
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


_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around what is to be seen at once; a terminal that does not know them passes them over."""
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""A letter wider than we think would else add a row that nobody counts."""
_PASTES_MARKED, _PASTES_BARE = "\x1b[?2004h", "\x1b[?2004l"
"""Whether a terminal tells what is pasted from keys. A shell that wants it so says so again by itself."""
_LEAST_COLUMNS = 10
_LEAST_ABOVE = 2
"""Rows that are left to what scrolls; a terminal that has fewer gets no foot."""


class Footer:
    """The last rows that ralph has written. The user's own screen, no other: all that scrolled can be scrolled to."""

    def __init__(self, outlet: Output, *, colour: bool) -> None:
        self._outlet = outlet
        self._colour = colour
        self._shown: list[str] = []
        self._widths: list[int] = []
        self._marks_pastes = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        return self._outlet.size or (80, 24)

    def forget(self) -> None:
        """What stands below is somebody else's by now: draw under it."""
        self._shown, self._widths, self._marks_pastes = [], [], False

    def write(self, above: Sequence[Line], below: Sequence[Line]) -> None:
        """Write lines that scroll, and under them the foot; if nothing has changed, nothing.

        While there is one, keys are heard, and a text that is pasted is none. See `is_clear`.
        """
        columns, height = self.size
        rows = list(below)[: max(0, height - _LEAST_ABOVE)] if columns >= _LEAST_COLUMNS else []
        # A cell less: in the last one a terminal may wait with the cursor for a letter to wrap.
        wanted = [painted(row, columns - 1, colour=self._colour) for row in rows]
        unchanged = wanted == self._shown and self._marks_pastes == bool(below)
        if not above and unchanged and all(each < columns for each in self._widths):
            return
        foot = _NO_WRAP + "\r\n".join(wanted) + _WRAP if wanted else ""
        pastes = _PASTES_MARKED if below else _PASTES_BARE
        said = "" if self._marks_pastes == bool(below) else pastes
        if self._outlet.offer(f"{said}{_BEGIN}{self._off(columns)}{self._scrolling(above)}{foot}{_END}"):
            self._shown, self._widths = wanted, [min(width(plain(row)), columns - 1) for row in rows]
            self._marks_pastes = bool(below)

    @property
    def is_clear(self) -> bool:
        """Whether all that was written is on the screen: not so while the terminal is held still (Ctrl-S)."""
        return self._outlet.settle()

    def take_off(self, above: Sequence[Line] = ()) -> None:
        """Leave the terminal with what has scrolled, and these last lines, at the start of a new line."""
        if above or self._shown or self._marks_pastes:
            pastes = _PASTES_BARE if self._marks_pastes else ""
            self._outlet.write_last(f"{pastes}{_BEGIN}{self._off(self.size[0])}{self._scrolling(above)}{_END}")
            self.forget()

    def _scrolling(self, above: Sequence[Line]) -> str:
        columns = self.size[0]
        rows = [
            painted(row, width(plain(row)) if holds_command(row) else columns, colour=self._colour)
            for line in above
            for row in folded(line, columns)
        ]
        return "".join(f"{row}\r\n" for row in rows)

    def _off(self, columns: int) -> str:
        """Go up to the foot's first row, and clear from there.

        In a terminal that was made narrower the foot takes more rows than were written: a row that no longer fits is
        folded at the edge there (tmux 3.3a and most others do so). The cursor stays behind the last letter.
        """
        if not self._shown:
            return ""
        rows = sum(max(1, -(-each // max(1, columns))) for each in self._widths)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}\x1b[J"


_NEXT_DETAIL = {Detail.NORMAL: Detail.VERBOSE, Detail.VERBOSE: Detail.QUIET, Detail.QUIET: Detail.NORMAL}
_PAUSE = {True: "resume", False: "pause"}
_DETAILS = {Detail.NORMAL: "usual", Detail.VERBOSE: "all", Detail.QUIET: "in brief"}


@dataclass(frozen=True, slots=True)
class Bit:
    """Where a view takes hold of its run."""

    ask: Callable[[Act], object]
    helm: Steering
    """One of the view's own, which hears what the run will: of keys and of whoever else asks."""
    end: Callable[[], None]
    """As Ctrl-C does: softly at first, then at once."""
    is_ending: Callable[[], bool]
    """Whether ralph was asked to end, here or by a signal."""


class RunKeys:
    """What keys ask for, in view of what was asked before, by whomever, and has not come yet."""

    def __init__(self, bit: Bit, detail: Detail) -> None:
        self._bit = bit
        self.detail = detail
        self._asks_to_quit = False

    def press_all(self, keys: Sequence[str], stands: RunStatus) -> None:
        """Take the keys of one read: none that follows a question is its answer, and a text is no key."""
        if is_text(keys):
            return
        for key in keys:
            if not isinstance(key, Paste):
                self.press(key, stands)
            if self._asks_to_quit:
                return

    def press(self, key: str, stands: RunStatus) -> None:
        """Do what a key asks for."""
        asked, self._asks_to_quit = self._asks_to_quit, False
        helm = self._helm
        match key:
            case "p":
                self._bit.ask(Act.RESUME if helm.paused or stands.is_paused else Act.PAUSE)
            case "s":
                self._bit.ask(Act.CARRY_ON if helm.stopping else Act.STOP)
            case "w" if stands.is_waiting:
                self._bit.ask(Act.WAKE)
            case "d":
                self.detail = _NEXT_DETAIL[self.detail]
            case "q":
                self._asks_to_quit = True
            case "y" if asked:
                self._bit.end()
            case _:
                pass

    @property
    def _helm(self) -> Steering:
        """What was asked for until now."""
        self._bit.helm.listen()
        return self._bit.helm

    def words(self, stands: RunStatus, columns: int) -> Line:
        """The keys that do something now, after what was asked for; in fewer words where there is little room."""
        if self._asks_to_quit:
            question = "kill the session at once?" if self._bit.is_ending() else "stop now, as Ctrl-C does?"
            return line((question, Tone.WARN), "  y: yes", ("  any other key: no", Tone.DIM))
        if self._bit.is_ending():
            return (("stopping", Tone.WARN), (" · q: kill the session at once", Tone.DIM))
        helm = self._helm
        asked = _Asked(helm.paused and not stands.is_paused, helm.stopping)
        forms = [self._full(stands, asked, short=False), self._full(stands, asked, short=True)]
        return next((each for each in forms if width(plain(each)) <= columns), self._tight(stands, asked))

    def _full(self, stands: RunStatus, asked: "_Asked", *, short: bool) -> Line:
        """What was asked for in whole words, then the keys."""
        said = [
            "pauses before the next session" if asked.pauses else "",
            "stops after this iteration" if asked.stops else "",
        ]
        keys = [
            f"{WAKE_KEY}: go on now" if stands.is_waiting else "",
            "p: resume" if stands.is_paused else "p: do not pause" if asked.pauses else "p: pause",
            "s: do not stop" if asked.stops else "s: stop" if short else "s: stop after this iteration",
            f"d: {_DETAILS[self.detail]}" if short else f"d: detail ({_DETAILS[self.detail]})",
            "q: quit",
        ]
        told = " · ".join(filter(None, said))
        return line((told, Tone.WARN), (f"{' · ' if told else ''}{' · '.join(filter(None, keys))}", Tone.DIM))

    def _tight(self, stands: RunStatus, asked: "_Asked") -> Line:
        """What was asked for beside its key."""
        keys = [
            (f"{WAKE_KEY}: now", Tone.DIM) if stands.is_waiting else None,
            ("pauses (p: no)", Tone.WARN) if asked.pauses else (f"p: {_PAUSE[stands.is_paused]}", Tone.DIM),
            ("stops (s: no)", Tone.WARN) if asked.stops else ("s: stop", Tone.DIM),
            (f"d: {_DETAILS[self.detail]} · q: quit", Tone.DIM),
        ]
        first, *others = filter(None, keys)
        return line(first, *(part for key in others for part in ((" · ", Tone.DIM), key)))


@dataclass(frozen=True, slots=True)
class _Asked:
    pauses: bool
    stops: bool
