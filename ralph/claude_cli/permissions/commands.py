"""Whether a shell command may run: by rules, by being harmless, or by changing only files that may be changed.

A command line is judged by the worst of its simple commands, and refused if it cannot be parsed.
"""

import glob
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from ralph.claude_cli.desk import Access, Desk
from ralph.claude_cli.permissions.harmless import (
    CHANGES,
    FIND_ACTS,
    NO_FILES,
    READS,
    UNMOVED,
    files_of,
    is_harmless,
    is_plain_sed,
    is_sensitive,
    read_call,
)
from ralph.claude_cli.permissions.rules import Denied, PermissionRule
from ralph.claude_cli.shell import BACKGROUND, BLANKS, VARIABLE, Redirection, Script, ShellCommand, read_script

WRAPPERS = frozenset({"nice", "nohup", "stdbuf", "time", "timeout"})

_RUN_OTHERS = WRAPPERS | frozenset({
    "bash", "builtin", "busybox", "chroot", "chrt", "command", "dash", "doas", "env", "eval", "exec", "find", "flock",
    "ionice", "ksh", "parallel", "perl", "python", "python3", "runuser", "script", "setsid", "sh", "strace", "su",
    "sudo", "taskset", "unshare", "watch", "xargs", "zsh",
})  # fmt: skip
_EVALUATES = frozenset({"alias", "eval", "exec"})
_MILD = frozenset({
    "CGO_ENABLED", "CI", "CLICOLOR", "COLUMNS", "FORCE_COLOR", "GO111MODULE", "GOARCH", "GOOS", "LANG", "NODE_ENV",
    "NO_COLOR", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "RUST_BACKTRACE", "RUST_LOG", "TERM", "TZ",
})  # fmt: skip
"""Variables that change no more than how a program shows what it does (2.1.325)."""

_OWN_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*")
_MOVES, _PLACES = 8, 300
NEEDS_APPROVAL = "This command requires approval"


def unwrapped(part: ShellCommand) -> ShellCommand:
    """Return the command inside `timeout 5 …`, `nohup …` or similar, if there is nothing else."""
    words = part.words
    while words and words[0] in WRAPPERS:
        drop = 2 if words[0] == "timeout" else 1
        if len(words) <= drop or words[1].startswith("-") or part.redirections:
            return part
        words = words[drop:]
    return part if words == part.words else replace(part, words=words, text=shlex.join(words))


def words_of(part: ShellCommand, skipped: int = 0, *, redirections: bool = True) -> Iterator[str]:
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
    home = desk.environment.get("HOME", "")
    word = home + word[1:] if word == "~" or word.startswith("~/") else word.replace("$HOME", home)
    yield place / word
    if set(word) & set("*?["):
        yield from (place / found for found in _expanded(word, place))


def is_far_home(word: str) -> bool:
    """Tell whether the shell would put another folder than HOME in place of a `~`."""
    return (word.startswith("~") and word != "~" and not word.startswith("~/")) or "=~" in word or ":~" in word


def _expanded(word: str, place: Path) -> Iterator[str]:
    # Not `Path.glob`, which takes no absolute pattern.
    return glob.iglob(word, root_dir=place, include_hidden=True)  # noqa: PTH207


def matching_rule(rules: Sequence[PermissionRule], command: str) -> PermissionRule | None:
    """The denying or asking rule that meets any part of the command line, however it is dressed up."""
    script = read_script(command)
    return next((rule for rule in rules if _meets(rule, command, script)), None)


def rule_on_files(command: str, desk: Desk, rules: Sequence[PermissionRule], home: Path) -> PermissionRule | None:
    """The rule that keeps a file which the command line names, or may name, from every tool."""
    if not rules:
        return None
    parts = read_script(command).commands
    if _hides_names(parts):
        return rules[0]
    places, named = [desk.cwd], list[Path]()
    for part in parts:
        named += [path for word in _names_in(part) for place in places for path in paths_of(word, place, desk)]
        if part.name == "cd":  # it may fail, and then all that follows is about where it stood before
            words = [word for word in part.words[1 + part.assignments :] if not word.startswith("-")] or ["~"]
            moved = [path for place in places for path in paths_of(words[0], place, desk)]
            places = list(dict.fromkeys([*places, *moved]))[:_PLACES]
    paths = {each for path in named for each in (Path(os.path.normpath(path)), path.resolve())}
    return next((rule for rule in rules if any(rule.covers_path(path, home) for path in paths)), None)


