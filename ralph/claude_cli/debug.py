"""What --debug says: one line for each request, hook, permission decision and MCP connection.

Lines begin as those of Claude Code 2.1.325, and `!` leaves a category out as there. Two things differ. They go to
standard error unless a file is named: 2.1.325 wants --debug-to-stderr for that, and writes to `~/.claude/debug`
otherwise. And the categories may follow as a word of their own: 2.1.325 reads them in `--debug=api,hooks` only.
What the model, the user and the tools say is never in them.
"""

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ralph.claude_cli.flags import Given
from ralph.core.secrets import without_login

Category = Literal["api", "hooks", "mcp", "permissions"]

_STDERR = 2
_LONGEST = 2000
_QUERY = re.compile(r"(//[^\s?'\"]*)\?[^\s'\"]*")


@dataclass(frozen=True, slots=True)
class Debug:
    """Which categories are written, and where to."""

    is_on: bool = False
    wanted: frozenset[str] = frozenset()
    """Empty: all of them."""

    unwanted: frozenset[str] = frozenset()
    file: Path | None = None
    """None: standard error."""

    def tell(self, category: Category, fact: str, **details: object) -> None:
        """Write one line, if somebody wants it; that it cannot be written disturbs nothing."""
        if not self.is_on or category in self.unwanted or (self.wanted and category not in self.wanted):
            return
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z"
        told = " ".join([fact, *(f"{name}={value}" for name, value in details.items())])
        line = f"{stamp} [DEBUG] [{category}] {_plain(told)[:_LONGEST]}\n"
        with contextlib.suppress(OSError):
            self._write(line.encode("utf-8", "replace"))

    def begin(self) -> str:
        """Prepare the file; return what to tell the user if it cannot be written (2.1.325 says nothing)."""
        if self.file is None:
            return ""
        try:
            with contextlib.suppress(FileExistsError):  # a file stands there: opening says so better
                self.file.parent.mkdir(parents=True)
            self._write(b"")
        except OSError as error:
            return f"ralph-claude: cannot write debug output to {self.file}: {error.strerror}"
        return ""

    def _write(self, line: bytes) -> None:
        if self.file is None:
            os.write(_STDERR, line)
            return
        # Opened for each line: nothing that the session starts inherits it, and a pipe without a reader blocks nobody.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
        descriptor = os.open(self.file, flags, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


QUIET = Debug()


def debug_of(given: Given, cwd: Path) -> Debug:
    """What the flags ask for; each of the three turns it on, and --debug-to-stderr goes before a file (2.1.325)."""
    words = [word.strip().lower() for value in given.values.get("debug", ()) for word in value.split(",")]
    named = given.last("debug-file") or ""
    return Debug(
        is_on="debug" in given or "debug-to-stderr" in given or bool(named),
        wanted=frozenset(word for word in words if word and not word.startswith("!")),
        unwanted=frozenset(word[1:] for word in words if word.startswith("!")),
        file=cwd / named if named and "debug-to-stderr" not in given else None,
    )


def _plain(fact: str) -> str:
    """The text on one line, without what addresses keep secret, and nothing in it that a terminal would obey."""
    told = _QUERY.sub(r"\1?***", without_login(fact))
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in told)
