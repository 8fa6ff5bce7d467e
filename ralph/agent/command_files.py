"""Which files a simple command names, and which command stands inside another one."""

import glob
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ralph.claude_cli.desk import Desk
from ralph.claude_cli.shell import Command

WRAPPERS = frozenset({"nice", "nohup", "stdbuf", "time", "timeout"})


def unwrapped(part: Command) -> Command:
    """The command inside `timeout 5 …`, `nohup …` and the like, if nothing else stands there."""
    words = part.words
    while words and words[0] in WRAPPERS:
        drop = 2 if words[0] == "timeout" else 1
        if len(words) <= drop or words[1].startswith("-") or part.redirections:
            return part
        words = words[drop:]
    return part if words == part.words else replace(part, words=words, text=shlex.join(words))


def words_of(part: Command, skipped: int = 0, *, redirections: bool = True) -> Iterator[str]:
    """The words that may name files; of an option, what follows its `=` or begins at its first slash."""
    for word in part.words[1 + part.assignments :]:
        if not word.startswith("-"):
            skipped -= 1
            if skipped < 0:
                yield word
        elif "=" in word:
            yield word.partition("=")[2]
        elif "/" in word:
            yield word[word.index("/") :]
    if redirections:
        yield from (redirection.target for redirection in part.redirections)


def paths_of(word: str, place: Path, desk: Desk) -> Iterator[Path]:
    """The paths a word stands for: itself, and what it matches as a pattern.

    A `..` stays in them: a program that opens `link/../x` follows the link first.
    """
    word = desk.environment.get("HOME", "") + word[1:] if word == "~" or word.startswith("~/") else word
    yield place / word
    if set(word) & set("*?["):
        yield from (place / found for found in _expanded(word, place))


def is_far_home(word: str) -> bool:
    """Tell whether the shell would put another folder than HOME in place of a `~`."""
    return (word.startswith("~") and word != "~" and not word.startswith("~/")) or "=~" in word or ":~" in word


def _expanded(word: str, place: Path) -> Iterator[str]:
    # Not `Path.glob`, which takes no absolute pattern.
    return glob.iglob(word, root_dir=place, include_hidden=True)  # noqa: PTH207
