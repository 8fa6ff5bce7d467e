"""A program in a real pseudo-terminal, filmed: what its screen showed, and when."""

import os
import pty
import select
import termios
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyte

_SHUTTER = 0.05
"""Seconds between two frames."""
_DIM, _GREY = 2, 90
_ALTERNATE = 1049


@dataclass(frozen=True, slots=True)
class Run:
    """Letters in a row that look the same, from a column on."""

    column: int
    text: str
    colour: str
    bold: bool
    reverse: bool


Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    at: float
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Press:
    """Keys, once the screen shows these words and then so many seconds have passed."""

    keys: str
    sees: str
    after: float = 0.5


class _Screen(pyte.Screen):
    """A screen with what pyte's lacks: faint letters, which are grey here, and the alternate screen (DECSET 1049)."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows)
        self._primary: dict[int, Any] | None = None
        """The rows of the user's own screen while the alternate one is shown."""

    def select_graphic_rendition(self, *attrs: int, **options: Any) -> None:
        super().select_graphic_rendition(*(_GREY if code == _DIM else code for code in attrs), **options)

    def set_mode(self, *modes: int, **options: Any) -> None:
        super().set_mode(*modes, **options)
        if options.get("private") and _ALTERNATE in modes and self._primary is None:
            self.save_cursor()
            self._primary = dict(self.buffer)
            self.buffer.clear()

    def reset_mode(self, *modes: int, **options: Any) -> None:
        super().reset_mode(*modes, **options)
        if options.get("private") and _ALTERNATE in modes and self._primary is not None:
            self.buffer.clear()
            self.buffer.update(self._primary)
            self._primary = None
            self.restore_cursor()


def record(
    argv: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    columns: int,
    rows: int,
    presses: Iterable[Press] = (),
    hidden: Mapping[str, str] | None = None,
) -> list[Frame]:
    """Run a program to its end and return what was seen; `hidden` words are shown as others: a path of this machine."""
    screen = _Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(str(argv[0]), [str(word) for word in argv], {**env, "TERM": "xterm-256color"})  # noqa: S606
    termios.tcsetwinsize(terminal, (rows, columns))
    waiting = list(presses)
    seen_at: float | None = None
    frames: list[Frame] = []
    began = time.monotonic()
    while (data := _read(terminal)) is not None:
        stream.feed(data)
        now = time.monotonic() - began
        frame = Frame(now, tuple(_row(screen, number, hidden or {}) for number in range(rows)))
        if not frames or frame.rows != frames[-1].rows:
            frames.append(frame)
        if waiting:
            if seen_at is None and any(waiting[0].sees in line for line in screen.display):
                seen_at = now
            if seen_at is not None and now >= seen_at + waiting[0].after:
                os.write(terminal, waiting.pop(0).keys.encode())
                seen_at = None
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{argv[0]} ended with {os.waitstatus_to_exitcode(status)}:\n" + "\n".join(screen.display))
    if waiting:
        raise SystemExit(f"the screen never showed {waiting[0].sees!r}:\n" + "\n".join(screen.display))
    return frames


def _read(terminal: int) -> bytes | None:
    """What was written until the next frame is due; None at the end."""
    data = b""
    due = time.monotonic() + _SHUTTER
    while (left := due - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                chunk = os.read(terminal, 1 << 16)
            except OSError:  # the other side is closed
                chunk = b""
            if not chunk:
                return data or None
            data += chunk
    return data


def _row(screen: pyte.Screen, number: int, hidden: Mapping[str, str]) -> Row:
    runs: list[Run] = []
    line = screen.buffer[number]
    for column in range(screen.columns):
        letter = line[column]
        look = (letter.fg, bool(letter.bold), bool(letter.reverse))
        last = runs[-1] if runs else None
        if last is not None and look == (last.colour, last.bold, last.reverse):
            runs[-1] = Run(last.column, last.text + letter.data, *look)
        else:
            runs.append(Run(column, letter.data, *look))
    shown = [replace(run, text=_without(run, hidden, screen.columns)) for run in runs]
    return tuple(run for run in shown if run.text.strip() or run.reverse)


def _without(run: Run, hidden: Mapping[str, str], columns: int) -> str:
    text = run.text
    for word, instead in hidden.items():
        text = text.replace(word, instead)
    return text[: columns - run.column]
