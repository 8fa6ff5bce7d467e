"""Keys in a real pseudo-terminal: named, whole, heard at once; the terminal is given back as it was."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.ui.keys import Decoder, Key, Paste, decode
from tests.support.rows import rows
from tests.support.waiting import kill_tree, wait_until


@rows(
    ("sent", "keys"),
    [
        ("pq", ["p", "q"]),
        ("ä名", ["ä", "名"]),
        ("\x1b[A\x1b[B\x1bOC\x1bOD", [Key.UP, Key.DOWN, Key.RIGHT, Key.LEFT]),
        (
            "\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~\x1bOH",
            [Key.PAGE_UP, Key.PAGE_DOWN, *[Key.HOME, Key.END] * 2, Key.HOME],
        ),
        ("\x1b[1;5A", [Key.UP]),
        ("\r\n\t\x7f\x08", [Key.ENTER, Key.ENTER, Key.TAB, Key.BACKSPACE, Key.BACKSPACE]),
        ("\x1b", [Key.ESCAPE]),
        ("\x1b\x1b[A", [Key.ESCAPE, Key.UP]),
        ("\x1bsq\x1b\r", ["q"]),
        ("\x1b[200~", [Paste("")]),
        ("a\x1b[200~qs\nq\x1b[A\x1b[201~b", ["a", Paste("qs\nq\x1b[A"), "b"]),
        ("\x1b[200~cut", [Paste("cut")]),
        ("\x1b]11;rgb:1/2/3\x07a\x1bP1$r0q\x1b\\b\x1b_Gq\x1b\\c", ["a", "b", "c"]),
        ("\x1b]11;qqq", []),
        ("\x1b]11;qq\x1b[A\x1bPq\rq", [Key.UP, Key.ENTER, "q"]),
        ("\x1b]", []),
        ("\x1b[<0;10;10M\x1b[Ia", ["a"]),
        ("\x00\x01\x0c\x9b", []),
    ],
)
def test_what_a_terminal_sends_is_decoded(sent: str, keys: list[str]) -> None:
    heard = decode(sent)
    assert heard == keys
    assert [type(key) for key in heard] == [type(key) for key in keys]


@given(st.text(st.sampled_from("\x1b[O~;15AHx\r]P\\\x07")))
def test_any_bytes_are_keys_or_nothing(sent: str) -> None:
    assert all(key in set(Key) or key.isprintable() for key in decode(sent))


@pytest.mark.parametrize("text", ["x\x1b[200~qs\x1b[201~y\x1b[A", "\x1b]11;rgb:q\x1b\\y", "\x1bPq\x07\x1b[5~"])
def test_in_whatever_pieces_it_arrives_it_is_the_same(text: str) -> None:
    for at in range(len(text)):
        decoder = Decoder()
        assert [*decoder.feed(text[:at]), *decoder.feed(text[at:]), *decoder.give_up()] == decode(text)
    decoder = Decoder()
    assert [key for letter in text for key in decoder.feed(letter)] == decode(text)


def test_of_a_text_without_end_no_more_is_kept_than_anybody_pastes() -> None:
    decoder = Decoder()
    assert decoder.feed("\x1b[200~") == []
    for _ in range(300):
        assert decoder.feed("q" * 999) == []
    assert decoder.feed("q\x1b[20") == []
    heard = decoder.feed("1~s")
    assert [len(key) < 110_000 for key in heard] == [True, True]
    assert isinstance(heard[0], Paste)
    assert heard[1] == "s"


_SHELL = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTTOU])
if job := os.fork():
    signal.sigwait([signal.SIGUSR1])
    os.tcsetpgrp(0, job)  # fg
    sys.exit(os.waitpid(job, 0)[1])
os.setpgid(0, 0)
"""
"""What begins a program in the background of its terminal, and brings it forward at a signal."""

_PROGRAM = """
import sys
from ralph.ui.keys import Keyboard, Paste
with Keyboard(sys.stdin) as keyboard:
    print("ready", flush=True)
    while True:
        keys = keyboard.listen(0.02)
        if keys or keyboard.returns:
            print([repr(key) if isinstance(key, Paste) else str(key) for key in keys], keyboard.returns, flush=True)
            keyboard.returns = 0
        if "q" in keys:
            break
"""


@contextmanager
def listener(program: str = _PROGRAM) -> Iterator[int]:
    with started(program) as (_, ours):
        yield ours


@contextmanager
def started(program: str, typed: bytes = b"") -> Iterator[tuple[int, int]]:
    pid, ours = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    os.write(ours, typed)
    try:
        yield pid, ours
    finally:
        kill_tree(pid)
        os.waitpid(pid, 0)
        os.close(ours)


class Heard:
    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._said = b""
        os.set_blocking(terminal, False)

    @property
    def said(self) -> str:
        with suppress(OSError):
            self._said += os.read(self._terminal, 4096)
        return self._said.decode()

    def has(self, text: str) -> bool:
        return text in self.said


