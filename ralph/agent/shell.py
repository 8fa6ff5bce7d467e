"""Reading a shell command without running it: which simple commands it is made of, and what cannot be told beforehand.

It never guesses. What it does not understand (loops, functions, here-documents, unfinished quotes) makes the script
`opaque`, and whoever decides on it must treat it as able to do anything.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePath

_SEPARATORS = ("&&", "||", "|&", ";;", ";", "|", "&", "\n")
_REDIRECTION = re.compile(r"(\d*|&)(<<<|<<-?|<>|>>|>\||>&|<&|&>>|&>|>|<)")
_KEYWORDS = frozenset({
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "time", "until", "while",
})  # fmt: skip
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Redirection:
    """One redirection: `writes` when it opens its target for writing."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        return ">" in self.operator and not (self.operator.endswith(">&") and self._is_descriptor)

    @property
    def _is_descriptor(self) -> bool:
        return self.target.isdigit() or self.target == "-"


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words without quotes, its own text, its redirections."""

    words: tuple[str, ...]
    text: str
    redirections: tuple[Redirection, ...] = ()

    @property
    def program(self) -> str:
        return PurePath(self.words[0]).name if self.words else ""


@dataclass(frozen=True, slots=True)
class Script:
    """All simple commands of a line, in order."""

    commands: tuple[Command, ...]
    nested: bool
    """A command stands inside another one: `$(...)`, backquotes, `<(...)`."""

    expands: bool
    """A word is made only when it runs: `$NAME`, `{a,b}`."""

    opaque: bool
    """There is more than simple commands, or the text makes no sense."""


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    commands: list[Command] = field(default_factory=list[Command])
    words: list[str] = field(default_factory=list[str])
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    begin: int = 0
    nested: bool = False
    expands: bool = False
    opaque: bool = False

    def read(self) -> Script:
        while self.at < len(self.text):
            self._step()
        self._finish(self.at)
        return Script(tuple(self.commands), self.nested, self.expands, self.opaque)

    def _step(self) -> None:
        rest = self.text[self.at :]
        if rest.startswith("\\\n"):
            self.at += 2
        elif rest[0] in " \t\r":
            self.at += 1
        elif rest[0] == "#":
            self.at = end if (end := self.text.find("\n", self.at)) >= 0 else len(self.text)
        elif (match := _REDIRECTION.match(rest)) and not rest.startswith(("<(", ">(")):
            self._redirect(match)
        elif separator := next((mark for mark in _SEPARATORS if rest.startswith(mark)), ""):
            self._finish(self.at)
            self.at += len(separator)
            self.begin = self.at
        elif rest[0] in "()":
            self.opaque = True
            self.at += 1
        else:
            self._add(self._word())

    def _add(self, word: str) -> None:
        if not self.words and word in _KEYWORDS:
            self.opaque = True
        self.words.append(word)

    def _redirect(self, match: re.Match[str]) -> None:
        operator = match.group(0)
        self.at += match.end()
        self.opaque |= "<<" in operator and "<<<" not in operator
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        target = self._word()
        self.opaque |= not target
        self.redirections.append(Redirection(operator, target))

    def _finish(self, end: int) -> None:
        if self.words or self.redirections:
            text = self.text[self.begin : end].strip()
            self.commands.append(Command(tuple(self.words), text, tuple(self.redirections)))
        self.words, self.redirections = [], []

    def _word(self) -> str:
        """Read one word and take its quotes off; what stands in it for something else is only noted."""
        begin, letters = self.at, list[str]()
        while self.at < len(self.text) and (letter := self.text[self.at]) not in " \t\r\n;|&<>()":
            self.at += 1
            match letter:
                case "\\":
                    letters.append(self.text[self.at : self.at + 1])
                    self.at += 1
                case "'":
                    letters.append(self._until("'"))
                case '"':
                    letters.append(self._quoted())
                case "$" | "`":
                    letters.append(letter)
                    self._expansion(letter)
                case _:
                    letters.append(letter)
        if self.at < len(self.text) and self.text[self.at] == "(":  # a function, an array, `<(`, `$(`: no plain word
            self.opaque = True
        self.expands |= _BRACES.search(self.text[begin : self.at]) is not None
        if self.at == begin:
            self.at += 1
            self.nested = True  # only `<(` and `>(` come here
        return "".join(letters)

    def _until(self, mark: str) -> str:
        end = self.text.find(mark, self.at)
        if end < 0:
            self.opaque, end = True, len(self.text)
        part, self.at = self.text[self.at : end], end + 1
        return part

    def _quoted(self) -> str:
        letters: list[str] = []
        while self.at < len(self.text) and (letter := self.text[self.at]) != '"':
            self.at += 1
            if letter == "\\" and self.text[self.at : self.at + 1] in set('$`"\\\n'):
                letters.append(self.text[self.at : self.at + 1].removesuffix("\n"))
                self.at += 1
                continue
            letters.append(letter)
            if letter in "$`":
                self._expansion(letter)
        self.opaque |= self.at >= len(self.text)
        self.at += 1
        return "".join(letters)

    def _expansion(self, mark: str) -> None:
        following = self.text[self.at : self.at + 1]
        if mark == "`" or following == "(":
            self.nested = True
        elif following in set("'\"") or following.isalnum() or following in set("_{[*@#?!$-"):
            self.expands = True


def read_script(command: str) -> Script:
    """Take a command line apart."""
    return _Reader(command).read()


def programs(command: str) -> list[str]:
    """The names of the programs that a command line runs, as far as can be told."""
    return [part.program for part in read_script(command).commands]


def last_program(command: str) -> str:
    """The program whose exit code is the command line's."""
    names = programs(command)
    return names[-1] if names else ""
