"""What common programs do: which only look, which change their files; and which files decide what runs later."""

import re
from pathlib import Path

from ralph.agent.shell import Command
from ralph.agent.tools.base import Desk

READS = {
    "ls": "list files in", "cat": "concatenate files from", "head": "read the beginning of files from",
    "tail": "read the end of files from", "cd": "change directories to", "find": "search for files in",
    "grep": "search for patterns in files from", "wc": "count lines/words/bytes in files from",
    "sort": "sort contents of files from", "stat": "read file stats from",
    "diff": "compare files from", "sed": "read and edit files in",
}  # fmt: skip
"""What a program that reads does, as a refusal puts it."""

_HARMLESS = frozenset({
    ":", "[", "basename", "cat", "cd", "cksum", "cmp", "comm", "cut", "df", "diff", "dirname", "du", "echo", "expr",
    "false", "fold", "grep", "groups", "head", "id", "join", "ls", "md5sum", "nl", "nproc", "od", "paste", "printf",
    "ps", "pwd", "readlink", "realpath", "rev", "seq", "sha1sum", "sha256sum", "sleep", "stat", "tac", "tail",
    "test", "tr", "true", "type", "uname", "uptime", "wait", "wc", "which", "whoami",
})  # fmt: skip
NO_FILES = frozenset({
    ":", "[", "basename", "dirname", "echo", "expr", "false", "printf", "seq", "sleep", "test", "tr", "true", "type",
    "uname", "wait", "which",
})  # fmt: skip
"""Programs that open none of the files they are told of."""

_GIT = frozenset({"blame", "describe", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status"})
_GIT_WRITES = ("--output", "-o", "--ext-diff", "--textconv", "-O")
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
    if any(word.startswith("--files0-from") for word in words):
        return False
    match name:
        case "git":
            return bool(words) and words[0] in _GIT and not any(word.startswith(_GIT_WRITES) for word in words)
        case "cd":
            return len(words) == 1 and not words[0].startswith("-")  # else it goes home, or back
        case "find":  # what acts was refused before; links would lead out of what was looked at
            return not {"-L", "-H", "-follow", "-files0-from"} & set(words)
        case "grep":
            return not any(re.match(r"-[a-zA-Z]*R|--deref", word) for word in words)
        case "diff":
            return not any(re.match(r"-[a-zA-Z]*r|--rec", word) for word in words)
        case "sed":
            return len(words) >= 2 and words[0] == "-n" and _PRINT_SED.fullmatch(words[1]) is not None
        case "sort":
            return not any(word.startswith(("-o", "--output", "--compress-program", "-T", "--temp")) for word in words)
        case "date":
            return all(word.startswith("+") or word in ("-u", "--utc", "-R", "-I") for word in words)
        case "uniq":
            return all(word.startswith("-") for word in words)  # a second file would be written
        case "printf":
            return "-v" not in words  # it would set a variable, PATH for one
        case _:
            return name in _HARMLESS


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
