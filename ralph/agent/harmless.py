"""What common programs do: which only look, which change their files; and which files decide what runs later."""

import re
from collections.abc import Iterator
from pathlib import Path

from ralph.claude_cli.desk import Desk
from ralph.claude_cli.permissions.harmless import read_call
from ralph.claude_cli.shell import Command

READS = {
    "ls": "list files in", "cat": "concatenate files from", "head": "read the beginning of files from",
    "tail": "read the end of files from", "cd": "change directories to", "find": "search for files in",
    "grep": "search for patterns in files from", "wc": "count lines/words/bytes in files from",
    "sort": "sort contents of files from", "stat": "read file stats from",
    "diff": "compare files from", "sed": "read and edit files in",
}  # fmt: skip
"""What a program that reads does, as a refusal puts it."""

NO_FILES = frozenset({
    ":", "[", "basename", "dirname", "echo", "expr", "false", "printf", "seq", "sleep", "test", "tr", "true", "type",
    "uname", "wait", "which",
})  # fmt: skip
"""Programs that open none of the files they are told of."""

UNMOVED = NO_FILES - {"[", "test", "type"}
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


def is_harmless(part: Command) -> bool:
    """Tell whether the command only looks, whatever it is given; where it looks is another question."""
    name, *words = part.words
    if part.expands and name not in UNMOVED:  # a variable may bring any option along
        return name in READS  # which is refused in its own words, wherever the variable stands
    match name:
        case ":" | "echo" | "false" | "true":
            return True
        case "[" | "test":
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


def files_of(part: Command) -> Iterator[str]:
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


def is_plain_sed(part: Command) -> bool:
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


_SENSITIVE_FOLDERS = frozenset({".git", ".vscode", ".idea", ".husky", ".claude"})
_SENSITIVE_FILES = frozenset({
    ".bash_profile", ".bashrc", ".claude.json", ".gitconfig", ".gitmodules", ".mcp.json", ".profile", ".ripgreprc",
    ".zprofile", ".zshrc",
})  # fmt: skip
