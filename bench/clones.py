"""Working clones of a repository with 5000 files: from the mirror that a batch shares, against `git clone` for each.

Time from nothing to the last clone checked out, one after the other, the mirror's own fetch included; and the disk that
all of it takes. The repository has 50 commits, and both sides copy it over git's own transport, as from a server.
"""

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.arena import Arena
from bench.figures import Figure, interleave, ratios
from ralph.batch.mirror import open_mirror

_FOLDERS, _FILES, _COMMITS, _SIZE = 250, 20, 50, 4400
_BLOCK = 512


def measure(arena: Arena, *, rounds: int, count: int) -> list[Figure]:
    upstream = _upstream(arena)
    disk: dict[str, list[float]] = {"mirror": [], "plain": []}

    def timed(name: str, make: Callable[[Path], None]) -> float:
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=arena.root))
        begun = time.perf_counter()
        make(place)
        taken = time.perf_counter() - begun
        disk[name].append(sum(path.lstat().st_blocks * _BLOCK for path in place.rglob("*")))
        shutil.rmtree(place)
        return taken

    def from_mirror(place: Path) -> None:
        mirror = open_mirror(place, f"file://{upstream}")
        mirror.refresh()
        for number in range(count):
            mirror.clone(place / "clones" / str(number), f"ralph/goal-{number}")

    def plainly(place: Path) -> None:
        for number in range(count):
            argv = ["git", "clone", "--quiet", f"file://{upstream}", str(place / str(number))]
            subprocess.run(argv, env=arena.environment({}), check=True)

    contestants = {"mirror": lambda: timed("mirror", from_mirror), "plain": lambda: timed("plain", plainly)}
    taken = interleave(contestants, rounds)
    return [
        Figure(f"{count} clones of 5000 files, time: ralph's / `git clone`'s", ratios(taken["mirror"], taken["plain"])),
        Figure(f"{count} clones of 5000 files, disk: ralph's / `git clone`'s", ratios(disk["mirror"], disk["plain"])),
        Figure("one clone of 5000 files: ralph", [seconds / count for seconds in taken["mirror"]], "s"),
        Figure("one clone of 5000 files: `git clone`", [seconds / count for seconds in taken["plain"]], "s"),
    ]


def _upstream(arena: Arena) -> Path:
    """Text that packs as source code does, about four to one; each commit changes a file in every fifth folder."""
    tree, chance = arena.root / "large", random.Random(0)  # noqa: S311 - the same text every time
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(2000)]

    def write(folder: int, file: int) -> None:
        text = " ".join(chance.choices(words, k=_SIZE // 6))
        (tree / f"part{folder}" / f"module{file}.txt").write_text(text)

    for folder in range(_FOLDERS):
        (tree / f"part{folder}").mkdir(parents=True)
        for file in range(_FILES):
            write(folder, file)
    _git(arena, tree, "init", "--quiet")
    for number in range(_COMMITS):
        for folder in range(0, _FOLDERS, 5) if number else ():
            write(folder, number % _FILES)
        _git(arena, tree, "add", "--all")
        _git(arena, tree, "commit", "--quiet", f"--message=Step {number}")
    _git(arena, tree, "gc", "--quiet")
    return tree


def _git(arena: Arena, tree: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=tree, env=arena.environment({}), check=True)
