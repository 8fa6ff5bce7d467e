"""What the terminal is that ralph was started in: whether a live view can be shown there, and in colours."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

_LEAST_COLUMNS, _LEAST_ROWS = 40, 8
"""Below that, lines one under the other are easier to read."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Decided once, when a command begins."""

    lively: bool
    """A view may redraw itself."""
    colour: bool


def terminal(stream: TextIO | None, env: Mapping[str, str]) -> Terminal:
    """Look at a stream, as a rule stdout; `CI` says that nobody watches, whatever it looks like."""
    try:
        size = os.get_terminal_size(stream.fileno()) if stream is not None and stream.isatty() else None
    except (OSError, ValueError):
        size = None
    if size is None or env.get("TERM", "") in ("", "dumb") or env.get("CI", "") not in ("", "0", "false"):
        return Terminal(lively=False, colour=False)
    lively = size.columns >= _LEAST_COLUMNS and size.lines >= _LEAST_ROWS
    return Terminal(lively, colour=not env.get("NO_COLOR"))


def in_foreground(stream: TextIO | None) -> bool:
    """Whether the terminal is ralph's to draw in: from the background it would draw over the shell that started it."""
    try:
        return stream is not None and os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True  # it is nobody's: no shell hands it out


def is_attended(stream: TextIO | None) -> bool:
    """Whether keys can come from there, stdin as a rule: a terminal's, and not one that we are in the background of."""
    try:
        return stream is not None and stream.isatty() and in_foreground(stream)
    except ValueError:
        return False
