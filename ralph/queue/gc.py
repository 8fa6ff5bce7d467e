"""What a queue keeps on this machine: what of it can go, how much room that takes, and why the rest stays."""

import contextlib
import itertools
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from ralph.core.errors import RalphError
from ralph.core.progress import Reporter, TaskProgress, unreported
from ralph.queue.clone import Unsaved, examine, kept
from ralph.queue.discard import GOING, discard
from ralph.queue.goals import BatchGoal, State
from ralph.queue.paths import QueuePaths, is_elsewhere
from ralph.queue.repos.mirror import Mirror, clone_named, open_mirror
from ralph.state.lock import holder
from ralph.system.files import remove_tree

_OVER = (State.DONE, State.UNDONE, State.CANCELLED)
_ELSEWHERE = "{} is a link: what it points to may not belong to ralph"
_BLOCK = 512
"""Bytes in what `st_blocks` counts, whatever the file system's own blocks are."""

Inode = tuple[int, int]

Claim = Callable[[BatchGoal | None], AbstractContextManager[bool]]
"""Keeps everyone from a goal for as long as the context lasts, and tells whether it still is as it was seen.

Without a goal it keeps queue workers away, and tells whether there is none.
"""


class What(StrEnum):
    """The kind of a directory."""

    CLONE = "clone"
    SET_ASIDE = "set aside"
    """A clone that was no longer fit to work in."""
    HALF = "half made"
    """Made or removed by half, by a process that was cut off."""
    CHECKOUT = "checkout"
    """Where a merge is tried."""
    UNKNOWN = "unknown"
    QUEUE = "queue"
    """All that another queue has."""
    MIRRORS = "mirrors"
    CLONES = "clones"
    """Those of `ralph run --repo`."""
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Linked:
    """A file with several names; some are here, others may be in a package store."""

    size: int
    names: int
    here: int


@dataclass(frozen=True, slots=True)
class Weight:
    """What a directory and all below it take."""

    own: int
    """Bytes of what has no name elsewhere."""
    linked: Mapping[Inode, Linked] = field(default_factory=dict[Inode, Linked])


@dataclass(frozen=True, slots=True)
class Holding:
    """A directory, what it takes, and what is to become of it."""

    path: Path
    what: What
    weight: Weight
    goes: bool
    why: str
    goal: BatchGoal | None = None
    size: int = 0
    """Bytes: those that it frees, if it goes, else those that it takes."""
    unsaved: tuple[Unsaved, ...] = ()
    """What of it the mirror cannot take over: why it stays; or, if it goes all the same, what is lost."""
    mirror: Path | None = None
    kept: tuple[str, ...] = ()
    """The refs, in the mirror, under which what was only here is kept, now that it is gone."""


