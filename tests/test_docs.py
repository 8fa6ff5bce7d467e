"""What the documents quote is what the program says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.claude_cli.options import FLAGS
from ralph.config.keys import MANIFEST
from ralph.config.settings import load
from ralph.core.failures import TABLE
from ralph.core.goal import KEYS, parse_goal
from ralph.queue.manifest import read_manifest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_failure_table_of_the_readme_is_the_one_in_code() -> None:
    rows = "".join(f"| {end} | {row.meaning} | {row.policy} |\n" for end, row in TABLE.items())
    assert rows in README


def test_the_readme_lists_every_front_matter_key() -> None:
    assert f"Keys: `{', '.join(KEYS)}`" in README


def test_every_flag_the_readme_names_exists() -> None:
    helps = [
        [sys.executable, "-m", "ralph", command, "--help"] for command in ("run", "transcript", "trust", "understand")
    ]
    helps += [
        [sys.executable, "-m", "ralph.cli.runs", command, "--help"]
        for command in (
            "run",
            "work",
            "add",
            "queue",
            "list",
            "show",
            "logs",
            "comment",
            "tell",
            "pause",
            "resume",
            "stats",
            "retry",
            "cancel",
            "gc",
        )
    ]
    said = "".join(subprocess.run(argv, capture_output=True, text=True).stdout for argv in helps)
    known = {*re.findall(r"--[a-z-]+", said), "--version", "--help", "--project", "--json"}
    known |= {name for flag in FLAGS for name in flag.names}  # of ralph-claude
    assert set(re.findall(r"`[^`\n]*?(--[a-z-]+)", README)) <= known


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


def test_the_readme_says_what_a_manifest_may_hold(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[defaults\].*?)```", README, re.DOTALL)
    (tmp_path / "batch.toml").write_text(example)
    assert len(read_manifest(tmp_path / "batch.toml").entries) == 2
    assert f"`{', '.join(MANIFEST)}`" in README


def test_the_readme_lists_every_command_of_ralph_runs() -> None:
    said = subprocess.run([sys.executable, "-m", "ralph.cli.runs", "--help"], capture_output=True, text=True).stdout
    commands = re.findall(r"^  ([a-z]+) ", said.partition("Commands:")[2], re.MULTILINE)
    assert len(commands) == 17
    assert [command for command in commands if f"`ralph-runs {command}" not in README] == []
