"""ClaudeSettings files: which apply, what is wrong with them, and what a stranger's may decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from ralph.claude_cli.flags import BadUsage
from ralph.claude_cli.settings import ClaudeSettings, read_settings
from tests.support.rows import rows

DROPPED = "These settings files did not load, so nothing in them is in effect, including hooks and permission rules."


@pytest.fixture
def home(world: Path) -> Path:
    return world / "home"


def write(path: Path, **values: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))


def trust(home: Path, folder: Path) -> None:
    (home / ".claude.json").write_text(json.dumps({"projects": {str(folder): {"hasTrustDialogAccepted": True}}}))


def read(home: Path, cwd: Path, given: str = "") -> ClaudeSettings:
    return read_settings({"HOME": str(home)}, cwd, given=given)


@pytest.mark.spec("4.1.6-d")
def test_the_strongest_file_wins_and_directories_add_up(home: Path, here: Path) -> None:
    write(home / ".claude/settings.json", model="opus", env={"A": "user", "B": "user"})
    write(here / ".claude/settings.json", model="haiku", env={"A": "project"})
    write(here / ".claude/settings.local.json", permissions={"additionalDirectories": ["/x"]})
    trust(home, here)
    found = read(home, here, '{"env": {"B": "flag", "N": 3}, "permissions": {"additionalDirectories": ["/y"]}}')
    assert found.model == "haiku"
    assert found.directories == ("/x", "/y")
    assert found.for_itself({"C": "own"}) == {"A": "project", "B": "flag", "N": "3", "C": "own"}
    assert found.notes == ()


def test_a_stranger_chooses_neither_endpoint_nor_provider(home: Path, here: Path) -> None:
    address = {"ANTHROPIC_BASE_URL": "http://elsewhere"}
    write(here / ".claude/settings.json", model="scripted:evil.json", env=address)
    found = read(home, here)
    assert found.model == ""
    assert found.for_itself({}) == {}
    assert found.for_commands({}) == address
    assert found.notes == (
        "Ignoring model from .claude/settings.json: this workspace has not been trusted.",
        "Ignoring ANTHROPIC_BASE_URL from .claude/settings.json for everything but commands: this workspace has not "
        "been trusted.",
    )
    trust(home, here)
    assert read(home, here).for_itself({}) == address


FAULTS = {
    "not JSON": ("{nope", ": Invalid or malformed JSON"),
    "a list": ("[]", ": Expected object, but received array"),
    "not UTF-8": ("\xff", ": Invalid or malformed JSON"),
    "a model that is a number": ('{"model": 3}', " (model): Expected string, but received number"),
    "an environment that is a list": ('{"env": []}', " (env): Expected record, but received array"),
    "rules that are no list": (
        '{"permissions": {"allow": "Bash"}}',
        " (permissions.allow): Expected array, but received string",
    ),
    "an event without a list": (
        '{"hooks": {"Stop": 3}}',
        " (hooks.Stop): Expected array, but received number",
    ),
    "a hook of no known type": (
        '{"hooks": {"Stop": [{"hooks": [{"type": "cmd"}]}]}}',
        " (hooks.Stop.0.hooks.0.type): Invalid discriminator value. Expected 'command' | 'prompt' | 'agent' | "
        "'http' | 'mcp_tool'",
    ),
}


@rows(["content", "fault"], FAULTS.values(), ids=list(FAULTS))
def test_a_file_with_a_fault_has_no_effect_and_is_named(home: Path, here: Path, content: str, fault: str) -> None:
    path = home / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode("latin-1"))
    found = read(home, here)
    assert found.files == ()
    [note] = found.notes
    assert note.startswith(DROPPED)
    assert note.splitlines()[1:] == [f"  {path}{fault}"]


def test_a_settings_file_that_is_missing_is_refused(home: Path, here: Path) -> None:
    with pytest.raises(BadUsage, match="Error: Settings file not found: "):
        read(home, here, "none.json")


def test_keys_without_effect_are_named_once(home: Path, here: Path) -> None:
    write(home / ".claude/settings.json", statusLine={}, permissions={"allow": [], "disableAutoMode": True})
    found = read(home, here, '{"statusLine": {}, "outputStyle": "x"}')
    assert found.notes == (
        "ralph-claude: these settings have no effect here: statusLine, permissions.disableAutoMode, outputStyle",
    )


JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.floats() | strategies.text(),
    lambda each: strategies.lists(each) | strategies.dictionaries(strategies.text(), each),
)
KEYS = strategies.sampled_from(["model", "env", "permissions", "hooks", "disableAllHooks", "other"])


@settings(max_examples=60, deadline=None)
@given(strategies.dictionaries(KEYS, JSON))
def test_no_settings_make_it_crash(values: dict[str, object]) -> None:
    found = read_settings({"HOME": "/nonexistent"}, Path("/nonexistent"), given=json.dumps(values))
    assert isinstance(found.model, str)
    assert all(isinstance(value, str) for value in found.for_commands({}).values())
