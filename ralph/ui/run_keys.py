"""The keys of a live view: what they do to a run, and the line of the footer that says so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from ralph.core.guidance import Act, Steering
from ralph.core.status import RunStatus
from ralph.ui.keys import WAKE_KEY, Paste, is_text
from ralph.ui.render import Detail
from ralph.ui.status_line import fitting
from ralph.ui.terminal import Look
from ralph.ui.theme import style

_GAP = " · "
_NEXT_DETAIL = {Detail.NORMAL: Detail.VERBOSE, Detail.VERBOSE: Detail.QUIET, Detail.QUIET: Detail.NORMAL}
_PAUSE = {True: "resume", False: "pause"}
_DETAILS = {Detail.NORMAL: "usual", Detail.VERBOSE: "all", Detail.QUIET: "in brief"}


@dataclass(frozen=True, slots=True)
class RunControls:
    """What keys can do to a run."""

    ask: Callable[[Act], object]
    asked: Steering
    """What was asked of the run, by keys and from elsewhere; the view's own reading of it."""
    end: Callable[[], None]
    """End it as Ctrl-C does: softly at first, then at once."""
    is_ending: Callable[[], bool]
    """Whether ralph was asked to end, here or by a signal."""
    can_steer: bool = True
    """Whether it can be paused and stopped between sessions."""


class RunKeys:
    """The keys of a view, and what they do now, given what was asked of the run already."""

    def __init__(self, controls: RunControls, detail: Detail) -> None:
        self._controls = controls
        self.detail = detail
        self._asks_to_quit = False

    def press_all(self, keys: Sequence[str], stands: RunStatus) -> None:
        """Handle the keys of one read. Keys after a question are not its answer, and pasted text is ignored."""
        if is_text(keys):
            return
        for key in keys:
            if not isinstance(key, Paste):
                self.press(key, stands)
            if self._asks_to_quit:
                return

    def press(self, key: str, stands: RunStatus) -> None:
        """Do what a key asks for."""
        confirms, self._asks_to_quit = self._asks_to_quit, False
        controls, asked = self._controls, self._asked
        match key:
            case "p" if controls.can_steer:
                controls.ask(Act.RESUME if asked.paused or stands.is_paused else Act.PAUSE)
            case "s" if controls.can_steer:
                controls.ask(Act.CARRY_ON if asked.stopping else Act.STOP)
            case "w" if stands.is_waiting:
                controls.ask(Act.WAKE)
            case "d":
                self.detail = _NEXT_DETAIL[self.detail]
            case "q":
                self._asks_to_quit = True
            case "y" if confirms:
                controls.end()
            case _:
                pass

    @property
    def _asked(self) -> Steering:
        """What was asked for until now."""
        self._controls.asked.listen()
        return self._controls.asked

    def words(self, stands: RunStatus, columns: int) -> Text:
        """Return the keys that do something now, after what was asked for, in as many words as there is room for."""
        if self._asks_to_quit:
            question = "kill the session at once?" if self._controls.is_ending() else "stop now, as Ctrl-C does?"
            return _assembled((question, Look.WARN), ("  y: yes", Look.PLAIN), ("  any other key: no", Look.QUIET))
        if self._controls.is_ending():
            return _assembled(("stopping", Look.WARN), (" · q: kill the session at once", Look.QUIET))
        asked = self._asked
        pending = _Pending(asked.paused and not stands.is_paused, asked.stopping)
        forms = [self._full(stands, pending, short=False), self._full(stands, pending, short=True)]
        line = next((each for each in forms if each.cell_len <= columns), self._tight(stands, pending, columns))
        return fitting(line, columns)

    def _full(self, stands: RunStatus, pending: "_Pending", *, short: bool) -> Text:
        """What was asked for in whole words, then the keys."""
        news = [
            "pauses before the next session" if pending.pauses else "",
            "stops after this iteration" if pending.stops else "",
        ]
        steer = [
            "p: resume" if stands.is_paused else "p: do not pause" if pending.pauses else "p: pause",
            "s: do not stop" if pending.stops else "s: stop" if short else "s: stop after this iteration",
        ]
        keys = [
            f"{WAKE_KEY}: continue now" if stands.is_waiting else "",
            *(steer if self._controls.can_steer else ()),
            f"d: {_DETAILS[self.detail]}" if short else f"d: detail ({_DETAILS[self.detail]})",
            "q: quit",
        ]
        said = _GAP.join(filter(None, news))
        return _assembled((said, Look.WARN), (f"{_GAP if said else ''}{_GAP.join(filter(None, keys))}", Look.QUIET))

    def _tight(self, stands: RunStatus, pending: "_Pending", columns: int) -> Text:
        """What was asked for beside its key."""
        steer = [
            ("pauses (p: no)", Look.WARN) if pending.pauses else (f"p: {_PAUSE[stands.is_paused]}", Look.QUIET),
            ("stops (s: no)", Look.WARN) if pending.stops else ("s: stop", Look.QUIET),
        ]
        keys = [
            *([(f"{WAKE_KEY}: now", Look.QUIET)] if stands.is_waiting else []),
            *(steer if self._controls.can_steer else []),
            (f"d: {_DETAILS[self.detail]}", Look.QUIET),
            ("q: quit", Look.QUIET),
        ]
        if sum(len(text) + len(_GAP) for text, _ in keys) > columns + len(_GAP):
            del keys[-2]
        gaps = [("", Look.PLAIN), *[(_GAP, Look.QUIET)] * (len(keys) - 1)]
        return _assembled(*(part for pair in zip(gaps, keys, strict=True) for part in pair))


def _assembled(*parts: tuple[str, Look]) -> Text:
    return Text.assemble(*((text, style(look)) for text, look in parts if text), end="")


@dataclass(frozen=True, slots=True)
class _Pending:
    pauses: bool
    stops: bool
