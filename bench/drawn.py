"""A dashboard of fifty goals at work, drawn into the terminal that this is started in, until it is ended.

`python -m bench.drawn ralph|rich|lines FOLDER`: ralph's own; rich's table, built anew for each frame; lines put
together by hand, which is the least that it takes. The first two read the goals from the same queue once a second. Of
every goal there is something new each second; ralph also previews the first goal's transcript while it is written.
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ralph.core import ndjson
from ralph.core.events import Tag, Text, ToolEnd, ToolOutput, ToolStart, ToolStatus
from ralph.core.records import to_json
from ralph.core.text import timestamp
from ralph.queue.database import default_url
from ralph.queue.goals import BatchGoal, State, Submission
from ralph.queue.news import Budget, Bulletin, GoalStatus
from ralph.queue.paths import queue_paths
from ralph.queue.store import Store, open_store

GOALS, FRAMES = 50, 4


def main() -> None:
    contestant, folder = sys.argv[1], Path(sys.argv[2])
    store = open_store(default_url(folder))
    if store is None:
        raise SystemExit(f"there is no queue in {folder}")
    CONTESTANTS[contestant](store, folder)


def fill(folder: Path) -> Path:
    """Make a queue with goals that are said to run; return where the first one's run writes its events."""
    store = open_store(default_url(folder))
    if store is None:
        raise SystemExit(f"there can be no queue in {folder}")
    text = "## Objective\nDo what is asked for, and prove it.\n" * 20
    names = [f"goal-number-{number}" for number in range(1, GOALS + 1)]
    asked = [Submission(name, name.title(), text, f"/goals/{name}.md", "/srv/shop.git") for name in names]
    for submitted in store.submit(asked, State.QUEUED):
        store.move(submitted.goal, State.RUNNING, {"starts": 1, "attempts": 1})
    file = transcript(folder, store)
    file.parent.mkdir(parents=True)
    for number in range(100):
        tell(file, number)
    store.close()
    return file


def transcript(folder: Path, store: Store) -> Path:
    """Where the events of the first goal's run are written."""
    return queue_paths(folder, store.queue_id).run_directory(store.goal(1)) / "events.ndjson"


def tell(file: Path, number: int) -> None:
    """Have the first goal's agent say and do something."""
    events = (
        Text(Tag.AI, f"I look at `tests/test_{number}.py` **again**, and run what is red:\n\n- parser\n- lexer"),
        ToolStart(f"t{number}", "Bash", {"command": f"pytest -q tests/test_{number}.py"}),
        ToolOutput(f"t{number}", "...F..\n1 failed, 5 passed"),
        ToolEnd(f"t{number}", ToolStatus.OK, 1500),
    )
    with file.open("ab") as appended:
        for event in events:
            appended.write(ndjson.encode_line({**to_json(event), "at": timestamp(time.time())}))


def bulletin() -> Bulletin:
    """Another one each second: iteration, context, cost, tokens and activity of every goal."""
    now = time.time()
    turn = int(now) * 1000
    sights = {
        number: GoalStatus(
            f"Bash make test-{turn % 9973}",
            now - number,
            None,
            turn % 97 + number,
            float((turn + number) % 100),
            (turn % 4999) / 100 + number,
            turn % 99_991 + number,
            now - 60 * number,
        )
        for number in range(1, GOALS + 1)
    }
    return Bulletin(now, "mill", 4321, now - 4000, GOALS, Budget(100.0), turn % 9000 / 100, turn % 99_991, sights)


def by_ralph(store: Store, folder: Path) -> None:
    from ralph.dashboard.screen import DashboardTerminal, Drawing
    from ralph.dashboard.source import BoardSource
    from ralph.queue.open import QueueAddress

    place = QueueAddress(default_url(folder), folder, {}, GOALS, "claude")
    ground = DashboardTerminal(sys.stdin, sys.stdout, True, lambda: 0)
    Drawing(ground, place, store, BoardSource(place, store, bulletin)).draw(lambda: False)


def by_rich(store: Store, _folder: Path) -> None:
    from rich.live import Live
    from rich.table import Table

    with Live(auto_refresh=False, screen=True) as live:
        for goals in _each_frame(store.goals):
            told = bulletin()
            table = Table("id", "goal", "iter", "context", "tokens", "cost", "time", "doing", expand=True, box=None)
            for goal in goals:
                table.add_row(*_cells(goal, told))
            live.update(table, refresh=True)


def by_lines(store: Store, _folder: Path) -> None:
    sys.stdout.write("\x1b[?1049h\x1b[2J")
    for goals in _each_frame(store.goals, every=1_000_000):
        told = bulletin()
        lines = (" ".join(f"{cell:<12}" for cell in _cells(goal, told)) for goal in goals)
        sys.stdout.write("".join(f"\x1b[{row};1H{line}\x1b[K" for row, line in enumerate(lines, start=1)))
        sys.stdout.flush()


def _each_frame(read: Callable[[], Sequence[BatchGoal]], every: int = FRAMES) -> Iterator[Sequence[BatchGoal]]:
    """Goals, read anew after so many frames, at the pace of the frames."""
    begun, goals = time.monotonic(), read()
    for number in itertools.count(1):
        time.sleep(max(0.0, begun + number / FRAMES - time.monotonic()))
        if number % every == 0:
            goals = read()
        yield goals


def _cells(goal: BatchGoal, told: Bulletin) -> tuple[str, ...]:
    sight = told.statuses[goal.id]
    context = sight.context_pct or 0.0
    full = round(context * 8 / 100)
    return (
        goal.label,
        goal.name,
        str(sight.iteration),
        f"{'█' * full}{'░' * (8 - full)} {context:.0f}%",
        f"{sight.tokens:,}",
        f"${sight.cost_usd:.2f}",
        f"{told.at - sight.started:.0f}s",
        f"{sight.doing} {told.at - sight.since:.0f}s",
    )


CONTESTANTS = {"ralph": by_ralph, "rich": by_rich, "lines": by_lines}

if __name__ == "__main__":
    main()
