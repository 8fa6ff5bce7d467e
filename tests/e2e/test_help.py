"""Help and usage errors of both programs: grouped, with examples, whole in every terminal, and alike."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ralph.cli import main, runs
from ralph.cli.help import GROUPS
from tests.support.hostile import steering
from tests.support.ralph_process import Ralph
from tests.support.terminal import RalphInTerminal

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
MODULES = {"ralph": "ralph", "ralph-runs": "ralph.cli.runs"}
LONGEST_SUMMARY = 60
"""Characters that fit beside the longest name of a command, in a frame of 80 columns."""


def commands(app: typer.Typer, name: str) -> Iterator[tuple[list[str], TyperCommand | TyperGroup]]:
    """Every command below a program, with the words that call it."""

    def below(path: list[str], group: TyperGroup) -> Iterator[tuple[list[str], TyperCommand | TyperGroup]]:
        for word, command in group.commands.items():
            assert isinstance(command, TyperCommand | TyperGroup)
            if command.hidden:  # an old name that scripts still use
                continue
            yield [*path, word], command
            if isinstance(command, TyperGroup):
                yield from below([*path, word], command)

    root = get_command(app)
    assert isinstance(root, TyperGroup)
    yield from below([name], root)


ALL = [*commands(main.app, "ralph"), *commands(runs.app, "ralph-runs")]


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_has_a_group_a_short_summary_and_two_examples(
    path: list[str], command: TyperCommand | TyperGroup
) -> None:
    assert command.rich_help_panel in GROUPS
    first, _, rest = (command.help or "").partition("\n")
    assert 0 < len(first) <= LONGEST_SUMMARY
    assert not rest or rest.startswith("\n"), "the summary must be a line of its own"
    examples = (command.epilog or "").splitlines()
    assert len(examples) == 2
    flags = {flag for parameter in command.params for flag in parameter.opts if flag.startswith("-")}
    for example in examples:
        words = shlex.split(example.rpartition("| ")[2])
        assert words[: len(path)] == path or isinstance(command, TyperGroup)
        if words[: len(path)] == path and not command.context_settings.get("ignore_unknown_options"):
            assert {word for word in words if word.startswith("-") and word != "-"} <= flags


@pytest.mark.parametrize("program", MODULES)
def test_help_in_a_pipe_is_plain_and_folded_and_loads_no_rich(program: str, ralph: Ralph) -> None:
    run = Ralph(ralph.repo, ralph.env, MODULES[program])
    for args in ([], ["run"], ["add" if program == "ralph-runs" else "config"]):
        said = run(*args, "--help", env={"FORCE_COLOR": "1"})
        assert said.exit_code == 0
        assert said.stdout.startswith(f"usage: {program} ")
        assert "\x1b" not in said.stdout
        assert "│" not in said.stdout
        assert max(map(len, said.stdout.splitlines())) <= 80
    module = "ralph.cli.main" if program == "ralph" else MODULES[program]
    code = f"import sys, {module}\n{module}.app(['run', '--help'], standalone_mode=False)\nprint('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=ralph.env)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_help_in_a_terminal_cuts_nothing(columns: int, ralph: Ralph) -> None:
    with RalphInTerminal(["--help"], ralph.repo, ralph.env, columns, 100, MODULES["ralph-runs"]) as terminal:
        assert terminal.wait() == 0
        said, rows = terminal.said, terminal.rows
    assert "\x1b[36m" in said
    assert not steering(said)
    assert "…" not in said
    assert max(map(len, rows)) == min(columns, 100)
    text = " ".join(" ".join(row.strip("│╭╮╰╯─ ") for row in rows).split())
    titles = [text.index(f" {group} ") for group in GROUPS]
    assert titles == sorted(titles)
    for path, command in commands(runs.app, "ralph-runs"):
        assert f" {path[1]} {(command.help or '').partition(chr(10))[0]} " in f"{text} "


@pytest.mark.parametrize(
    ("env", "has_frames", "has_escapes"),
    [
        ({"NO_COLOR": "1"}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({"CI": "true"}, False, False),
        ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, False, False),
    ],
    ids=["no colour", "dumb", "CI", "ASCII"],
)
def test_help_suits_the_terminal(env: dict[str, str], has_frames: bool, has_escapes: bool, ralph: Ralph) -> None:
    with RalphInTerminal(["run", "--help"], ralph.repo, {**ralph.env, **env}, 100) as terminal:
        assert terminal.wait() == 0
        said = terminal.said
    assert ("│" in said) is has_frames
    assert ("\x1b" in said) is has_escapes
    assert not re.search(r"\x1b\[3[0-9]m", said)
    assert "--max-cost USD" in said


USAGE = [
    ("ralph", ["run", "--max-cots", "5"], "no such option: --max-cots (did you mean --max-cost?)", "ralph run --help"),
    ("ralph", ["run", "a", "b"], "got unexpected extra argument(s) (b)", "ralph run --help"),
    ("ralph", ["run", "--max-cost"], "option '--max-cost' requires an argument", "ralph run --help"),
    ("ralph", ["statsu"], "no such command: statsu (did you mean status?)", "ralph --help"),
    ("ralph", ["--nonsense"], "no such option: --nonsense", "ralph --help"),
    ("ralph", ["config", "sett"], "no such command: sett (did you mean set?)", "ralph config --help"),
    ("ralph", ["tell"], "missing argument '[GOAL] TEXT'", "ralph tell --help"),
    ("ralph-runs", ["add"], "missing argument 'GOAL...'", "ralph-runs add --help"),
    ("ralph-runs", ["lits"], "no such command: lits (did you mean list?)", "ralph-runs --help"),
    ("ralph-runs", ["list", "--\x1b]0;x\x07"], "no such option: --\\x1b]0;x\\x07", "ralph-runs list --help"),
]


@pytest.mark.parametrize(("program", "args", "message", "hint"), USAGE)
def test_bad_usage_is_refused_alike(program: str, args: list[str], message: str, hint: str, ralph: Ralph) -> None:
    done = Ralph(ralph.repo, ralph.env, MODULES[program])(*args)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {message}\n\nhint: {hint}\n")


@pytest.mark.parametrize("program", MODULES)
def test_errors_and_hints_stand_out_in_a_terminal(program: str, ralph: Ralph) -> None:
    for env, error in (
        ({}, "\x1b[1;31merror:\x1b[0m"),
        ({"NO_COLOR": "1"}, "\x1b[1merror:\x1b[0m"),
        ({"CI": "1"}, "error:"),
    ):
        with RalphInTerminal(["nonsense"], ralph.repo, {**ralph.env, **env}, module=MODULES[program]) as terminal:
            assert terminal.wait() == 2
            assert terminal.said.startswith(f"{error} no such command: nonsense\r\n\r\n")
            assert ESCAPES.sub("", terminal.said).endswith(f"hint: {program} --help\r\n")


@pytest.mark.parametrize("program", MODULES)
def test_without_a_command_the_help_goes_to_stderr(program: str, ralph: Ralph) -> None:
    run = Ralph(ralph.repo, ralph.env, MODULES[program])
    done = run()
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == run("--help").stdout
