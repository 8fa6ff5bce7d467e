"""Commands that only read: common programs with the options under which they do, and files too sensitive to touch.

Programs accept abbreviated long options and combined short ones. An option that is not listed exactly makes the call
unknown, and an unknown call is not harmless.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.claude_cli.desk import Desk
from ralph.claude_cli.shell import ShellCommand

_GIT_LONG = (
    "abbrev-commit abbrev-ref after= all always author= before= branch branches cached check color color= date= "
    "decorate decorate= deleted diff-filter= dirty exclude-standard exit-code find-renames first-parent follow format= "
    "graph grep= ignore-all-space ignored is-inside-work-tree long max-count= merges modified name-only name-status "
    "no-color no-decorate no-ext-diff no-merges no-patch no-renames no-textconv numstat oneline others patch porcelain "
    "porcelain= pretty pretty= quiet reverse short shortstat show-current show-prefix show-toplevel since= stage "
    "staged stat summary tags unified= until= untracked-files untracked-files= verify word-diff"
)

READS = {
    "ls": "list files in", "cat": "concatenate files from", "head": "read the beginning of files from",
    "tail": "read the end of files from", "cd": "change directories to", "find": "search for files in",
    "grep": "search for patterns in files from", "wc": "count lines/words/bytes in files from",
    "sort": "sort contents of files from", "stat": "read file stats from",
    "diff": "compare files from", "sed": "read and edit files in",
}  # fmt: skip
"""What a program that reads does, as a refusal puts it."""

NO_FILES = frozenset({
    ":", "[", "[[", "basename", "dirname", "echo", "expr", "false", "printf", "seq", "sleep", "test", "tr", "true",
    "type", "uname", "wait", "which",
})  # fmt: skip
"""Programs that open none of the files in their arguments."""

UNMOVED = NO_FILES - {"[", "[[", "test", "type"}
"""Programs that look only, whatever a variable puts in place of a word of theirs."""
_GIT = frozenset({"blame", "describe", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status"})
_TESTS = frozenset({
    "-a", "-b", "-c", "-d", "-e", "-ef", "-eq", "-f", "-g", "-ge", "-gt", "-h", "-k", "-L", "-le", "-lt", "-n",
    "-ne", "-nt", "-o", "-ot", "-p", "-r", "-s", "-S", "-t", "-u", "-w", "-x", "-z",
})  # fmt: skip
"""Not -v and -R: they run what stands in `a[$(...)]`."""

_FORMAT = re.compile(r"([^%]|%%|%[-+ #0]*[0-9]*(\.[0-9]+)?[bcdeEfgGioqsuxX])*")
"""Not %n: it sets a variable, PATH for one."""

_PS = frozenset({"-A", "-e", "-ef", "-f", "a", "aux", "ax", "u", "x"})
"""Not the `e` without a dash: it shows the environments."""

_FIND = frozenset({
    "-P", "-a", "-amin", "-and", "-atime", "-cmin", "-ctime", "-depth", "-empty", "-executable", "-false", "-group",
    "-iname", "-inum", "-ipath", "-iregex", "-links", "-ls", "-maxdepth", "-mindepth", "-mmin", "-mount", "-mtime",
    "-name", "-newer", "-not", "-o", "-or", "-path", "-perm", "-print", "-print0", "-printf", "-prune", "-quit",
    "-readable", "-regex", "-regextype", "-size", "-true", "-type", "-user", "-wholename", "-writable", "-xdev",
})  # fmt: skip
FIND_ACTS = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"})
CHANGES = {
    "touch": "touch", "rm": "remove files from", "rmdir": "remove directories from", "mkdir": "create directories in",
    "mv": "move files to", "cp": "copy files to", "sed": "edit files in",
}  # fmt: skip
"""Programs that change files, which the mode acceptEdits lets work inside, and what they do."""
_PLAIN_SED = re.compile(r"s([/|,#])((?!\1).)*\1((?!\1).)*\1[gI0-9]*")
_PRINT_SED = re.compile(r"[\d,$]+p(;[\d,$]+p)*")
_SENSITIVE_FOLDERS = frozenset({".git", ".vscode", ".idea", ".husky", ".claude"})
_SENSITIVE_FILES = frozenset({
    ".bash_profile", ".bashrc", ".claude.json", ".gitconfig", ".gitmodules", ".mcp.json", ".profile", ".ripgreprc",
    ".zprofile", ".zshrc",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """One program's options: short letters alone, with a value, with a file; long ones, `name=` if with a value."""

    letters: str = ""
    valued: str = ""
    files: str = ""
    long: str = ""
    numbers: bool = False
    """`-5` is one as well."""


