"""A repository's `.envrc` as it is now, and the files it reads, as far as its text tells.

Nothing is executed here. It finds more files rather than fewer than a shell would read: trust covers these files, and
one too many only ends the trust earlier.
"""

import contextlib
import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"}
_GAP = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"\d*(?:&>>?|<<[<-]?|[<>]\(|>>|[<>][&|>]?)|&&|\|[|&]|;;&?|;&|[;&|()]")
_PIECE = re.compile(
    r"""
    \\\n | \\(?P<escaped>.) | '(?P<single>[^'\n]*+)' | "(?P<double>(?:[^"\\\n]|\\.|\\\n)*+)"
    | (?P<plain>[^\s\\'"<>&|();]++|[^\S \t\n]) | (?P<end>\\)\Z
    """,
    re.VERBOSE,
)
"""What a word is made of; an unclosed quote does not count. No repetition is ever matched twice."""

_REST = re.compile(r"[^\n]*")

NAME = ".envrc"
MISSING = "missing"
_SCRIPTS = {".", "source", "source_env", "source_env_if_exists"}
_DATA = {"dotenv", "dotenv_if_exists"}
_ABOVE = {"source_up", "source_up_if_exists"}
_STRICTNESS = {"strict_env", "unstrict_env"}
_PREFIXES = _STRICTNESS | {"command", "builtin"}
"""Commands that run the one that they are given."""

_USED = {"flake": ("flake.nix", "flake.lock"), "nix": ("shell.nix", "default.nix")}
"""What `use flake` and `use nix` read of the repository; what those files name in turn is not followed."""

