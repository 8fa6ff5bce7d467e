"""Git's configuration as ralph's own git uses it: taken from the user's when ralph starts, and held in memory.

An agent without a sandbox can write `~/.gitconfig`. So ralph reads the user's settings once, drops those that it has no
use for (hooks, fsmonitor, pagers, aliases, signing, drivers for diffs and merges), and shows git the rest. The lists of
ignored files and of attributes that belong to the user are held the same way.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_COPIED = re.compile(
    r"(credential|http|https|url|filter|lfs|safe|ssh|i18n|pack|transfer|fetch|index|checkout)\..+"
    r"|core\.(askpass|autocrlf|bigfilethreshold|checkstat|compression|eol|filemode|gitproxy|ignorecase|longpaths"
    r"|precomposeunicode|preloadindex|protecthfs|protectntfs|safecrlf|sshcommand|symlinks|trustctime|untrackedcache)"
    r"|diff\.(algorithm|renamelimit|renames)|merge\.(conflictstyle|directoryrenames|renamelimit|renames)"
    r"|remote\..+\.proxy(authmethod)?"
)
"""The settings of the user that ralph's own git needs: how to reach remotes, how files are stored."""
_PERSONAL = re.compile(r"(user|author|committer)\..+")
_LARGEST = 1 << 20
"""Bytes of a list of ignored files, or of attributes, that ralph takes over."""


Setting = tuple[str, str | None]
"""A key and its value; None: it stands alone, which means `true`."""


@dataclass(frozen=True, slots=True)
class UsersSettings:
    """The user's own settings, and the machine's, as they hold in one place."""

    entries: tuple[Setting, ...]

    @classmethod
    def listed(cls, output: bytes) -> "UsersSettings":
        """Read what `git config --list --show-scope -z` says."""
        words = iter(output.decode("utf-8", "surrogateescape").split("\0"))
        entries: list[Setting] = []
        for scope, entry in zip(words, words, strict=False):
            key, is_set, value = entry.partition("\n")
            if scope in ("system", "global"):
                entries.append((key, value if is_set else None))
        return cls(tuple(entries))

    @property
    def depend_on_place(self) -> bool:
        """Some hold only in some repositories."""
        return any(key.startswith("includeif.") for key, _ in self.entries)

    def files(self, env: Mapping[str, str]) -> tuple[bytes, bytes]:
        """Read the user's list of ignored files, and his attributes."""
        home = Path(env.get("HOME") or os.devnull)
        folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git"
        named = dict(self.entries)
        ignored = _content(named.get("core.excludesfile"), home, folder / "ignore")
        return ignored, _content(named.get("core.attributesfile"), home, folder / "attributes")

    def for_git(self, here: "UsersSettings", *, ignored: str, attributes: str) -> bytes:
        """Write what git is to read in another place, `here`: who commits may depend on it, and nothing else."""
        kept = [each for each in self.entries if _COPIED.fullmatch(each[0])]
        kept += [each for each in here.entries if _PERSONAL.fullmatch(each[0])]
        return _written([*kept, ("core.excludesfile", ignored), ("core.attributesfile", attributes)])


def _content(named: str | None, home: Path, usual: Path) -> bytes:
    path = usual if named is None else home / named[2:] if named.startswith("~/") else Path(named)
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST) if path.is_file() else b""
    except OSError:
        return b""


def _written(settings: Sequence[Setting]) -> bytes:
    """Write settings the way git reads them."""
    lines: list[str] = []
    for key, value in settings:
        section, _, name = key.rpartition(".")
        kind, has_part, part = section.partition(".")
        lines.append(f'[{kind} "{_escaped(part)}"]' if has_part else f"[{kind}]")
        lines.append(f"\t{name}" if value is None else f'\t{name} = "{_escaped(value)}"')
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