def _hides_names(parts: Sequence[ShellCommand]) -> bool:
    """Tell whether only the shell will know which files are meant: by variables, or by links that it makes before."""
    runs_others = any(part.name in _RUN_OTHERS for part in parts)
    if sum(part.name == "cd" for part in parts) > _MOVES or (len(parts) > 1 and any(_links(part) for part in parts)):
        return True
    return any(
        part.expands and (runs_others or part.redirections or part.name not in UNMOVED) and part.name for part in parts
    )


def _links(part: ShellCommand) -> bool:
    return "ln" in part.words or (part.name == "cp" and any(word.startswith("-") for word in part.words))


def _names_in(part: ShellCommand) -> Iterator[str]:
    """The words that may name files, and what may name one inside them."""
    between = r"[^\w./~*?-]+" if part.name in _RUN_OTHERS else r"[=,:@]+"
    for word in words_of(part):
        yield word
        yield from (inner for inner in re.split(between, word) if inner and inner != word)
    yield from (word[2:] for word in part.words[1:] if re.match(r"-[A-Za-z][^-]", word))


def allowing_rule(rules: Sequence[PermissionRule], command: str) -> PermissionRule | None:
    """The rule that by itself allows the whole of a command line which is one simple command."""
    return next((rule for rule in rules if rule.is_whole or rule.covers_command(command.strip())), None)


def dangerous_removal(command: str, desk: Desk) -> Denied | None:
    """Why a removal must not run even where all of Bash is allowed: it would take a whole workspace, or more, away."""
    home = Path(desk.environment.get("HOME", "/root"))
    for part in map(_bare, read_script(command).commands):
        if part.name not in ("rm", "rmdir"):
            continue
        for word in words_of(part):
            path = Path(os.path.normpath(next(paths_of(word, desk.cwd, desk))))
            real = path.resolve()
            if real == home.resolve() or real.parent == real or (real.parent == Path("/") and real.name != "tmp"):
                what, kind = "a critical system directory", "critical path"
            elif any(root.is_relative_to(real) for root in desk.roots):
                what = "a workspace directory (the working directory, an additional working directory, or one of their "
                what, kind = what + "parent directories)", "workspace directory"
            else:
                continue
            message = (
                f"Dangerous rm operation detected: '{path}'\n\nThis command would remove {what}. This requires "
                "explicit approval and cannot be auto-allowed by permission rules."
            )
            return Denied(message, "safetyCheck", f"Dangerous rm operation on {kind}: {path}")
    return None


def _bare(part: ShellCommand) -> ShellCommand:
    """Return what `unwrapped` returns, without redirections."""
    return unwrapped(replace(part, redirections=()))


def _meets(rule: PermissionRule, command: str, script: Script) -> bool:
    if rule.covers_command(command.strip()):
        return True
    first = rule.pattern.removesuffix(":*").split(" ")[0]
    if script.obstacle and re.search(rf"(?<![\w-]){re.escape(first)}(?![\w-])", command):
        return True
    return any(_meets_part(rule, part, first) for part in script.commands)


def _meets_part(rule: PermissionRule, part: ShellCommand, first: str) -> bool:
    words = part.words[part.assignments :]
    if not words:
        return False
    if words[0].startswith("$"):  # which program this is, only the shell will know
        return True
    if any(rule.covers_command(text) for text in (part.text, " ".join(words), " ".join([part.name, *words[1:]]))):
        return True
    inner = [word for text in words[1:] for word in re.split(r"[^\w./-]+", text)]
    return part.name in _RUN_OTHERS and any(word.rpartition("/")[2] == first for word in inner)


