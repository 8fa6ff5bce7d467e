"""What is removed for good: whatever its kind, with all below it, and nothing that only a link leads to.

Agents can write beside their clones, and what they started may still be at work: so a link is unlinked and never
followed, and a directory is opened from the one above it, not by its path, in which a link may stand by now.
"""

import contextlib
import os
import shutil
from pathlib import Path

from ralph.system.files import named_in_faults

_ITSELF = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A directory itself, also one that may not be read; fails for a link."""
_ENTRIES = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove a directory, also what was made read-only in it, or a file, or a link; nothing happens if there is none.

    Somebody else may be removing the same.
    """
    with named_in_faults(path):
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            return
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            _make_writable(path)
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                if os.path.lexists(path):
                    raise


def _make_writable(name: str | Path, above: int | None = None) -> None:
    """Let us change every directory of a tree; what is not ours stays as it is, and its removal says why it fails."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        itself = os.open(name, _ITSELF, dir_fd=above)
        opened.callback(os.close, itself)
        Path(f"/proc/self/fd/{itself}").chmod(0o700)  # fchmod takes no descriptor of this kind
        inside = os.open(".", _ENTRIES, dir_fd=itself)
        opened.callback(os.close, inside)
        for entry in opened.enter_context(os.scandir(inside)):
            if entry.is_dir(follow_symlinks=False):
                _make_writable(entry.name, inside)
