"""Keys pressed in ralph's terminal: read at once, without echo; pasted text and type-ahead are ignored."""

import codecs
import contextlib
import os
import re
import select
import termios
import time
from collections.abc import Sequence
from enum import StrEnum
from types import TracebackType
from typing import TextIO

WAKE_KEY = "w"
_MOST = 4096
_REST_OF_A_KEY = 0.05
"""Seconds in which what follows the first byte of a key arrives, also through a slow line; Esc alone has no more."""
_LONGEST_KEY = 32
_REST_OF_A_TEXT = 1.0
"""Seconds of silence after which a pasted text, or an answer of the terminal, counts as finished."""
_LONGEST_TEXT = 100_000
"""Letters to keep of one: a longer paste was meant for another window."""

_SEQUENCE = re.compile(r"\x1b(?:\[(?P<figures>[0-9;<=>?]*)(?P<end>[ -/]*[@-~])|O(?P<single>[@-~]))")
_BEGUN = re.compile(r"\x1b(?:[\[O][0-9;<=>? -/]*|[\]P_^X])?\Z")
_PASTED = re.compile(r"\x1b\[200~(?P<text>.*?)(?P<over>\x1b\[201~|\Z)", re.DOTALL)
_ANSWER = re.compile(
    r"\x1b[\]P_^X][^\x00-\x06\x08-\x1f]+?(?P<over>\x07|\x1b\\|(?=[\x00-\x06\x08-\x1a\x1c-\x1f]|\x1b[^\\])|\x1b?\Z)"
)
"""A terminal's answer to a query (OSC, DCS or similar): BEL or ST ends it, or any key."""

_MOST_AT_ONCE = 3
"""Different letters in one read that a hand may have typed, on a slow line say; more of them are a text."""
_FEW = 4


class Key(StrEnum):
    """Keys that are no letter."""

    UP = "up"
    DOWN = "down"
    LEFT = "left"
    RIGHT = "right"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    HOME = "home"
    END = "end"
    DELETE = "delete"
    ENTER = "enter"
    ESCAPE = "esc"
    BACKSPACE = "backspace"
    TAB = "tab"
    SUSPEND = "suspend"
    """Ctrl-Z, where a view takes it for itself."""


class Paste(str):
    """A text that was pasted, in one piece: no letter of it is a key."""

    __slots__ = ()


_LETTERS = {
    "A": Key.UP, "B": Key.DOWN, "C": Key.RIGHT, "D": Key.LEFT, "H": Key.HOME, "F": Key.END,
}  # fmt: skip
_NUMBERS = {
    "1": Key.HOME, "3": Key.DELETE, "4": Key.END, "5": Key.PAGE_UP, "6": Key.PAGE_DOWN, "7": Key.HOME, "8": Key.END,
}  # fmt: skip
_PLAIN = {
    "\r": Key.ENTER, "\n": Key.ENTER, "\t": Key.TAB, "\x7f": Key.BACKSPACE, "\x08": Key.BACKSPACE,
    "\x1a": Key.SUSPEND,
}  # fmt: skip


_ABOUT = frozenset({Key.UP, Key.DOWN, Key.PAGE_UP, Key.PAGE_DOWN, Key.HOME, Key.END, Key.ENTER, *"jkgG"})
"""Keys that only move about: so many at once are a macro's, or a slow line's; if they were a text, no harm is done."""


def is_text(keys: Sequence[str]) -> bool:
    """Tell whether keys that came at once are a text; a key that is held down comes often, too."""
    if len(keys) <= _FEW and _ABOUT.issuperset(keys):
        return False
    letters = [key for key in keys if len(key) == 1 and not isinstance(key, Paste)]
    is_much = len(letters) > _MOST_AT_ONCE and len(set(letters)) > 1
    return is_much or (letters != [] and Key.ENTER in keys)


def decode(text: str) -> list[str]:
    """The keys for which a terminal sends this: letters as they are, the others by name, and nothing of the rest."""
    decoder = Decoder()
    return [*decoder.feed(text), *decoder.give_up()]


class Decoder:
    """Keys out of what a terminal sends, in whatever pieces it arrives."""

    def __init__(self) -> None:
        self._rest = ""

    @property
    def is_in_a_key(self) -> bool:
        """Whether a key has begun that may also be over: Esc, and what else begins as others do."""
        return bool(self._rest) and not self.is_in_a_text

    @property
    def is_in_a_text(self) -> bool:
        """Whether a pasted text has begun, or an answer of the terminal's, and its end has not come."""
        return _PASTED.match(self._rest) is not None or _ANSWER.match(self._rest) is not None

    def feed(self, text: str) -> list[str]:
        """The keys that are whole by now."""
        keys, rest = _decoded(self._rest + text, is_all=False)
        if len(rest) > _LONGEST_TEXT + 6:  # the last letters may begin what ends it
            rest = f"{rest[:_LONGEST_TEXT]}…{rest[-5:]}"
        self._rest = rest
        return keys

    def give_up(self) -> list[str]:
        """The keys in what has begun, if no more comes."""
        keys, self._rest = _decoded(self._rest, is_all=True)
        return keys