def judge(command: str, desk: Desk, rules: Sequence[PermissionRule], *, may_edit: bool) -> Denied | None:
    """Why the command line may not run without being asked for; None: it may."""
    if any(rule.covers_command(command.strip(BLANKS)) for rule in rules if "*" not in rule.pattern):
        return None
    script = read_script(command)
    if script.obstacle:
        return Denied(script.obstacle, "other", script.obstacle)
    if denied := dangerous_removal(command, desk):
        return denied
    places, last, is_chain = [desk.cwd], [desk.cwd], True
    for part in script.commands:
        # Whether a `cd` succeeded, only a chain of `&&` tells; else what follows must be right wherever it may stand.
        is_chain = is_chain and part.after in ("", "&&")
        standing = last if is_chain else places
        if denied := _judge_part(part, standing, desk, rules, may_edit=may_edit):
            return _as_part_of(script, part, denied)
        if part.name == "cd":  # the shell takes `..` off a path before it follows links
            is_plain = part.words[0] == "cd" and is_harmless(part)  # a rule may have let another pass
            last = [desk.locate(str(place / part.words[1])) for place in standing] if is_plain else [Path("/")]
            places += last
    return Denied(BACKGROUND, "other", BACKGROUND) if script.background else None


def _as_part_of(script: Script, part: ShellCommand, denied: Denied) -> Denied:
    if denied.message != NEEDS_APPROVAL or len(script.commands) == 1:
        return denied
    many = f"This Bash command contains multiple operations. The following part requires approval: {part.text}"
    return Denied(many, "subcommandResults")


def _judge_part(
    part: ShellCommand, places: Sequence[Path], desk: Desk, rules: Sequence[PermissionRule], *, may_edit: bool
) -> Denied | None:
    for redirection in part.redirections:
        if denied := _judge_redirection(redirection, places, desk, may_edit=may_edit):
            return denied
    if not part.words:
        return None
    inner = unwrapped(part)
    if any(rule.covers_command(text) for rule in rules for text in _spellings(part, inner)):
        return None
    asked = Denied(NEEDS_APPROVAL, "other", NEEDS_APPROVAL)
    name = inner.words[0] if inner.words else ""
    if part.words[0] in WRAPPERS - {"timeout"}:
        return asked
    if name in _EVALUATES:
        said = f"'{name}' evaluates arguments as shell code"
        return Denied(said, "other", said)
    if inner.assignments:
        names = {word.partition("=")[0] for word in inner.words[: inner.assignments]}
        if inner.assignments == len(inner.words):  # of a variable in capitals nobody knows what it changes
            return None if all(map(_OWN_VARIABLE.fullmatch, names)) else asked
        if not names <= _MILD:
            return asked
        inner = replace(inner, words=inner.words[inner.assignments :])
        name = inner.words[0]
    if name in ("builtin", "command") and len(inner.words) > 1 and not inner.words[1].startswith("-"):
        inner = replace(inner, words=inner.words[1:])
        name = inner.words[0]
    if name == "find" and (act := next((word for word in inner.words if word in FIND_ACTS), "")):
        acts = f"find with '{act}' executes commands or modifies files"
        said = f"{acts} — cannot be auto-allowed by a Bash(find:*) prefix rule"
        return Denied(said, "other", said)
    if any(_may_be_option(word, place) for word in inner.words[1:] for place in places):
        return asked
    if is_harmless(inner):
        if name == "git" and any(_is_strange_repository(place, desk) for place in places):
            return asked
        return _outside(inner, places, desk, READS.get(name, "use files from"))
    if name in CHANGES and (is_plain_sed(inner) if name == "sed" else read_call(name, inner.words[1:])):
        return _outside(inner, places, desk, CHANGES[name]) or (None if may_edit else _wants_to_change(inner, desk))
    return asked


def _spellings(part: ShellCommand, inner: ShellCommand) -> Iterator[str]:
    """The texts that a rule may name the command by: its own, what it wraps, and both without mild variables."""
    for each in (part, inner):
        yield each.text
        if not each.redirections and not each.expands:
            yield shlex.join(each.words)
        names = {word.partition("=")[0] for word in each.words[: each.assignments]}
        if names and names <= _MILD and not each.redirections:
            yield shlex.join(unwrapped(replace(each, words=each.words[each.assignments :])).words)


