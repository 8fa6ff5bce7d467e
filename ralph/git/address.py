"""Which repository an address names: two spellings of one are one place, with one mirror and one lane."""

import re
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.git.repo import clone_path


def place_of(url: str) -> Path:
    """Where the mirror of a repository stands, below the directory of all mirrors."""
    first, *rest = clone_path(Path(), url, "goal").parent.parts
    if port := re.match(r"[a-z+]+://[^/]*:(\d+)(?=/|$)", url):
        first = f"{first}-{port[1]}"  # two servers on one host are two places
    if not rest:
        raise UsageError(f"{url!r} names no repository", "give a URL, or the path of a repository")
    whole = Path(first, *rest)
    return whole.with_name(f"{whole.name}.git")
