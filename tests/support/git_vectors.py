"""Ways in which a repository's own files can have git run a program: how each is planted, and what sets it off."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.git_repos import git, make_repo


@dataclass(frozen=True, slots=True)
class Vector:
    """`plant` and `trigger` are shell commands in a repository; `$TRAP` is a program that leaves a trace."""

    plant: str
    trigger: str


def _hook(name: str, trigger: str) -> Vector:
    return Vector(f"mkdir -p .git/hooks; cp $TRAP .git/hooks/{name}", trigger)


_DRIVEN = "printf '* filter=evil diff=evil merge=evil\\n' > .gitattributes"
_COMMIT = "git commit --quiet --allow-empty -m x"
_MERGE = (
    "git switch -qc side HEAD~1; echo side > README.md; git commit -qam side;"
    " git switch -q main; echo mine > README.md; git commit -qam mine; git rebase side"
)
VECTORS: Mapping[str, Vector] = {
    "pre-commit": _hook("pre-commit", _COMMIT),
    "commit-msg": _hook("commit-msg", _COMMIT),
    "prepare-commit-msg": _hook("prepare-commit-msg", _COMMIT),
    "post-commit": _hook("post-commit", _COMMIT),
    "reference-transaction": _hook("reference-transaction", _COMMIT),
    "post-index-change": _hook("post-index-change", "touch new; git add new"),
    "pre-push": _hook("pre-push", "git push -q origin HEAD:x"),
    "pre-rebase": _hook("pre-rebase", "git rebase -q --force-rebase HEAD~1"),
    "post-rewrite": _hook("post-rewrite", "git commit -q --amend -m y"),
    "post-checkout": _hook("post-checkout", "git switch -qc other"),
    "core.fsmonitor": Vector("git config core.fsmonitor $TRAP", "git status"),
    "filter.clean": Vector(f"git config filter.evil.clean $TRAP; {_DRIVEN}", "echo x > new; git add new"),
    "filter.process": Vector(f"git config filter.evil.process $TRAP; {_DRIVEN}", "echo x > new; git add new"),
    "filter.smudge": Vector(
        f"git config filter.evil.smudge $TRAP; {_DRIVEN}", "rm README.md; git checkout -q -- README.md"
    ),
    "info/attributes": Vector(
        "git config filter.evil.clean $TRAP; mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes",
        "echo x > new; git add new",
    ),
    "include.path": Vector(
        f"printf '[filter \"evil\"]\\n\\tclean = %s\\n' $TRAP > .git/more; git config include.path more; {_DRIVEN}",
        "echo x > new; git add new",
    ),
    "commondir": Vector(
        f"cp -r .git .git/other; git config --file .git/other/config filter.evil.clean $TRAP;"
        f" echo other > .git/commondir; {_DRIVEN}",
        "echo x > new; git add new",
    ),
    "a repository inside": Vector(
        "git init -q inner; cd inner; echo a > a; git add a; git -c user.name=E -c user.email=e@e commit -qm a;"
        " cd ..; git update-index --add --cacheinfo 160000,$(git -C inner rev-parse HEAD),inner;"
        " git -C inner config filter.evil.clean $TRAP; echo '* filter=evil' > inner/.git/info/attributes;"
        " echo b > inner/a",
        "git add --all",
    ),
    "gpg.program": Vector("git config gpg.program $TRAP; git config commit.gpgSign true", _COMMIT),
    "merge driver": Vector(
        "git config merge.evil.driver $TRAP; mkdir -p .git/info; echo '* merge=evil' > .git/info/attributes", _MERGE
    ),
    "core.sshCommand": Vector("git config core.sshCommand $TRAP", "git ls-remote ssh://localhost/x"),
    "remote.receivepack": Vector("git config remote.origin.receivepack $TRAP", "git push -q origin HEAD:x"),
    "ext::": Vector(
        "git config remote.evil.url 'ext::sh -c $TRAP'; git config protocol.ext.allow always", "git fetch -q evil"
    ),
    "diff.external": Vector("git config diff.external $TRAP", "echo more >> README.md; git diff"),
    "diff.textconv": Vector(f"git config diff.evil.textconv $TRAP; {_DRIVEN}", "echo more >> README.md; git diff"),
}


def make_trap(path: Path, canary: Path) -> Path:
    """Write a program that names itself in the file `canary`, unless an agent has it run."""
    path.write_text(f'#!/bin/sh\ntest -n "$RALPH_ITERATION" || echo "$0 $*" >> {canary}\n')
    path.chmod(0o755)
    return path


def planting(trap: Path, *, without: tuple[str, ...] = ()) -> str:
    """Return a command that plants all of them at once."""
    plants = "".join(f"({vector.plant})\n" for name, vector in VECTORS.items() if name not in without)
    return f"export TRAP={trap}\n{plants}true"


def execute_with_plain_git(vector: Vector, place: Path) -> bool:
    """Tell whether the vector runs its program with git as it is, in a repository of two commits with a remote."""
    repo = make_repo(place / "repo", {"README.md": "one\n"})
    (repo / "README.md").write_text("two\n")
    git(repo, "commit", "--quiet", "--all", "-msecond")
    git(place, "clone", "--quiet", "--bare", str(repo), str(place / "origin"))
    git(repo, "remote", "add", "origin", str(place / "origin"))
    canary = place / "canary"
    env = os.environ | {"TRAP": str(make_trap(place / "trap", canary))}
    for command in (vector.plant, vector.trigger):
        subprocess.run(
            ["sh", "-c", command], cwd=repo, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        if command == vector.plant:
            canary.unlink(missing_ok=True)
    return canary.exists()
