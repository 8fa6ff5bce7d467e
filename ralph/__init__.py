"""ralph runs your coding agent in a loop, with fresh sessions, until your own check proves the goal done."""

from pathlib import Path

__version__ = "0.2.0"

_HERE = Path(__file__).parent


def version_and_commit() -> str:
    """Return the version and, where it is known, the commit that this ralph was made from."""
    commit = built_from()
    return f"{__version__} ({commit[:10]})" if commit else __version__


def built_from() -> str:
    """Return the commit that a wheel was built from, or that a checkout is at; empty if nothing tells.

    A checkout is read without git, which would take longer than all the rest of `ralph --version`.
    """
    baked, root = _read(_HERE / "_commit"), _HERE.parent
    if baked or not (root / "prompts").is_dir():  # else the repository around us is not ralph's
        return baked
    git = root / ".git"
    if link := _read(git):  # a worktree has a file there
        git = root / link.removeprefix("gitdir: ")
    head = _read(git / "HEAD")
    if not head.startswith("ref: "):
        return head
    common, name = git / _read(git / "commondir"), head.removeprefix("ref: ")
    packed = (line.split(" ") for line in _read(common / "packed-refs").splitlines())
    return _read(common / name) or next((words[0] for words in packed if words[-1] == name), "")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
