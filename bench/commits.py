"""The commit that is measured."""

import subprocess
from pathlib import Path

HERE = Path(__file__).parent.parent
RESULTS = Path(__file__).with_name("RESULTS.md")


class Unclean(Exception):
    """The tree is not a clean commit, so its figures belong to no commit; the message says why."""


def clean_commit(tree: Path = HERE) -> str:
    """Return the commit that `tree` has checked out, without any change; the results themselves don't count."""
    try:
        commit = _git(tree, "rev-parse", "HEAD")
        changed = _git(tree, "status", "--porcelain", "--", ".", f":(exclude)bench/{RESULTS.name}")
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unclean(f"{tree} is not a git checkout with a commit") from error
    if changed:
        first, *others = changed.splitlines()
        more = f" and {len(others)} more" if others else ""
        raise Unclean(f"the tree has uncommitted changes: {first[3:]}{more}")
    return commit


def _git(tree: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *args], check=True, capture_output=True, text=True)
    return done.stdout.rstrip("\n")
