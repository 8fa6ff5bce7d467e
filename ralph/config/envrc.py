"""The variables that a `.envrc` sets, by direnv or by its text, and whether the user's direnv allows it.

Whether direnv allows a file is read from where direnv keeps it, by the hash of path and content (2.32.1, and its
sources of 2026): asking direnv would run it, and `status` differs between versions. Its whitelist does not count: it
allows any content, even what an agent has written.
"""

import contextlib
import hashlib
import io
import os
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import dotenv
import tomli_w

from ralph.config.envrc_files import Envrc
from ralph.core import ndjson
from ralph.core.text import format_duration
from ralph.sandbox.policy import Mount, MountKind
from ralph.sandbox.sandbox import Sandbox
from ralph.system.child import Child
from ralph.system.files import make_private_directory
from ralph.system.guardian import Guardian, StartError

_STATE = {"DIRENV_DIFF", "DIRENV_DIR", "DIRENV_FILE", "DIRENV_WATCHES", "DIRENV_DUMP_FILE_PATH", "DIRENV_IN_ENVRC"}
"""Variables of a shell's direnv hook: with them direnv would report that there is nothing to do."""

_POLL = 0.2
_LOOK = "run `direnv allow` there to see the error"
_SETTINGS = ("direnv.toml", "config.toml")

_WORD = r"[^\s\\\"'$`;&|<>(){}*?\[\]~!#]"
_PLAIN = re.compile(rf"(export[ \t]+)?[A-Za-z_]\w*=({_WORD}(?:{_WORD}|#)*|'[^'\\]*'|\"[^\"\\$`]*\")?[ \t]*(#.*)?")
_NOTHING = re.compile(r"\s*(#.*)?")
_GOES_ON = re.compile(
    r"(if|for|while|until|case|select|function|\{|\()(\s|$)|.*(<<|\\$|[{(]\s*(#.*)?$)|(exit|return)\b"
)
"""Lines after which reading line by line no longer tells what is executed."""

_DROPPED = re.compile(
    r"(GIT_|LD_|PYTHON|DIRENV_|RALPH_|BASH_FUNC_).*|BASH_ENV|ENV|NODE_OPTIONS|PERL5OPT|RUBYOPT|GCONV_PATH", re.DOTALL
)
"""Variables that make programs run or load something else: shells, interpreters, the C library, git.

Where a language looks for its modules is not among them, but for Python's: `layout perl` and `layout ruby` live by it.
Also ralph's own, which describe its run, and direnv's, which describe its shell.
"""

_GARBLED = "\N{REPLACEMENT CHARACTER}"
"""What direnv (2.32.1) prints for bytes that are not text; the original bytes are lost."""


@dataclass(frozen=True, slots=True)
class DirenvWord:
    """Whether the user's direnv allows or denies a `.envrc` with this content at this path."""

    allows: bool
    denies: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why direnv returned no environment, and what the user can do."""

    why: str
    hint: str


def word_on(envrc: Envrc, env: Mapping[str, str]) -> DirenvWord:
    """Look up whether the user's direnv allows or denies it; nothing is run."""
    data = _folder(env, "XDG_DATA_HOME", ".local/share")
    path = os.fsencode(envrc.path) + b"\n"
    return DirenvWord(
        allows=(data / "allow" / hashlib.sha256(path + envrc.text).hexdigest()).is_file(),
        denies=(data / "deny" / hashlib.sha256(path).hexdigest()).is_file(),
    )


def export(
    program: str,
    envrc: Envrc,
    env: Mapping[str, str],
    folder: Path,
    *,
    guardian: Guardian,
    sandbox: Sandbox,
    timeout: float,
    stop_requests: Callable[[], int],
) -> Mapping[str, str | None] | Failure:
    """Let direnv evaluate the `.envrc`; nothing that it started is left when this returns. None: unset.

    `folder` is temporary; after a kill, the next call removes it.
    Its output and errors are not kept: both may contain secrets.
    """
    nowhere = Path(os.devnull)
    started = time.monotonic()
    printed: list[bytes] = []
    timed_out = False
    clean = {name: value for name, value in env.items() if name not in _STATE} | {"PWD": str(envrc.root)}
    try:
        with contextlib.ExitStack() as held:
            config = held.enter_context(_allowing(envrc, env, folder))
            contained = sandbox.contain(
                [program, "export", "json"],
                {**clean, "DIRENV_CONFIG": str(config)},
                envrc.root,
                mounts=[Mount(os.path.realpath(config), MountKind.READ)],
            )
            child = held.enter_context(
                Child(
                    contained.argv,
                    guardian=guardian,
                    cwd=envrc.root,
                    environment=contained.environment,
                    stdout_log=nowhere,
                    stderr_log=nowhere,
                    talks=False,
                )
            )
            while (lines := child.read(_POLL)) is not None:
                printed += [line for line in lines if isinstance(line, bytes)]
                if stop_requests():
                    child.kill()
                elif time.monotonic() - started > timeout:
                    timed_out = True
                    child.kill()
            exit_code = child.exit_code
    except StartError as error:
        return Failure(error.message, "check your direnv: direnv version")
    if timed_out:
        why = f"direnv took longer than {format_duration(timeout)} and was stopped"
        return Failure(why, "allow more time: ralph config set envrc_timeout 5m")
    if exit_code != 0:
        return Failure(f"direnv failed (exit {exit_code})", _LOOK)
    return _changes(b"\n".join(printed))


