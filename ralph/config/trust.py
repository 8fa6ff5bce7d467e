"""The versions of `.envrc` that the user trusts: one small file each, so that two processes never write the same one.

Where the user has trusted none, the version found when ralph first ran there is recorded instead: no
agent that ralph started can have written it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import tomli_w

from ralph.config.envrc_files import NAME, Envrc
from ralph.config.paths import repo_key
from ralph.core.errors import StateError, UsageError
from ralph.core.text import few
from ralph.system.files import make_private_directory, named_in_faults, replace_file

DIRENV = "direnv"
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Record:
    """The files of a version by content, and who trusted it; nobody if ralph only saw it."""

    files: Mapping[str, str]
    by: str

    @property
    def is_consent(self) -> bool:
        """Whether the user trusted it with ralph. Not what direnv allows: direnv is asked each time."""
        return self.by not in (DIRENV, NOBODY)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a `.envrc` is not used."""

    why: str


class TrustStore:
    """What was trusted, by the path of the repository. With `in_passing` nothing is written, only returned."""

    def __init__(self, ralph_dir: Path, *, in_passing: bool = False) -> None:
        self._folder = ralph_dir / "trust"
        self._in_passing = in_passing

    def recorded(self, root: Path) -> Record | None:
        """Return what was trusted, used or first seen there; None if ralph never ran there."""
        file = self._file(root)
        try:
            document = tomllib.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StateError(
                f"cannot read {file}: {error}", f"remove it, and trust the repository again: rm {file}"
            ) from error
        files = document.get("files")
        if document.get("path") != str(root / NAME) or not isinstance(files, dict):
            return None
        known = {str(name): str(digest) for name, digest in cast("dict[str, object]", files).items()}
        return Record(known, str(document.get("by")))

    def record(self, envrc: Envrc, by: str, at: str) -> Record:
        """Record the current version: trusted or, `by` direnv, used."""
        return self._write(envrc.root, Record(envrc.files, by), at)

    def first_seen(self, envrc: Envrc, at: str, *, as_it_began: bool) -> Record:
        """Record the version that ralph sees first; not if a session may have changed it."""
        return self._write(envrc.root, Record(envrc.files if as_it_began else {}, NOBODY), at)

    def forget(self, root: Path, at: str) -> bool:
        """Stop trusting it; tell whether it was trusted. The record of the first version stays."""
        try:
            record = self.recorded(root)
        except StateError:
            with named_in_faults(self._file(root)):
                self._file(root).unlink()
            return True
        if record is None or record.by == NOBODY:
            return False
        self._write(root, Record(record.files, NOBODY), at)
        return True

    def _write(self, root: Path, record: Record, at: str) -> Record:
        if self._in_passing:
            return record
        document = {"path": str(root / NAME), "by": record.by, "at": at, "files": dict(record.files)}
        make_private_directory(self._folder)
        replace_file(self._file(root), tomli_w.dumps(document))
        return record

    def _file(self, root: Path) -> Path:
        return self._folder / f"{repo_key(root)}.toml"


def refuse_sessions(env: Mapping[str, str]) -> None:
    """Refuse a request that comes from an agent's session."""
    if env.get("RALPH_RUN_ID"):
        raise UsageError("an agent's session cannot decide what ralph trusts", "leave this to the user: ralph trust")


def judge(envrc: Envrc, record: Record | None, *, allows: bool, denies: bool, began: str | None) -> Doubt | None:
    """Decide whether a `.envrc` may be executed; None: it may.

    The user's direnv speaks for `.envrc` alone, not for what that reads: those files must be the ones that were used
    before; only a new version of `.envrc` brings new ones with it. And it counts only for what stood when the run
    began (`began`; None: it begins now; empty: nobody knows any more): an agent can call direnv, too.
    """
    if envrc.obstacle:
        return Doubt(envrc.obstacle)
    if denies:
        return Doubt("your direnv denies it")
    changed = [] if record is None else envrc.changed_since(record.files)
    if record is not None and record.is_consent and not changed:
        return None
    if began == "":
        return Doubt("its version at the start of this run is unknown")
    if began is not None and began != envrc.digest:
        return Doubt(_named(changed, "since this run started"))
    used: Mapping[str, str] = {} if record is None else record.files
    others = [name for name in changed if name != NAME and (name in used or NAME not in changed)]
    if allows and not others:
        return None
    if allows and record is not None and record.by == NOBODY:
        return Doubt(_named(others, "since ralph first ran here"))
    if record is None or record.by == NOBODY or not changed:
        return Doubt("you have not trusted it yet")
    return Doubt(_named(changed, "since it was trusted"))


def flag_counts(envrc: Envrc, record: Record) -> bool:
    """Tell whether `--trust-envrc` speaks for what stands: only if it is what ralph knows of already.

    The flag stands in scripts and loops, where nobody looks at what an agent has written since the last run.
    """
    return not envrc.obstacle and record.files == envrc.files


def _named(changed: list[str], since: str) -> str:
    shown = few(changed, 5)
    return f"{shown or 'it'} changed {since}"
