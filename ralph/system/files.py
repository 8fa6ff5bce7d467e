"""Files written whole or not at all, private folders, appended logs, removing a tree; faults name the file."""

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO, BinaryIO

from ralph.core.errors import DiskError

_ROOM = 1 << 16

_ITSELF = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A directory itself, also one that may not be read; fails for a link."""
_ENTRIES = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def named_in_faults(path: Path) -> Generator[None]:
    """Translate a failure to read or write into a `DiskError` that names the file."""
    try:
        yield
    except OSError as error:
        raise DiskError(path, error) from error


def make_private_directory(path: Path) -> None:
    """Make a directory, and those above it, that only the user can enter."""
    with named_in_faults(path):
        if path.is_dir():
            return
        make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, content: str | bytes, mode: int = 0o600, *, durable: bool = True) -> None:
    """Write a whole file so that a crash leaves the old one or the new one; `durable`: also one of the machine."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with named_in_faults(path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                write_all(file, content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
            if durable:
                _sync_directory(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def overwrite_file(path: Path, content: bytes) -> bool:
    """Overwrite a file of exactly this size in place; return False, with nothing done, where there is none.

    One write within a page costs 5 us. Replacing a file costs 0.9 ms on ext4, which first sends the new data to the
    disk. A link is never written through: the file behind it may be the user's.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        fits = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size == len(content)
        return fits and os.write(descriptor, content) == len(content)
    finally:
        os.close(descriptor)


def _sync_directory(path: Path) -> None:
    """Make a new name in a directory last: a file that is on the disk may else be there without it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_room(directory: Path) -> None:
    """Refuse to begin on a disk that is about to be full: small files may still fit, a session's log would not."""
    with named_in_faults(directory), tempfile.TemporaryFile(dir=directory) as file:
        if sys.platform == "linux":
            os.posix_fallocate(file.fileno(), 0, _ROOM)


def open_to_append(path: Path) -> BinaryIO:
    """Open unbuffered for appending; a torn last line is closed first, so that the next one stands alone."""
    with named_in_faults(path):
        file = open(path, "a+b", buffering=0, opener=_private)  # noqa: SIM115 - the caller closes it
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
    return file


def write_all(stream: IO[bytes], data: bytes) -> None:
    """Write every byte: a raw write may be short, and on a full disk is so without an error."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


def append_line(file: BinaryIO, line: bytes) -> None:
    """Append one line, in one write."""
    try:
        write_all(file, line)
    except OSError as error:
        raise DiskError(file.name, error) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


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


def write_new(path: Path, text: str, mode: int) -> None:
    """Write a file that is not there; what has come in its place since is never overwritten."""
    with named_in_faults(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        path.chmod(mode)
