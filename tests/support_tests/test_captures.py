"""The captured sessions: each has its version, and the program still tells the same story."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.agents.captures import captures_of
from tests.support import captures, tools
from tools import fetch

LISTED: dict[str, dict[str, list[str]]] = tomllib.loads(captures.VERSIONS.read_text())


@pytest.mark.parametrize("agent", captures.AGENTS)
def test_every_capture_is_listed_once_with_its_version(agent: str) -> None:
    listed = [file for files in LISTED[agent].values() for file in files]
    assert sorted(listed) == sorted(path.name for path in captures_of(agent))


@pytest.mark.parametrize("agent", captures.AGENTS)
def test_every_story_is_told_by_the_pinned_version(agent: str) -> None:
    version = fetch.pinned()[agent].version
    told = {captures.file_of(agent, version, story) for story in captures.AGENTS[agent]}
    assert told == set(LISTED[agent][version]), "run tests/fixtures/regenerate"


def test_captures_are_small() -> None:
    assert sum(path.stat().st_size for agent in captures.AGENTS for path in captures_of(agent)) < 400_000


def test_no_capture_names_a_machine() -> None:
    for path in captures.FIXTURES.rglob("*.*"):
        if "before_restructuring" not in path.parts:  # no captures; what records them looks for names itself
            assert not re.search(r"/root|capture-|/home/(?!u/)", path.read_text()), path


@pytest.mark.parametrize(
    ("agent", "story"), [("claude", "schema-violation.ndjson"), ("codex", "human.txt"), ("codex", "usage-limit.ndjson")]
)
def test_a_story_told_again_is_the_same_but_for_ids_and_times(agent: str, story: str) -> None:
    program = tools.find(agent)
    version = fetch.pinned()[agent].version
    with captures.new_world(program) as world:
        again = captures.AGENTS[agent][story](world)
    kept = (captures.FIXTURES / agent / captures.file_of(agent, version, story)).read_text()
    assert without_ids(again) == without_ids(kept)


def without_ids(printed: str) -> str:
    """What is printed with every number and id as a mere letter."""
    printed = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "I", printed)
    return re.sub(r"\d+(\.\d+)?", "N", printed)


def test_what_names_the_machine_is_replaced(tmp_path: Path) -> None:
    world = captures.World(tmp_path / "bin" / "tool", tmp_path)
    said = f"{tmp_path}/repo/a {tmp_path}/home/.x {tmp_path}/schema.json http://127.0.0.1:4242/v1"
    assert world.scrub(said, "http://127.0.0.1:4242") == (
        "/srv/repo/a /home/u/.x /tmp/schema.json http://127.0.0.1:8080/v1"
    )
