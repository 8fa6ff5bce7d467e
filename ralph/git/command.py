"""The only module that runs git: with hooks, fsmonitor, signing and prompts off.

GitPython reads the progress of clones and fetches (`RemoteProgress`), but does not run them: its `clone_from` (3.1)
gives git no session of its own and no limit, and nothing can end it while the remote is silent. Importing GitPython
takes 98 ms, so only calls that last pay for it. `Repo.index` of GitPython is never used: it runs hooks and is an order
of magnitude slower than git on a large tree.
"""

import functools
import importlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.progress import Reporter, TaskProgress
from ralph.core.text import exit_words
from ralph.git.configuration import UsersSettings
from ralph.system import environ
from ralph.system.programs import OutOfTime, held_in_memory, loading_outside, outside, run_to_end

_GUARDS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
    "-c", "core.fsync=all", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false",
    "-c", "core.quotePath=false", "-c", "diff.ignoreSubmodules=dirty", "-c", "submodule.recurse=false",
    "-c", "log.showSignature=false",
)  # fmt: skip
# core.fsync (git 2.36): git 2.39 commits without a single fsync otherwise, and a finished iteration is its commit.

_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # not ext::, which runs a command
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs that show another commit in place of one
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_EDITOR": "true",
    "GIT_PROGRESS_DELAY": "0",  # else it is 2 s before a checkout says anything
    "LC_ALL": "C",
}


PATIENT_HTTP = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
"""Ends an HTTP transfer that was almost stalled for a minute."""

_REPEATABLE = frozenset({
    "cat-file", "commit-tree", "config", "diff", "diff-tree", "fetch", "for-each-ref", "grep", "hash-object", "log",
    "ls-files", "ls-remote", "ls-tree", "merge-base", "merge-tree", "mktree", "rev-list", "rev-parse", "status",
    "symbolic-ref", "var", "write-tree",
})  # fmt: skip
"""Commands that only read, or that can safely run twice."""
_MOST_TRIES = 3
_FILTER = re.compile(r"^fatal: (.+): clean filter '(.+)' failed$", re.MULTILINE)
_GAVE_UP = 128
"""Git's own exit code for fatal errors."""


class GitKilled(RepoError):
    """Git was killed, for example for lack of memory; this says nothing about the repository."""


def git_output(root: Path, *args: str) -> str:
    """Run git and return its output; a failure of git's is a `RepoError`."""
    return succeeded(root, args, run_git(root, *args))


def succeeded(root: Path, args: Sequence[str], outcome: tuple[int, str, str]) -> str:
    """Return git's output, or raise with git's own message."""
    status, out, err = lived(root, args, outcome)
    if status != 0:
        if failed := _FILTER.search(err):
            path, name = failed.groups()
            hint = "a setting of git's names its program: repair that, or install it; git add shows its complaints"
            raise RepoError(f"cannot commit {path} in {root}: clean filter '{name}' failed", hint)
        raise RepoError(f"git {_verb(args)} failed in {root}: {last_line(err) or f'exit {status}'}")
    return out


def lived(root: Path, args: Sequence[str], outcome: tuple[int, str, str]) -> tuple[int, str, str]:
    """Return the outcome unless git was killed: only then its exit status means something."""
    if outcome[0] < 0:
        raise GitKilled(
            f"git {_verb(args)} was {exit_words(outcome[0])} in {root}", "check that there is enough memory"
        )
    return outcome


def run_git(
    root: Path,
    *args: str,
    said: bytes | None = None,
    pinned: Mapping[str, str] | None = None,
    limit: float | None = None,
    report: Reporter | None = None,
) -> tuple[int, str, str]:
    """Run git; return its exit status, output and complaints. A session of its own keeps ^C away from it.

    After `limit` seconds it is stopped with everything that it started: a remote can stay silent for ever. A status
    below 0 is the signal that killed it, after a retry if the command can safely run twice.

    `report` gets the progress of a git that is called with `heard_by(report)`, and raises to stop it; `limit` then
    limits silence.
    """
    outcome = _run_once(root, *args, said=said, pinned=pinned, limit=limit, report=report)
    for _ in range(_MOST_TRIES - 1):
        if outcome[0] >= 0 or not _is_repeatable(args):
            break
        outcome = _run_once(root, *args, said=said, pinned=pinned, limit=limit, report=report)
    return outcome


def _is_repeatable(args: Sequence[str]) -> bool:
    words = _command(args)
    sets_a_ref = words[0] == "update-ref" and len(words) == 3 and not words[1].startswith("-")
    return words[0] in _REPEATABLE or sets_a_ref


def _verb(args: Sequence[str]) -> str:
    return _command(args)[0]


def _command(args: Sequence[str]) -> Sequence[str]:
    """Return git's command without the global options."""
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
    report: Reporter | None,
) -> tuple[int, str, str]:
    argv = _guarded(root, args)
    argv[0] = _program(root)
    try:
        environment = {**environ.inherited(), **_settled(root), **(pinned or {})}
        hear = None if report is None else _ProgressOfGit(report, environment["PATH"]).hear
        status, output, complaints = run_to_end(argv, environment=environment, said=said, limit=limit, hear=hear)
    except OutOfTime:
        return _GAVE_UP, "", f"git did not answer within {limit:g} s"
    except FileNotFoundError as error:
        raise UsageError("cannot find git", "install git, and check that it is on PATH") from error
    except OSError as error:
        raise UsageError(f"cannot start git: {error.strerror}", "check the git on PATH: git --version") from error
    told = _decoded(complaints)
    return status, _decoded(output), told if report is None else _without_progress(told)


def _guarded(root: Path, args: Sequence[str]) -> list[str]:
    return ["git", "-C", str(root), *_GUARDS, *args]


