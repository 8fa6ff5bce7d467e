"""Merges computed in the mirror, by git's own merge of trees: no work tree, no filter, no merge driver, no hook."""

import posixpath
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ralph.batch.bare import Bare
from ralph.core.errors import RepoError
from ralph.git.command import last_line
from ralph.state.project import EXCLUDES, NAMES

PROTECTED = tuple(f".ralph/{name}" for name in ("setup", *NAMES))
"""What judges the work is the base's: no merge changes it."""

_WINDOWS = tuple(path.lstrip("/") for path in EXCLUDES)

_LINK = "120000 "
_HOPS = 40
"""Links that are followed one after the other: as many as the kernel follows."""
_SUBJECT = 72
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SCISSORS = "--- >8 ---"
_WHEN = "1970-01-01T00:00:00Z"
_NOBODY = {
    "GIT_AUTHOR_NAME": "ralph", "GIT_AUTHOR_EMAIL": "", "GIT_AUTHOR_DATE": _WHEN,
    "GIT_COMMITTER_NAME": "ralph", "GIT_COMMITTER_EMAIL": "", "GIT_COMMITTER_DATE": _WHEN,
}  # fmt: skip
"""Who makes commits that nobody ever sees."""


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The files of both sides together; where they conflict, which, with markers in their text, and git's words."""

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
    """A base and a branch as commits whose common start, for git, is the one that the branch has last taken in.

    They are those commits themselves, unless the base was rewritten and no longer holds that one: by their histories
    what was dropped from the base would be the branch's own work then, and come back with it.
    """
    if taken is None or bare.is_ancestor(taken, base):
        return base, tip
    start = commit(bare, f"{taken}^{{tree}}", (), "start", _NOBODY)
    ours, theirs = (commit(bare, f"{side}^{{tree}}", (start,), "side", _NOBODY) for side in (base, tip))
    return ours, theirs


def tampered(bare: Bare, base: str, tree: str) -> list[str]:
    """Name the protected files that are not in `tree` what they are in `base`: content, mode and kind of entry."""
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
    # git reads trailers from the last paragraph alone, unless a line before looks like a patch or like scissors.
    lines = _CONTROLS.sub("", done).strip().splitlines()
    body = "\n".join(f" {line}" if line.startswith("---") or _SCISSORS in line else line for line in lines)
    ends = "".join(f"{name}: {' '.join(_CONTROLS.sub(' ', value).split())}\n" for name, value in trailers.items())
    return "\n\n".join([subject(title), *([body] if body else []), ends])


def subject(title: str) -> str:
    """A title as the first line of a commit: one line, and not too long."""
    line = " ".join(_CONTROLS.sub(" ", title).split()) or "ralph"
    return line if len(line) <= _SUBJECT else f"{line[: _SUBJECT - 1].rstrip()}…"


def landed(bare: Bare, base: str, branch: str, run: str) -> str | None:
    """The commit on the base, since the branch left it, that is this run's: a push whose answer was lost.

    Only a squash of ours has `Ralph-Attempts`: an iteration that somebody picked from the branch names the run as well.
    """
    asked = "%H%x00%(trailers:key=Ralph-Run,valueonly)%x00%(trailers:key=Ralph-Attempts,valueonly)%x01"
    out = bare.git("log", f"--format={asked}", f"{branch}..{base}", "--")
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


def require_same_tree(bare: Bare, checked: str, commit: str) -> None:
    """Stop before anything is pushed that is not, to the bit, what was checked."""
    pushed = bare.git("rev-parse", f"{commit}^{{tree}}").strip()
    if pushed != checked:
        raise RepoError(f"the tree that was checked is {checked}, the one to push is {pushed}: nothing was pushed")
