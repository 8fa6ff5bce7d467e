"""What stands at a repository's `.envrc` now: its text, and the files that it reads, as far as the text tells.

Nothing is executed here. What it finds is more rather than less than a shell would read: trust covers these files, and
one that is covered in vain only ends the trust sooner than need be.
"""

import contextlib
import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NAME = ".envrc"
MISSING = "missing"
UNREADABLE = "unreadable"

_SCRIPTS = {".", "source", "source_env", "source_env_if_exists"}
_DATA = {"dotenv", "dotenv_if_exists"}
_ABOVE = {"source_up", "source_up_if_exists"}
_USED = {"flake": ("flake.nix", "flake.lock"), "nix": ("shell.nix", "default.nix")}
"""What `use flake` and `use nix` read of the repository; what those files name in turn is not followed."""

_HARMLESS = {
    "PATH_add", "path_add", "MANPATH_add", "PATH_rm", "path_rm", "watch_file", "watch_dir", "env_vars_required",
    "strict_env", "unstrict_env", "direnv_version", "log_status", "log_error", "has", "unset", "set", "shopt", "umask",
    "echo", "printf", "test", "[", "[[", "true", "false", ":", "return", "exit", "ulimit",
    "for", "case", "in", "fi", "done", "esac", "}",
}  # fmt: skip
"""Commands that run nothing of the repository's."""

_DECLARATIONS = {"export", "declare", "typeset", "local", "readonly"}
_KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SUBSTITUTION = re.compile(r"\$\(|`|\$$")
_HERE = re.compile(r"^(\$PWD|\$\{PWD\}|\.)/")
_HOME = re.compile(r"^(\$HOME|\$\{HOME\}|~)/")
_OPEN = re.compile(r"[$`*?\[]")
_BETWEEN_WORDS = re.compile(r"[^\w./+@~-]+")
_SPOKEN = re.compile(r"[\w./-]{1,40}")
_MOST_FILES = 100


