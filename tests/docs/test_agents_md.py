"""The map is short, and every place on it exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "AGENTS.md").read_text()
LONGEST = 90
"""Lines."""
FAR = 12
"""Files that an event passes on its way to the screen, at most."""


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def modules(text: str) -> Iterator[tuple[str, Path]]:
    """Yield the modules that a text names; one without a folder is in that of the module before it."""
    folder = Path()
    for words in quoted(text):
        path = ROOT / "ralph" / f"{words}.py"
        if "/" in words and path.parent.is_dir():
            folder = path.parent
            yield words, path
        elif (folder / f"{words}.py").is_file():
            yield words, folder / f"{words}.py"


def test_the_map_is_short() -> None:
    assert len(TEXT.splitlines()) <= LONGEST


@pytest.mark.parametrize("path", ["The path of an event", "The path of a goal, from `add` to main"])
def test_every_step_of_a_path_exists(path: str) -> None:
    steps = [*modules(sections()[path])]
    assert len(steps) >= 8
    assert not [step for step, file in steps if not file.is_file()]


def test_an_event_takes_few_steps() -> None:
    others_of_its_kind = {"codex_stream"}  # an event passes the stream of one agent
    steps = [step for step, _ in modules(sections()["The path of an event"]) if step not in others_of_its_kind]
    assert len(steps) <= FAR, steps


@pytest.mark.parametrize(
    "row",
    [line for line in sections()["Where to look"].splitlines() if line.startswith("| ")],
    ids=lambda row: row[2:40],
)
def test_every_answer_names_what_exists(row: str) -> None:
    answer = row.split(" | ")[1]
    found = [*modules(answer)]
    assert not [name for name, file in found if not file.is_file() and "NAME" not in name]
    texts = "".join(file.read_text() for _, file in found if file.is_file())
    names = [words for words in quoted(answer) if words.isidentifier()]
    known = {name for name, _ in found}
    assert not [name for name in names if name not in known and name not in texts]
