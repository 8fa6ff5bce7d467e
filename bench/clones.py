"""Working clones of a repository with 5000 files: ralph's, against `git clone` and `git clone --shared`.

Time from nothing to the last clone checked out, one after the other, and the disk that all of it takes. ralph's clones
share a mirror of its own, `--shared` clones a bare one; filling either counts. The repository has 50 commits, and the
mirrors and plain clones copy it over git's own transport, as from a server.
"""

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.arena import Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from ralph.queue.repos.mirror import open_mirror

_FOLDERS, _FILES, _COMMITS, _SIZE = 250, 20, 50, 4400
_BLOCK = 512


def measure(arena: Arena, brief: bool) -> list[Figure]:
    count, rounds = (3, 1) if brief else (8, 4)
    upstream = _upstream(arena)
    url = f"file://{upstream}"

    def mirrored(place: Path) -> None:
        mirror = open_mirror(place, url)
        mirror.refresh()
        for number in range(count):
            mirror.clone(place / "clones" / str(number), f"ralph/goal-{number}")

    def shared(place: Path) -> None:
        bare = str(place / "bare.git")
        _git(arena, place, "clone", "--quiet", "--mirror", url, bare)
        for number in range(count):
            _git(arena, place, "clone", "--quiet", "--shared", bare, str(place / str(number)))

    def plain(place: Path) -> None:
        for number in range(count):
            _git(arena, place, "clone", "--quiet", url, str(place / str(number)))

    methods: dict[str, Callable[[Path], None]] = {"ralph": mirrored, "shared": shared, "plain": plain}
    disk: dict[str, list[float]] = {name: [] for name in methods}

    def timed(name: str) -> float:
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=arena.root))
        begun = time.perf_counter()
        methods[name](place)
        taken = time.perf_counter() - begun
        disk[name].append(sum(path.lstat().st_blocks * _BLOCK for path in place.rglob("*")))
        shutil.rmtree(place)
        return taken

    taken = interleave({name: lambda name=name: timed(name) for name in methods}, rounds)
    shutil.rmtree(upstream)
    figures: list[Figure] = []
    for name, words in (("shared", "`git clone --shared`"), ("plain", "`git clone`")):
        what = f"{count} clones of 5000 files"
        figures.append(Figure(f"{what}, time: ralph's / {words}'s", ratios(taken["ralph"], taken[name])))
        figures.append(Figure(f"{what}, disk: ralph's / {words}'s", ratios(disk["ralph"], disk[name])))
    return [*figures, Figure("one clone of 5000 files: ralph", [seconds / count for seconds in taken["ralph"]], "s")]


def _upstream(arena: Arena) -> Path:
    """Fill a repository with text that packs like source code; each commit changes a file in every fifth folder."""
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
    # Without the collection that git starts by itself in the background: it would meet ours, and disturb what is timed.
    argv = ["git", "-c", "gc.auto=0", *args]
    done = subprocess.run(argv, cwd=tree, env=arena.environment({}), check=False, capture_output=True, text=True)
    if done.returncode:
        raise Unmeasurable(f"{argv} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