@dataclass(frozen=True, slots=True)
class GarbageCollection:
    """Looks through the directories of one queue, and beside them, and removes what can go."""

    paths: QueuePaths
    goals: Mapping[str, BatchGoal]
    """By the names of their clones."""
    served: str = ""
    """Who serves the queue: then only what belongs to goals that are over is nobody's any more."""

    def survey(self, report: Reporter = unreported) -> list[Holding]:
        """Look at everything there is; nothing is written."""
        found: list[Holding] = []
        for holding in itertools.chain(self._clones(), self._checkouts(), self._beside()):
            found.append(holding)
            report(TaskProgress(detail=f"{len(found):,} seen"))
        return settled(found)

    def forced(self, goals: Sequence[BatchGoal]) -> list[Holding]:
        """Look at the clones of goals that the user wants to remove anyway; ask first whether one is `in_use`."""
        wanted = {self.paths.clone(goal).name: goal for goal in goals}
        found: list[Holding] = []
        for path in _inside(self.paths.root / "clones"):
            half = path.name.startswith(".") and path.name.endswith(GOING)
            name = path.name.removeprefix(".").removesuffix(GOING) if half else path.name
            clone = clone_named(name)
            if (goal := wanted.get(clone)) is not None:
                what = What.HALF if half else What.SET_ASIDE if clone != name else What.CLONE
                found.append(self._forced(path, what, goal))
        return settled(found)

    def _forced(self, path: Path, what: What, goal: BatchGoal) -> Holding:
        weight = weigh(path)
        if is_elsewhere(path):
            return Holding(path, what, weight, goes=False, why=_ELSEWHERE.format(path.parent.name), goal=goal)
        if what is What.HALF:
            return Holding(path, what, weight, goes=True, why="left behind by an interrupted process", goal=goal)
        try:
            found = examine(self._mirror(goal), path, goal.branch)
        except (RalphError, OSError) as error:
            return Holding(path, what, weight, goes=False, why=str(error), goal=goal)
        but = f", but {found.why}" if found.why else ""
        return Holding(path, what, weight, goes=True, why=f"it is {goal.state}{but}", goal=goal, unsaved=found.unsaved)

    def remove(self, holding: Holding, claim: Claim, *, forced: bool = False) -> str:
        """Remove what can go, as it is now; or say why it stays after all.

        `forced`: the user has agreed to lose what of it is `unsaved`; should there be more by now, it stays.
        """
        goal = holding.goal
        try:
            if goal is None:
                return _remove_passing(holding.path, lambda: claim(None))
            if holding.what is What.HALF:
                remove_tree(holding.path)
                return ""
            if who := self._at_work(goal):
                return who
            # Of a clone that was set aside, the branch in the mirror may be ahead.
            finished = goal.state in (State.DONE, State.UNDONE) or holding.what is What.SET_ASIDE
            agreed = holding.unsaved if forced else None
            return discard(
                self._mirror(goal), holding.path, goal.branch,
                finished=finished, agreed=agreed, claim=lambda: claim(goal),
            )  # fmt: skip
        except RalphError as error:
            return error.message
        except OSError as error:
            return f"{error.strerror or error}: {error.filename or holding.path}"

    def kept(self, holding: Holding) -> tuple[Path, frozenset[str]] | None:
        """The mirror of a clone, and the refs that keep what only clones of that name had; None: it is no clone."""
        if (goal := holding.goal) is None:
            return None
        bare = open_mirror(self.paths.ralph_dir, goal.repo).bare
        return bare.path, frozenset(kept(bare, holding.path, goal.branch) if bare.path.is_dir() else ())

    def _clones(self) -> Iterator[Holding]:
        for path in _inside(self.paths.root / "clones"):
            if path.name.startswith("."):
                yield self._passing(path, What.HALF, "left behind by an interrupted process")
                continue
            name = clone_named(path.name)
            goal, aside = self.goals.get(name), name != path.name
            if goal is None:
                yield Holding(path, What.UNKNOWN, weigh(path), goes=False, why="belongs to no goal of this queue")
                continue
            why, unsaved = self._why_it_stays(path, goal, aside=aside)
            what = What.SET_ASIDE if aside else What.CLONE
            yield Holding(path, what, weigh(path), not why, why or f"it is {goal.state}", goal, unsaved=unsaved)

    def _checkouts(self) -> Iterator[Holding]:
        for path in _inside(self.paths.checkouts):
            yield self._passing(path, What.CHECKOUT, "left over from a merge")

    def _passing(self, path: Path, what: What, why: str) -> Holding:
        """What nobody but a queue worker has to do with."""
        stays = f"{self.served} works on the queue and may be using it" if self.served else ""
        if is_elsewhere(path):
            stays = _ELSEWHERE.format(path.parent.name)
        return Holding(path, what, weigh(path), not stays, stays or why)

    def _beside(self) -> Iterator[Holding]:
        """What is never removed, for there is no telling whether anybody needs it."""
        ralph_dir = self.paths.ralph_dir
        for path in _inside(ralph_dir / "batch"):
            if path != self.paths.root:
                yield Holding(path, What.QUEUE, weigh(path), goes=False, why="belongs to another queue: see --db")
        records = "records and logs are never removed"
        reasons = {
            f"batch/{self.paths.root.name}/goals": (What.RECORDS, records),
            "runs": (What.RECORDS, records),
            "mirrors": (What.MIRRORS, "has the only copies of branches, attempts and work from removed clones"),
            "clones": (What.CLONES, "used by `ralph run --repo`: unpushed work is only there"),
        }
        for name, (what, why) in reasons.items():
            if (ralph_dir / name).is_dir():
                yield Holding(ralph_dir / name, what, weigh(ralph_dir / name), goes=False, why=why)

    def _why_it_stays(self, path: Path, goal: BatchGoal, *, aside: bool) -> tuple[str, tuple[Unsaved, ...]]:
        if goal.state not in _OVER:
            return f"it is {goal.state}" + ("" if aside else ": its next attempt continues in it"), ()
        if who := self._at_work(goal):
            return who, ()
        try:
            found = examine(self._mirror(goal), path, goal.branch)
        except (RalphError, OSError) as error:
            return str(error), ()
        return (f"it is {goal.state}, but {found.why}" if found.why else ""), found.unsaved

    def in_use(self, goal: BatchGoal) -> str:
        """Say why nobody may have the clone of a goal go, however little he cares for what is in it."""
        if goal.state is State.RUNNING:
            return "is running" if goal.unmerged is None else "is being merged"
        if goal.state is State.QUEUED and goal.unmerged is not None:
            return "is queued to be merged"
        who = self._at_work(goal)
        return f"is {goal.state}, but {who}" if who else ""

    def _at_work(self, goal: BatchGoal) -> str:
        owner = holder(self.paths.run_directory(goal).parent)
        return "" if owner is None else f"process {owner.pid} on {owner.host} is working in it"

    def _mirror(self, goal: BatchGoal) -> Mirror | None:
        mirror = open_mirror(self.paths.ralph_dir, goal.repo)
        return mirror if (mirror.path / "HEAD").is_file() else None


def settled(found: Sequence[Holding]) -> list[Holding]:
    """Say of what goes how much that frees, and of the rest how much it takes."""
    goes = iter(freed(each.weight for each in found if each.goes))
    stays = iter(taken(each.weight for each in found if not each.goes))
    return [replace(each, size=next(goes if each.goes else stays)) for each in found]


def weighed_anew(found: Sequence[Holding]) -> list[Holding]:
    """The same when something was removed: what was only there has gone over to the mirrors."""
    return [replace(each, weight=weigh(each.path)) if each.what is What.MIRRORS else each for each in found]


def size_of_mirrors(found: Sequence[Holding]) -> int:
    """What the mirrors take."""
    return sum(each.size for each in found if each.what is What.MIRRORS)


def _remove_passing(path: Path, claim: Callable[[], AbstractContextManager[bool]]) -> str:
    """Remove what only a queue worker has to do with; one that would begin is kept from it for a moment only."""
    going = path.with_name(f".{secrets.token_hex(8)}.going")
    with claim() as ours:
        if not ours:
            return "a worker has started on the queue and may be using it"
        with contextlib.suppress(FileNotFoundError):  # a worker that came and went has cleared up
            path.rename(going)
    remove_tree(going)
    return ""


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=_in_order) if folder.is_dir() else []


def _in_order(path: Path) -> list[tuple[int, str]]:
    """What sorts names by the numbers in them: g2 before g10."""
    parts = re.split("([0-9]+)", path.name)  # every other one is a number
    return [(int(part) if place % 2 else 0, part) for place, part in enumerate(parts)]


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
