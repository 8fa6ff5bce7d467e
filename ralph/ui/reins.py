"""What the keys of a run's view do, and what its foot says of them: they reach what commands and Ctrl-C reach."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ralph.core.guidance import Act, Helm
from ralph.core.status import Standing
from ralph.ui.draw import width
from ralph.ui.keys import WAKE_KEY, Paste, is_text
from ralph.ui.paint import Line, Tone, line, plain
from ralph.ui.render import Detail

_NEXT_DETAIL = {Detail.NORMAL: Detail.VERBOSE, Detail.VERBOSE: Detail.QUIET, Detail.QUIET: Detail.NORMAL}
_PAUSE = {True: "resume", False: "pause"}
_DETAILS = {Detail.NORMAL: "usual", Detail.VERBOSE: "all", Detail.QUIET: "in brief"}


@dataclass(frozen=True, slots=True)
class Bit:
    """Where a view takes hold of its run."""

    ask: Callable[[Act], object]
    helm: Helm
    """One of the view's own, which hears what the run will: of keys and of whoever else asks."""
    end: Callable[[], None]
    """As Ctrl-C does: softly at first, then at once."""
    is_ending: Callable[[], bool]
    """Whether ralph was asked to end, here or by a signal."""


class Reins:
    """What keys ask for, in view of what was asked before, by whomever, and has not come yet."""

    def __init__(self, bit: Bit, detail: Detail) -> None:
        self._bit = bit
        self.detail = detail
        self._asks_to_quit = False

    def press_all(self, keys: Sequence[str], stands: Standing) -> None:
        """Take the keys of one read: none that follows a question is its answer, and a text is no key."""
        if is_text(keys):
            return
        for key in keys:
            if not isinstance(key, Paste):
                self.press(key, stands)
            if self._asks_to_quit:
                return

    def press(self, key: str, stands: Standing) -> None:
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
    def _helm(self) -> Helm:
        """What was asked for until now."""
        self._bit.helm.listen()
        return self._bit.helm

    def words(self, stands: Standing, columns: int) -> Line:
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

    def _full(self, stands: Standing, asked: "_Asked", *, short: bool) -> Line:
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

    def _tight(self, stands: Standing, asked: "_Asked") -> Line:
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