def _judge_redirection(
    redirection: Redirection, places: Sequence[Path], desk: Desk, *, may_edit: bool
) -> Denied | None:
    if redirection.target == "/dev/null" or (redirection.operator.endswith("&") and not redirection.writes):
        return None
    if "<<" in redirection.operator:
        return None
    if is_far_home(redirection.target) or "[" in redirection.target:
        return Denied(NEEDS_APPROVAL, "other", NEEDS_APPROVAL)
    if redirection.target.startswith("~"):
        said = "Shell expansion syntax in paths requires manual approval"
        return Denied(said, "other", said)
    if "$" in redirection.target:
        return Denied(VARIABLE, "other", VARIABLE)
    path = desk.locate(redirection.target)
    inside = all(
        not desk.refusal(found, Access.WRITE if redirection.writes else Access.READ)
        for place in places
        for found in paths_of(redirection.target, place, desk)
    )
    if not redirection.writes:
        return None if inside else _blocked("Input redirection from", path, "read files in", desk)
    if not inside:
        return Denied(
            f"Output redirection to '{path}' needs approval. The path is outside the working directories for this "
            f"session ({_roots(desk)}). Allowing runs the command as written."
        )
    if may_edit and not any(is_sensitive(place / redirection.target, desk) for place in places):
        return None
    return Denied(f"Output redirection to '{path}' needs approval. {_inside(desk)}")


def _may_be_option(word: str, place: Path) -> bool:
    """Tell whether the word is a pattern that a file with the name of an option would match."""
    return word[:1] in set("*?[") and place.is_dir() and any(file.name.startswith("-") for file in place.iterdir())


def _is_strange_repository(place: Path, desk: Desk) -> bool:
    """Tell whether git would use settings that came with the files: they may name programs to run."""
    if place != desk.cwd or not place.is_relative_to(desk.start):
        return True
    for folder in (place, *place.parents):
        if (folder / ".git").exists():
            return folder != desk.start and folder.is_relative_to(desk.start)
        if (folder / "HEAD").exists() and (folder / "objects").exists():
            return True
    return False


def _outside(part: ShellCommand, places: Sequence[Path], desk: Desk, verb: str) -> Denied | None:
    name = part.words[0]
    words = list(files_of(part))
    if name in NO_FILES:  # it opens none, but the shell would look for what a pattern matches
        words = [word for word in part.words[1:] if set(word) & set("*?") or is_far_home(word)]
    elif "$" in "".join(words).replace("$HOME", ""):
        return Denied(VARIABLE, "other", VARIABLE)
    if any(is_far_home(word) or (name not in NO_FILES and "[" in word) for word in words):
        return Denied(NEEDS_APPROVAL, "other", NEEDS_APPROVAL)
    if name == "cp" and words:  # into a folder, it writes to what has the file's name there
        words += [f"{words[-1]}/{PurePath(word).name}" for word in words[:-1]]
    for place in places:
        paths = [path for word in words for path in paths_of(word, place, desk)]
        if name == "diff" and any(path.is_dir() for path in paths):
            return Denied(NEEDS_APPROVAL, "other", NEEDS_APPROVAL)
        for path in paths:
            writes = name in CHANGES and not (name == "sed" and is_harmless(part))
            if desk.refusal(path, Access.WRITE if writes else Access.READ):
                return _blocked(f"{name} in", path.resolve(), verb, desk)
            if writes and is_sensitive(path, desk):
                return Denied(f"{name} in '{path}' needs approval. {_inside(desk)}")
    return None


def _wants_to_change(part: ShellCommand, desk: Desk) -> Denied:
    path = desk.locate(next(files_of(part), "."))
    return Denied(f"{part.words[0]} in '{path}' needs approval. {_inside(desk)}")


def _blocked(what: str, path: Path, verb: str, desk: Desk) -> Denied:
    return Denied(
        f"{what} '{path}' was blocked. For security, Claude Code may only {verb} the allowed working directories for "
        f"this session: {_roots(desk)}."
    )


def _roots(desk: Desk) -> str:
    return ", ".join(f"'{root}'" for root in desk.roots)


def _inside(desk: Desk) -> str:
    return (
        f"The path is inside the working directories for this session ({_roots(desk)}), and Claude Code asks before a "
        "shell command creates, changes or removes files there."
    )
