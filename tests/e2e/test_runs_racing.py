"""Many goals done at the same moment, and somebody else who pushes meanwhile: main takes one after the other.

The check itself keeps the book: which tree it judged, and where. What is on main must stand there to the bit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.batches import CHECK_TEXTS, Batch, merged_goals, require_green_history, require_linear, says, shell
from tests.support.forms import ROUNDS
from tests.support.git_repos import commits, git, make_repo

pytestmark = pytest.mark.long

RACERS = 12
MOST_ROUNDS = 5


def judged_on_the_way(book: Path) -> list[str]:
    """The trees that were judged in clean checkouts, in that order; a goal's own clone is not one."""
    entries = [line.split() for line in book.read_text().splitlines()]
    return [tree for place, tree in entries if "/checkouts/" in place]


def keeping(book: Path, then: str = "") -> str:
    """The usual check; before it judges, it writes down the files that are there, by what git would make of them."""
    # An index of its own: what is written down are the files as they lie there, not what somebody committed.
    tree = "GIT_INDEX_FILE=$(mktemp -u) sh -c 'git add --all && git write-tree; rm -f $GIT_INDEX_FILE'"
    return CHECK_TEXTS.replace("\n", f'\necho "$(pwd) $({tree})" >> {book}\n{then}\n', 1)


def race(batch: Batch, names: list[str], upstream: Path) -> None:
    """Have all goals reach their end together: none says DONE before each has written its text."""
    ready = batch.root / "ready"
    ready.mkdir()
    for name in names:
        together = f'touch {ready}/{name}; until [ "$(ls {ready} | wc -l)" -ge {len(names)} ]; do sleep 0.05; done'
        batch.goal(name, [[shell(f"mkdir -p texts; echo Fine. > texts/{name}.txt; {together}"), says("DONE")]])

    finished = batch.run(batch.root / "goals", "--repo", upstream, "--max", str(len(names)), timeout=300)

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert batch.states() == dict.fromkeys(names, "done")
    assert sorted(merged_goals(upstream)) == sorted(names)
    assert batch.leftovers() == []
    require_linear(upstream)


def require_all_judged(upstream: Path, book: Path) -> None:
    """Fail if a goal's commit on main holds any tree but one that the check was given in a clean checkout."""
    judged = judged_on_the_way(book)
    ours = [commit.sha for commit in commits(upstream, "main") if "Ralph-Goal" in commit.trailers]
    assert [sha for sha in ours if git(upstream, "rev-parse", f"{sha}^{{tree}}") not in judged] == []


@pytest.mark.parametrize("number", range(min(ROUNDS, MOST_ROUNDS)))
def test_goals_that_race_for_one_main_are_all_merged_with_a_check_each(
    batch: Batch, tmp_path: Path, number: int
) -> None:
    book = batch.root / f"book-{number}"
    upstream = batch.upstream(check=keeping(book))

    race(batch, [f"racer-{racer}" for racer in range(RACERS)], upstream)

    assert len(judged_on_the_way(book)) <= RACERS + 1
    require_all_judged(upstream, book)
    require_green_history(upstream, tmp_path / "history")


def test_what_somebody_else_pushes_meanwhile_is_checked_together_with_the_work(batch: Batch, tmp_path: Path) -> None:
    book = batch.root / "book"
    push = batch.root / "push"
    # In the middle of a check on the way to main, which by then judges what will not be there.
    meddle = f'case "$(pwd)" in */checkouts/*) {push} ;; esac'
    upstream = batch.upstream(check=keeping(book, meddle))
    outsider = make_repo(batch.root / "outsider", commit=False)
    push.write_text(
        f"""#!/bin/sh
cd {outsider} || exit 1
git fetch --quiet {upstream} main
git reset --quiet --hard FETCH_HEAD
pushed=$(ls outside | wc -l)
[ "$pushed" -lt 3 ] || exit 0
mkdir -p outside && echo Hello. > "outside/$pushed.txt"
git add --all && git commit --quiet -mOutside && git push --quiet {upstream} HEAD:main
"""
    )
    push.chmod(0o755)

    race(batch, [f"racer-{racer}" for racer in range(4)], upstream)

    assert [commit.subject for commit in commits(upstream, "main")].count("Outside") == 3
    assert len(judged_on_the_way(book)) == 4 + 3
    require_all_judged(upstream, book)
    require_green_history(upstream, tmp_path / "history")
