"""The text of a goal file, read into a `Goal`. Goal text is data: never a template, an argument or a shell string."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ralph.core.errors import UsageError
from ralph.core.text import did_you_mean

KEYS = (
    "title", "repo", "branch", "agent", "model", "reasoning", "check", "after", "priority",
    "max_iterations", "duration", "max_cost", "merge", "tests", "protect",
)  # fmt: skip
"""Every key that front matter may hold."""

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*)$")
_LINES = "write one `key: value` on each line"
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})")


class NoObjectiveError(UsageError):
    """The text is not a goal: it has no objective."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: what the user wants, and the user's settings for it."""

    name: str
    path: Path
    title: str
    text: str
    front_matter: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def digest(self) -> str:
        """Return a digest of the goal's text, including its front matter."""
        return hashlib.sha256(f"{self.front_matter}\n{self.text}".encode()).hexdigest()


def goal_name(stem: str) -> str:
    """Make the slug that names a goal on disk, in branches and in trailers."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:64].strip("-")


_LONGEST_NAME, _LONGEST_TITLE = 48, 100


def goal_of_words(words: str) -> tuple[str, str]:
    """Turn a sentence into a goal file; return its name and text. A text that is already a goal stays as it is."""
    first, _, rest = words.strip().partition("\n")
    is_heading = _HEADING.match(first)
    title = " ".join((is_heading[2] if is_heading else first).rstrip("#").split())
    headings = _headings(words)
    if any(level == 2 and heading.lower() == "objective" for level, heading, _ in headings):
        return _name_of(next((heading for level, heading, _ in headings if level == 1), ""), words), words
    objective = rest.strip() if is_heading else words.strip()
    if not objective or _HEADING.match(objective.partition("\n")[0]):
        objective = f"{title}\n\n{objective}"
    shown = title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1].rstrip()}…"
    return _name_of(title, words), f"# {shown}\n\n## Objective\n{objective.strip()}\n"


def _name_of(title: str, words: str) -> str:
    """Name a goal after its title, plus a digest if the title is too long or not ASCII."""
    name = goal_name(title)
    if name and len(name) <= _LONGEST_NAME and title.isascii():
        return name
    digest = hashlib.sha256(words.strip().encode("utf-8", "replace")).hexdigest()[:8]
    start = re.sub(r"-[^-]*$", "", name[: _LONGEST_NAME - 8]) if len(name) > _LONGEST_NAME - 8 else name
    return f"{start or 'goal'}-{digest}"


def parse_goal(text: str, path: Path) -> Goal:
    """Parse a goal; report every fault in it at once."""
    name = goal_name(path.stem)
    if not name:
        raise UsageError(f"{path}: the file name needs at least one letter a-z or digit 0-9", "rename the file")
    front_matter, body = split_front_matter(text.removeprefix("\ufeff"), path)
    headings = _headings(body)
    objective = next(
        (content for level, title, content in headings if level == 2 and title.lower() == "objective"), None
    )
    if objective is None:
        raise NoObjectiveError(
            f"{path}: no `## Objective` section", "add one, and describe in a few sentences what you want"
        )
    if not objective.strip():
        raise UsageError(f"{path}: the `## Objective` section is empty", "describe in a few sentences what you want")
    first_title = next((title for level, title, _ in headings if level == 1 and title), "")
    title = " ".join(str(front_matter.get("title") or first_title or name).split())
    return Goal(name, path, title, body.strip() + "\n", front_matter)


def missing_sections(text: str, wanted: Collection[str]) -> list[str]:
    """Return those of the wanted second-level headings that a goal lacks, or that have nothing below them."""
    filled = {title.lower() for level, title, content in _headings(text) if level == 2 and content.strip()}
    return [title for title in wanted if title.lower() not in filled]


def worded_anew(text: str, path: Path, *, without: Collection[str], more: str) -> str:
    """Return a goal file's text without some front-matter keys, and with `more` at its end."""
    front_matter, body = split_front_matter(text.removeprefix("\ufeff"), path)
    kept = {key: value for key, value in front_matter.items() if key not in without}
    import yaml

    head = f"---\n{yaml.safe_dump(kept, allow_unicode=True, sort_keys=False)}---\n" if kept else ""
    return f"{head}{body.rstrip()}\n" + (f"\n{more.strip()}\n" if more else "")


