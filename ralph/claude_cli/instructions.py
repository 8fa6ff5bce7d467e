"""The files that instruct every session: CLAUDE.md with its imports (else AGENTS.md), skills and commands.

Measured on Claude Code 2.1.325. A repository's links and imports are followed only while they stay inside it: a
stranger must not choose which of this machine's files a model gets to see.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.system.instruction_files import SOURCES, TOP, Kind, read_memory, stays_inside

_LABELS: dict[Kind, str] = {
    "user": "user's private global instructions for all projects",
    "project": "project instructions, checked into the codebase",
    "local": "user's private project instructions, not checked in",
}
_INTRODUCTION = (
    "Codebase and user instructions are shown below. Be sure to adhere to these instructions. IMPORTANT: These "
    "instructions OVERRIDE any default behavior and you MUST follow them exactly as written."
)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([\w-]+)[ \t]*:[ \t]*(.*)")
_PLACE = re.compile(r"\$ARGUMENTS\[(\d+)\]|\$(\d+)(?!\w)|\$ARGUMENTS(?!\w)")
_CALL = re.compile(r"/([\w:.-]+)(?:\s+(.*))?", re.DOTALL)
_NO_COMMANDS = "No slash commands are available in this session."
_LARGEST_SKILL = 1 << 20


def instructions(cwd: Path, home: Path, sources: Collection[str] = SOURCES, *, top: Path = TOP) -> list[str]:
    """Return the memory as a session gets it: one text, or none."""
    memories = read_memory(cwd, home, sources, top=top)
    if not memories:
        return []
    parts = [f"Contents of {memory.path} ({_LABELS[memory.kind]}):\n\n{memory.text}" for memory in memories]
    return ["\n\n".join([_INTRODUCTION, *parts])]


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill; `folder` None: it is a command, a single file."""

    name: str
    alias: str
    description: str
    body: str
    folder: Path | None
    allowed_tools: tuple[str, ...] = ()
    for_users_only: bool = False

    def told(self, arguments: str) -> str:
        """Return the text for a session that calls the skill."""
        text = self.body.replace("${CLAUDE_SKILL_DIR}", str(self.folder)) if self.folder else self.body
        text = _filled(text, arguments)
        return f"Base directory for this skill: {self.folder}\n\n{text}" if self.folder else text


def available(cwd: Path, home: Path, sources: Collection[str] = ("user", "project", "local")) -> Mapping[str, Skill]:
    """All skills by name, in the order of their list; of two with one name, the user's and then the nearest wins."""
    # What the user links there himself may lie anywhere: people keep such files in a repository of their own.
    places = [_Place(home / ".claude", Path("/"))] if "user" in sources else []
    if "project" in sources:
        places += [_Place(folder / ".claude", folder) for folder in (cwd, *cwd.parents) if folder != home]
    skills: dict[str, Skill] = {}
    for found in (*_skills_in(places), *_commands_in([*places[1:], *places[:1]])):
        skills.setdefault(found.name, found)
    return skills


def expanded(prompt: str, skills: Mapping[str, Skill]) -> list[str]:
    """Return what a prompt says to the model: one that starts with `/name` stands for the command or skill."""
    call = _CALL.fullmatch(prompt)
    if call is None:
        return [prompt]
    name, arguments = call[1], (call[2] or "").strip()
    skill = find_skill(skills, name)
    if skill is None:
        return [f"<system-reminder>\n{_unknown_command(name, skills)}\n</system-reminder>", prompt]
    said = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
    said += f"<command-args>{arguments}</command-args>\n" if arguments else ""
    return [said, skill.told(arguments)]


def _unknown_command(name: str, skills: Mapping[str, Skill]) -> str:
    known = ", ".join(f"/{each}" for each in skills)
    there = f"Slash commands available in this session: {known}." if known else _NO_COMMANDS
    return (
        f"The user's message starts with the slash command /{name}, but no command with that name is available in this "
        f"session, so it did not run. {there} Treat the message as a plain request and do the task with the tools you "
        "have. If the task needs that command, tell the user it is not installed in this session. Do not say the "
        "command ran."
    )


def find_skill(skills: Mapping[str, Skill], name: str) -> Skill | None:
    """The skill of this name, or the one whose own text calls it so."""
    name = name.removeprefix("/")
    return skills.get(name) or next((skill for skill in skills.values() if skill.alias == name), None)


def listing(skills: Iterable[Skill]) -> str:
    """Return the list of skills for a session; empty if there are none."""
    lines = [
        f"- {skill.name}{f' ({skill.alias})' if skill.alias not in ('', skill.name) else ''}: {skill.description}"
        for skill in skills
        if not skill.for_users_only
    ]
    return "\n".join(["The following skills are available for use with the Skill tool:", "", *lines]) if lines else ""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where skills are looked for, and the folder that none of them may lead out of."""

    folder: Path
    bounds: Path


def _skills_in(places: Iterable[_Place]) -> Iterator[Skill]:
    for place in places:
        for path in sorted((place.folder / "skills").glob("*/SKILL.md")):
            inside = stays_inside(path, place.bounds) and stays_inside(path.parent, place.bounds)
            if inside and (skill := _read(path, path.parent.name, path.parent)) is not None:
                yield skill


def _commands_in(places: Iterable[_Place]) -> Iterator[Skill]:
    for place in places:
        commands = place.folder / "commands"
        for path in sorted(commands.rglob("*.md")):
            name = ":".join(path.relative_to(commands).with_suffix("").parts)
            if stays_inside(path, place.bounds) and (skill := _read(path, name, None)) is not None:
                yield skill


def _read(path: Path, name: str, folder: Path | None) -> Skill | None:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_SKILL:
            return None
        text = path.read_text("utf-8", "replace")
    except OSError:
        return None
    fields, body = front_matter(text)
    first = next((line.strip("# ").strip() for line in body.splitlines() if line.strip()), "")
    return Skill(
        name=name,
        alias=fields.get("name", ""),
        description=fields.get("description", "") or first,
        body=body,
        folder=folder,
        allowed_tools=tuple(re.split(r",\s*(?![^()]*\))", tools)) if (tools := fields.get("allowed-tools", "")) else (),
        for_users_only=fields.get("disable-model-invocation", "") == "true",
    )


def front_matter(text: str) -> tuple[dict[str, str], str]:
    """The plain values of a file's front matter, and what follows it."""
    match = _FRONT_MATTER.match(text)
    return (_fields(match[1]), text[match.end() :]) if match else ({}, text)


def _fields(text: str) -> dict[str, str]:
    """The plain values of front matter: words after a colon, or the indented lines below it, joined.

    Not YAML: half of the skills in the wild hold a colon that makes theirs invalid.
    """
    fields: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if match := _KEY.fullmatch(line.rstrip()):
            key = match[1]
            value = match[2].strip()
            fields[key] = "" if value in ("|", ">", "|-", ">-") else _unquoted(value)
        elif key and line.startswith((" ", "\t", "- ")):
            item = line.strip()
            more = f", {_unquoted(item[2:])}" if item.startswith("- ") else f" {item}"
            fields[key] = (fields[key] + more).lstrip(", ")
    return fields


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _filled(text: str, arguments: str) -> str:
    """Put the arguments where the text wants them; where it wants none, after it."""
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()

    def value(match: re.Match[str]) -> str:
        number = match[1] or match[2]
        if number is None:
            return arguments
        return words[int(number)] if int(number) < len(words) else match[0]

    if arguments and not _PLACE.search(text):
        return f"{text}\n\nARGUMENTS: {arguments}"
    return _PLACE.sub(value, text)
