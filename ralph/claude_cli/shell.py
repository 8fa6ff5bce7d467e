"""Reading a shell command without running it: its simple commands, and what is unknown before it runs.

It never guesses. What it does not understand (functions, `case`, here-documents, unfinished quotes) is an `obstacle`,
and a decision about the command must treat it as able to do anything.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePath

_SEPARATORS = ("&&", "||", "|&", ";;", ";", "|", "&", "\n")
_REDIRECTION = re.compile(r"(\d*)(<<<|<<-?|<>|>>|>\||>&|<&|&>>|&>|>|<)")
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_LOOP_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*")
"""In capitals it could be PATH."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_EXPANDED = re.compile(r"[\w@*#?!$({'\"\[-]")
BLANKS = " \t\n"

_PASSED_OVER = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "time"})
_NOT_READ = frozenset({"[[", "{", "}", "case", "coproc", "esac", "function", "select"})

NESTED = "A nested command in this command can't be checked before it runs"
NESTED_AS_FILE = "A command used as a file in this command can't be checked before it runs"
HERE_DOCUMENT = "Heredoc with unquoted delimiter undergoes shell expansion"
CONTROL = "Contains control characters"
BRACES = "Brace expansion"
GROUP = "A group in braces or double parentheses in this command can't be checked before it runs"
BACKGROUND = (
    "This command uses the `&` background operator, which defers execution past approval-time safety checks. Approve "
    "only if you trust it."
)
OPERATORS = "This command uses shell operators that require approval for safety"


@dataclass(frozen=True, slots=True)
class Redirection:
    """One redirection."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether it opens its target for writing."""
        duplicates = self.operator.endswith(">&") and (self.target.isdigit() or self.target == "-")
        return ">" in self.operator and not duplicates


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One simple command: its words without quotes, its own text, its redirections."""

    words: tuple[str, ...]
    text: str
    redirections: tuple[Redirection, ...] = ()
    after: str = ""
    """The operator before it: `&&` means that it runs only if the one before succeeded, `!` that it is turned round."""

    expands: bool = False
    """A variable or a nested command stands in it."""

    @property
    def assignments(self) -> int:
        """How many of the first words set variables."""
        return next((at for at, word in enumerate(self.words) if not _ASSIGNMENT.match(word)), len(self.words))

    @property
    def name(self) -> str:
        """The program's name, without its folder and what is set for it."""
        rest = self.words[self.assignments :]
        return PurePath(rest[0]).name if rest else ""


@dataclass(frozen=True, slots=True)
class Script:
    """All simple commands of a line, in order."""

    commands: tuple[ShellCommand, ...]
    obstacle: str
    """Why the line cannot be judged by its commands; empty: it can."""

    background: bool = False
    """Something of it goes on while the rest runs."""


@dataclass(slots=True)
class _ShellReader:
    text: str
    at: int = 0
    commands: list[ShellCommand] = field(default_factory=list[ShellCommand])
    words: list[str] = field(default_factory=list[str])
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    begin: int = 0
    operator: str = ""
    obstacle: str = ""
    background: bool = False
    expands: bool = False

    def read(self) -> Script:
        if _CONTROL.search(self.text):  # bash takes none of them for a blank
            self._meet(CONTROL)
        while self.at < len(self.text):
            self._step()
        self._finish(self.at)
        return Script(tuple(self.commands), self.obstacle, self.background)

    def _meet(self, obstacle: str) -> None:
        self.obstacle = self.obstacle or obstacle

    def _step(self) -> None:
        rest = self.text[self.at : self.at + 64]  # no operator is longer
        if rest.startswith("\\\n"):
            self.at += 2
        elif rest[0] in " \t":
            self.at += 1
        elif rest[0] == "#":
            self.at = end if (end := self.text.find("\n", self.at)) >= 0 else len(self.text)
        elif rest.startswith(("<(", ">(")):
            self._meet(NESTED_AS_FILE)
            self.at += 2
        elif match := _REDIRECTION.match(rest):
            self._redirect(match)
        elif separator := next((mark for mark in _SEPARATORS if rest.startswith(mark)), ""):
            self._finish(self.at)
            self.background |= separator == "&"
            self.at += len(separator)
            self.begin, self.operator = self.at, separator
        elif rest[0] in "()":
            self._meet(OPERATORS)
            self.at += 1
        else:
            self._add(self._word())

    def _add(self, word: str) -> None:
        if self.words:
            self.words.append(word)
        elif word in _PASSED_OVER:
            self.begin = self.at
            self.operator = word if word == "!" else self.operator
        elif word in _NOT_READ:
            self._meet(GROUP if word == "{" else OPERATORS)
        else:
            self.words.append(word)

    def _redirect(self, match: re.Match[str]) -> None:
        operator = match.group(0)
        self.at += match.end()
        if match.group(2).startswith("<<") and match.group(2) != "<<<":
            self._meet(HERE_DOCUMENT)
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        target = self._word()
        if not target:
            self._meet(OPERATORS)
        self.redirections.append(Redirection(operator, target))

    def _finish(self, end: int) -> None:
        if self.words[:1] == ["for"]:
            if len(self.words) < 2 or not _LOOP_VARIABLE.fullmatch(self.words[1]):
                self._meet(OPERATORS)
        elif self.words or self.redirections:
            text = self.text[self.begin : end].strip(BLANKS)
            found = ShellCommand(tuple(self.words), text, tuple(self.redirections), self.operator, self.expands)
            self.commands.append(found)
        self.words, self.redirections, self.expands = [], [], False

    def _word(self) -> str:
        """Read one word and take its quotes off; what stands in it for something else is left as it is."""
        begin, letters = self.at, list[str]()
        while self.at < len(self.text) and (letter := self.text[self.at]) not in " \t\n;|&<>()":
            self.at += 1
            match letter:
                case "\\":
                    letters.append(self.text[self.at : self.at + 1].removesuffix("\n"))
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
        if _BRACES.search(self.text[begin : self.at]):
            self._meet(BRACES)
        return "".join(letters)

    def _until(self, mark: str) -> str:
        end = self.text.find(mark, self.at)
        if end < 0:
            self._meet(OPERATORS)
            end = len(self.text)
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
        if self.at >= len(self.text):
            self._meet(OPERATORS)
        self.at += 1
        return "".join(letters)

    def _expansion(self, mark: str) -> None:
        following = self.text[self.at : self.at + 1]
        self.expands |= mark == "`" or bool(_EXPANDED.match(following))
        if mark == "`" or following == "(":
            self._meet(NESTED)
        elif following in set("'\"{["):  # $'...' writes any letter, ${...} does more than look up
            self._meet(OPERATORS)


def read_script(command: str) -> Script:
    """Take a command line apart."""
    return _ShellReader(command).read()


def programs(command: str) -> list[str]:
    """Return the names of the programs that a command line runs, as far as known."""
    return [part.name for part in read_script(command).commands]


def last_program(command: str) -> str:
    """The program whose exit code is the command line's."""
    names = programs(command)
    return names[-1] if names else ""
