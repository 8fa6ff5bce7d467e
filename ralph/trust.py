"""The versions of `.envrc` that the user trusts: one small file each, so that two ralphs never write the same one."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import tomli_w

from ralph.envrc.sources import NAME, Envrc
from ralph.errors import StateError, UsageError
from ralph.files import make_private_directory, named_in_faults, replace_file
from ralph.journal import repo_key

DIRENV = "direnv"


@dataclass(frozen=True, slots=True)
class Record:
    """The files that were trusted or used, by their content, and on whose word."""

    files: Mapping[str, str]
    by: str

    @property
    def is_consent(self) -> bool:
        """The user told ralph so; what he told his direnv is for that to say, and to take back."""
        return self.by != DIRENV


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a `.envrc` is not used."""

    why: str


class TrustStore:
    """What was trusted, by the path of the repository."""

    def __init__(self, ralph_dir: Path) -> None:
        self._folder = ralph_dir / "trust"

    def recorded(self, root: Path) -> Record | None:
        """What was trusted there, or used; None: nothing was."""
        file = self._file(root)
        try:
            document = tomllib.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StateError(f"{file}: cannot be read: {error}", f"remove it, and trust anew: rm {file}") from error
        files = document.get("files")
        if document.get("path") != str(root / NAME) or not isinstance(files, dict):
            return None
        known = {str(name): str(digest) for name, digest in cast("dict[str, object]", files).items()}
        return Record(known, str(document.get("by")))

    def record(self, envrc: Envrc, by: str, at: str) -> None:
        """Write down what stands: trusted, or, `by` direnv, used."""
        document = {"path": str(envrc.path), "by": by, "at": at, "files": dict(envrc.files)}
        make_private_directory(self._folder)
        replace_file(self._file(envrc.root), tomli_w.dumps(document))

    def forget(self, root: Path) -> bool:
        """Trust nothing there any more; tell whether anything was."""
        file = self._file(root)
        with named_in_faults(file):
            known = file.exists()
            file.unlink(missing_ok=True)
        return known

    def _file(self, root: Path) -> Path:
        return self._folder / f"{repo_key(root)}.toml"


def refuse_sessions(env: Mapping[str, str]) -> None:
    """Refuse to take an agent's word for the user's."""
    if env.get("RALPH_RUN_ID"):
        raise UsageError(
            "a session of ralph's does not decide what ralph trusts", "leave that to the user: ralph trust"
        )


def judge(envrc: Envrc, record: Record | None, *, allows: bool, denies: bool, began: str | None) -> Doubt | None:
    """Decide whether a `.envrc` may be executed; None: it may.

    The user's direnv speaks for `.envrc` alone, not for what that reads: those files must be the ones that were used
    before. And it counts only for the version that stood when the run began (`began`): an agent can call direnv, too.
    """
    if envrc.unreadable:
        return Doubt(f"{envrc.unreadable[0]} cannot be read")
    if denies:
        return Doubt("your direnv denies it")
    changed = [] if record is None else envrc.changed_since(record.files)
    if record is not None and record.is_consent and not changed:
        return None
    if began is not None and began != envrc.digest:
        return Doubt(_named(changed, "since this run began"))
    others = [name for name in changed if name != NAME and record is not None and name in record.files]
    if allows and not others:
        return None
    if record is None or not changed:
        return Doubt("nobody has trusted it")
    return Doubt(_named(changed, "since it was trusted"))


def _named(changed: list[str], since: str) -> str:
    shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return f"{shown or 'it'} changed {since}"
