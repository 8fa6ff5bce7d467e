"""The options of common programs under which they only look, each by its exact name; all others are unknown here.

Programs take any unambiguous beginning of a long option and let short ones be written together: what is not listed,
in whichever dress, makes a call that nobody vouches for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """One program's options: short letters alone, with a value, with a file; long ones, `name=` if with a value."""

    letters: str = ""
    valued: str = ""
    files: str = ""
    long: str = ""
    numbers: bool = False
    """`-5` is one as well."""


_GIT_LONG = (
    "abbrev-commit abbrev-ref after= all always author= before= branch branches cached check color color= date= "
    "decorate decorate= deleted diff-filter= dirty exclude-standard exit-code find-renames first-parent follow format= "
    "graph grep= ignore-all-space ignored is-inside-work-tree long max-count= merges modified name-only name-status "
    "no-color no-decorate no-ext-diff no-merges no-patch no-renames no-textconv numstat oneline others patch porcelain "
    "porcelain= pretty pretty= quiet reverse short shortstat show-current show-prefix show-toplevel since= stage "
    "staged stat summary tags unified= until= untracked-files untracked-files= verify word-diff"
)
_KNOWN = {
    "basename": Known("az", "s"),
    "cat": Known("AbeEnstTuv", long="number number-nonblank show-all show-ends show-tabs squeeze-blank"),
    "cksum": Known(),
    "cmp": Known("bls", long="silent quiet verbose"),
    "comm": Known("123"),
    "cut": Known("snz", "bcdf", long="bytes= characters= complement delimiter= fields= only-delimited"),
    "df": Known("aHhikPT", long="human-readable"),
    "diff": Known("aBbdEinqstuwy", "CU", long="brief color color= ignore-all-space side-by-side unified unified="),
    "dirname": Known("z"),
    "du": Known("abchkmSsx", "d", long="all apparent-size bytes human-readable max-depth= summarize total"),
    "expr": Known(),
    "fold": Known("bs", "w"),
    "git": Known("bMpqsuvwzi", "nSU", long=_GIT_LONG, numbers=True),
    "grep": Known(
        "abcEFGHhiLlnoPqrsTUvwxyZz", "ABCem", "f",
        "after-context= basic-regexp before-context= byte-offset color color= context= count exclude-dir= exclude= "
        "extended-regexp file= files-with-matches files-without-match fixed-strings ignore-case include= invert-match "
        "line-buffered line-number line-regexp max-count= no-filename no-messages null only-matching perl-regexp quiet "
        "recursive regexp= silent text with-filename word-regexp",
        numbers=True,
    ),
    "groups": Known(),
    "head": Known("qvz", "cn", long="bytes= lines= quiet silent verbose", numbers=True),
    "id": Known("Ggnru"),
    "join": Known("i", "12atv"),
    "ls": Known(
        "1AaBbCcdFfghiklmnopQqRrSstUuvXx",
        long="all almost-all classify color color= directory full-time group-directories-first human-readable inode "
        "recursive reverse size sort= time-style=",
    ),
    "md5sum": Known("bt"),
    "nl": Known("p", "bsw"),
    "nproc": Known(long="all"),
    "od": Known("abcdosvx", "AjNt"),
    "paste": Known("sz", "d"),
    "pwd": Known("LP"),
    "readlink": Known("efmnz"),
    "realpath": Known("emqsz"),
    "rev": Known(),
    "seq": Known("w", "fs"),
    "sha1sum": Known("bt"),
    "sha256sum": Known("bt"),
    "sleep": Known(),
    "sort": Known(
        "bCcdfghiMnRrsuVz", "kt",
        long="field-separator= general-numeric-sort human-numeric-sort ignore-case key= numeric-sort reverse stable "
        "unique version-sort zero-terminated",
    ),
    "stat": Known("t", "c", long="format= printf= terse"),
    "tac": Known("br", "s"),
    "tail": Known("fqvz", "cn", long="bytes= lines= quiet silent verbose", numbers=True),
    "tr": Known("Ccdst", long="complement delete squeeze-repeats"),
    "type": Known("apt"),
    "uname": Known("aimnoprsv"),
    "uniq": Known("cDdiuz", "fsw", long="count repeated unique ignore-case"),
    "uptime": Known("ps"),
    "wc": Known("cLlmw", long="bytes chars lines max-line-length words"),
    "which": Known("a"),
    "whoami": Known(),
    # These change files. With others `cp` and `mv` bring whole trees along, and with them what runs later.
    "cp": Known(),
    "mkdir": Known("pv"),
    "mv": Known(),
    "rm": Known("fRrv"),
    "rmdir": Known(),
    "touch": Known(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """What a program is told: the words that are no options, the files that options name, the options' letters."""

    operands: tuple[str, ...]
    files: tuple[str, ...]
    options: frozenset[str]


def read_call(name: str, words: Sequence[str]) -> Call | None:
    """Take a call's words apart; None: the program or one of the options is not known here."""
    known = _KNOWN.get(name)
    if known is None:
        return None
    operands, files, options, rest = list[str](), list[str](), set[str](), list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if word == "-" or not word.startswith("-"):
            operands.append(word)
        elif word.startswith("--"):
            option, equals, value = word[2:].partition("=")
            if option + equals not in known.long.split():
                return None
            options.add(option)
            files += [value] if option == "file" else []
        elif known.numbers and re.fullmatch(r"-[0-9]+", word):
            continue
        elif not _read_letters(known, word[1:], rest, files, options):
            return None
    return Call(tuple(operands), tuple(files), frozenset(options))


def _read_letters(known: Known, letters: str, rest: list[str], files: list[str], options: set[str]) -> bool:
    for at, letter in enumerate(letters, 1):
        options.add(letter)
        if letter in known.letters:
            continue
        if letter not in known.valued + known.files or not (letters[at:] or rest):
            return False
        value = letters[at:] or rest.pop(0)
        files += [value] if letter in known.files else []
        return True
    return True
