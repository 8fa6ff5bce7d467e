"""Searching without ripgrep: a process of our own does it, and is ended when its time is up."""

import sys
from pathlib import Path

from ralph import jsonline
from ralph.agent.tools.base import Desk
from ralph.agent.tools.search import Search, SearchRejectedError
from ralph.agent.tools.searching import run_search

# -P: it is started in the user's repository, whose own `ralph/` or `json.py` must not be imported.
_ARGV = (sys.executable, "-P", "-m", "ralph.agent.tools.plain_search")


def search_plainly(asked: Search, desk: Desk) -> list[str]:
    """Let our own program search; of what it finds, hidden files are left out here."""
    from ralph.agent.tools.plain_search import order  # late: as a program it must be the first to import itself

    answer = _Answer(asked, desk)
    searched = run_search(_ARGV, desk, answer.hear, said=order(asked, desk.cwd))
    if searched.exit_code != 0:
        raise RuntimeError(f"the search ended with exit code {searched.exit_code}: {searched.complaints.strip()}")
    return answer.lines


class _Answer:
    """What the program says, record by record, as ripgrep's lines."""

    def __init__(self, asked: Search, desk: Desk) -> None:
        self.lines: list[str] = []
        self._hides = desk.hides
        self._parts = asked.mode == "content" and bool(asked.before or asked.after)
        self._hidden = False

    def hear(self, record: bytes) -> None:
        match jsonline.sequence(jsonline.decode(record.decode("utf-8", "replace"))):
            case ["file", str(path)]:
                self._hidden = self._hides is not None and self._hides(Path(path))
                if self._parts and self.lines and not self._hidden:
                    self.lines.append("--")
            case ["line", str(line)] if not self._hidden:
                self.lines.append(line)
            case ["rejected", str(why)]:
                raise SearchRejectedError(why)
            case _:
                pass
