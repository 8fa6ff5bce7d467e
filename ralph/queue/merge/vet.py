"""What is looked for in a goal's work before any of it leaves this machine: nobody else will look in time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ralph.core.secrets import looks_secret
from ralph.queue.repos.remote import Bare

ENVRC = ".envrc"

# The labels are ours (see `trees.bring_up_to_date`): a branch and a full commit id. Nobody else writes such a line.
_MARKER = r"^(<{7}|>{7}) .*-g[0-9a-f]{40}"
_ASIDE = re.compile(r"~.*-g[0-9a-f]{40}")
"""How git names a file that stands where the other side has a folder."""

_GITLINK = "160000"
_POINTER = "version https://git-lfs.github.com/spec/"
_CHANGED_POINTER = f"^({_POINTER}|oid sha256:[0-9a-f]{{64}}$)"


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong, by path."""

    unresolved: tuple[str, ...] = ()
    """Conflicts that were left in these files for the agent to resolve, and still are there."""
    secret: tuple[str, ...] = ()
    """New files that look like secrets."""
    elsewhere: tuple[str, ...] = ()
    """Files of Git LFS that are new or changed: their content is in the clone alone, and is not pushed with them."""
    submodules: tuple[str, ...] = ()
    """Submodules that are new, or at another commit: that one may be in the clone alone."""


def vet(bare: Bare, base: str, tree: str) -> Findings:
    """Look at what a tree has that the base has not."""
    return Findings(
        _unresolved(bare, base, tree),
        _secret(bare, base, tree),
        _elsewhere(bare, base, tree),
        _submodules(bare, base, tree),
    )


def secrets_on_the_way(bare: Bare, base: str, tip: str) -> tuple[str, ...]:
    """Name what looks like a secret in any commit that a branch has beyond the base, though it be gone by the last."""
    out = bare.git(
        "log", "--format=", "--name-only", "--diff-filter=A", "--no-renames", "-z", f"{base}..{tip}", "--"
    )  # fmt: skip
    return tuple(dict.fromkeys(path for path in out.split("\0") if looks_secret(path)))


def marked(bare: Bare, tree: str, paths: Sequence[str]) -> list[str]:
    """Of these files those with markers of a conflict in them."""
    return _holding(bare, tree, paths, _MARKER)


def changes_envrc(bare: Bare, base: str, tree: str) -> bool:
    """Tell whether what a shell would execute is another one, or new."""
    return bool(bare.git("diff-tree", "-r", "--name-only", base, tree, "--", ENVRC).strip())


def _unresolved(bare: Bare, base: str, tree: str) -> tuple[str, ...]:
    marked = _with_line(bare, base, tree, _MARKER, _MARKER)
    return (*marked, *(path for path in _added(bare, base, tree) if _ASIDE.search(path)))


def _secret(bare: Bare, base: str, tree: str) -> tuple[str, ...]:
    return tuple(path for path in _added(bare, base, tree) if looks_secret(path))


def _elsewhere(bare: Bare, base: str, tree: str) -> tuple[str, ...]:
    found = _with_line(bare, base, tree, _CHANGED_POINTER, f"^{_POINTER}")
    return tuple(path for path in found if bare.git("cat-file", "blob", f"{tree}:{path}").startswith(_POINTER))


def _submodules(bare: Bare, base: str, tree: str) -> tuple[str, ...]:
    out = bare.git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--diff-filter=AMT", base, tree).split("\0")
    return tuple(path for entry, path in zip(out[::2], out[1::2], strict=False) if entry.split()[1] == _GITLINK)


def _added(bare: Bare, base: str, tree: str) -> list[str]:
    out = bare.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", base, tree)
    return [path for path in out.split("\0") if path]


def _with_line(bare: Bare, base: str, tree: str, changed: str, held: str) -> list[str]:
    """The files whose changes touch a line of one kind, as far as they hold one of the other now."""
    looking = ("-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--text", f"-G{changed}")
    touched = [path for path in bare.git("diff-tree", *looking, base, tree).split("\0") if path]
    return _holding(bare, tree, touched, held)


def _holding(bare: Bare, tree: str, paths: Sequence[str], line: str) -> list[str]:
    if not paths:
        return []
    where = [f":(top,literal){path}" for path in paths]
    status, out, _ = bare.run("grep", "--text", "-l", "-z", "-E", "-e", line, tree, "--", *where)
    return [path.removeprefix(f"{tree}:") for path in out.split("\0") if path] if status == 0 else []
