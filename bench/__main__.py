"""`python -m bench`: measure every section on one commit, print the results, and write them to `bench/RESULTS.md`.

Only a whole run on a clean commit writes. A tree with changes is refused before anything is measured, and at the end if
it has changed by then. `--quick` and `--only` print; `--short` prints and judges. `--against` compares with another
version's program, each in turn, and prints.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import comparison, report
from bench.arena import Arena, arena
from bench.commits import RESULTS, Unclean, clean_commit
from bench.figures import Figure, Unmeasurable
from bench.judging import TRIES, far_off
from bench.peers import Peers
from bench.report import Measured
from bench.sections import SECTIONS, Section
from ralph.ui.progress import ProgressScreen

RALPH = Path(sys.executable).with_name("ralph")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few rounds at small sizes; print only")
    parser.add_argument("--short", action="store_true", help=f"fail if a ratio is far off its target in {TRIES} tries")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="measure only this section; print only")
    parser.add_argument("--against", type=Path, metavar="PROGRAM", help="compare with this `ralph`; print only")
    options = parser.parse_args()
    if options.against is not None and (options.short or options.only):
        parser.error("--against measures a section of its own: leave --short and --only out")
    if options.against is not None and not os.access(options.against, os.X_OK):
        parser.error(f"--against: {options.against} is no program")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the arena is cleaned up
    chosen = {name: SECTIONS[name] for name in options.only or SECTIONS}
    try:
        if options.against is not None:
            other = options.against.absolute()
            compared = Section(f"Against {other}", lambda place, brief: comparison.measure(place, other, brief))
            return _show([compared], options.quick)
        if options.short:
            judged = [section for section in chosen.values() if section.has_ratios]
            if not judged:
                parser.error("--short judges ratios, and there are none in the chosen sections")
            return judge(judged)
        if options.quick or options.only:
            return _show(list(chosen.values()), options.quick)
        return _write()
    except (Unmeasurable, Unclean, report.MixedCommits) as error:
        print(f"error: cannot measure: {error}", file=sys.stderr)
        return 1


def _show(sections: Sequence[Section], brief: bool) -> int:
    with arena(RALPH, Peers(os.environ)) as place:
        measured = [_measured(place, section, "", brief) for section in sections]
    return _failed(measured)


def _write() -> int:
    """Measure everything on this commit and write the results, unless the tree is not that commit."""
    clean_commit()
    with arena(RALPH, Peers(os.environ)) as place:
        measured = [_measured(place, section, clean_commit(), False) for section in SECTIONS.values()]
    RESULTS.write_text(report.page(measured, clean_commit()))
    return _failed(measured)


def judge(sections: Sequence[Section]) -> int:
    """Measure briefly; fail if a ratio is far off its target in every try.

    Where everything must be real, nothing is measured without the peer: most targets are ratios to it.
    """
    peers = Peers(os.environ)
    if os.environ.get("RALPH_REQUIRE_REAL") == "1" and isinstance(peers.sdk, Unmeasurable):
        raise peers.sdk
    failed: list[Figure] = []
    with arena(RALPH, peers) as place:
        for section in sections:
            failed += far_off(lambda section=section: _figures(place, section))
    for figure in failed:
        print(f"error: far off its target in {TRIES} tries: {figure.name}", file=sys.stderr)
    return 1 if failed else 0


def _figures(place: Arena, section: Section) -> Sequence[Figure]:
    measured = _measured(place, section, "", True)
    if measured.failure:
        raise Unmeasurable(measured.failure)
    return measured.figures


def _measured(place: Arena, section: Section, commit: str, brief: bool) -> Measured:
    """Measure a section and print it. One that fails doesn't cost the others their run."""
    load, figures, failure = os.getloadavg()[0], list[Figure](), ""
    with ProgressScreen(sys.stderr, os.environ).shown(f"measuring {section.title}"):
        try:
            figures = section.measure(place, brief)
        except Unmeasurable as error:
            failure = str(error)
    measured = Measured(section.title, commit, figures, load, os.getloadavg()[0], failure)
    print(report.section_text(measured), flush=True)
    return measured


def _failed(sections: Sequence[Measured]) -> int:
    """Return the exit code: whether a section failed altogether. A missed target is a result, no failure."""
    return 1 if any(section.failure for section in sections) else 0


if __name__ == "__main__":
    sys.exit(main())
