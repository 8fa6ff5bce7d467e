"""Judging a shell command before it runs: by rules, by being harmless, by changing only files that may be changed.

A command line is as good as the worst of its simple commands. Where claude takes apart more than `shell` can read, this
asks: it never lets pass what claude would stop.
"""

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ralph.agent.harmless import CHANGES, FIND_ACTS, NO_FILES, READS, is_harmless, is_plain_sed, is_sensitive
from ralph.agent.rules import Denied, Rule
from ralph.agent.shell import Command, Redirection, Script, read_script
from ralph.agent.tools.base import Desk

NEEDS_APPROVAL = "This command requires approval"

_WRAPPERS = frozenset({"nice", "nohup", "stdbuf", "time", "timeout"})
_RUN_OTHERS = _WRAPPERS | frozenset(
    {"bash", "builtin", "command", "doas", "env", "eval", "exec", "find", "parallel", "sh", "sudo", "xargs", "zsh"}
)


def matching_rule(rules: Sequence[Rule], command: str) -> Rule | None:
    """The denying or asking rule that meets any part of the command line, however it is dressed up."""
    script = read_script(command)
    return next((rule for rule in rules if _meets(rule, command, script)), None)


def rule_on_files(command: str, desk: Desk, rules: Sequence[Rule], home: Path) -> Rule | None:
    """The rule that keeps a file which the command line names from every tool."""
    words = (word for part in read_script(command).commands for word in _words(part))
    paths = [path for word in words for path in _paths(word, desk.cwd, desk)]
    return next((rule for rule in rules if any(rule.covers_path(path, home) for path in paths)), None)


def allowing_rule(rules: Sequence[Rule], command: str) -> Rule | None:
    """The rule that by itself allows the whole of a command line which is one simple command."""
    return next((rule for rule in rules if rule.is_whole or rule.covers_command(command.strip())), None)


def judge(command: str, desk: Desk, rules: Sequence[Rule], *, may_edit: bool) -> Denied | None:
    """Why the command line may not run without being asked for; None: it may."""
    if any(rule.covers_command(command.strip()) for rule in rules if "*" not in rule.pattern):
        return None
    script = read_script(command)
    if script.obstacle:
        return Denied(script.obstacle, "other", script.obstacle)
    places = [desk.cwd]
    for part in script.commands:
        # Whether a `cd` succeeded, only `&&` tells; otherwise what follows must be right wherever it may stand.
        standing = places[-1:] if part.after == "&&" else places
        if denied := _judge_part(part, standing, desk, rules, may_edit=may_edit):
            return _as_part_of(script, part, denied)
        if part.name == "cd":
            places += [desk.locate(str(places[-1] / word)) for word in part.words[1:2]]
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


def _as_part_of(script: Script, part: Command, denied: Denied) -> Denied:
    if denied.message != NEEDS_APPROVAL or len(script.commands) == 1:
        return denied
    many = f"This Bash command contains multiple operations. The following part requires approval: {part.text}"
    return Denied(many, "subcommandResults")


def _judge_part(
    part: Command, places: Sequence[Path], desk: Desk, rules: Sequence[Rule], *, may_edit: bool
) -> Denied | None:
    for redirection in part.redirections:
        if denied := _judge_redirection(redirection, places, desk, may_edit=may_edit):
            return denied
    if not part.words:
        return None
    inner = _unwrapped(part)
    if any(rule.covers_command(text) for rule in rules for text in (part.text, inner.text)):
        return None
    asked = Denied(NEEDS_APPROVAL, "other", NEEDS_APPROVAL)
    name = inner.words[0] if inner.words else ""
    if inner.assignments:
        return asked
    if name == "find" and (act := next((word for word in inner.words if word in FIND_ACTS), "")):
        acts = f"find with '{act}' executes commands or modifies files"
        said = f"{acts} — cannot be auto-allowed by a Bash(find:*) prefix rule"
        return Denied(said, "other", said)
    if is_harmless(inner):
        return None if name in NO_FILES else _outside(inner, places, desk, READS.get(name, "use files from"))
    if name in CHANGES and (name != "sed" or is_plain_sed(inner)):
        return _outside(inner, places, desk, CHANGES[name]) or (None if may_edit else _wants_to_change(inner, desk))
    return asked


