"""The command that goes on with a run, made from the flags that the run was given."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from ralph.run.prepare import RunFlags, command_again

PLAIN = RunFlags(Path("goal.md"), None, None, None, *[False] * 9)


@pytest.mark.parametrize(
    ("flags", "written", "command"),
    [
        (PLAIN, {}, "ralph run goal.md"),
        (PLAIN, {"max_cost": "0.06", "require_check": True}, "ralph run goal.md --max-cost 0.06 --require-check"),
        (PLAIN, {"check": "make test"}, "ralph run goal.md --check 'make test'"),
        (replace(PLAIN, goal=Path("-x.md")), {}, "ralph run ./-x.md"),
        (
            replace(PLAIN, repo="../there", branch="b", resume=True, no_check=True, allow_dirty=True, json=True),
            {},
            "ralph run goal.md --repo ../there --branch b --continue --no-check --allow-dirty --json",
        ),
        (replace(PLAIN, quiet=True), {}, "ralph run goal.md --quiet"),
        (replace(PLAIN, verbose=True), {}, "ralph run goal.md --verbose"),
    ],
)
def test_every_flag_is_given_again(flags: RunFlags, written: dict[str, object], command: str) -> None:
    assert command_again(flags, written) == command
    assert shlex.split(command)[:2] == ["ralph", "run"]


def test_what_begins_anew_or_trusts_is_not_said_again() -> None:
    assert command_again(replace(PLAIN, fresh=True, trust_envrc=True), {}) == "ralph run goal.md"
