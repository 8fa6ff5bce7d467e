"""Where ralph looks for the programs that it runs itself: on PATH, but never in the repository.

A user of direnv has the repository's own folders on PATH (`PATH_add bin`), and an agent can write a `git` there.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path


def outside(path: str, root: Path) -> str:
    """PATH without the folders that lie in the repository that `root` is in, and those that lie wherever one stands."""
    around = _top(os.path.realpath(root)) + os.sep
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not _lies_in(folder, around))


def rejoined(path: str, searched: str, before: str) -> str:
    """A PATH that grew out of `searched`, what `outside` left of the one before: with that one whole in its place.

    Where it did not simply grow, what was taken out stands at its end.
    """
    if path.endswith(searched):
        return path[: len(path) - len(searched)] + before
    kept, left = path.split(os.pathsep), searched.split(os.pathsep)
    taken_out = [folder for folder in before.split(os.pathsep) if folder not in left and folder not in kept]
    return os.pathsep.join([*kept, *taken_out])


_LOADED = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")


def loading_outside(env: Mapping[str, str], root: Path) -> dict[str, str]:
    """Those variables by which programs would load libraries of the repository's, without its folders and files."""
    told = {name: env[name].replace(" ", os.pathsep) for name in _LOADED if env.get(name)}
    return {name: clean for name, value in told.items() if (clean := outside(value, root)) != value}


def passed_over(programs: Iterable[str], path: str, root: Path) -> list[str]:
    """The programs that would have been found in the repository, by their paths."""
    found = {program: shutil.which(program, path=path) for program in programs}
    around = _top(os.path.realpath(root)) + os.sep
    return [place for place in found.values() if place and _lies_in(os.path.dirname(place), around)]  # noqa: PTH120


def _lies_in(folder: str, around: str) -> bool:
    return not os.path.isabs(folder) or (os.path.realpath(folder) + os.sep).startswith(around)  # noqa: PTH117


def _top(place: str) -> str:
    """The repository around a place, as git would find it; the place itself where there is none."""
    for folder in (Path(place), *Path(place).parents):
        if (folder / ".git").is_file() or (folder / ".git" / "HEAD").exists():
            return str(folder)
    return place
