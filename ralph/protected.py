"""The user's own files under `.ralph/`: kept in the version that stood when the run began, restored when changed."""

import shutil
from pathlib import Path

from ralph.errors import UsageError

NAMES = ("config.toml", "check", "prompts", "pricing.toml")


def require_plain_directory(root: Path) -> None:
    """Refuse a `.ralph` that leads elsewhere: what ralph writes there would land outside the repository."""
    own = root / ".ralph"
    if own.is_symlink() or (own.exists() and not own.is_dir()):
        raise UsageError(
            f"{own} is not a plain directory", "replace it by a directory: ralph does not follow a link there"
        )


def take(root: Path, store: Path) -> None:
    """Copy the protected files into `store`, replacing what is there."""
    fresh = store.with_name(f"{store.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name in NAMES:
        _copy(root / ".ralph" / name, fresh / name)
    shutil.rmtree(store, ignore_errors=True)
    fresh.rename(store)  # whole or not at all: half a copy would later pass for the user's word


def changed(root: Path, store: Path) -> list[str]:
    """Name the protected files that are no longer what `store` holds."""
    own = root / ".ralph"
    reached = own.is_dir() and not own.is_symlink()
    return [name for name in NAMES if (_content(own / name) if reached else None) != _content(store / name)]


def restore(root: Path, store: Path, aside: Path) -> list[str]:
    """Put the protected files back as `store` holds them; what stood in their place is moved to `aside`, never lost."""
    undone = changed(root, store)
    if not undone:
        return []
    own = root / ".ralph"
    aside.mkdir(parents=True, exist_ok=True)
    if own.is_symlink() or (own.exists() and not own.is_dir()):
        _move(own, aside)
    own.mkdir(exist_ok=True)
    for name in undone:
        if (own / name).is_symlink() or (own / name).exists():
            _move(own / name, aside)
        _copy(store / name, own / name)
    return undone


def _copy(source: Path, target: Path) -> None:
    if source.is_symlink() or source.is_file():
        shutil.copy2(source, target, follow_symlinks=False)
    elif source.is_dir():
        shutil.copytree(source, target, symlinks=True)


def _move(path: Path, aside: Path) -> None:
    if path.is_symlink() or path.is_file() or path.is_dir():
        shutil.move(path, _free(aside / path.name))
    else:
        path.unlink()  # a pipe, a socket, a device: it holds nothing that could be lost


def _content(path: Path) -> object:
    """All that counts about a file or tree, comparable; None if there is nothing."""
    if path.is_symlink():
        return ("link", str(path.readlink()))
    if path.is_file():
        return (path.stat().st_mode & 0o111, path.read_bytes())
    if path.is_dir():
        return {entry.name: _content(entry) for entry in path.iterdir()}
    return ("other",) if path.exists() else None


def _free(path: Path) -> Path:
    number = 0
    candidate = path
    while candidate.is_symlink() or candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.{number}")
    return candidate