def _settled(root: Path) -> Mapping[str, str]:
    return {**_ENVIRONMENT, **_found(root), **_configured(root)}


@functools.cache
def _program(root: Path) -> str:
    """Return git's path, which saves searching PATH each time; its name if it is not on PATH."""
    return shutil.which("git", path=_found(root)["PATH"]) or "git"


def _decoded(output: bytes) -> str:
    """Decode so that a path in any encoding can be given back to git."""
    return output.decode("utf-8", "surrogateescape")


def _load_gitpython(path: str) -> None:
    """Import GitPython, which runs git during its import, with our PATH; once, as threads share the environment."""
    if "git" not in sys.modules:
        try:
            with environ.searching(path):
                importlib.import_module("git")
        except ImportError as error:
            raise UsageError("cannot find git", "install git, and check that it is on PATH") from error


def heard_by(report: Reporter | None) -> tuple[str, ...]:
    """Return the flags, after `--quiet`, that make a clone, fetch or checkout report its progress."""
    return () if report is None else ("--no-quiet", "--progress")


_SOON = 0.5
"""Seconds without progress: most calls end earlier, and do not need GitPython."""
_LONGEST = 4096
_STEPS = {
    "COUNTING": "counting", "FINDING_SOURCES": "finding sources", "COMPRESSING": "compressing",
    "RECEIVING": "receiving", "WRITING": "sending", "RESOLVING": "resolving deltas", "CHECKING_OUT": "writing files",
}  # fmt: skip
"""GitPython's names for what git does, and ours."""
_PROGRESS = re.compile(
    r"(remote: )?(Enumerating|Counting|Finding|Compressing|Receiving|Writing|Unpacking|Resolving|Updating|Checking)"
    r" [a-z ]+:\s+\d.*"
)


class _ProgressOfGit:
    """Reads git's progress lines, and reports them."""

    def __init__(self, report: Reporter, path: str) -> None:
        self._report, self._path = report, path
        self._began = time.monotonic()
        self._rest, self._last = b"", ""
        self._progress = TaskProgress()
        self._parse: Callable[[str], None] | None = None

    def hear(self, complaints: bytes) -> None:
        """Read git's latest output, which may be empty."""
        *lines, self._rest = re.split(rb"[\r\n]", (self._rest + complaints)[-_LONGEST:])
        said = (line.decode("utf-8", "replace") for line in reversed(lines))
        self._last = next((line for line in said if _PROGRESS.fullmatch(line)), self._last)
        if self._last and time.monotonic() > self._began + _SOON:
            if self._parse is None:
                self._parse = self._parser()
            self._parse(self._last.replace("Updating files", "Checking out files", 1))  # as GitPython 3.1 knows it
            self._last = ""
        self._report(self._progress)

    def _parser(self) -> Callable[[str], None]:
        _load_gitpython(self._path)
        from git import RemoteProgress

        words = {getattr(RemoteProgress, name): step for name, step in _STEPS.items()}

        def heard(code: int, done: str | float, total: str | float | None = None, message: str = "") -> None:
            step = words.get(code & RemoteProgress.OP_MASK, "")
            self._progress = TaskProgress(step, int(done or 0), int(total) if total else None, message)

        class Parser(RemoteProgress):
            def update(
                self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
            ) -> None:
                heard(op_code, cur_count, max_count, message)

        return Parser().new_message_handler()


def _without_progress(complaints: str) -> str:
    """Return git's messages without its progress lines."""
    lines = (line.rpartition("\r")[2] for line in complaints.replace("\r\n", "\n").split("\n"))
    return "\n".join(line for line in lines if not _PROGRESS.fullmatch(line))


@functools.cache
def _found(root: Path) -> Mapping[str, str]:
    """Return the search path for git and its helpers: decided once, before any agent runs."""
    env = environ.inherited()
    path = outside(env.get("PATH", os.defpath), root) or os.defpath  # an empty one means the current directory
    return {"PATH": path, **loading_outside(env, root)}


_PLACES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""The variables that say where the user's settings are; they do not change while ralph runs."""
_first_read: dict[tuple[str, ...], tuple[UsersSettings, str, str]] = {}
"""The user's settings, ignored files and attributes, as they were when ralph's first git ran: before any agent."""


@functools.cache
def _configured(root: Path) -> Mapping[str, str]:
    """Return what has git read the user's settings as they were when ralph started, and no other file of his."""
    env = {**environ.inherited(), **_found(root), "LC_ALL": "C"}
    place = tuple(env.get(name, "") for name in _PLACES)
    if place not in _first_read:
        here = _users_settings(root, env)
        ignored, attributes = here.files(env)
        _first_read.setdefault(place, (here, held_in_memory(ignored), held_in_memory(attributes)))
    first, ignored, attributes = _first_read[place]
    here = _users_settings(root, env) if first.depend_on_place else first
    held = held_in_memory(first.for_git(here, ignored=ignored, attributes=attributes))
    return {"GIT_CONFIG_GLOBAL": held, "GIT_CONFIG_SYSTEM": os.devnull}


def _users_settings(root: Path, env: Mapping[str, str]) -> UsersSettings:
    said = b""
    for place in (root, Path(os.sep)):  # the repository's own settings may be broken, or there is none
        argv = [_program(root), "-C", str(place), "config", "--list", "--show-scope", "-z"]
        status, output, complaints = run_to_end(argv, environment=env, said=None)
        if status == 0:
            return UsersSettings.listed(output)
        said = complaints
    hint = "find the file with: git config --list --show-origin"
    raise UsageError(f"cannot read git's settings: {last_line(_decoded(said))}", hint)


def last_line(text: str) -> str:
    """Return the important line of git's messages: the last error, else the last line that is not a hint."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [""])[-1]
