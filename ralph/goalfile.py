"""A goal's file, read from the disk by the same rules whoever pursues it: one run, or a queue of them."""

from pathlib import Path

from ralph.core.errors import UsageError
from ralph.core.goal import Goal, goal_name, parse_goal

_LARGEST = 4 * 1024 * 1024
_WHAT = "a goal is a Markdown file with an `## Objective`"


def read_goal(path: Path) -> Goal:
    """Read a goal file, or say why not."""
    return goal_in(read_text(path), path)


def read_text(path: Path) -> str:
    """The text of a goal file, front matter included, or why it cannot be had."""
    try:
        if path.exists() and not path.is_dir() and not path.is_file():
            raise UsageError(f"{path} is no regular file", _WHAT)
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise UsageError(f"{path}: larger than {_LARGEST // 2**20} MiB", "refer to long texts by their path")
        return data.decode("utf-8")
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory, not a goal file", "name one Markdown file") from None
    except FileNotFoundError:
        raise UsageError(f"{path}: no such goal file", _WHAT) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error


class Folders:
    """The goal files beside each goal, by name. Each folder is listed once, so one object serves one command."""

    def __init__(self) -> None:
        self._listed: dict[Path, dict[str, list[Path]]] = {}

    def refuse_namesake(self, goal: Goal) -> None:
        """Refuse a goal that shares its name with another file: they would share a run, a branch and a clone."""
        for other in self._named(goal.path.parent).get(goal.name, ()):
            if other.name != goal.path.name and not other.samefile(goal.path):
                raise UsageError(f"{goal.path} and {other} have one name, {goal.name}", "rename one of them")

    def _named(self, folder: Path) -> dict[str, list[Path]]:
        if folder not in self._listed:
            named: dict[str, list[Path]] = {}
            for path in folder.glob("*.md"):
                named.setdefault(goal_name(path.stem), []).append(path)
            self._listed[folder] = named
        return self._listed[folder]


def goal_in(text: str, path: Path, folders: Folders | None = None) -> Goal:
    """The goal that a file's text says, unless another file beside it has the same name."""
    goal = parse_goal(text, path.parent.resolve() / path.name)
    (folders or Folders()).refuse_namesake(goal)
    return goal
