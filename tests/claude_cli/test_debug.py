"""The lines of --debug: which are told, how they look, and what is never in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ralph.claude_cli.debug import QUIET, Debug, debug_of
from ralph.claude_cli.flags import parse

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[DEBUG\] \[(\w+)\] (.+)")


def told(debug: Debug) -> list[str]:
    """The categories that it lets through."""
    for category in ("api", "hooks", "mcp", "permissions"):
        debug.tell(category, "a fact")
    assert debug.file is not None
    lines = debug.file.read_text().splitlines() if debug.file.exists() else []
    return [found[1] for line in lines if (found := LINE.fullmatch(line))]


@pytest.mark.spec("4.1.1-m", "4.6-bc")
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--debug"], ["api", "hooks", "mcp", "permissions"]),
        ([], ["api", "hooks", "mcp", "permissions"]),
        (["--debug", "api,mcp"], ["api", "mcp"]),
        (["--debug=API, hooks"], ["api", "hooks"]),
        (["-d", "hooks", "--debug", "mcp"], ["hooks", "mcp"]),
        (["--debug", "!api,!hooks"], ["mcp", "permissions"]),
        (["--debug", "api,mcp,!mcp"], ["api"]),
        (["--debug=,"], ["api", "hooks", "mcp", "permissions"]),
        (["--debug", "nonesuch"], []),
    ],
)
def test_categories_are_chosen_or_left_out(flags: list[str], expected: list[str], tmp_path: Path) -> None:
    assert told(debug_of(parse([*flags, "--debug-file", "log"]), tmp_path)) == expected


def test_without_a_flag_nothing_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for quiet in (QUIET, debug_of(parse(["--debug-file", ""]), tmp_path)):
        quiet.tell("api", "a fact")
    assert capfd.readouterr() == ("", "")


@pytest.mark.spec("4.6-d")
def test_it_goes_to_standard_error_and_there_before_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for flags in (["-d"], ["-d2e"], ["--debug-to-stderr", "--debug-file", "log"]):
        debug_of(parse(flags), tmp_path).tell("mcp", "a fact", id=1)
        out, err = capfd.readouterr()
        assert (out, bool(LINE.fullmatch(err.rstrip("\n"))), err[-16:]) == ("", True, "[mcp] a fact id=1\n"[-16:])
    assert list(tmp_path.iterdir()) == []


def test_a_fact_is_one_line_that_no_terminal_obeys_and_no_password_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "log"
    said = "no\x1b[2J\nanswer from https://me:pass@host/mcp?token=abc 'x'"
    Debug(is_on=True, file=file).tell("mcp", said, more="\ud800é")
    found = LINE.fullmatch(file.read_text().rstrip("\n"))
    assert found
    assert found[2] == "no\\x1b[2J\\nanswer from https://host/mcp?*** 'x' more=\\ud800é"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_is_appended_to_and_its_folder_is_made(tmp_path: Path) -> None:
    debug = debug_of(parse(["--debug-file", "new/log"]), tmp_path)
    for _ in range(2):
        assert debug.begin() == ""
        debug.tell("api", "a fact")
    assert len((tmp_path / "new" / "log").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("name", "cause"),
    [(".", "Is a directory"), ("file/log", "Not a directory"), ("x" * 300, "File name too long")],
)
def test_a_file_that_cannot_be_written_is_named_and_disturbs_nothing(name: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    debug = debug_of(parse(["--debug-file", name]), tmp_path)
    assert debug.begin() == f"ralph-claude: cannot write debug output to {tmp_path / name}: {cause}"
    debug.tell("api", "a fact")
