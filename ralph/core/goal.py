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
    "max_iterations", "duration", "max_cost", "merge",
)  # fmt: skip
"""Every key that front matter may hold."""

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*)$")
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})")


class NoObjectiveError(UsageError):
    """The text is no goal: it does not say what is wanted."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: what the user wants, and what the user said about how to pursue it."""

    name: str
    path: Path
    title: str
    text: str
    front_matter: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def digest(self) -> str:
        """Tells one wording of the goal, front matter included, from another."""
        return hashlib.sha256(f"{self.front_matter}\n{self.text}".encode()).hexdigest()


def goal_name(stem: str) -> str:
    """Make the slug that names a goal on disk, in branches and in trailers."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:64].strip("-")


def parse_goal(text: str, path: Path) -> Goal:
    """Read a goal, or say all that is wrong with it."""
    name = goal_name(path.stem)
    if not name:
        raise UsageError(f"{path}: the file name has none of a-z and 0-9 to name the goal by", "rename the file")
    front_matter, body = _split_front_matter(text.removeprefix("\ufeff"), path)
    headings = _headings(body)
    objective = next(
        (content for level, title, content in headings if level == 2 and title.lower() == "objective"), None
    )
    if objective is None:
        raise NoObjectiveError(
            f"{path}: no `## Objective` section", "add one: it says in a few sentences what you want"
        )
    if not objective.strip():
        raise UsageError(f"{path}: the `## Objective` section is empty", "say in a few sentences what you want")
    first_title = next((title for level, title, _ in headings if level == 1 and title), "")
    title = " ".join(str(front_matter.get("title") or first_title or name).split())
    return Goal(name, path, title, body.strip() + "\n", front_matter)


def worded_anew(text: str, path: Path, *, without: Collection[str], more: str) -> str:
    """The text of a goal file, less some keys of its front matter, with more at its end."""
    front_matter, body = _split_front_matter(text.removeprefix("\ufeff"), path)
    kept = {key: value for key, value in front_matter.items() if key not in without}
    import yaml

    head = f"---\n{yaml.safe_dump(kept, allow_unicode=True, sort_keys=False)}---\n" if kept else ""
    return f"{head}{body.rstrip()}\n" + (f"\n{more.strip()}\n" if more else "")


def _split_front_matter(text: str, path: Path) -> tuple[Mapping[str, object], str]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        if re.match(r"---[ \t]*\r?\n", text):
            raise UsageError(f"{path}: the front matter has no closing ---", "close it with a line ---")
        return {}, text
    import yaml  # 20 ms, a tenth of a start, which most goals do without

    try:
        loaded: object = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an impossible date is a ValueError
        raise UsageError(f"{path}: the front matter is not YAML: {' '.join(str(error).split())}") from error
    if loaded is None:
        return {}, text[match.end() :]
    if not isinstance(loaded, dict):
        raise UsageError(f"{path}: the front matter is not a list of `key: value` lines")
    front_matter = {str(key): value for key, value in cast("dict[object, object]", loaded).items()}
    faults = [_unknown(key) for key in front_matter if key not in KEYS]
    faults += [
        f"`{key}` must be {wanted}"
        for key, (fits, wanted) in _SHAPES.items()
        if key in front_matter and not fits(front_matter[key])
    ]
    if faults:
        raise UsageError(f"{path}: front matter: " + "; ".join(faults), f"the keys are {', '.join(KEYS)}")
    return front_matter, text[match.end() :]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(item) for item in cast("list[object]", value))


# Keys that are settings as well (model, duration, ...) are judged by `settings`, with all its other faults.
_SHAPES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "title": (_is_text, "text"),
    "repo": (_is_text, "text"),
    "branch": (_is_text, "text"),
    "after": (_is_names, "a list of goal names"),
    "priority": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "merge": (lambda value: value in ("direct", "pr", "branch", "none"), "direct, pr, branch or none"),
}


def _unknown(key: str) -> str:
    return f"unknown key `{key}`" + did_you_mean(key, KEYS)


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
