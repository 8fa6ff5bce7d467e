"""Where ralph keeps its files: its own directory, the configuration files, and the key of a repository in it."""

import contextlib
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from ralph.core.errors import UsageError


def repo_key(root: Path) -> str:
    """Name a working tree: readable, and unique to its path."""
    digest = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', root.resolve().name) or 'root'}-{digest}"


def ralph_dir(env: Mapping[str, str]) -> Path:
    """Return the directory of runs and clones; refuse one that everyone can write to."""
    place = state_place(env)
    with contextlib.suppress(OSError):  # there is none yet, or its first use says why it fails
        if place.stat().st_mode & stat.S_IWOTH:
            raise UsageError(
                f"cannot use {place} for ralph's files: everyone on this machine can write to it",
                f"take that away: chmod o-w {shlex.quote(str(place))}",
            )
    return place


def state_place(env: Mapping[str, str]) -> Path:
    """Return where that directory is, whatever its rights."""
    own = env.get("RALPH_DIR", "").strip()
    try:
        return Path(own).expanduser().absolute() if own else platformdirs.user_state_path("ralph")
    except RuntimeError as error:  # ~nobody
        raise UsageError(f"RALPH_DIR={own}: {error}", "set it to the full path of a folder, or unset it") from error


def queue_file(ralph_dir: Path) -> Path:
    """Where the queue is kept of someone who set none up."""
    return ralph_dir / "runs.sqlite"


def user_config() -> Path:
    return platformdirs.user_config_path("ralph") / "config.toml"


def project_config(root: Path) -> Path:
    return root / ".ralph" / "config.toml"