_KNOWN = {
    "basename": KnownOptions("az", "s"),
    "cat": KnownOptions("AbeEnstTuv", long="number number-nonblank show-all show-ends show-tabs squeeze-blank"),
    "cksum": KnownOptions(),
    "cmp": KnownOptions("bls", long="silent quiet verbose"),
    "comm": KnownOptions("123"),
    "cut": KnownOptions("snz", "bcdf", long="bytes= characters= complement delimiter= fields= only-delimited"),
    "df": KnownOptions("aHhikPT", long="human-readable"),
    "diff": KnownOptions(
        "aBbdEinqstuwy", "CU", long="brief color color= ignore-all-space side-by-side unified unified="
    ),
    "dirname": KnownOptions("z"),
    "du": KnownOptions("abchkmSsx", "d", long="all apparent-size bytes human-readable max-depth= summarize total"),
    "expr": KnownOptions(),
    "fold": KnownOptions("bs", "w"),
    "git": KnownOptions("bMpqsuvwzi", "nSU", long=_GIT_LONG, numbers=True),
    "grep": KnownOptions(
        "abcEFGHhiLlnoPqrsTUvwxyZz", "ABCem", "f",
        "after-context= basic-regexp before-context= byte-offset color color= context= count exclude-dir= exclude= "
        "extended-regexp file= files-with-matches files-without-match fixed-strings ignore-case include= invert-match "
        "line-buffered line-number line-regexp max-count= no-filename no-messages null only-matching perl-regexp quiet "
        "recursive regexp= silent text with-filename word-regexp",
        numbers=True,
    ),
    "groups": KnownOptions(),
    "head": KnownOptions("qvz", "cn", long="bytes= lines= quiet silent verbose", numbers=True),
    "id": KnownOptions("Ggnru"),
    "join": KnownOptions("i", "12atv"),
    "ls": KnownOptions(
        "1AaBbCcdFfghiklmnopQqRrSstUuvXx",
        long="all almost-all classify color color= directory full-time group-directories-first human-readable inode "
        "recursive reverse size sort= time-style=",
    ),
    "md5sum": KnownOptions("bt"),
    "nl": KnownOptions("p", "bsw"),
    "nproc": KnownOptions(long="all"),
    "od": KnownOptions("abcdosvx", "AjNt"),
    "paste": KnownOptions("sz", "d"),
    "pwd": KnownOptions("LP"),
    "readlink": KnownOptions("efmnz"),
    "realpath": KnownOptions("emqsz"),
    "rev": KnownOptions(),
    "seq": KnownOptions("w", "fs"),
    "sha1sum": KnownOptions("bt"),
    "sha256sum": KnownOptions("bt"),
    "sleep": KnownOptions(),
    "sort": KnownOptions(
        "bCcdfghiMnRrsuVz", "kt",
        long="field-separator= general-numeric-sort human-numeric-sort ignore-case key= numeric-sort reverse stable "
        "unique version-sort zero-terminated",
    ),
    "stat": KnownOptions("t", "c", long="format= printf= terse"),
    "tac": KnownOptions("br", "s"),
    "tail": KnownOptions("fqvz", "cn", long="bytes= lines= quiet silent verbose", numbers=True),
    "tr": KnownOptions("Ccdst", long="complement delete squeeze-repeats"),
    "type": KnownOptions("apt"),
    "uname": KnownOptions("aimnoprsv"),
    "uniq": KnownOptions("cDdiuz", "fsw", long="count repeated unique ignore-case"),
    "uptime": KnownOptions("ps"),
    "wc": KnownOptions("cLlmw", long="bytes chars lines max-line-length words"),
    "which": KnownOptions("a"),
    "whoami": KnownOptions(),
    # These change files. With others `cp` and `mv` bring whole trees along, and with them what runs later.
    "cp": KnownOptions(),
    "mkdir": KnownOptions("pv"),
    "mv": KnownOptions(),
    "rm": KnownOptions("fRrv"),
    "rmdir": KnownOptions(),
    "touch": KnownOptions(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A program's arguments: the words that are not options, the files that options name, the options' letters."""

    operands: tuple[str, ...]
    files: tuple[str, ...]
    options: frozenset[str]


def read_call(name: str, words: Sequence[str]) -> ReadCall | None:
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
    return ReadCall(tuple(operands), tuple(files), frozenset(options))


def _read_letters(known: KnownOptions, letters: str, rest: list[str], files: list[str], options: set[str]) -> bool:
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


def is_harmless(part: ShellCommand) -> bool:
    """Tell whether the command only looks, whatever it is given; where it looks is another question."""
    name, *words = part.words
    if part.expands and name not in UNMOVED:  # a variable may bring any option along
        return name in READS  # which is refused in its own words, wherever the variable stands
    match name:
        case ":" | "echo" | "false" | "true":
            return True
        case "[" | "[[" | "test":
            return not any((word.startswith("-") and word not in _TESTS) or word[:1] in set("*?[") for word in words)
        case "cd":  # else it goes home, or back, or where a pattern leads
            return len(words) == 1 and not words[0].startswith(("-", "~")) and not set(words[0]) & set("*?[")
        case "date":
            return all(word.startswith("+") or word in ("-u", "--utc", "-R", "-I") for word in words)
        case "find":  # what acts was refused before; links would lead out of what was looked at
            options = [word for word in words if word.startswith("-")]
            return all(word in _FIND or re.fullmatch(r"-[0-9]+\w?", word) for word in options)
        case "git":
            return words[:1] != [] and words[0] in _GIT and read_call("git", words[1:]) is not None
        case "printf":
            is_plain = words[:1] != [] and words[0][:1] not in set("-*?[") and "$" not in words[0]
            return is_plain and _FORMAT.fullmatch(words[0]) is not None
        case "ps":
            return len(words) < 2 and set(words) <= _PS
        case "sed":
            script = words[1:2] if words[:1] == ["-n"] else []
            return any(map(_PRINT_SED.fullmatch, script)) and not any(word.startswith("-") for word in words[2:])
        case "uniq":  # a second file would be written
            call = read_call("uniq", words)
            return call is not None and not call.operands
        case "wait":
            return all(word.isdigit() for word in words)
        case _:
            return name not in CHANGES and read_call(name, words) is not None


def files_of(part: ShellCommand) -> Iterator[str]:
    """The words of a program known here that may name files."""
    name, *words = part.words
    call = read_call(name, words[1:] if name == "git" else words)
    if call is None or name == "tr":
        skipped = name == "sed"
        yield from [word for word in words if not word.startswith("-")][skipped:]
        return
    is_told = name != "grep" or {"e", "f", "regexp", "file"} & call.options
    yield from call.files
    yield from call.operands[0 if is_told else 1 :]


def is_plain_sed(part: ShellCommand) -> bool:
    """`sed -i` with substitutions only: other scripts can run commands and write any file."""
    options = [word for word in part.words[1:] if word.startswith("-")]
    scripts = [word for word in part.words[1:] if not word.startswith("-")][:1]
    return set(options) <= {"-i", "-E", "-r"} and all(_PLAIN_SED.fullmatch(script) for script in scripts)


def is_sensitive(path: Path, desk: Desk) -> bool:
    """Files that decide what runs later, and with which rights: only expressly unguarded sessions change them."""
    real = path.resolve()
    root = next((root for root in desk.roots if real.is_relative_to(root)), None)
    parts = real.relative_to(root).parts if root else real.parts
    return bool(_SENSITIVE_FOLDERS & set(parts)) or (bool(parts) and parts[-1] in _SENSITIVE_FILES)
