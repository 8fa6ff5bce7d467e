"""Rules against a shell command, found in every dress it may wear; and what no rule allows."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.agent.command_files import WRAPPERS, paths_of, unwrapped, words_of
from ralph.agent.harmless import UNMOVED
from ralph.claude_cli.desk import Desk
from ralph.claude_cli.permissions.rules import Denied, Rule
from ralph.claude_cli.shell import Command, Script, read_script

_RUN_OTHERS = WRAPPERS | frozenset({
    "bash", "builtin", "busybox", "chroot", "chrt", "command", "dash", "doas", "env", "eval", "exec", "find", "flock",
    "ionice", "ksh", "parallel", "perl", "python", "python3", "runuser", "script", "setsid", "sh", "strace", "su",
    "sudo", "taskset", "unshare", "watch", "xargs", "zsh",
})  # fmt: skip

_MOVES, _PLACES = 8, 300


def matching_rule(rules: Sequence[Rule], command: str) -> Rule | None:
    """The denying or asking rule that meets any part of the command line, however it is dressed up."""
    script = read_script(command)
    return next((rule for rule in rules if _meets(rule, command, script)), None)


def rule_on_files(command: str, desk: Desk, rules: Sequence[Rule], home: Path) -> Rule | None:
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


def _hides_names(parts: Sequence[Command]) -> bool:
    """Tell whether only the shell will know which files are meant: by variables, or by links that it makes before."""
    runs_others = any(part.name in _RUN_OTHERS for part in parts)
    if sum(part.name == "cd" for part in parts) > _MOVES or (len(parts) > 1 and any(_links(part) for part in parts)):
        return True
    return any(
        part.expands and (runs_others or part.redirections or part.name not in UNMOVED) and part.name for part in parts
    )


def _links(part: Command) -> bool:
    return "ln" in part.words or (part.name == "cp" and any(word.startswith("-") for word in part.words))


def _names_in(part: Command) -> Iterator[str]:
    """The words that may name files, and what may name one inside them."""
    between = r"[^\w./~*?-]+" if part.name in _RUN_OTHERS else r"[=,:@]+"
    for word in words_of(part):
        yield word
        yield from (inner for inner in re.split(between, word) if inner and inner != word)
    yield from (word[2:] for word in part.words[1:] if re.match(r"-[A-Za-z][^-]", word))


def allowing_rule(rules: Sequence[Rule], command: str) -> Rule | None:
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


def _bare(part: Command) -> Command:
    """What `unwrapped` gives, and whatever is redirected besides."""
    return unwrapped(replace(part, redirections=()))


def _meets(rule: Rule, command: str, script: Script) -> bool:
    if rule.covers_command(command.strip()):
        return True
    first = rule.pattern.removesuffix(":*").split(" ")[0]
    if script.obstacle and re.search(rf"(?<![\w-]){re.escape(first)}(?![\w-])", command):
        return True
    return any(_meets_part(rule, part, first) for part in script.commands)


def _meets_part(rule: Rule, part: Command, first: str) -> bool:
    words = part.words[part.assignments :]
    if not words:
        return False
    if words[0].startswith("$"):  # which program this is, only the shell will know
        return True
    if any(rule.covers_command(text) for text in (part.text, " ".join(words), " ".join([part.name, *words[1:]]))):
        return True
    inner = [word for text in words[1:] for word in re.split(r"[^\w./-]+", text)]
    return part.name in _RUN_OTHERS and any(word.rpartition("/")[2] == first for word in inner)
