"""Real git repositories for tests, made with the git command in an environment that no user's settings reach."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NAME, EMAIL = "Tess Tester", "tess@example.org"


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    subject: str
    body: str
    trailers: Mapping[str, str]


def git(path: Path, *args: str) -> str:
    """Run git in the repository and return what it prints, stripped; a failure shows what git said."""
    env = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    done = subprocess.run(["git", *args], cwd=path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"git {' '.join(args)} exited {done.returncode}: {done.stderr}{done.stdout}"
    return done.stdout.strip()


def make_repo(
    path: Path, files: Mapping[str, str | bytes] | None = None, *, commit: bool = True, identity: bool = True
) -> Path:
    """Make a repository on `main` that holds these files; `identity` gives the repository a user to commit as."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "--quiet", "--initial-branch=main", "--template=")  # a dozen sample hooks less to copy
    for folder in ("hooks", "info"):
        (path / ".git" / folder).mkdir()
    if identity:
        with (path / ".git" / "config").open("a") as config:  # two processes less for each of a thousand repositories
            config.write(f"[user]\n\tname = {NAME}\n\temail = {EMAIL}\n")
    for name, content in (files or {}).items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    if commit:
        _commit_all(path, "start")
    return path


def commit_all(path: Path, message: str) -> str:
    """Commit whatever is there, whoever the repository's user is, and return the commit's id."""
    _commit_all(path, message)
    return git(path, "rev-parse", "HEAD")


def _commit_all(path: Path, message: str) -> None:
    git(path, "add", "--all")
    git(
        path,
        "-c",
        f"user.name={NAME}",
        "-c",
        f"user.email={EMAIL}",
        "commit",
        "--quiet",
        "--allow-empty",
        f"-m{message}",
    )


def commits(path: Path, revision: str = "HEAD") -> list[Commit]:
    """The commits up to the revision, oldest first; none in a repository that has none."""
    if not git(path, "rev-list", "--all", "--max-count=1"):
        return []
    log = git(path, "log", "--reverse", "--format=%H%x00%s%x00%b%x00%(trailers:only,unfold)%x01", revision)
    return [_commit(entry) for entry in log.split("\x01") if entry.strip()]


def _commit(entry: str) -> Commit:
    sha, subject, body, trailers = entry.lstrip("\n").split("\0")
    pairs = (line.split(": ", 1) for line in trailers.splitlines() if line)
    return Commit(sha, subject, body.strip(), dict(pairs))
