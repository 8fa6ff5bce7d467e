"""Dashboard: the cost of fifty rows that all change every second beside an open preview, four frames a second.

The terminal is a real one of 200 by 60, and the previewed goal's agent writes two messages with a call a second. The
figure is the processor time of the whole process that draws. Reading the goals from the queue counts, starting the
process doesn't.
"""

import itertools
import shutil
import sys
import tempfile
from pathlib import Path

from bench import drawn
from bench.arena import Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.terminal import draw_in_terminal

_HERE = Path(__file__).parent.parent
_ROWS_AND_COLUMNS = (60, 200)
_NAMES = {"ralph": "ralph", "rich": "a rich table, rebuilt", "lines": "lines by hand (floor)"}


def measure(arena: Arena, brief: bool) -> list[Figure]:
    seconds, rounds = (3.0, 2) if brief else (6.0, 5)
    folder = Path(tempfile.mkdtemp(prefix="queue-", dir=arena.root))
    events = drawn.fill(folder)
    taken = interleave(
        {name: lambda name=name: _share(arena, name, folder, seconds, events) for name in _NAMES}, rounds
    )
    shutil.rmtree(folder)
    what = f"{drawn.GOALS} busy rows and a preview, {drawn.FRAMES} frames a second, share of a core"
    return [
        Figure(f"{what}: {_NAMES['ralph']}", taken["ralph"], "%", 5.0),
        *(Figure(f"{what}: {_NAMES[name]}", taken[name], "%") for name in ("rich", "lines")),
        Figure("the rich table's share / ralph's", ratios(taken["rich"], taken["ralph"]), "x"),
    ]


def _share(arena: Arena, contestant: str, folder: Path, seconds: float, events: Path) -> float:
    """Return the percentage of one core that a contestant takes while it draws, as a run writes its events."""
    argv = [sys.executable, "-m", "bench.drawn", contestant, str(folder)]
    numbers = itertools.count()
    shown = draw_in_terminal(
        argv,
        _HERE,
        arena.environment({}),
        seconds,
        size=_ROWS_AND_COLUMNS,
        beat=lambda _: drawn.tell(events, next(numbers)),
    )
    least = seconds * drawn.GOALS * 20  # bytes: all rows, each second
    if len(shown.output) < least:
        raise Unmeasurable(f"the dashboard of {contestant} drew {len(shown.output)} bytes, not {least:.0f}")
    return shown.share
