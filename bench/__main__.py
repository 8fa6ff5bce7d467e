"""`python -m bench`: measure everything, print the results, and keep those of a full run in `bench/RESULTS.md`."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import agents, batches, clones, dashboard, iterations, latency, live, memory, report, startup, throughput
from bench.arena import Arena, Unmeasurable, arena
from bench.figures import Figure
from bench.peer import Peer, find_peer
from tools import fetch

RESULTS = Path(__file__).with_name("RESULTS.md")
PYTHON = Path(sys.executable)
CACHE = fetch.cache_dir(os.environ)

Section = Callable[[Arena, Peer | Unmeasurable, bool], list[Figure]]

SECTIONS: dict[str, tuple[str, Section]] = {
    "startup": ("Start-up", lambda arena, _, quick: startup.measure(arena, python=PYTHON, rounds=15 if quick else 40)),
    "agents": (
        "ralph-claude",
        lambda arena, _, quick: agents.measure(
            arena, ours=PYTHON.with_name("ralph-claude"), cache=CACHE, rounds=4 if quick else 12
        ),
    ),
    "iterations": (
        "Overhead per iteration",
        lambda arena, _, quick: iterations.measure(
            arena,
            rounds=5 if quick else 15,
            count=40 if quick else 50,
            long_rounds=1 if quick else 2,
            long_count=200 if quick else 2000,
        ),
    ),
    "throughput": (
        "Stream throughput",
        lambda arena, peer, quick: throughput.measure(
            arena, peer, rounds=2 if quick else 7, megabytes=20 if quick else 100
        ),
    ),
    "latency": (
        "Latency",
        lambda arena, peer, quick: latency.measure(
            arena, peer, rounds=2 if quick else 7, events=200 if quick else 1000
        ),
    ),
    "memory": (
        "Memory",
        lambda arena, _, quick: memory.measure(
            arena, rounds=2 if quick else 5, stream_rounds=1 if quick else 2, megabytes=100 if quick else 1000
        ),
    ),
    "live": (
        "Live view",
        lambda arena, _, quick: live.measure(
            arena, rounds=2 if quick else 5, pairs=300 if quick else 1000, megabytes=10 if quick else 50
        ),
    ),
    "clones": (
        "Working clones",
        lambda arena, _, quick: clones.measure(arena, rounds=1 if quick else 4, count=4 if quick else 20),
    ),
    "batches": (
        "ralph-runs",
        lambda arena, _, quick: batches.measure(
            arena, children=8 if quick else 50, quiet=5 if quick else 60, rounds=3 if quick else 12
        ),
    ),
    "dashboard": (
        "Dashboard",
        lambda arena, _, quick: dashboard.measure(arena, rounds=2 if quick else 5, seconds=4.0 if quick else 8.0),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a minute or two, for a look; keeps nothing")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="only this section; the others stay")
    parser.add_argument("--ralph", type=Path, default=PYTHON.with_name("ralph"), help="the console script to measure")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is cleaned up
    results: dict[str, str] = {}
    try:
        with arena(options.ralph.absolute()) as place:
            peer = find_peer()
            for name, (title, section) in SECTIONS.items():
                if not options.only or name in options.only:
                    begun, load = time.monotonic(), os.getloadavg()[0]
                    results[title] = report.section(section(place, peer, options.quick), load_before=load)
                    print(f"{title}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    except Unmeasurable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.quick:
        print(report.page(results))
        return 0
    known = report.sections_of(RESULTS.read_text()) | results
    page = report.page({title: known[title] for title, _ in SECTIONS.values() if title in known})
    print(page)
    RESULTS.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
