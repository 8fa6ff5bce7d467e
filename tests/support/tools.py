"""What a test needs of the machine: programs that `make tools` fetched, programs that are installed, and rights.

Import it at the top of a module: it looks at the environment once, then, before the guards of conftest.py move HOME and
clear RALPH_*.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from ralph.sandbox.bubblewrap import find_bubblewrap
from ralph.sandbox.policy import Bubblewrap
from tools import fetch

CACHE = fetch.cache_dir(os.environ)
_REQUIRED = os.environ.get("RALPH_REQUIRE_REAL") == "1"
RUSTUP_HOME = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
"""Where rustup keeps its toolchains: its `cargo` finds none in the home directory of a test."""


def find(name: str) -> Path:
    """Return the program's path; without it skip the test and say why, or fail it where the real thing is required."""
    tool = fetch.pinned()[name]
    path = tool.path(CACHE)
    return path if path.exists() else lacking(fetch.why_missing(tool, CACHE))


def direnv() -> Path:
    """Return the path of a direnv."""
    return debian("direnv")


def debian(name: str) -> Path:
    """Return the path of a program of Debian's: the pinned one, or where that cannot be had the one that is installed.

    Without either the test is skipped even where the real things are required: they come from PyPI, which is
    everywhere, and this is a package of one release of one distribution.
    """
    tool = fetch.pinned()[name]
    if tool.path(CACHE).exists():
        return tool.path(CACHE)
    installed = shutil.which(name)
    return Path(installed) if installed else pytest.skip(fetch.why_missing(tool, CACHE))


def libfaketime() -> Path:
    """Return the path of the library that tells a process another time: for LD_PRELOAD, beside FAKETIME."""
    return find("libfaketime")


def strace() -> str:
    """Return the path of an strace that may trace, which ptrace restrictions of a container can forbid."""
    path = shutil.which("strace")
    if path is None:
        lacking("strace is not installed: get it from your distribution (apt-get install strace)")
    return path if _can_trace(path) else lacking("strace is installed, but may not trace here")


def mounting() -> None:
    """Require the right to mount file systems."""
    if not _can_mount():
        lacking("mounting a file system needs root, with CAP_SYS_ADMIN")


def bubblewrap() -> None:
    """Require a bubblewrap that works here."""
    if not _has_bubblewrap():
        lacking("no bubblewrap works here: make tools installs one, but the kernel or a container may forbid it")


def lacking(reason: str) -> NoReturn:
    """Skip the test for this reason, or fail it where everything is required."""
    if _REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def _can_trace(path: str) -> bool:
    return subprocess.run([path, "-o", os.devnull, "true"], capture_output=True).returncode == 0


@functools.cache
def _has_bubblewrap() -> bool:
    return isinstance(find_bubblewrap(dict(os.environ), Path("/"), None), Bubblewrap)


@functools.cache
def _can_mount() -> bool:
    # In a mount namespace of its own, so that nothing is left behind whatever happens.
    argv = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    return shutil.which("unshare") is not None and subprocess.run(argv, capture_output=True).returncode == 0
