"""The end of a working clone. One rule decides: it goes when the mirror has every commit and every changed file in it.

What the mirror lacks is saved there first. What cannot be saved keeps the clone, which says why, unless the user has
agreed to lose just that.
"""

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ralph.git.command import last_line
from ralph.queue.clone import (
    CLONES,
    LEFTOVERS,
    Found,
    Obstacle,
    Unsaved,
    any_tip,
    examine,
    lines_of,
    uncommitted,
    unnamed,
)
from ralph.queue.repos.mirror import FETCH, PATIENCE, Mirror
from ralph.queue.repos.remote import seeing_only
from ralph.system.files import remove_tree

GOING = ".going"
"""How the name of a clone ends that is being removed; it begins with a dot."""
_UNNAMED = "refs/unnamed"


def discard(
    mirror: Mirror | None,
    clone: Path,
    branch: str,
    *,
    finished: bool = False,
    agreed: Sequence[Unsaved] | None = None,
    claim: Callable[[], AbstractContextManager[bool]] = lambda: contextlib.nullcontext(True),
) -> str:
    """Save what a working clone holds to the mirror, and remove it; return why it stays, if it does.

    `finished`: its goal is done, and the name of its branch may be another's by now, so nothing is written to that.
    `agreed`: the user wants it gone, and has agreed to lose this; whatever else can be saved is saved all the same.
    `claim` tells at the last moment whether it may still go, and keeps everyone from it for that moment.
    """
    going = clone.with_name(f".{clone.name}{GOING}")
    remove_tree(going)
    if not os.path.lexists(clone):
        return ""
    found = examine(mirror, clone, branch)
    if found.has(Obstacle.BLOCKING) and all(
        any(each.is_part_of(one) for one in agreed or ()) for each in found.unsaved
    ):
        found = _without_blocking(mirror, clone, found)
    if more := [each for each in found.unsaved if not any(each.is_part_of(one) for one in agreed or ())]:
        return "; ".join(each.why for each in more)
    if mirror is not None and (why := _save(mirror, clone, found, finished=finished, forced=agreed is not None)):
        return why
    with claim() as ours:
        if not ours:
            return "it is in use again"
        clone.rename(going)  # first: half removed, by a process that was killed, it would be taken for broken, and stay
    remove_tree(going)
    return ""


def _without_blocking(mirror: Mirror | None, clone: Path, found: Found) -> Found:
    """Remove what git would wait for, which holds nothing, and look at the rest of the clone."""
    for each in found.unsaved:
        for item in each.items:
            (clone / item).unlink(missing_ok=True)
    return examine(mirror, clone, found.branch)


def _save(mirror: Mirror, clone: Path, found: Found, *, finished: bool, forced: bool) -> str:
    """Save everything in a clone that can be saved to the mirror; return why it cannot."""
    if found.has(Obstacle.NO_DIRECTORY):
        return ""
    tip = found.tip if finished else mirror.save(clone, found.branch, None)
    if tip is None and not forced:  # else its commits are taken over below, without their branch
        return Unsaved(Obstacle.NO_BRANCH, detail=found.branch).why
    below = f"{CLONES}/{clone.name}/{_stamp()}"
    has_gaps = found.has(Obstacle.COMMITS)
    _take_over(mirror, clone, found.refs, below, has_gaps=has_gaps)
    tip = (mirror.bare.commit_at(tip) if tip else None) or any_tip(mirror, found.branch)
    safe = [tip]
    lost = {item for each in found.unsaved for item in each.items}
    if left := [path for path in uncommitted(mirror, clone, tip) if path.rstrip("/") not in lost]:
        if inner := [path.rstrip("/") for path in left if path.endswith("/")]:  # made since
            return Unsaved(Obstacle.REPOSITORIES, tuple(inner)).why
        if (leftovers := _keep(mirror, clone, found.branch, tip, left)) is None:
            return Unsaved(Obstacle.FILES, tuple(left)).why
        safe.append(leftovers)
    # Last: what the refs lead to, and what the files hold, is here by now.
    more = unnamed(mirror, clone, safe)
    if more.unsaved is not None and not has_gaps:
        return more.unsaved.why
    unfetched = mirror.bare.lacking(list(found.refs.values())) if has_gaps else []
    objects = list(dict.fromkeys([*more.tips, *more.staged, *unfetched]))
    for some in [[each] for each in objects] if has_gaps else [objects] if objects else []:
        if why := _bring_over(mirror, clone, some, f"{below}/unnamed", has_gaps=has_gaps):
            return why
    return ""