_HARMLESS = {
    "PATH_add", "path_add", "MANPATH_add", "PATH_rm", "path_rm", "watch_file", "watch_dir", "env_vars_required",
    "strict_env", "unstrict_env", "direnv_version", "log_status", "log_error", "has", "unset", "set", "shopt", "umask",
    "echo", "printf", "test", "[", "[[", "true", "false", ":", "return", "exit", "ulimit", "for", "case", "in",
}  # fmt: skip
"""Commands that run nothing of the repository's."""
_ENDS = {"fi", "done", "esac", "}"}
_CALLING = {"env_vars_required", "MANPATH_add", "source_env", "source_env_if_exists"} | _ABOVE | _STRICTNESS
"""Those of direnv's that call a program by its bare name: env, man, cygpath, mktemp and grep (its stdlib, 2.32.1)."""
_DECLARATIONS = {"export", "declare", "typeset", "local", "readonly"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SUBSTITUTION = re.compile(r"\$\(|`|\$$")
_HERE = re.compile(r"^(\$PWD|\$\{PWD\}|\.)/")
_HOME = re.compile(r"^(\$HOME|\$\{HOME\}|~)/")
_OPEN = re.compile(r"[$`*?\[]")
_BETWEEN_WORDS = re.compile(r"[^\w./+@~-]+")
_SPOKEN = re.compile(r"[\w./-]{1,40}")
_MOST_FILES = 100
_TOO_MANY = f"whatever comes after the first {_MOST_FILES} files"
_LARGEST = 2**20
"""Bytes of a `.envrc`; of other files, bytes that are held at once."""

_MOST_TEXT = 2**18
"""Bytes of scripts that are read for what they do, all together: it takes a second, and signals wait."""
_PATHS = {"path_add", "path_prepend", "path_rm"}
_LOADS = re.compile(r"(LD_\w*|BASH_ENV)(\+?=|$)")
"""What has the programs that direnv itself runs load something: a library, a script."""


@dataclass(frozen=True, slots=True)
class EnvrcCommand:
    """A simple command: its words without their quotes, then the files that it is given to read; none: it has no end.

    What stands within `$(...)` and `<(...)` is part of the command that it is in.
    """

    line: int
    words: tuple[str, ...]


def commands(text: str) -> Iterator[EnvrcCommand]:
    """The commands of a script, each with the number of the line that it begins in."""
    number, place = 1, 0
    while place < len(text):
        line = _Line(number)
        end = line.read(text, place)
        yield from line.commands()
        number += text.count("\n", place, end)
        place = end


@dataclass(slots=True)
class _Line:
    """One line and those that a backslash joins to it."""

    number: int
    found: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    words: list[str] = field(default_factory=list[str])
    left_out: bool = False
    """The next word is where something is written to."""

    def read(self, text: str, place: int) -> int:
        """Read from `place` on; return where the next line begins."""
        while place < len(text):
            if text[place] == "\n":
                return place + 1
            if match := _GAP.match(text, place) or _COMMENT.match(text, place):
                place = match.end()
            elif match := _OPERATOR.match(text, place):
                self._part(match[0].lstrip("0123456789"))
                place = match.end()
            else:
                word, place = _word(text, place)
                if word is None:  # a quote that is left open: what comes before it in this line is part of it, or not
                    self._end_command()
                    self.found.append(())
                    return _rest(text, place)
                self._add(word)
        return place

    def commands(self) -> Iterator[EnvrcCommand]:
        self._end_command()
        for words in self.found:
            yield EnvrcCommand(self.number, words)

    def _part(self, operator: str) -> None:
        if operator in ("<(", ">("):
            self.words.append("$(")
        elif operator.startswith("<<"):  # a document follows, whose lines are no commands
            self.found.append(())
        elif ">" in operator or "<" in operator:
            self.left_out = operator != "<"  # what is read counts
        elif operator == "(" and self.words and self.words[-1].endswith("$"):
            pass  # the inside of $(...)
        else:
            self._end_command()

    def _add(self, word: str) -> None:
        if not self.left_out:
            self.words.append(word)
        self.left_out = False

    def _end_command(self) -> None:
        words = tuple(itertools.dropwhile(_KEYWORDS.__contains__, self.words))
        if words:
            self.found.append(words)
        self.words, self.left_out = [], False


def _word(text: str, place: int) -> tuple[str | None, int]:
    pieces: list[str] = []
    while match := _PIECE.match(text, place):
        place = match.end()
        if match["double"] is not None:
            pieces.append(re.sub(r'\\([$`"\\\n])', r"\1", match["double"]))
        else:
            pieces.append(match["escaped"] or match["single"] or match["plain"] or "")
    return (None if text[place : place + 1] in ("'", '"') else "".join(pieces)), place


def _rest(text: str, place: int) -> int:
    match = _REST.match(text, place)
    return match.end() + 1 if match else len(text)


@dataclass(frozen=True, slots=True)
class Envrc:
    """`.envrc` and the files that it reads, each by the sha256 of its content; missing files count, too."""

    root: Path
    files: Mapping[str, str]
    text: bytes
    unfollowed: tuple[str, ...]
    """Actions that trust in these files does not cover."""
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    """The files that cannot be trusted, such as a pipe, each with the reason."""

    @property
    def path(self) -> Path:
        return self.root / NAME

    @property
    def exists(self) -> bool:
        return self.files[NAME] != MISSING

    @property
    def obstacle(self) -> str:
        """Why it cannot be read completely; empty if it can."""
        return next((f"{name} {why}" for name, why in self.unreadable.items()), "")

    @property
    def digest(self) -> str:
        """One digest of all files."""
        told = "".join(f"{name}\0{content}\0" for name, content in sorted(self.files.items()))
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()

    def changed_since(self, files: Mapping[str, str]) -> list[str]:
        """Name the files that have changed."""
        return [name for name in {**self.files, **files} if self.files.get(name) != files.get(name)]


def look(root: Path, home: Path, path: str = "") -> Envrc:
    """Read the `.envrc` of a repository; `path` is the PATH for evaluating it."""
    found = _Found(root, home, tuple(map(Path, filter(None, path.split(os.pathsep)))))
    text = found.add_script(root / NAME, root)
    return Envrc(root, found.files, text, tuple(dict.fromkeys(found.unfollowed)), found.unreadable)


@dataclass(slots=True)
class _Found:
    """The files that were found so far."""

    root: Path
    home: Path
    path: tuple[Path, ...]
    files: dict[str, str] = field(default_factory=dict[str, str])
    unreadable: dict[str, str] = field(default_factory=dict[str, str])
    unfollowed: list[str] = field(default_factory=list[str])
    text_left: int = _MOST_TEXT
    path_is_open: bool = False
    """A folder of the repository may be on PATH by now: what is called by its bare name may be the repository's."""

    @property
    def full(self) -> bool:
        return len(self.files) >= _MOST_FILES

    def add_script(self, path: Path, base: Path) -> bytes:
        """Count a file and, as bash would read it, those that it reads in turn."""
        name = self._name(path)
        if name in self.files:
            return b""
        content = self.add(path)
        if len(content) > self.text_left:
            self.unfollowed.append(f"everything in {name}: it is too long to analyse")
            return content
        self.text_left -= len(content)
        for command in commands(content.decode("utf-8", "replace").replace("\0", "")):  # bash drops NULs
            if self.full:
                self.unfollowed.append(_TOO_MANY)
                break
            self._follow(command.words, f"line {command.line} of {name}", (base, path.parent, self.root))
        return content

    def add(self, path: Path) -> bytes:
        """Count a file; return its content, or as much of it as shows that it is too long to be read."""
        name = self._name(path)
        if self.full:
            self.unfollowed.append(_TOO_MANY)
            return b""
        try:
            if path.is_file():
                with path.open("rb") as file:
                    content = file.read(_LARGEST + 1)
                    file.seek(0)
                    self.files[name] = hashlib.file_digest(file, "sha256").hexdigest()
                if name == NAME and len(content) > _LARGEST:
                    self._give_up(name, f"is larger than {_LARGEST // 2**20} MiB")
                return content
            dangling = name == NAME and path.is_symlink()
            if path.exists() or dangling:
                self._give_up(name, _nature(path))
            else:
                self.files[name] = MISSING
        except OSError:
            self._give_up(name, "cannot be read")
        return b""

    def _give_up(self, name: str, why: str) -> None:
        self.unreadable[name] = why
        self.files[name] = f"unreadable: {why}"  # in place of a digest, in the records of trust

    def _follow(self, words: Sequence[str], where: str, bases: Sequence[Path]) -> None:
        if not words:
            self.unfollowed.append(where)  # a quote or a document that goes on, for one
            return
        verb, arguments = words[0], words[1:]
        assigns = verb in _DECLARATIONS or all(map(_ASSIGNMENT.match, words))
        if self.path_is_open and verb in _CALLING:
            self.unfollowed.append(_said(where, verb, "by", "PATH"))
        self._watch_path(verb, arguments, assigned=words if assigns else ())
        if loads := [word for word in words if _LOADS.match(word)] if assigns or verb in _PATHS else []:
            self.unfollowed.append(_said(where, "what", loads[0].partition("=")[0], "loads"))
        if any(map(_SUBSTITUTION.search, words)):
            self.unfollowed.append(f"{where} (a command in a value)" if assigns else _said(where, verb))
            self._add_named(words, bases)
        elif verb in _PREFIXES and arguments and not arguments[0].startswith("-"):
            self._follow(arguments, where, bases)
        elif assigns or verb in _HARMLESS or (verb in _ENDS and not arguments):
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

    def _watch_path(self, verb: str, arguments: Sequence[str], *, assigned: Sequence[str]) -> None:
        """Notice a folder on PATH that may be inside the repository."""
        match verb, *arguments:
            case "PATH_add", *folders:
                pass
            case ("path_add", "PATH", *folders):
                pass
            case (("use" | "layout" | "load_prefix"), *_):
                folders = ["."]
            case _:
                folders = ["."] if any(re.match(r"PATH\+?=", word) for word in assigned) else []
        for folder in folders:
            place = self.root / self._spelled(folder)
            if _OPEN.search(str(place)) or _real(place).is_relative_to(_real(self.root)):
                self.path_is_open = True

    def _spelled(self, word: str) -> str:
        return _HOME.sub(lambda _: f"{self.home}/", _HERE.sub("", word))

    def _add_sourced(self, verb: str, arguments: Sequence[str], where: str, bases: Sequence[Path]) -> None:
        named = arguments[1:] if arguments[:1] == ("--",) else arguments
        word = self._spelled(named[0]) if named else ".env"
        if _OPEN.search(word) or word.startswith("-"):
            self.unfollowed.append(_said(where, verb))
            return
        bare = verb in (".", "source") and bool(named) and "/" not in named[0]
        if bare and (self.path_is_open or any(_is_file(folder / word) for folder in self.path)):
            self.unfollowed.append(_said(where, verb, "by", "PATH"))  # where bash looks before it looks here
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
            for place in dict.fromkeys(base / name for base in bases):
                if _is_file(place) and _real(place).is_relative_to(_real(self.root)):
                    self.add(place)

    def _name(self, path: Path) -> str:
        plain = _real(path) if ".." in path.parts else path
        return str(plain.relative_to(self.root)) if plain.is_relative_to(self.root) else str(plain)


def _nature(path: Path) -> str:
    """Describe a path that is not a file."""
    if not path.exists():
        return "is a link that leads nowhere"
    return "is a directory" if path.is_dir() else "is not a regular file"


def _is_file(path: Path) -> bool:
    with contextlib.suppress(OSError):  # a word may be longer than any name
        return path.is_file()
    return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike Path.resolve, it takes links that lead in a circle


def _said(where: str, *words: str) -> str:
    """Name a command by its first words; its arguments may be secrets."""
    return f"{where} ({' '.join(words)})" if all(map(_SPOKEN.fullmatch, words)) else where