def bytes_read_by(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


def heard_of(pieces: list[bytes], patience: float) -> tuple[str, bool]:
    """What is heard of pieces of which each was read before the next one came; whether one may have been too late."""
    written: list[tuple[float, float]] = []
    with started(_PROGRAM) as (pid, terminal):
        heard = Heard(terminal)
        wait_until(lambda: heard.has("ready"), "the keyboard")
        for piece in pieces:
            enough = bytes_read_by(pid) + len(piece)
            before = time.monotonic()
            os.write(terminal, piece)
            written.append((before, time.monotonic()))
            wait_until(lambda enough=enough: bytes_read_by(pid) >= enough, "somebody who reads it")
        os.write(terminal, b"x")
        wait_until(lambda: heard.has("'x'"), "the key after it")
        # At the most: who writes may have lost the processor between a write and a look at the clock.
        late = any(after - before > 0.9 * patience for (before, _), (_, after) in pairwise(written))
        return heard.said, late


def require_heard(words: str, pieces: list[bytes], patience: float) -> None:
    """Only on a machine so busy that a piece came later than any terminal sends it, it is tried again."""
    for _ in range(5):
        heard, is_late = heard_of(pieces, patience)
        if words in heard:
            return
        assert is_late, heard
    pytest.fail("each time a piece was late")


@pytest.mark.parametrize(
    ("pieces", "key"), [([b"\x1b", b"[B"], "down"), ([b"\x1b[", b"A"], "up"), ([b"\x1b", b"[6", b"~"], "page down")]
)
def test_a_key_that_arrives_in_pieces_is_one(pieces: list[bytes], key: str) -> None:
    require_heard(f"['{key}'", pieces, patience=0.05)


def test_a_text_that_is_pasted_in_pieces_is_one() -> None:
    require_heard("""["'quit'"] 0""", [b"\x1b[200~qu", b"it\x1b[2", b"01~"], patience=1.0)


def test_esc_alone_is_heard_soon() -> None:
    with listener() as terminal:
        heard = Heard(terminal)
        wait_until(lambda: heard.has("ready"), "the keyboard")
        os.write(terminal, b"\x1b")
        wait_until(lambda: heard.has("['esc'] 0"), "esc")


def test_a_text_that_is_pasted_without_an_end_is_one() -> None:
    with listener() as terminal:
        heard = Heard(terminal)
        wait_until(lambda: heard.has("ready"), "the keyboard")
        os.write(terminal, b"\x1b[200~cut off")
        wait_until(lambda: heard.has("""["'cut off'"] 0"""), "what came of it")
        os.write(terminal, b"y")
        wait_until(lambda: heard.has("['y'] 0"), "the key after it")


def test_the_terminal_that_a_shell_had_in_between_is_missed_once_and_given_back_as_it_was() -> None:
    with listener() as terminal:
        heard = Heard(terminal)
        wait_until(lambda: heard.has("ready"), "the keyboard")
        settings = termios.tcgetattr(terminal)
        settings[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(terminal, termios.TCSANOW, settings)
        wait_until(lambda: heard.has("[] 1"), "the return")
        os.write(terminal, b"q")
        wait_until(lambda: heard.has("['q'] 0"), "a key")
        wait_until(lambda: termios.tcgetattr(terminal)[3] & termios.ECHO, "the echo")


def test_a_key_that_is_pressed_when_the_echo_is_off_is_heard() -> None:
    """Whoever sees by that that the terminal is ralph's again means the key for it."""
    with listener() as terminal:
        heard = Heard(terminal)
        wait_until(lambda: heard.has("ready"), "the keyboard")
        for count in range(1, 51):
            settings = termios.tcgetattr(terminal)
            settings[3] |= termios.ICANON | termios.ECHO
            termios.tcsetattr(terminal, termios.TCSANOW, settings)
            while termios.tcgetattr(terminal)[3] & termios.ECHO:
                pass
            os.write(terminal, b"x")
            wait_until(lambda count=count: heard.said.count("'x'") == count, f"key {count}", timeout=10)


def test_what_was_typed_before_is_no_key() -> None:
    with started(_PROGRAM, typed=b"abc\nq") as (_, terminal):
        heard = Heard(terminal)
        wait_until(lambda: heard.has("ready"), "the keyboard")
        os.write(terminal, b"x")
        wait_until(lambda: heard.has("['x'] 0"), "the first key")
        assert not heard.has("'q'")


def test_who_began_in_the_background_hears_keys_when_it_comes_forward() -> None:
    with started(_SHELL + _PROGRAM) as (pid, terminal):
        heard = Heard(terminal)
        wait_until(lambda: heard.has("ready"), "the keyboard")
        os.write(terminal, b"a\n")  # a shell's
        os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: heard.has("[] 1"), "the return")
        os.write(terminal, b"x")
        wait_until(lambda: heard.has("['x'] 0"), "a key")
        assert not heard.has("'a'")
        assert not termios.tcgetattr(terminal)[3] & termios.ECHO
        os.write(terminal, b"q")
        wait_until(lambda: termios.tcgetattr(terminal)[3] & termios.ECHO, "the echo")
