"""The simple commands of a shell script, as near as can be told without a shell; in time that grows with its length."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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
"""What a word is made of; a quote that the line does not close is none. No repetition is ever tried anew."""

_REST = re.compile(r"[^\n]*")


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words without their quotes, then the files that it is given to read; none: it has no end.

    What stands within `$(...)` and `<(...)` is part of the command that it is in.
    """

    line: int
    words: tuple[str, ...]


def commands(text: str) -> Iterator[Command]:
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

    def commands(self) -> Iterator[Command]:
        self._end_command()
        for words in self.found:
            yield Command(self.number, words)

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
