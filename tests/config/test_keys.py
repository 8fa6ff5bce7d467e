"""The table of settings is what users meet: in `ralph config`, in flags, in the environment and in the reference."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from ralph.config.keys import KEYS, MANIFEST, flag, variable
from ralph.config.settings import load
from ralph.core import goal
from tests.support.ralph_process import Ralph

COMMANDS = {
    "run": ("ralph", "run"),
    "understand": ("ralph", "understand"),
    "plan": ("ralph", "plan"),
    "pipe": ("ralph", "pipe"),
    "ask": ("ralph", "ask"),
    "check": ("ralph", "check"),
    "add": ("ralph.cli.runs", "add"),
    "work": ("ralph.cli.runs", "work"),
}
FOR_THE_WHOLE_QUEUE = {"db"}
"""A flag of every command of `ralph-runs`."""
FOR_ALL_GOALS = {"work": {"max", "max_cost", "max_tokens"}, "check": {"check"}}
"""Flags for all goals of a queue together; the settings of these names, but for `max`, are for each goal."""


def test_ralph_config_shows_every_key_in_the_order_of_the_table(ralph: Ralph) -> None:
    assert list(json.loads(ralph("config", "--json").stdout)) == list(KEYS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_flags_that_the_table_gives_it(command: str) -> None:
    argv = [sys.executable, "-m", *COMMANDS[command], "--help"]
    said = subprocess.run(argv, capture_output=True, text=True).stdout
    shown = set(re.findall(r"^  (--[a-z-]+)", said, re.MULTILINE))
    wanted = {name for name, key in KEYS.items() if command in key.flags}
    others = FOR_THE_WHOLE_QUEUE | FOR_ALL_GOALS.get(command, set())
    assert {name for name in KEYS if flag(name) in shown} - others == wanted
    assert {command for key in KEYS.values() for command in key.flags} == set(COMMANDS)


def test_every_value_is_read_from_its_variable_into_its_field() -> None:
    for name, key in KEYS.items():
        if key.default not in (None, "", []):
            loaded = load(env={variable(name): str(key.default)})
            kept: object = loaded
            for part in (key.at or name).split("."):
                kept = getattr(kept, part)
            assert loaded.values[name].source == "environment"
            assert kept == loaded.values[name].value == key.parse(key.default), name


def test_front_matter_and_manifests_hold_only_settings_that_exist() -> None:
    of_the_goal = {"title", "repo", "branch", "after", "priority", "merge"}
    assert set(goal.KEYS) - of_the_goal <= set(KEYS)
    assert set(goal.KEYS) - of_the_goal - {"check", "tests", "protect"} <= set(MANIFEST)
