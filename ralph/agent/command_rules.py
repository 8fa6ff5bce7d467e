"""Rules against a shell command, found in every dress it may wear; and what no rule allows."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ralph.agent.command_files import WRAPPERS, paths_of, unwrapped, words_of
from ralph.agent.rules import Denied, Rule
from ralph.agent.shell import Command, Script, read_script
from ralph.agent.tools.base import Desk

_RUN_OTHERS = WRAPPERS | frozenset(
    {"bash", "builtin", "command", "doas", "env", "eval", "exec", "find", "parallel", "sh", "sudo", "xargs", "zsh"}
)


def matching_rule(rules: Sequence[Rule], command: str) -> Rule | None:
    """The denying or asking rule that meets any part of the command line, however it is dressed up."""
    script = read_script(command)
    return next((rule for rule in rules if _meets(rule, command, script)), None)


def rule_on_files(command: str, desk: Desk, rules: Sequence[Rule], home: Path) -> Rule | None:
    """The rule that keeps a file which the command line names from every tool."""
    words = (word for part in read_script(command).commands for word in words_of(part))
    named = [path for word in words for path in paths_of(word, desk.cwd, desk)]
    paths = {each for path in named for each in (Path(os.path.normpath(path)), path.resolve())}
    return next((rule for rule in rules if any(rule.covers_path(path, home) for path in paths)), None)


def allowing_rule(rules: Sequence[Rule], command: str) -> Rule | None:
    """The rule that by itself allows the whole of a command line which is one simple command."""
    return next((rule for rule in rules if rule.is_whole or rule.covers_command(command.strip())), None)


def dangerous_removal(command: str, desk: Desk) -> Denied | None:
    """Why a removal must not run even where all of Bash is allowed: it would take a whole workspace, or more, away."""
    home = Path(desk.environment.get("HOME", "/root"))
    for part in map(unwrapped, read_script(command).commands):
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
