"""Judging a shell command before it runs: by rules, by being harmless, by changing only files that may be changed.

A command line is as good as the worst of its simple commands. What cannot be taken apart is not let pass: claude looks
into `$(...)` and quoted here-documents, this does not.
"""

from collections.abc import Sequence
from pathlib import Path, PurePath

from ralph.agent.command_files import is_far_home, paths_of, unwrapped
from ralph.agent.command_rules import dangerous_removal
from ralph.agent.harmless import CHANGES, FIND_ACTS, NO_FILES, READS, files_of, is_harmless, is_plain_sed, is_sensitive
from ralph.claude_cli.desk import Desk
from ralph.claude_cli.permissions.harmless import read_call
from ralph.claude_cli.permissions.rules import Denied, Rule
from ralph.claude_cli.shell import BACKGROUND, BLANKS, Command, Redirection, Script, read_script

NEEDS_APPROVAL = "This command requires approval"


def judge(command: str, desk: Desk, rules: Sequence[Rule], *, may_edit: bool) -> Denied | None:
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
    inner = unwrapped(part)
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
    if any(_may_be_option(word, place) for word in inner.words[1:] for place in places):
        return asked
    if is_harmless(inner):
        if name == "git" and any(_is_strange_repository(place, desk) for place in places):
            return asked
        return _outside(inner, places, desk, READS.get(name, "use files from"))
    if name in CHANGES and (is_plain_sed(inner) if name == "sed" else read_call(name, inner.words[1:])):
        return _outside(inner, places, desk, CHANGES[name]) or (None if may_edit else _wants_to_change(inner, desk))
    return asked


def _judge_redirection(
    redirection: Redirection, places: Sequence[Path], desk: Desk, *, may_edit: bool
) -> Denied | None:
    if redirection.target == "/dev/null" or (redirection.operator.endswith("&") and not redirection.writes):
        return None
    if "<<" in redirection.operator:
        return None
    if is_far_home(redirection.target) or "[" in redirection.target:
        return Denied(NEEDS_APPROVAL, "other", NEEDS_APPROVAL)
    if "$" in redirection.target:
        return Denied("Contains simple_expansion", "other", "Contains simple_expansion")
    path = desk.locate(redirection.target)
    inside = all(
        not desk.refusal(found, "write to" if redirection.writes else "read from")
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
    """Tell whether git would heed settings that came along with the files: they may name programs to run."""
    if place != desk.cwd or not place.is_relative_to(desk.start):
        return True
    for folder in (place, *place.parents):
        if (folder / ".git").exists():
            return folder != desk.start and folder.is_relative_to(desk.start)
        if (folder / "HEAD").exists() and (folder / "objects").exists():
            return True
    return False


def _outside(part: Command, places: Sequence[Path], desk: Desk, verb: str) -> Denied | None:
    name = part.words[0]
    words = list(files_of(part))
    if name in NO_FILES:  # it opens none, but the shell would look for what a pattern matches
        words = [word for word in part.words[1:] if set(word) & set("*?") or is_far_home(word)]
    elif part.expands or "$" in "".join(words):
        return Denied("Contains simple_expansion", "other", "Contains simple_expansion")
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
            if desk.refusal(path, "write to" if writes else "read from"):
                return _blocked(f"{name} in", path.resolve(), verb, desk)
            if writes and is_sensitive(path, desk):
                return Denied(f"{name} in '{path}' needs approval. {_inside(desk)}")
    return None


def _wants_to_change(part: Command, desk: Desk) -> Denied:
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
