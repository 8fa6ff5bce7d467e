"""A goal's branch, brought up to date with its base before it is worked on again."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ralph.batch.bare import UNTOUCHED, Bare
from ralph.core.errors import RepoError
from ralph.git.command import last_line, run_git, succeeded
from ralph.git.repo import Repo
from ralph.queue.merge.trees import (
    commit,
    entries,
    merge_trees,
    on_common_ground,
    tampered,
    with_protected_of,
    with_those_of,
)
from ralph.queue.merge.vet import marked
from ralph.queue.repos.mirror import Mirror

_CONFLICTS = "Conflicts, with their markers in place:"
_REPLACED = "Conflicts that have no lines, as they are on the base:"


@dataclass(frozen=True, slots=True)
class Updated:
    """The branch's last commit; the files with conflict markers in them; why it is not up to date, if it is not."""

    tip: str
    conflicts: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    """Files that both sides have changed and no marker can stand in (a picture, one that is deleted): the base's are
    in place, so that nothing of it is undone by who does not look. The branch's are in the commit before."""
    in_the_way: str = ""


def bring_up_to_date(mirror: Mirror, clone: Path, branch: str) -> Updated:
    """Merge the base into the branch, in the mirror and in its clone, files included; conflicts are committed as such.

    The first parent is the branch, so that its iterations stay on the first-parent line. What is not committed in the
    clone stays as it is, and so does all else if it stands in the way.
    """
    tip = mirror.save(clone, branch, None)
    if tip is None:
        raise RepoError(f"{clone} has no branch {branch}", "move it away: the next attempt then gets a new clone")
    base = mirror.base(branch)
    bare = mirror.bare
    theirs, ours = on_common_ground(bare, mirror.taken(branch), base.tip, tip)
    if (theirs, ours) == (base.tip, tip) and bare.is_ancestor(base.tip, tip) and not tampered(bare, base.tip, tip):
        return Updated(tip, *_left_conflicts(bare, tip))
    # As `git describe` writes them: exactly these commits, and names that say in the markers whose text it is.
    merged = merge_trees(bare, f"{branch}-g{ours}", f"{base.branch}-g{theirs}")
    if not merged.tree:
        return Updated(tip, in_the_way=f"{base.branch} cannot be merged: {merged.log}")
    tree, conflicts = merged.tree, merged.conflicts
    replaced = _without_lines(bare, merged.tree, merged.conflicts, theirs, ours)
    if replaced:
        tree = with_those_of(bare, base.tip, tree, replaced)
    restored = tampered(bare, base.tip, tree)
    if restored:
        tree = with_protected_of(bare, base.tip, tree)
    conflicts = tuple(path for path in conflicts if path not in (*restored, *replaced))
    replaced = tuple(path for path in replaced if path not in restored)
    message = f"Merge {base.branch} into {branch}\n{_listed(_CONFLICTS, conflicts)}{_listed(_REPLACED, replaced)}"
    new = commit(bare, tree, (tip, base.tip), message, mirror.upstream.identity(bare))
    if why := _move(mirror, clone, branch, tip, new):
        return Updated(tip, in_the_way=why)
    bare.git("update-ref", f"refs/heads/{branch}", new, tip)
    mirror.note_taken(branch, base.tip)
    return Updated(new, conflicts, replaced)


def _without_lines(bare: Bare, tree: str, conflicts: Sequence[str], theirs: str, ours: str) -> tuple[str, ...]:
    """Of the conflicts those that no markers tell of, and in which the base's side would be undone by the other."""
    with_markers = marked(bare, tree, conflicts)
    bare_ones = [path for path in conflicts if path not in with_markers]
    start = bare.git("merge-base", theirs, ours).split()[0]
    known = {**entries(bare, theirs, bare_ones), **entries(bare, start, bare_ones)} if bare_ones else {}
    return tuple(path for path in bare_ones if path in known)


def _listed(what: str, paths: Sequence[str]) -> str:
    return f"\n{what}\n\n" + "".join(f"    {path}\n" for path in paths) if paths else ""


def _left_conflicts(bare: Bare, tip: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The conflicts that a merge of ours has left, if nothing was done since: a worker may have been cut off here."""
    paragraphs = bare.git("log", "-1", "--format=%B", tip).split("\n\n")
    lists = dict(pairwise(paragraphs))
    conflicts, replaced = (
        tuple(line.removeprefix("    ") for line in lists.get(what, "").splitlines())
        for what in (_CONFLICTS, _REPLACED)
    )
    return conflicts, replaced


def _move(mirror: Mirror, clone: Path, branch: str, old: str, new: str) -> str:
    """Move the clone's files, index and branch from one commit to the other, or nothing; say what stands in the way.

    With the mirror's settings: the clone's own could name programs (`filter.*.smudge`) that git would run, and
    (`core.worktree`) files that are not the clone's.
    """
    root = clone.resolve()
    if (root / ".git").is_symlink() or not (root / ".git").is_dir():
        return "the clone's repository is not in it"
    repo = Repo(root, root / ".git", has_identity=False)
    repo.clear_stale_locks()
    if repo.branch() != branch:
        return f"the clone is not on {branch}"
    own = f"--git-dir={repo.git_dir}"
    if run_git(repo.root, own, "cat-file", "-e", new, pinned=UNTOUCHED)[0] != 0:
        return "the clone does not borrow the mirror's objects any more"
    pinned = {"GIT_INDEX_FILE": str(repo.git_dir / "index"), "GIT_WORK_TREE": str(repo.root)}
    mirror.bare.run("update-index", "-q", "--refresh", pinned=pinned)
    moving = ("-C", str(repo.root), "read-tree", "-m", "-u", "--no-recurse-submodules", old, new)
    status, _, err = mirror.bare.run(*moving, pinned=pinned)
    if status != 0:
        return last_line(err)
    here = (own, "update-ref", f"refs/heads/{branch}", new, old)
    succeeded(repo.root, here, run_git(repo.root, *here, pinned=UNTOUCHED))
    return ""
