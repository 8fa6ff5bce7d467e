"""The only module that runs git: with hooks, fsmonitor, signing and prompts off.

Only clones go through GitPython: importing it takes 98 ms, and its wrapper doubles what an iteration's git calls cost.
`Repo.index` of GitPython is never used: it runs hooks and is an order of magnitude slower than git on a large tree.
"""

import functools
import importlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.text import exit_words
from ralph.system import environ
from ralph.system.programs import ask, loading_outside, outside, run_to_end, user_to_fork_for

_GUARDS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
    "-c", "core.fsync=all", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false",
    "-c", "core.quotePath=false",
)  # fmt: skip
# core.fsync (git 2.36): git 2.39 commits without a single fsync otherwise, and a finished iteration is its commit.

_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # not ext::, which runs a command
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": "true",
    "LC_ALL": "C",
}


_REPEATABLE = frozenset({
    "cat-file", "commit-tree", "config", "diff", "diff-tree", "fetch", "for-each-ref", "grep", "hash-object", "log",
    "ls-files", "ls-remote", "ls-tree", "merge-base", "merge-tree", "mktree", "rev-list", "rev-parse", "status",
    "symbolic-ref", "var", "write-tree",
})  # fmt: skip
"""What asks, or comes to the same when it is done twice."""
_MOST_TRIES = 3


class GitKilled(RepoError):
    """Somebody kills git, or the kernel does for want of memory: nothing is known of the repository by that."""


def git_output(root: Path, *args: str) -> str:
    """Run git and return its output; a failure of git's is a `RepoError`."""
    return succeeded(root, args, run_git(root, *args))


def succeeded(root: Path, args: Sequence[str], outcome: tuple[int, str, str]) -> str:
    """Return the output of a git that succeeded; say in git's own words why it did not."""
    status, out, err = lived(root, args, outcome)
    if status != 0:
        raise RepoError(f"git {_verb(args)} failed in {root}: {last_line(err) or f'exit {status}'}")
    return out


def lived(root: Path, args: Sequence[str], outcome: tuple[int, str, str]) -> tuple[int, str, str]:
    """Return what came of a git that was not killed: only then its exit status means anything."""
    if outcome[0] < 0:
        raise GitKilled(f"git {_verb(args)} was {exit_words(outcome[0])} in {root}", "is there enough memory?")
    return outcome


def run_git(
    root: Path,
    *args: str,
    said: bytes | None = None,
    pinned: Mapping[str, str] | None = None,
    limit: float | None = None,
) -> tuple[int, str, str]:
    """Run git; return its exit status, output and complaints. A session of its own keeps ^C away from it.

    After `limit` seconds it is ended with all that it started, another repository can keep silent for ever; nothing is
    said to it then. A status below 0 is the signal that has killed it: what can be done twice was tried again before.
    """
    if said is not None and limit is not None:
        raise ValueError("a git that is given something to read is given time, too")
    outcome = _run_once(root, *args, said=said, pinned=pinned, limit=limit)
    for _ in range(_MOST_TRIES - 1):
        if outcome[0] >= 0 or not _is_repeatable(args):
            break
        outcome = _run_once(root, *args, said=said, pinned=pinned, limit=limit)
    return outcome


def _is_repeatable(args: Sequence[str]) -> bool:
    words = _command(args)
    sets_a_ref = words[0] == "update-ref" and len(words) == 3 and not words[1].startswith("-")
    return words[0] in _REPEATABLE or sets_a_ref


def _verb(args: Sequence[str]) -> str:
    return _command(args)[0]


def _command(args: Sequence[str]) -> Sequence[str]:
    """What git is to do, without what comes before that."""
    for number, arg in enumerate(args):
        is_of_an_option = number > 0 and args[number - 1] in ("-C", "-c")
        if not arg.startswith("-") and not is_of_an_option:
            return args[number:]
    return ["git"]


def _run_once(
    root: Path,
    *args: str,
    said: bytes | None,
    pinned: Mapping[str, str] | None,
    limit: float | None,
) -> tuple[int, str, str]:
    argv = _guarded(root, args)
    environment = {**environ.inherited(), **_settled(root), **(pinned or {})}  # git is looked for on this PATH, too
    if limit is not None:
        reply = ask(argv, cwd=Path("/"), environment=environment, limit=limit)
        return 128 if reply.exit_code is None else reply.exit_code, reply.output, reply.complaints
    try:
        status, output, complaints = run_to_end([_program(root), *argv[1:]], environment=environment, said=said)
    except FileNotFoundError as error:
        raise UsageError("git was not found", "install git, and see that it is on PATH") from error
    except OSError as error:
        raise UsageError(f"git cannot be started: {error.strerror}", "see which git is on PATH, and run it") from error
    return status, _decoded(output), _decoded(complaints)


def run_clone(parent: Path, *args: str) -> tuple[int, str, str]:
    """Run `git clone` with these arguments; return its exit status, output and complaints."""
    settled = _settled(parent)
    _load_gitpython(settled["PATH"])
    import git

    return git.Git().execute(
        _guarded(parent, ("clone", *args)),
        with_extended_output=True,
        with_exceptions=False,
        strip_newline_in_stdout=False,
        env=settled,
        start_new_session=True,
        user=user_to_fork_for(),
    )


def _guarded(root: Path, args: Sequence[str]) -> list[str]:
    return ["git", "-C", str(root), *_GUARDS, *args]


def _settled(root: Path) -> Mapping[str, str]:
    return {**_ENVIRONMENT, **_found(root)}


@functools.cache
def _program(root: Path) -> str:
    """Git by its path, so that it is not looked for in folder after folder each time; by its name where it is not."""
    return shutil.which("git", path=_found(root)["PATH"]) or "git"


def _decoded(output: bytes) -> str:
    """Decode so that a path in any encoding can be given back to git."""
    return output.decode("utf-8", "surrogateescape")


def _load_gitpython(path: str) -> None:
    """Import GitPython, which runs git as it is imported, with our PATH; once, for threads share the environment."""
    if "git" not in sys.modules:
        try:
            with environ.searching(path):
                importlib.import_module("git")
        except ImportError as error:
            raise UsageError("git was not found", "install git, and see that it is on PATH") from error


@functools.cache
def _found(root: Path) -> Mapping[str, str]:
    """Where git, what it calls and what it loads are looked for: settled once, before any agent works."""
    env = environ.inherited()
    path = outside(env.get("PATH", os.defpath), root) or os.defpath  # an empty one is where one stands
    return {"PATH": path, **loading_outside(env, root)}


def last_line(text: str) -> str:
    """What matters of git's complaints: the last error, else the last line that is no hint."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [""])[-1]
