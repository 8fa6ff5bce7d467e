"""Merges computed in the mirror, by git's own merge of trees: no work tree, no filter, no merge driver, no hook."""

import posixpath
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import RepoError
from ralph.core.records import parse, to_record
from ralph.core.run import message_body
from ralph.git.command import last_line, run_git, succeeded
from ralph.git.repo import Repo
from ralph.queue.merge.vet import marked
from ralph.queue.repos.mirror import Mirror, conflicts_ref
from ralph.queue.repos.remote import UNTOUCHED, Bare
from ralph.state.project import EXCLUDES, NAMES

PROTECTED = tuple(f".ralph/{name}" for name in ("setup", *NAMES))
"""What judges the work is the base's: no merge changes it."""

_WINDOWS = tuple(path.lstrip("/") for path in EXCLUDES)

_LINK = "120000 "
_HOPS = 40
"""Links that are followed one after the other: as many as the kernel follows."""
_SUBJECT = 72
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WHEN = "1970-01-01T00:00:00Z"
NOBODY = {
    "GIT_AUTHOR_NAME": "ralph", "GIT_AUTHOR_EMAIL": "", "GIT_AUTHOR_DATE": _WHEN,
    "GIT_COMMITTER_NAME": "ralph", "GIT_COMMITTER_EMAIL": "", "GIT_COMMITTER_DATE": _WHEN,
}  # fmt: skip
"""Who makes commits that nobody ever sees."""


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The merged files; which of them conflict (their text has markers then), and what git said about it."""

    tree: str
    conflicts: tuple[str, ...]
    log: str


def merge_trees(bare: Bare, ours: str, theirs: str) -> MergedTree:
    """Merge two commits' files."""
    status, out, err = bare.run("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
    if status not in (0, 1):
        return MergedTree("", (), last_line(err))  # histories that have nothing in common
    tree, _, rest = out.partition("\0")
    paths, _, messages = rest.partition("\0\0")
    conflicts = tuple(dict.fromkeys(path for path in paths.split("\0") if path)) if status == 1 else ()
    # Each message: how many paths, the paths, what kind, the text.
    log = "\n".join(line for line in messages.replace("\0", "\n").splitlines() if line.startswith("CONFLICT"))
    return MergedTree(tree, conflicts, log)


def on_common_ground(bare: Bare, taken: str | None, base: str, tip: str) -> tuple[str, str]:
    """Return the base and the branch as commits whose merge base is what the branch last took in from the base.

    Usually these are the two commits themselves. But if the base was rewritten and no longer contains what was taken
    in, git would count what the base dropped as the branch's own work, and the merge would bring it back.
    """
    if taken is None or bare.is_ancestor(taken, base):
        return base, tip
    start = commit(bare, f"{taken}^{{tree}}", (), "start", NOBODY)
    ours, theirs = (commit(bare, f"{side}^{{tree}}", (start,), "side", NOBODY) for side in (base, tip))
    return ours, theirs


def tampered(bare: Bare, base: str, tree: str) -> list[str]:
    """Name the protected files that differ between `base` and `tree`, in content, mode or kind of entry."""
    paths = (".ralph", *protected(bare, base, PROTECTED))
    before, after = entries(bare, base, paths), entries(bare, tree, paths)
    return [path for path in paths if before.get(path) != after.get(path)]


def protected(bare: Bare, base: str, names: Sequence[str]) -> tuple[str, ...]:
    """These files, and those that the base's links among them lead to: the text of a link's target is what judges.

    A link that leads out of the repository is what it says, and nothing more: no merge changes what is there.
    """
    found = dict.fromkeys(names)
    for path, entry in entries(bare, base, names).items():
        if entry.startswith(_LINK):
            found.update(dict.fromkeys(_led_to(bare, base, path)))
    return tuple(found)


def _led_to(bare: Bare, base: str, path: str) -> list[str]:
    """The entries that decide where a path leads, links to files and to folders alike, and the one at the end."""
    steps: list[str] = []
    for _ in range(_HOPS):
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        standing = entries(bare, base, above)
        link = next((place for place in above if standing.get(place, "").startswith(_LINK)), None)
        if link is None:
            return [*steps, path]
        steps.append(link)
        target = bare.git("cat-file", "blob", standing[link].split()[2])
        path = posixpath.normpath(posixpath.join(posixpath.dirname(link), target, path[len(link) + 1 :]))
        if path in (".", "..") or path.startswith(("/", "../")):
            break
    return steps


def with_protected_of(bare: Bare, base: str, tree: str) -> str:
    """The tree with the protected files as they are in `base`."""
    return with_those_of(bare, base, tree, protected(bare, base, PROTECTED))


def without_windows(bare: Bare, base: str, tree: str) -> str:
    """The tree without what ralph itself shows beside the work, and an agent has forced into a commit."""
    same = entries(bare, base, _WINDOWS) == entries(bare, tree, _WINDOWS)
    return tree if same else with_those_of(bare, base, tree, _WINDOWS)


def with_those_of(bare: Bare, base: str, tree: str, paths: Sequence[str]) -> str:
    """The tree with these files, or folders, as they are in `base`; those that are not there are gone."""
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as folder:
        pinned = {"GIT_INDEX_FILE": f"{folder}/index"}
        bare.git("read-tree", tree, pinned=pinned)
        listed = bare.git("ls-files", "-z", "--", *_pathspecs(paths), pinned=pinned).split("\0")
        unwanted = [path for path in listed if {path, *_parents(path)} & {*paths}]
        kept = bare.git("ls-tree", "-r", "-z", "--full-tree", base, "--", *paths)
        zero = "0" * len(tree)
        removed = "".join(f"0 {zero}\t{path}\0" for path in unwanted)
        # A file where a folder must be is replaced by --index-info.
        said = (removed + kept).encode("utf-8", "surrogateescape")
        bare.git("update-index", "-z", "--index-info", said=said, pinned=pinned)
        return bare.git("write-tree", pinned=pinned).strip()


def commit(bare: Bare, tree: str, parents: tuple[str, ...], message: str, identity: Mapping[str, str]) -> str:
    """Commit a tree in the mirror, on no branch yet."""
    heads = [part for parent in parents for part in ("-p", parent)]
    said = message.encode("utf-8", "replace")
    return bare.git("commit-tree", tree, *heads, "-F", "-", said=said, pinned=identity).strip()


def squash_message(title: str, done: str, trailers: Mapping[str, str]) -> str:
    """The message of a goal's one commit on the base: its title, what was done, the trailers."""
    body = message_body(_CONTROLS.sub("", done))
    ends = "".join(f"{name}: {' '.join(_CONTROLS.sub(' ', value).split())}\n" for name, value in trailers.items())
    return "\n\n".join([subject(title), *([body] if body else []), ends])


def subject(title: str) -> str:
    """A title as the first line of a commit: one line, and not too long."""
    line = " ".join(_CONTROLS.sub(" ", title).split()) or "ralph"
    return line if len(line) <= _SUBJECT else f"{line[: _SUBJECT - 1].rstrip()}…"


def merged_commit(bare: Bare, base: str, branch: str, run: str) -> str | None:
    """The commit on the base, since the branch left it, that is this run's: a push whose answer was lost."""
    return squash_of(bare, f"{branch}..{base}", run)


def squash_of(bare: Bare, span: str, run: str) -> str | None:
    """Among these commits the one that brought this run's work to the base.

    Only a squash of ours has `Ralph-Attempts`: an iteration that somebody picked from the branch names the run as well.
    """
    asked = "%H%x00%(trailers:key=Ralph-Run,valueonly)%x00%(trailers:key=Ralph-Attempts,valueonly)%x01"
    out = bare.git("log", "--fixed-strings", f"--grep={run}", f"--format={asked}", span, "--")
    for entry in out.split("\x01"):
        sha, *values = (part.strip() for part in entry.split("\0"))
        if values[:1] == [run] and values[1]:
            return sha
    return None


def entries(bare: Bare, revision: str, paths: Sequence[str]) -> dict[str, str]:
    """What stands at each of these paths: mode, kind and id; of `.ralph` itself only whether it is a directory."""
    out = bare.git("ls-tree", "-z", "--full-tree", revision, "--", *paths)
    found = {path: entry for entry, _, path in (line.partition("\t") for line in out.split("\0") if line)}
    if found.get(".ralph", "").startswith("040000 "):
        del found[".ralph"]
    return found


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _pathspecs(paths: Sequence[str]) -> list[str]:
    return [f":(top,literal){path}" for path in paths]


def changed_files(bare: Bare, folder: Path, commit: str) -> list[str]:
    """Name the files of a commit that differ in a folder, whatever settings and index a program left there."""
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as place:
        pinned = {"GIT_INDEX_FILE": f"{place}/index", "GIT_WORK_TREE": str(folder)}
        bare.git("read-tree", commit, pinned=pinned)
        bare.run("update-index", "-q", "--refresh", pinned=pinned)
        comparing = ("-C", str(folder), "diff-files", "--ignore-submodules=all", "--name-only", "-z")
        return [path for path in bare.git(*comparing, pinned=pinned).split("\0") if path]


def require_same_tree(bare: Bare, checked: str, commit: str) -> None:
    """Stop before anything is pushed that is not, to the bit, what was checked."""
    pushed = bare.git("rev-parse", f"{commit}^{{tree}}").strip()
    if pushed != checked:
        raise RepoError(f"the tree that was checked is {checked}, the one to push is {pushed}: nothing was pushed")


@dataclass(frozen=True, slots=True)
class Updated:
    """A branch that has taken its base in: its last commit, and what conflicts are in that."""

    tip: str
    conflicts: tuple[str, ...] = ()
    """Files with conflict markers."""
    replaced: tuple[str, ...] = ()
    """Files that both sides changed and that cannot hold markers, such as a picture or a deleted file. The base's
    version is in place, so that an agent that overlooks them undoes nothing; the branch's is in the commit before."""
    in_the_way: str = ""
    """Why the branch is not up to date, if it is not."""


def bring_up_to_date(mirror: Mirror, clone: Path, branch: str) -> Updated:
    """Merge the base into the branch, in the mirror and in its clone, files included; conflicts are committed as such.

    The first parent is the branch, so that its iterations stay on the first-parent line. What is not committed in the
    clone stays as it is, and so does all else if it stands in the way.
    """
    tip = mirror.save(clone, branch, None)
    if tip is None:
        raise RepoError(f"{clone} has no branch {branch}", "move it away; the next attempt gets a new clone")
    base = mirror.base(branch)
    bare = mirror.bare
    theirs, ours = on_common_ground(bare, mirror.taken(branch), base.tip, tip)
    if (theirs, ours) == (base.tip, tip) and bare.is_ancestor(base.tip, tip) and not tampered(bare, base.tip, tip):
        return _noted_conflicts(bare, branch, tip)
    # As `git describe` writes them: exactly these commits, and names that say in the markers whose text it is.
    merged = merge_trees(bare, f"{branch}-g{ours}", f"{base.branch}-g{theirs}")
    if not merged.tree:
        return Updated(tip, in_the_way=f"cannot merge {base.branch}: {merged.log}")
    tree, conflicts = merged.tree, merged.conflicts
    replaced = _without_lines(bare, merged.tree, merged.conflicts, theirs, ours)
    if replaced:
        tree = with_those_of(bare, base.tip, tree, replaced)
    restored = tampered(bare, base.tip, tree)
    if restored:
        tree = with_protected_of(bare, base.tip, tree)
    conflicts = tuple(path for path in conflicts if path not in (*restored, *replaced))
    replaced = tuple(path for path in replaced if path not in restored)
    message = f"Merge {base.branch} into {branch}\n{_listed(_MARKED, conflicts)}{_listed(_REPLACED, replaced)}"
    new = commit(bare, tree, (tip, base.tip), message, mirror.upstream.identity(bare))
    updated = Updated(new, conflicts, replaced)
    _note_conflicts(bare, branch, updated)  # first: a worker that is killed after the move must still report them
    if why := _move(mirror, clone, branch, tip, new):
        return Updated(tip, in_the_way=why)
    bare.git("update-ref", f"refs/heads/{branch}", new, tip)
    mirror.note_taken(branch, base.tip)
    return updated


def _without_lines(bare: Bare, tree: str, conflicts: Sequence[str], theirs: str, ours: str) -> tuple[str, ...]:
    """The conflicts that no marker shows, and in which the branch's version would undo what the base did."""
    with_markers = marked(bare, tree, conflicts)
    bare_ones = [path for path in conflicts if path not in with_markers]
    start = bare.git("merge-base", theirs, ours).split()[0]
    known = {**entries(bare, theirs, bare_ones), **entries(bare, start, bare_ones)} if bare_ones else {}
    return tuple(path for path in bare_ones if path in known)


_MARKED = "Conflicts, with their markers in place:"
_REPLACED = "Conflicts without markers, with the content of the base:"
"""For people who read the log."""


def _listed(what: str, paths: Sequence[str]) -> str:
    return f"\n{what}\n\n" + "".join(f"    {path}\n" for path in paths) if paths else ""


def _note_conflicts(bare: Bare, branch: str, updated: Updated) -> None:
    """Keep beside a branch which conflicts its last merge left to the agent."""
    blob = bare.git("hash-object", "-w", "--stdin", said=ndjson.encode_line(to_record(updated))).strip()
    bare.git("update-ref", conflicts_ref(branch), blob)


def _noted_conflicts(bare: Bare, branch: str, tip: str) -> Updated:
    """Return the conflicts in a merge that nobody has worked on yet: a worker may have been killed right after it."""
    status, text, _ = bare.run("cat-file", "blob", conflicts_ref(branch))
    noted = parse(Updated, text) if status == 0 else Updated("")
    return noted if noted.tip == tip else Updated(tip)


def _move(mirror: Mirror, clone: Path, branch: str, old: str, new: str) -> str:
    """Move the clone's files, index and branch from one commit to the other, or nothing; say what stands in the way.

    With the mirror's settings: the clone's own could name programs (`filter.*.smudge`) that git would run, and
    (`core.worktree`) files that are not the clone's.
    """
    root = clone.resolve()
    if (root / ".git").is_symlink() or not (root / ".git").is_dir():
        return "the clone's repository is not in it"
    repo = Repo(root, root / ".git", root / ".git", has_identity=False)
    repo.clear_stale_locks()
    if repo.branch() != branch:
        return f"the clone is not on {branch}"
    own = f"--git-dir={repo.git_dir}"
    if run_git(repo.root, own, "cat-file", "-e", new, pinned=UNTOUCHED)[0] != 0:
        return "the clone no longer shares the mirror's objects"
    pinned = {"GIT_INDEX_FILE": str(repo.git_dir / "index"), "GIT_WORK_TREE": str(repo.root)}
    mirror.bare.run("update-index", "-q", "--refresh", pinned=pinned)
    moving = ("-C", str(repo.root), "read-tree", "-m", "-u", "--no-recurse-submodules", old, new)
    status, _, err = mirror.bare.run(*moving, pinned=pinned)
    if status != 0:
        return last_line(err)
    here = (own, "update-ref", f"refs/heads/{branch}", new, old)
    succeeded(repo.root, here, run_git(repo.root, *here, pinned=UNTOUCHED))
    return ""