def _keep(mirror: Mirror, clone: Path, branch: str, tip: str, paths: Sequence[str]) -> str | None:
    """Commit what a clone has beside its commits, a check's leavings say, under `refs/ralph/leftovers/`."""
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as folder:
        pinned = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_WORK_TREE": str(clone)}
        mirror.bare.git("read-tree", tip, pinned=pinned)
        said = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        taking = ("-C", str(clone), "update-index", "--add", "--remove", "-z", "--stdin")
        if mirror.bare.run(*taking, said=said, pinned=pinned, limit=PATIENCE)[0] != 0:
            return None  # a pipe, a file that cannot be read
        tree = mirror.bare.git("write-tree", pinned=pinned).strip()
    who = mirror.upstream.identity(mirror.bare)
    kept = mirror.bare.git("commit-tree", tree, "-p", tip, "-m", "left in the clone", pinned=who).strip()
    mirror.bare.git("update-ref", f"{LEFTOVERS}/{branch}/{_stamp()}", kept)
    return kept


def _take_over(mirror: Mirror, clone: Path, refs: Mapping[str, str], below: str, *, has_gaps: bool) -> None:
    """Fetch what a clone's other refs (a branch, a tag, the stash) name and the mirror has not."""
    new = set(mirror.bare.lacking(list(refs.values())))
    wanted = [f"+{ref}:{below}/{ref}" for ref, sha in refs.items() if sha in new and "^{}" not in ref]
    fetching = (*FETCH, "--no-tags", "--", str(clone))
    if has_gaps:
        for each in wanted:
            mirror.bare.run(*fetching, each)  # what this cannot fetch is saved without its name
    elif wanted:
        mirror.bare.git(*fetching, *wanted)


def _refused(mirror: Mirror, clone: Path, objects: Sequence[str], outcome: tuple[int, str, str]) -> str:
    """Return why these objects, which a fetch was to bring, are not saved although the clone has all of them.

    A clone with gaps cannot give everything: that was listed before. But a disk may be full, too.
    """
    status, _, err = outcome
    if status == 0:
        return ""
    with seeing_only(clone / ".git" / "objects") as view:
        whole = ("rev-list", "--objects", "--quiet", "--stdin", "--not", "--all")
        is_whole = mirror.bare.run(*whole, said=lines_of(objects), pinned=view.lent())[0] == 0
    return f"cannot save its object {objects[0][:12]} in the mirror: {last_line(err)}" if is_whole else ""


def _stamp() -> str:
    """When this was; and no other has it: two queues can have a clone of one name, and share a mirror."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def _bring_over(mirror: Mirror, clone: Path, tips: Sequence[str], below: str, *, has_gaps: bool) -> str:
    """Take these commits over from a clone, with all that comes before them, and these files; as refs below a name.

    Return why that cannot be.
    """
    with seeing_only(clone / ".git" / "objects") as view:
        (view.path / "objects" / "info" / "alternates").write_text(f"{mirror.path.resolve() / 'objects'}\n")
        (view.path / "packed-refs").write_text("".join(f"{sha} {_UNNAMED}/{sha}\n" for sha in sorted(tips)))
        fetching = (*FETCH, "--no-tags", "--", str(view.path), f"+{_UNNAMED}/*:{below}/*")
        if has_gaps:
            return _refused(mirror, clone, tips, mirror.bare.run(*fetching))
        mirror.bare.git(*fetching)
    return ""
