"""Detection of file access outside a test's own directories, by an audit hook in the test process.

Python reports every `open`, `mkdir`, `rename`, … to the hook before it happens. It does not report `stat` or anything
that another process does, and of a path that is relative to a directory descriptor it does not say to which. Paths are
compared as written, so a symbolic link that leads outside is not noticed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NONE = -1

# https://docs.python.org/3/library/audit_events.html: for each event, the positions of a path among its arguments
# and of the directory descriptor that the path may be relative to.
_CHANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((1, 3),),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.symlink": ((1, 2),),
    "os.utime": ((0, 3),),
}
_LISTINGS = {"os.listdir", "os.scandir"}
_FILES = {"os.truncate", "sqlite3.connect"}
_HEARD = frozenset({"open", "socket.bind", *_CHANGES, *_LISTINGS, *_FILES})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a test may write, and where it may not read."""

    own: Sequence[Path]
    """The only directories to write to."""
    private: Sequence[Path] = ()
    """Directories and files that differ from user to user: a test may not read them…"""
    public: Sequence[Path] = ()
    """…except for these parts, such as a checkout in HOME."""

    def may_write(self, path: str) -> bool:
        return _is_in(path, self.own) or path.startswith(("/dev/", "/proc/")) or "/__pycache__" in path

    def may_read(self, path: str) -> bool:
        return not _is_in(path, self.private) or _is_in(path, self.own) or _is_in(path, self.public)


@dataclass(frozen=True, slots=True)
class _Watch:
    bounds: Bounds
    complaints: list[str]


_watch: _Watch | None = None


@contextmanager
def watching_files(bounds: Bounds) -> Iterator[list[str]]:
    """Collect a complaint for each access of this process outside the bounds."""
    global _watch  # noqa: PLW0603 - a process has one hook, which Python cannot remove
    _install()
    before, _watch = _watch, _Watch(bounds, [])
    try:
        yield _watch.complaints
    finally:
        _watch = before


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _HEARD or (watch := _watch) is None:
        return
    if event == "open":
        path, mode, flags = arguments
        # Only os.open gives no mode, and only os.open takes a directory descriptor, which it does not report.
        if mode is not None or (not isinstance(path, int) and os.fsdecode(path).startswith("/")):
            _judge(watch, path, writes=bool(flags & _WRITING))
    elif event in _CHANGES:
        for path, descriptor in _CHANGES[event]:
            if arguments[descriptor] == _NONE:
                _judge(watch, arguments[path], writes=True)
    elif event in _LISTINGS:
        _judge(watch, arguments[0] or ".", writes=False)
    elif event in _FILES:
        _judge(watch, arguments[0], writes=True)
    elif event == "socket.bind" and isinstance(arguments[1], str | bytes):
        _judge(watch, arguments[1], writes=True)


def _judge(watch: _Watch, path: int | str | bytes | os.PathLike[Any], *, writes: bool) -> None:
    if isinstance(path, int):
        return  # a descriptor: opening it was judged
    name = os.fsdecode(path)
    if name.startswith(("\0", ":memory:", "file:")) or not name:
        return  # sockets without a file; databases without one, or with a URL
    plain = os.path.abspath(name)  # noqa: PTH100 - `resolve` would ask the file system, for each component
    if not (watch.bounds.may_write if writes else watch.bounds.may_read)(plain):
        watch.complaints.append(f"{'wrote' if writes else 'read'} {plain} (in {_caller()})")


def _caller() -> str:
    """Return the innermost line of ralph or a test that is being executed."""
    libraries = ("<", sys.prefix, sys.base_prefix, __file__)
    frame = sys._getframe(1)
    while frame is not None:
        if not (file := frame.f_code.co_filename).startswith(libraries):
            return f"{Path(file).relative_to(_ROOT) if _is_in(file, [_ROOT]) else Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "a thread of a library"


def _is_in(path: str, places: Sequence[Path]) -> bool:
    return any(path == (name := str(place)) or path.startswith(f"{name}/") for place in places)