def _changes(printed: bytes) -> Mapping[str, str | None] | Failure:
    try:
        changes = ndjson.decode(printed.decode("utf-8", "replace") or "{}")
    except ndjson.Malformed:
        changes = None
    if not isinstance(changes, dict):
        return Failure("direnv did not print JSON", _LOOK)
    told = cast("dict[str, object]", changes)
    return {name: value for name, value in told.items() if value is None or isinstance(value, str)}


@contextlib.contextmanager
def _allowing(envrc: Envrc, env: Mapping[str, str], config: Path) -> Generator[Path]:
    """Yield a direnv configuration that allows this one file and no other; the user's own stays as it is.

    Not a data directory of ours with its allow files, for XDG_DATA_HOME means much to others: evaluated under another
    one, a `.envrc` would have pipenv, mise and uv make their environments there.
    """
    own = Path(env["DIRENV_CONFIG"]) if env.get("DIRENV_CONFIG") else _folder(env, "XDG_CONFIG_HOME", ".config")
    shutil.rmtree(config, ignore_errors=True)
    make_private_directory(config)
    try:
        for entry in own.iterdir() if own.is_dir() else ():
            if entry.name not in _SETTINGS:
                (config / entry.name).symlink_to(entry.absolute())
        settings = _read_settings(own)
        settings["whitelist"] = {"exact": [str(envrc.path)]}
        (config / _SETTINGS[0]).write_text(tomli_w.dumps(settings))
        yield config
    finally:
        shutil.rmtree(config, ignore_errors=True)


def _read_settings(own: Path) -> dict[str, object]:
    for name in _SETTINGS:
        with contextlib.suppress(OSError, ValueError):
            return tomllib.loads((own / name).read_text("utf-8"))
    return {}


def _folder(env: Mapping[str, str], name: str, usual: str) -> Path:
    return Path(env.get(name) or Path(env.get("HOME") or Path.home()) / usual) / "direnv"


@dataclass(frozen=True, slots=True)
class Static:
    """The variables that were read, and the numbers of the skipped lines; from `end` on, all were skipped."""

    values: Mapping[str, str]
    left_out: tuple[int, ...]
    end: int | None

    @property
    def omissions(self) -> str:
        """Describe the skipped lines; empty if there are none."""
        lines = ", ".join(map(str, self.left_out[:10])) + (" …" if len(self.left_out) > 10 else "")
        some = f"line{'s' if len(self.left_out) > 1 else ''} {lines}" if lines else ""
        rest = f"everything from line {self.end} on" if self.end else ""
        return " and ".join(filter(None, [some, rest]))


def read(text: str) -> Static:
    """Read the lines that only assign text to a name; like bash, drop NULs."""
    plain: list[str] = []
    left_out: list[int] = []
    end = None
    for number, line in enumerate(text.replace("\0", "").split("\n"), 1):
        if _PLAIN.fullmatch(line):
            plain.append(line)
        elif _NOTHING.fullmatch(line):
            continue
        elif _GOES_ON.match(line) or line.count('"') % 2 or line.count("'") % 2:
            end = number
            break
        else:
            left_out.append(number)
    values = dotenv.dotenv_values(stream=io.StringIO("\n".join(plain)), interpolate=False)
    return Static({name: value or "" for name, value in values.items()}, tuple(left_out), end)


@dataclass(frozen=True, slots=True)
class Variables:
    """Variables that are set, removed, not allowed, or not readable."""

    values: Mapping[str, str]
    unset: tuple[str, ...]
    dropped: tuple[str, ...]
    garbled: tuple[str, ...]

    def over(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with these changes."""
        return {name: value for name, value in env.items() if name not in self.unset} | dict(self.values)


def let_through(changes: Mapping[str, str | None]) -> Variables:
    """Sort the changes of a `.envrc`; None removes a variable."""
    kept = {name: value for name, value in changes.items() if not _DROPPED.fullmatch(name)}
    return Variables(
        values={name: value for name, value in kept.items() if value is not None and _GARBLED not in value},
        unset=tuple(name for name, value in kept.items() if value is None),
        dropped=tuple(name for name in changes if name not in kept and not name.startswith("DIRENV_")),
        garbled=tuple(name for name, value in kept.items() if value is not None and _GARBLED in value),
    )
