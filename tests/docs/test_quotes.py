"""What the pages quote is what the program says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.agents.base import OWN_TRANSCRIPTS
from ralph.config.keys import KEYS, variable
from ralph.config.settings import load
from ralph.core import goal
from ralph.core.goal import parse_goal
from ralph.queue.goals import MergeMode, State
from ralph.queue.manifest import read_manifest
from ralph.system.notify import Occasion
from tests.docs.programs import commands, flags, messages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXTS = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
OF_OTHERS = {
    "--force",
    "--upgrade",
    "--oneline",
    "--stat",
    "--hard",
    "--squash",
    "--merges",
    "--first-parent",
    "--init",
}
OF_OTHERS |= {"--userns"}
"""Flags of git, uv, pip, docker and podman that pages name by themselves."""
VARIABLES = {"RALPH_DIR", "RALPH_DEMO_SCRIPT", "RALPH_RUBY", *map(variable, KEYS)}


def typed(text: str) -> Iterator[str]:
    """What a page shows as code: each line of a block, and each span."""
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from re.sub(r"\\\n\s*", "", block).splitlines()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_command_that_a_page_shows_exists_with_its_flags(page: Path) -> None:
    known = flags()
    faults: list[str] = []
    for line in typed(page.read_text()):
        for shown in re.findall(r"(?:^|[;&|$] ?)((?:ralph|ralph-runs|ralph-claude)(?: .*)?$)", line):
            words = re.split(r" {2,}#| \| | && ", shown)[0].split()
            name = next((name for name in (" ".join(words[:3]), " ".join(words[:2])) if name in known), words[0])
            if name == words[0] and words[1:] and re.fullmatch(r"[a-z]+", words[1]) and name != "ralph-claude":
                faults.append(f"{shown}: no such command")
            faults += [f"{shown}: {flag}" for flag in _flags(shown) if flag not in known[name]]
    assert faults == []


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_flag_setting_and_variable_that_a_page_names_exists(page: Path) -> None:
    known = {flag for each in flags().values() for flag in each} | OF_OTHERS
    spans = [span for span in typed(page.read_text()) if not re.match(r"ralph|docker|git|uv|pip", span)]
    text = page.read_text()
    unknown = [span for span in spans if span.startswith("--") and not set(_flags(span)) <= known]
    unknown += [name for name in re.findall(r"\b(?:agents|modes)\.(?!md)[a-z_.]*[a-z]\b", text) if not _is_key(name)]
    unknown += [name for name in re.findall(r"\bRALPH_[A-Z_]+[A-Z]\b", text) if name not in VARIABLES]
    assert unknown == []


def _is_key(name: str) -> bool:
    return any(f"{key}.".startswith(f"{name}.") for key in KEYS)


def _flags(text: str) -> list[str]:
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "''", text)
    return re.findall(r"(?<!\S)(--[a-z][a-z-]+)", unquoted)


def test_every_command_is_on_some_page() -> None:
    shown = " ".join(f"{line} " for page in TEXTS for line in typed(page.read_text()))
    groups = {"ralph", "ralph-runs"}
    assert [name for name in commands() if name not in groups and f"{name} " not in shown] == []


def test_the_page_on_goals_lists_every_key_of_front_matter() -> None:
    listed = re.findall(r"^\| (`[a-z_`, ]+) \|", (DOCS / "goals.md").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`([a-z_]+)`", " ".join(listed))) == sorted(goal.KEYS)


@pytest.mark.spec("2.7-i")
def test_the_page_on_agents_says_how_each_is_read() -> None:
    _, table = (DOCS / "agents.md").read_text().split("| transcript | reads | default for |")
    said = re.findall(r"^\| `([a-z0-9]+)` \|[^|]*\|([a-z, -]*)\|", table, re.MULTILINE)
    assert {
        agent.strip(): name for name, agents in said for agent in agents.split(",") if agent.strip()
    } == OWN_TRANSCRIPTS


def test_the_examples_of_goals_and_of_a_manifest_are_read(tmp_path: Path) -> None:
    blocks = re.findall(r"```markdown\n(.*?)```", (DOCS / "goals.md").read_text(), re.DOTALL)
    whole, head = blocks
    assert parse_goal(whole, Path("startup.md")).title == "Faster start-up"
    assert parse_goal(f"{head}\n## Objective\nx\n", Path("startup.md")).front_matter["max_iterations"] == 20
    (manifest,) = re.findall(r"```toml\n(\[defaults\].*?)```", (DOCS / "many-goals.md").read_text(), re.DOTALL)
    (tmp_path / "batch.toml").write_text(manifest)
    assert len(read_manifest(tmp_path / "batch.toml").entries) == 2


@pytest.mark.parametrize(
    ("page", "words"), [("many-goals.md", State), ("many-goals.md", MergeMode), ("steering.md", Occasion)]
)
def test_a_table_lists_every_word(page: str, words: type[State]) -> None:
    rows = re.findall(r"^\| `([a-z]+)` \|", (DOCS / page).read_text(), re.MULTILINE)
    assert set(words) <= set(rows)


def test_every_message_of_the_page_on_troubleshooting_is_one_of_ralph() -> None:
    rows = re.findall(r"^\| (`+.*?`+(?:, `.*?`)*) \|", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    quoted = [text.strip("` ") if "``" in row else text for row in rows for text in _spans(row)]
    said = "\n".join(re.sub(r"\s+", " ", text) for _, text in messages())
    assert len(quoted) > 30
    assert [text for text in quoted if text.strip() not in said] == []


def _spans(row: str) -> list[str]:
    return [row.strip("` ")] if row.startswith("``") else re.findall(r"`([^`]+)`", row)


def test_the_example_configuration_is_valid(tmp_path: Path) -> None:
    (tmp_path / ".ralph").symlink_to(ROOT / ".ralph.example")
    settings = load(env={}, root=tmp_path)
    assert settings.limits.iterations == 30
    assert not settings.notes


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "goals").glob("*.md")), ids=lambda path: path.name)
def test_the_example_goals_are_goals(path: Path) -> None:
    assert parse_goal(path.read_text(), path).title


def test_the_example_batch_is_one() -> None:
    entries = read_manifest(ROOT / "examples" / "batch" / "batch.toml").entries
    assert sorted(entry.file for entry in entries) == sorted((ROOT / "examples" / "batch" / "goals").glob("*.md"))
