"""A goal's file, read from the disk by the same rules whoever pursues it: one run, or a queue of them."""

from pathlib import Path

from ralph.errors import UsageError
from ralph.goal import Goal, goal_name, parse_goal

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


def goal_in(text: str, path: Path) -> Goal:
    """The goal that a file's text says, unless another file beside it has the same name."""
    goal = parse_goal(text, path.parent.resolve() / path.name)
    _refuse_namesake(goal)
    return goal


def _refuse_namesake(goal: Goal) -> None:
    """Two goals of one name in one place would share a run, a branch and a clone."""
    for other in goal.path.parent.glob("*.md"):
        if other.name != goal.path.name and goal_name(other.stem) == goal.name and not other.samefile(goal.path):
            raise UsageError(f"{goal.path} and {other} have one name, {goal.name}", "rename one of them")