def _decoded(text: str, *, is_all: bool) -> tuple[list[str], str]:
    """Return the keys, and an unfinished rest."""
    keys: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        if letter != "\x1b":
            position += 1
            if (key := _PLAIN.get(letter)) is not None or letter.isprintable():
                keys.append(key or letter)
        elif (match := _PASTED.match(text, position) or _ANSWER.match(text, position)) is not None:
            if not is_all and match["over"] in ("", "\x1b") and match.end() == len(text):
                return keys, text[position:]
            position = match.end()
            keys += [Paste(match["text"])] if match.re is _PASTED else []
        elif (match := _SEQUENCE.match(text, position)) is not None:
            position = match.end()
            figures, end = match["figures"] or "", match["end"] or match["single"]
            key = _NUMBERS.get(figures.partition(";")[0]) if end == "~" else _LETTERS.get(end)
            keys += [key] if key is not None else []
        elif not is_all and len(text) - position < _LONGEST_KEY and _BEGUN.match(text, position) is not None:
            return keys, text[position:]
        elif text[position + 1 : position + 2] not in ("", "\x1b"):  # Alt and a key: none of ours
            position += 2
        else:
            position += 1
            keys.append(Key.ESCAPE)
    return keys, ""


class Keyboard:
    """The terminal at `stream`, if there is one, while ralph is in its foreground; else nobody's."""

    def __init__(self, stream: TextIO | None, *, draws: bool = False) -> None:
        """`draws`: Ctrl-Z is a key like others, for who has to put the screen in order before it stops, and Ctrl-\\ is
        none: it would leave the screen as it is, and what runs to be found dead.
        """
        self._stream = stream
        self._draws = draws
        self._descriptor: int | None = None
        self._before: list[int | list[bytes | int]] = []
        self._letters = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = Decoder()
        self._heard_at = 0.0
        self.returns = 0
        """How often another program had the terminal: each time, the view redraws."""

    @property
    def is_heard(self) -> bool:
        """Whether keys reach ralph; those of a terminal in whose background it began do from when it comes forward."""
        return self._descriptor is not None and bool(self._before)

    @property
    def in_foreground(self) -> bool:
        """Whether it is ralph's turn: touching the terminal from the background, it would be stopped by the kernel."""
        try:
            return self._descriptor is not None and os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return False

    def __enter__(self) -> "Keyboard":
        with contextlib.suppress(OSError, ValueError, termios.error):
            descriptor = self._stream.fileno() if self._stream is not None else -1
            if os.isatty(descriptor):
                self._descriptor = descriptor
                if self.in_foreground:
                    self._set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()
        self._descriptor = None

    def give_back(self) -> None:
        """Restore the terminal's settings; the next `listen` sets them again."""
        if self.in_foreground and self._descriptor is not None and self._before:
            with contextlib.suppress(OSError, termios.error):  # it may have hung up
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)

    def _set(self) -> bool:
        """Have keys heard at once; again after a shell that had stopped us has set the terminal as it likes it.

        What was typed before nobody meant for ralph. It is lost: later keys can only be read after it, and since Linux
        6.2 nothing can be put back for the shell (TIOCSTI). It goes before the echo does: what is pressed without an
        echo is a key.
        """
        if self._descriptor is None:
            return False
        now = termios.tcgetattr(self._descriptor)
        self._before = self._before or now
        if not now[3] & termios.ICANON:
            return False
        settings = termios.tcgetattr(self._descriptor)
        settings[3] &= ~(termios.ECHO | termios.ICANON)
        settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
        if self._draws:
            settings[6][termios.VSUSP] = settings[6][termios.VQUIT] = b"\0"  # what Linux calls no letter at all
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        termios.tcsetattr(self._descriptor, termios.TCSANOW, settings)
        return True

    def listen(self, seconds: float) -> list[str]:
        """Sleep so long, or until a key is pressed; return those that were."""
        if self._descriptor is None:
            time.sleep(seconds)
            return []
        try:
            if not self.in_foreground:
                time.sleep(seconds)
                return []
            self.returns += self._set()
            return self._hear(self._descriptor, seconds)
        except (OSError, termios.error):  # hung up: from now on it would only say so again, at once
            self._descriptor = None
            time.sleep(seconds)
            return []

    def _hear(self, descriptor: int, seconds: float) -> list[str]:
        """The keys that come within that time; of one that has begun also the rest, which follows at once."""
        keys: list[str] = []
        while select.select([descriptor], [], [], seconds)[0]:
            data = os.read(descriptor, _MOST)
            if not data:
                raise OSError
            self._heard_at = time.monotonic()
            keys += self._decoder.feed(self._letters.decode(data))
            if not self._decoder.is_in_a_key:
                return keys  # a text's rest comes with the next look
            seconds = _REST_OF_A_KEY
        if not self._decoder.is_in_a_text or time.monotonic() - self._heard_at > _REST_OF_A_TEXT:
            keys += self._decoder.give_up()
        return keys
