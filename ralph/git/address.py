"""Repository addresses: which repository one names, whatever its spelling, and hiding its password."""

import hashlib
import os
import re
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.git.command import last_line, run_git


def clone_path(base: Path, url: str, goal: str) -> Path:
    """Return the path of the clone of `url` for `goal`."""
    if (local := local_path(url)) is not None:
        digest = hashlib.sha256(os.fsencode(local.resolve())).hexdigest()[:8]
        return base / "local" / f"{_safe(local.resolve().name)}-{digest}" / goal
    match = re.fullmatch(r"(?:[a-z+]+://)?(?:[^@/]*@)?([^/:]+)(?::\d+(?=/))?[:/]+(.*?)(?:\.git)?/*", url)
    if match is None:
        raise UsageError(f"{url!r} is not a repository", "pass a URL or the path of a repository")
    return base.joinpath(_safe(match[1]), *map(_safe, filter(None, match[2].split("/"))), goal)


def local_path(url: str) -> Path | None:
    """The path that `url` is, or None if it is an address."""
    if url.startswith("file://"):
        return Path(url.removeprefix("file://"))
    return None if "://" in url or re.match(r"[^/]+:", url) else Path(url).expanduser().absolute()


def require_source(url: str) -> str:
    """Return the address to clone from; refuse a path that is not a repository."""
    path = local_path(url)
    if path is None:
        return url
    if not path.is_dir():
        raise UsageError(f"cannot clone {path}: it is not a directory", "pass --repo a URL or the path of a repository")
    status, out, err = run_git(path, "rev-parse", "--absolute-git-dir")
    if status != 0:
        hint = "pass a URL or the path of a repository; to make one there: git init"
        raise UsageError(f"cannot clone {path}: not a git repository: {last_line(err)}", hint)
    return out.removesuffix("\n")


def _safe(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip(".-") or "repository"


def place_of(url: str) -> Path:
    """Return the path of a repository's mirror, relative to the directory of all mirrors."""
    first, *rest = clone_path(Path(), url, "goal").parent.parts
    if port := re.match(r"[a-z+]+://[^/]*:(\d+)(?=/|$)", url):
        first = f"{first}-{port[1]}"  # two servers on one host are two places
    if not rest:
        raise UsageError(f"{url!r} is not a repository", "pass a URL or the path of a repository")
    whole = Path(first, *rest)
    return whole.with_name(f"{whole.name}.git")
