"""What a shell offers where a goal, an id or a value is expected.

typer completes commands and flags, and brings the code for bash, zsh and fish. Nothing here writes anything; whatever
fails leaves the shell without an offer (`program.leave_with`), and the shell then completes files.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ralph.state.known_runs import KnownRun

Offers = list[tuple[str, str]]
"""Words, each with what zsh and fish show beside it."""

_MOST = 200
_PLAIN = re.compile(r"[\w./@+][\w./@+-]*")
"""Words that every shell takes as they are: typer 0.28 gives them to `eval` in zsh, unquoted to bash."""
_SHOWN = str.maketrans({"'": "\u2019", "\n": " ", "\t": " "})
_UNSAFE = re.compile(r"[^\w .,;?!()/+@=&#\u2019\u2026-]")
"""What may not stand in the text beside a word, for the same reason."""
_LONGEST = 60
_DEEP, _ENTRIES = 3, 5_000
"""How far below a folder goal files are looked for: so many folders deep, and so many entries."""
_READ = 64 * 1024
"""Bytes of a Markdown file that show whether it is a goal."""
_OBJECTIVE = re.compile(r"^ {0,3}##[ \t]+objective[ \t#]*$", re.IGNORECASE | re.MULTILINE)
_TITLE = re.compile(r"^ {0,3}#[ \t]+(.*)$", re.MULTILINE)


def goal_files(incomplete: str) -> Offers:
    """Offer the Markdown files with an objective."""
    return _offered(_goals_below(_folder(incomplete)), incomplete)


def sources(incomplete: str) -> Offers:
    """Offer what `ralph-runs add` takes: goal files, folders of them, and a batch.toml."""
    folder = _folder(incomplete)
    goals = list(_goals_below(folder))
    folders = dict.fromkeys(f"{place}/" for path, _ in goals if (place := path.rpartition("/")[0]) + "/" != folder)
    manifests = [(path, "many goals") for path in _files_below(folder) if path.rpartition("/")[2] == "batch.toml"]
    return _offered([*goals, *((place, "goals") for place in folders if place != "/"), *manifests], incomplete)


def live_runs(incomplete: str) -> Offers:
    """Offer the goals that ralph is working on."""
    from ralph.state.known_runs import known_runs

    return _offered(_named(known_runs().live()), incomplete)


def known_runs(incomplete: str) -> Offers:
    """Offer the goals with a run that is live, or in this repository."""
    from ralph.state.known_runs import known_runs

    return _offered(_named(known_runs().known()), incomplete)


def past_runs(incomplete: str) -> Offers:
    """Offer the goals with a run in this repository, archived ones included."""
    from ralph.state.known_runs import known_runs

    known = known_runs()
    return _offered([*_named(known.known_here()), *_named(known.archived_here())], incomplete)


def queued_goals(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the ids of a queue's goals, and once there are letters the names as well."""
    from ralph.queue.glance import glance

    goals = glance(ctx.params.get("db"))
    ids = [(goal.label, f"{goal.title} ({goal.state})") for goal in goals]
    names = [(goal.name, f"{goal.label}, {goal.state}") for goal in goals] if incomplete else []
    return _offered([*ids, *names], incomplete)


def choices(setting: str) -> Callable[[str], Offers]:
    """Return what offers the values of a setting, if it takes only some words."""

    def offer(incomplete: str) -> Offers:
        from ralph.config.keys import choices_of

        return _offered(((word, "") for word in choices_of(setting)), incomplete)

    return offer


def setting_names(incomplete: str) -> Offers:
    """Offer the names of the settings."""
    from ralph.config.keys import KEYS

    return _offered(((name, key.help) for name, key in KEYS.items()), incomplete)


def setting_values(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the values of the setting that is named before."""
    return choices(str(ctx.params.get("key")))(incomplete)


def goal_states(incomplete: str) -> Offers:
    """Offer the states that a goal of a queue can be in."""
    from ralph.queue.goals import State

    return _offered(((state, "") for state in State), incomplete)


def _offered(words: Iterable[tuple[str, str]], incomplete: str) -> Offers:
    found = {
        word: _UNSAFE.sub("", shown.translate(_SHOWN))[:_LONGEST].strip()
        for word, shown in words
        if word.startswith(incomplete) and _PLAIN.fullmatch(word)
    }
    return list(found.items())[:_MOST]


def _named(runs: "Iterable[KnownRun]") -> Iterator[tuple[str, str]]:
    return ((run.goal, f"{'live, ' if run.is_live else ''}{run.goal_path}") for run in runs)


def _folder(incomplete: str) -> str:
    return incomplete[: incomplete.rfind("/") + 1]


def _goals_below(folder: str) -> Iterator[tuple[str, str]]:
    """Yield goal files with their titles."""
    for path in _files_below(folder):
        if path.endswith(".md"):
            with open(path, "rb") as file:  # noqa: PTH123 - as it is typed
                text = file.read(_READ).decode("utf-8", "replace")
            if _OBJECTIVE.search(text):
                title = _TITLE.search(text)
                yield path, title[1] if title else ""


def _files_below(folder: str) -> Iterator[str]:
    """Yield the files below a folder as they are typed from here, the nearest first; hidden ones are left out."""
    left = _ENTRIES
    folders = deque([(folder, 0)])
    while folders:
        place, depth = folders.popleft()
        try:
            with os.scandir(place or ".") as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:  # a folder that is not ours to read
            continue
        for entry in entries[:left]:
            if entry.name.startswith("."):
                continue
            if entry.is_file():
                yield place + entry.name
            elif depth < _DEEP and entry.is_dir(follow_symlinks=False):
                folders.append((f"{place}{entry.name}/", depth + 1))
        left -= min(left, len(entries))