@dataclass(frozen=True, slots=True)
class Envrc:
    """`.envrc` and the files that it reads, each by the sha256 of its content; those that are not there count, too."""

    root: Path
    files: Mapping[str, str]
    text: bytes
    unfollowed: tuple[str, ...]
    """What it does that no file tells: what trust in these files does not cover."""

    @property
    def path(self) -> Path:
        return self.root / NAME

    @property
    def exists(self) -> bool:
        return self.files[NAME] != MISSING

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The files whose content nobody can vouch for: pipes, say, and those without the right to read them."""
        return tuple(name for name, content in self.files.items() if content == UNREADABLE)

    @property
    def digest(self) -> str:
        """One word for all of it."""
        told = "".join(f"{name}\0{content}\0" for name, content in sorted(self.files.items()))
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()

    def changed_since(self, files: Mapping[str, str]) -> list[str]:
        """Name the files that are others than they were."""
        return [name for name in {**self.files, **files} if self.files.get(name) != files.get(name)]


def look(root: Path, home: Path) -> Envrc:
    """Read what stands in a repository."""
    found = _Found(root, home)
    text = found.add_script(root / NAME, root)
    return Envrc(root, found.files, text, tuple(dict.fromkeys(found.unfollowed)))


@dataclass(slots=True)
class _Found:
    """The files that were found so far."""

    root: Path
    home: Path
    files: dict[str, str] = field(default_factory=dict[str, str])
    unfollowed: list[str] = field(default_factory=list[str])

    def add_script(self, path: Path, base: Path) -> bytes:
        """Count a file and, as bash would read it, those that it reads in turn."""
        name = self._name(path)
        if name in self.files:
            return b""
        if len(self.files) >= _MOST_FILES:
            self.unfollowed.append(f"whatever comes after the first {_MOST_FILES} files")
            return b""
        content = self.add(path)
        for number, words in _commands(content.decode("utf-8", "replace").replace("\0", "")):  # bash drops NULs
            self._follow(words, f"line {number} of {name}", (base, path.parent, self.root))
        return content

    def add(self, path: Path) -> bytes:
        """Count a file; return its content."""
        name = self._name(path)
        try:
            if path.is_file():
                content = path.read_bytes()
                self.files[name] = hashlib.sha256(content).hexdigest()
                return content
            self.files[name] = UNREADABLE if path.exists() else MISSING
        except OSError:
            self.files[name] = UNREADABLE
        return b""

    def _follow(self, words: Sequence[str], where: str, bases: Sequence[Path]) -> None:
        if not words:
            self.unfollowed.append(where)  # a quote or a document that goes on, for one
            return
        verb, arguments = words[0], words[1:]
        assigns = verb in _DECLARATIONS or all(map(_ASSIGNMENT.match, words))
        if any(map(_SUBSTITUTION.search, words)):
            self.unfollowed.append(f"{where} (a command in a value)" if assigns else _said(where, verb))
            self._add_named(words, bases)
        elif assigns or verb in _HARMLESS:
            return
        elif verb in _SCRIPTS | _DATA:
            self._add_sourced(verb, arguments, where, bases)
        elif verb in _ABOVE:
            self._add_above(arguments[0] if arguments else NAME)
        else:
            used = _USED.get(arguments[0], ()) if verb == "use" and arguments else ()
            for name in used:
                self.add(self.root / name)
            self.unfollowed.append(
                _said(where, verb, *arguments[:1]) if verb in ("use", "layout") else _said(where, verb)
            )
            self._add_named(words, bases)

    def _add_sourced(self, verb: str, arguments: Sequence[str], where: str, bases: Sequence[Path]) -> None:
        word = _HERE.sub("", arguments[0]) if arguments else ".env"
        word = _HOME.sub(lambda _: f"{self.home}/", word)
        if _OPEN.search(word):
            self.unfollowed.append(_said(where, verb))
            return
        for place in dict.fromkeys(self._file_at(base / word, verb) for base in bases):
            if verb in _DATA:
                self.add(place)
            else:
                self.add_script(place, place.parent if verb.startswith("source_env") else bases[0])

    def _add_above(self, name: str) -> None:
        for folder in self.root.parents:
            self.add_script(folder / name, folder)
            if _is_file(folder / name):
                return

    def _file_at(self, path: Path, verb: str) -> Path:
        with contextlib.suppress(OSError):
            if path.is_dir():
                return path / (".env" if verb in _DATA else NAME)
        return path

    def _add_named(self, words: Sequence[str], bases: Sequence[Path]) -> None:
        """Count the files of the repository that a command names: a script that it runs, for one."""
        for name in {piece for word in words for piece in _BETWEEN_WORDS.split(word) if piece}:
            for place in {base / name for base in bases}:
                if _is_file(place) and _real(place).is_relative_to(_real(self.root)):
                    self.add(place)

    def _name(self, path: Path) -> str:
        plain = _real(path) if ".." in path.parts else path
        return str(plain.relative_to(self.root)) if plain.is_relative_to(self.root) else str(plain)


def _is_file(path: Path) -> bool:
    with contextlib.suppress(OSError):  # a word may be longer than any name
        return path.is_file()
    return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike Path.resolve, it takes links that lead in a circle


def _said(where: str, *words: str) -> str:
    """Name a command by its first words; its arguments may be secrets."""
    return f"{where} ({' '.join(words)})" if all(map(_SPOKEN.fullmatch, words)) else where


def _commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """The simple commands of a script with their lines, as near as can be told without a shell; empty: it cannot."""
    number = 1
    for line in re.split(r"(?<!\\)\n", text):
        tokens = _tokens(line.replace("\\\n", " "))
        yield from [(number, [])] if tokens is None else ((number, command) for command in _split(tokens))
        number += line.count("\n") + 1


def _tokens(line: str) -> list[str] | None:
    """The words and operators of a line; None where a quote is left open, if not by a comment."""
    if line.lstrip().startswith("#"):
        return []
    for text in (line, re.sub(r"\s#.*", "", line)):
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""  # it would take a # within a word for a comment
        with contextlib.suppress(ValueError):
            return list(lexer)
    return None


def _split(tokens: Sequence[str]) -> Iterator[list[str]]:
    command: list[str] = []
    redirected = False
    for word in tokens:
        if word and set(word) <= set("<>&|();"):
            if word in ("<(", ">("):
                command.append("$(")
            elif word[0] in "<>" or word[-1] in "<>":
                redirected = True
                if word.startswith("<<"):  # a document follows, whose lines are no commands
                    yield []
            elif word == "(" and command and command[-1].endswith("$"):
                pass  # the inside of $(...) is part of the command that it is in
            else:
                yield from _plain(command)
                command = []
        elif redirected:
            redirected = False
        else:
            command.append(word)
    yield from _plain(command)


def _plain(command: list[str]) -> Iterator[list[str]]:
    while command and command[0] in _KEYWORDS:
        command = command[1:]
    if command:
        yield command
