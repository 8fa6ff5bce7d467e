"""What files take on the disk, and what it frees to remove them: a file goes with the last of its names."""

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = 512
"""Bytes in what `st_blocks` counts, whatever the file system's own blocks are."""

Inode = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Linked:
    """A file of several names, of which some are here; others may be in a store of packages."""

    size: int
    names: int
    here: int


@dataclass(frozen=True, slots=True)
class Weight:
    """What a directory and all below it take."""

    own: int
    """Bytes of what has no name elsewhere."""
    linked: Mapping[Inode, Linked] = field(default_factory=dict[Inode, Linked])


def weigh(path: Path) -> Weight:
    """Look at all below a path; links are not followed."""
    own, linked = 0, dict[Inode, Linked]()
    for facts, is_folder in _all_below(path):
        size = facts.st_blocks * _BLOCK
        if is_folder or facts.st_nlink == 1:
            own += size
        else:
            key = (facts.st_dev, facts.st_ino)
            here = linked[key].here + 1 if key in linked else 1
            linked[key] = Linked(size, facts.st_nlink, here)
    return Weight(own, linked)


def freed(weights: Iterable[Weight]) -> list[int]:
    """What the removal of each in turn frees, in bytes, if all that come before it are removed."""
    met, sizes = Counter[Inode](), list[int]()
    for weight in weights:
        met.update({key: file.here for key, file in weight.linked.items()})
        last = (file.size for key, file in weight.linked.items() if met[key] >= file.names)
        sizes.append(weight.own + sum(last))
    return sizes


def taken(weights: Iterable[Weight]) -> list[int]:
    """What each takes, in bytes, that none before it has taken."""
    met, sizes = set[Inode](), list[int]()
    for weight in weights:
        sizes.append(weight.own + sum(file.size for key, file in weight.linked.items() if key not in met))
        met.update(weight.linked)
    return sizes


def _all_below(path: Path) -> Iterator[tuple[os.stat_result, bool]]:
    waiting = [os.fspath(path)]
    while waiting:
        place = waiting.pop()
        with contextlib.suppress(OSError):  # it is gone by now, or nobody may look into it
            facts = os.lstat(place)
            is_folder = stat.S_ISDIR(facts.st_mode)
            yield facts, is_folder
            if is_folder:
                with os.scandir(place) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        else:
                            yield entry.stat(follow_symlinks=False), False