def _judge_redirection(
    redirection: Redirection, places: Sequence[Path], desk: Desk, *, may_edit: bool
) -> Denied | None:
    if redirection.target == "/dev/null" or (redirection.operator.endswith("&") and not redirection.writes):
        return None
    if "<<" in redirection.operator:
        return None
    if "$" in redirection.target:
        return Denied("Contains simple_expansion", "other", "Contains simple_expansion")
    path = desk.locate(redirection.target)
    inside = all(
        not desk.refusal(found, "write to" if redirection.writes else "read from")
        for place in places
        for found in _paths(redirection.target, place, desk)
    )
    if not redirection.writes:
        return None if inside else Denied(NEEDS_APPROVAL, "other", NEEDS_APPROVAL)
    if not inside:
        return Denied(
            f"Output redirection to '{path}' needs approval. The path is outside the working directories for this "
            f"session ({_roots(desk)}). Allowing runs the command as written."
        )
    if may_edit and not is_sensitive(path, desk):
        return None
    return Denied(f"Output redirection to '{path}' needs approval. {_inside(desk)}")


def _unwrapped(part: Command) -> Command:
    """The command inside `timeout 5 …`, `nohup …` and the like."""
    words, text = part.words, part.text
    while words and words[0] in _WRAPPERS:
        drop = 2 if words[0] == "timeout" else 1
        if len(words) <= drop or words[1].startswith("-"):
            return part
        words = words[drop:]
        text = " ".join(text.split()[drop:])
    return Command(words, text, part.redirections, part.after)


def _outside(part: Command, places: Sequence[Path], desk: Desk, verb: str) -> Denied | None:
    skipped = 1 if part.words[0] in ("sed", "grep") else 0
    for word in _words(part, skipped):
        if "$" in word:
            return Denied("Contains simple_expansion", "other", "Contains simple_expansion")
        for place in places:
            for path in _paths(word, place, desk):
                writes = part.words[0] in CHANGES and part.words[0] != "sed"
                root = writes and path.resolve() in desk.roots
                if root or desk.refusal(path, "write to" if writes else "read from"):
                    return Denied(
                        f"{part.words[0]} in '{path}' was blocked. For security, Claude Code may only {verb} the "
                        f"allowed working directories for this session: {_roots(desk)}."
                    )
                if writes and is_sensitive(path, desk):
                    return Denied(f"{part.words[0]} in '{path}' needs approval. {_inside(desk)}")
    return None


def _wants_to_change(part: Command, desk: Desk) -> Denied:
    words = [word for word in part.words[1:] if not word.startswith("-")]
    path = desk.locate(words[-1] if words else ".")
    return Denied(f"{part.words[0]} in '{path}' needs approval. {_inside(desk)}")


def _words(part: Command, skipped: int = 0) -> Iterator[str]:
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
    yield from (redirection.target for redirection in part.redirections)


def _paths(word: str, place: Path, desk: Desk) -> Iterator[Path]:
    """The paths a word stands for: itself, and what it matches as a pattern."""
    yield desk.locate(word) if word.startswith(("~", "/")) else desk.locate(str(place / word))
    if set(word) & set("*?["):
        yield from (desk.locate(str(place / found)) for found in _expanded(word, place))


def _expanded(word: str, place: Path) -> Iterator[str]:
    # Not `Path.glob`, which takes no absolute pattern.
    return glob.iglob(word, root_dir=place, include_hidden=True)  # noqa: PTH207


def _roots(desk: Desk) -> str:
    return ", ".join(f"'{root}'" for root in desk.roots)


def _inside(desk: Desk) -> str:
    return (
        f"The path is inside the working directories for this session ({_roots(desk)}), and Claude Code asks before a "
        "shell command creates, changes or removes files there."
    )