def split_front_matter(text: str, path: Path, keys: Collection[str] = KEYS) -> tuple[Mapping[str, object], str]:
    """Return the front matter, which may only have these keys, and the text below it."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        if re.match(r"---[ \t]*\r?\n", text):
            raise UsageError(f"{path}: the front matter has no closing ---", "add a line with --- after the last key")
        return {}, text
    import yaml  # 20 ms, a tenth of a start, which most goals do without

    try:
        compose = cast("Callable[..., object]", yaml.compose)
        twice = _given_twice(compose(match[1], Loader=yaml.SafeLoader))
        loaded: object = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an impossible date is a ValueError
        raise _not_yaml(error, path) from error
    if twice:
        raise UsageError(f"{path}: front matter: `{twice}` is given twice", "keep one of the lines")
    if loaded is None:
        return {}, text[match.end() :]
    if not isinstance(loaded, dict):
        raise UsageError(f"{path}: the front matter has no `key: value` lines", _LINES)
    front_matter = {str(key): value for key, value in cast("dict[object, object]", loaded).items()}
    faults = [_unknown(key, keys) for key in front_matter if key not in keys]
    faults += [
        f"`{key}` must be {wanted}"
        for key, (fits, wanted) in _SHAPES.items()
        if key in front_matter and not fits(front_matter[key])
    ]
    if faults:
        raise UsageError(f"{path}: front matter: " + "; ".join(faults), f"known keys: {', '.join(keys)}")
    return front_matter, text[match.end() :]


def _given_twice(node: object) -> str:
    """Return the first key that stands there twice: the parser would take the last one without a word."""
    pairs = cast("list[tuple[object, object]]", getattr(node, "value", None) or [])
    seen: set[str] = set()
    for pair in pairs if type(node).__name__ == "MappingNode" else []:
        key = str(getattr(pair[0], "value", ""))
        if key in seen:
            return key
        seen.add(key)
    return ""


_YAML_FAULTS = (
    ("mapping values are not allowed", "unexpected `:` (put quotes around a value that contains `: `)"),
    ("found character '\\t'", "unexpected tab (indent with spaces)"),
    ("node content", "a bracket, brace or key is not closed"),
    ("end of stream", "a quote, bracket or brace is not closed"),
    ("expected ',' or", "a bracket or brace is not closed, or a comma is missing"),
    ("could not determine a constructor", "unknown tag (put quotes around a value that begins with `!`)"),
    ("undefined alias", "unknown alias (put quotes around a value that begins with `*`)"),
    ("day is out of range", "invalid date"),
    ("special characters are not allowed", "control character"),
)
"""What the parser says, and the same in plain words."""


def _not_yaml(error: Exception, path: Path) -> UsageError:
    mark = getattr(error, "problem_mark", None)
    place = "" if mark is None else f", line {mark.line + 2}, column {mark.column + 1}"  # after the opening ---
    said = " ".join(str(getattr(error, "problem", None) or error).split())
    fault = next((plain for words, plain in _YAML_FAULTS if words in said), said)
    return UsageError(f"{path}{place}: cannot read the front matter: {fault}", _LINES)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(item) for item in cast("list[object]", value))


# `settings` checks the keys that are also settings (model, duration, ...), and reports their faults with its own.
_SHAPES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "title": (_is_text, "text"),
    "repo": (_is_text, "text"),
    "branch": (_is_text, "text"),
    "after": (_is_names, "a list of goal names"),
    "priority": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "merge": (lambda value: value in ("direct", "pr", "branch", "none"), "direct, pr, branch or none"),
}


def _unknown(key: str, keys: Collection[str]) -> str:
    return f"unknown key `{key}`" + did_you_mean(key, keys)


def _headings(body: str) -> list[tuple[int, str, str]]:
    """List (level, title, text below it up to the next heading of the same or a higher level), outside code fences."""
    lines = body.splitlines()
    found: list[tuple[int, str, int]] = []
    fence = ""
    for index, line in enumerate(lines):
        if mark := _FENCE.match(line):
            run = mark[1]
            if not fence:
                fence = run
            elif run[0] == fence[0] and len(run) >= len(fence) and not line.strip().strip(run[0]):
                fence = ""
        elif not fence and (heading := _HEADING.match(line)):
            found.append((len(heading[1]), heading[2].rstrip().rstrip("#").strip(), index))
    sections: list[tuple[int, str, str]] = []
    for position, (level, title, index) in enumerate(found):
        end = next((later for deeper, _, later in found[position + 1 :] if deeper <= level), len(lines))
        sections.append((level, title, "\n".join(lines[index + 1 : end])))
    return sections
