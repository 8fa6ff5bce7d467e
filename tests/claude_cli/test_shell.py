"""What the shell reader finds, measured against bash: no program that bash would run may be missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.claude_cli.shell import Redirection, last_program, programs, read_script

_LOGS_CALLS = 'command_not_found_handle() { printf "%s\\0" "$1" >&9; return $((RANDOM % 2)); }\n'


def run_by_bash(command: str, folder: Path) -> set[str]:
    """The names of all programs that bash looks for; in an empty folder, and there are none to find."""
    log = folder.with_name(f"{folder.name}-called")
    env = {"PATH": str(folder / "none"), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    with log.open("w") as called:
        subprocess.run(
            ["/bin/bash", "--norc", "-c", f"{_LOGS_CALLS}exec 9>&3 3>&-\n{command}\n"],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[called.fileno()] if called.fileno() == 3 else [],
            preexec_fn=None if called.fileno() == 3 else lambda: _as_three(called.fileno()),
            close_fds=False,
            timeout=20,
        )
    return {name.rpartition("/")[2] for name in log.read_text("utf-8", "replace").split("\0")[:-1]}


def _as_three(number: int) -> None:
    import os

    os.dup2(number, 3)


WORDS = (
    "aa",
    "bb",
    "'c c'",
    '"d d"',
    "e\\ e",
    "-x",
    "a=b",
    "$X",
    "$HOME",
    "#",
    "a#b",
    "\\\n",
    "{",
    "}",
    "!",
    "~",
    "*",
    "'",
    '"',
)
MARKS = (
    " ",
    " ",
    " ",
    ";",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "\n",
    "(",
    ")",
    "$(",
    "`",
    "<<E\n",
    "<<'E'\n",
    "\nE\n",
    ">f",
    "2>&1",
    "<f",
)
KEYS = (
    " if ",
    " then ",
    " fi ",
    " while ",
    " do ",
    " done ",
    " for i in ",
    " case aa in ",
    " esac ",
    " time ",
    " [[ ",
    " ]] ",
)


@pytest.mark.long
@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from((*WORDS, *MARKS, *WORDS, *MARKS, *KEYS)), min_size=1, max_size=9))
def test_no_program_that_bash_runs_is_missing(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    command = "".join(pieces)
    script = read_script(command)
    if script.obstacle or any(set(part.name) & set("*~") for part in script.commands):
        return  # such a line is not judged by its commands
    seen = {part.name for part in script.commands}
    seen |= {word for part in script.commands if part.name == "time" for word in part.words}
    assert run_by_bash(command, tmp_path_factory.mktemp("sh")) <= seen, script


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls -la sub", [("ls", "-la", "sub")]),
        ("a && b; c | d\ne", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("r\\m 'a b'\"c\"d", [("rm", "a bcd")]),
        ("echo 1 >f a", [("echo", "1", "a")]),
        ("if a; then b; else c; fi", [("a",), ("b",), ("c",)]),
        ("[ -f x -a b = c ]", [("[", "-f", "x", "-a", "b", "=", "c", "]")]),
        ("A=1 b", [("A=1", "b")]),
        ("echo $(a `b`)", [("echo", "$(a `b`)"), ("a", "`b`"), ("b",)]),
        ("cat <<'E' | tee x && make\n$(id)\nE\nls", [("cat",), ("tee", "x"), ("make",), ("ls",)]),
        ("# nothing", []),
        ("", []),
    ],
)
def test_a_line_is_taken_apart(command: str, words: list[tuple[str, ...]]) -> None:
    assert [part.words for part in read_script(command).commands] == words


def test_redirections_belong_to_the_command_they_stand_at() -> None:
    first, second = read_script("cd a && ls 2>&1 > f").commands
    assert (first.redirections, second.after) == ((), "&&")
    assert second.redirections == (Redirection(">&", "1"), Redirection(">", "f"))
    assert [each.writes for each in second.redirections] == [False, True]


@pytest.mark.parametrize(
    "command",
    [
        "a\\\nb",
        "git status \r#; touch x",
        "\u00a0git status",
        "echo {PATH}>f",
        "[[ 'a[$(id)]' -eq 1 ]]",
        "cat <<'E'\n\tE\nls",
        "cat <<A <<B\n1\nA\n2\nB\nls",
        "a=(1 2)",
        "a[1]=2",
        "coproc ls",
        "\x00",
        "\ud800",
    ],
)
def test_what_the_grammar_may_read_otherwise_than_bash_is_an_obstacle(command: str) -> None:
    assert read_script(command).obstacle


@given(st.text())
def test_no_text_is_too_much_for_the_reader(text: str) -> None:
    read_script(text)


def test_letters_beyond_ascii_are_letters() -> None:
    assert read_script("{\U000fccbf").obstacle  # it crashed the grammar
    assert read_script('écho ü "ß"').commands[0].words == ("écho", "ü", "ß")


def test_programs_are_known_by_their_names() -> None:
    assert programs("FOO=1 /usr/bin/make x | grep y") == ["make", "grep"]
    assert last_program("a; b | c") == "c"
    assert last_program("") == ""


def test_the_grammar_is_loaded_when_a_command_is_read() -> None:
    code = (
        "import sys, ralph.claude_cli.session; assert not {'tree_sitter', 'pathspec'} & sys.modules.keys()\n"
        "from ralph.claude_cli.shell import read_script; read_script('ls'); assert 'tree_sitter' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
