"""A thousand lines that would take a terminal over, in all that people look at: none of them steers it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.git_repos import git, make_repo
from tests.support.goals import write_check, write_goal
from tests.support.hostile import TEXTS, steering
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, run, say, summary, write
from tests.support.terminal import RalphInTerminal

_LONGEST = 400
_PARTS = [
    part.encode("utf-8", "replace").decode().replace("\0", "")  # git takes a file with a NUL for a picture
    for text in TEXTS.values()
    for part in text[:_LONGEST].split("\n")
]
LINES = [f"{number} {_PARTS[number % len(_PARTS)]}" for number in range(1000)]
HOSTILE = "\n".join(LINES)
MARKUP = "[bold red]x[/bold red]"
ATTRIBUTES = re.compile(r"\x1b\[[0-9;]*m")


def seen(ralph: Ralph, place: Path, *args: str, code: int = 0, columns: int = 100) -> str:
    """All that a command writes to a terminal and to a pipe, after a look that nothing in it steers."""
    with RalphInTerminal(args, place, ralph.env, columns, 30) as terminal:
        assert terminal.wait() == code, terminal.said
        said = terminal.said
        assert terminal.screen.is_as_a_shell_expects
        assert terminal.screen.title == ""
    piped = ralph(*args, cwd=place)
    written = piped.stdout + piped.stderr
    assert not steering(said)
    assert not steering(written)
    assert "\x1b" not in written
    return ATTRIBUTES.sub("", said) + written


@pytest.mark.long
def test_what_an_agent_says_prints_and_writes_steers_no_view_of_a_run(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    write_check(repo, "#!/bin/sh\ncat hostile.txt\nexit 1\n")
    session = [say(HOSTILE), write("hostile.txt", f"{HOSTILE}\n"), run("cat hostile.txt; exit 1")]
    claude_script([*session, summary(f"DONE\n{HOSTILE[:4000]}")])

    with RalphInTerminal(["run", "goal.md", "--max-iterations", "1"], repo, ralph.env, 100, 30) as terminal:
        assert terminal.wait() == 4, terminal.said
        live = terminal.said
        assert terminal.screen.is_as_a_shell_expects
        assert terminal.screen.title == ""

    assert not steering(live)
    assert MARKUP in ATTRIBUTES.sub("", live)
    assert "\\x1b]0;owned" in ATTRIBUTES.sub("", live)
    for view in (["log"], ["log", "-i", "1"], ["diff"], ["diff", "-i", "1"], ["status"]):
        said = seen(ralph, repo, *view)
        assert "\\x" in said, view
    changes = seen(ralph, repo, "diff", columns=40)
    assert f"+{LINES[1]}"[:4] in changes
    assert MARKUP in changes


@pytest.mark.long
def test_what_a_repository_and_its_programs_say_steers_neither_init_nor_doctor(ralph: Ralph, bin_dir: Path) -> None:
    place = make_repo(
        ralph.repo.parent / "project", {"Makefile": "test:\n\t@cat hostile.txt; exit 1\n", "hostile.txt": HOSTILE}
    )
    said = seen(ralph, place, "init", "--yes")
    assert "\\x" in said
    git(place, "clean", "--quiet", "-fdx")
    (bin_dir / "hostile.txt").write_text(HOSTILE)
    agent = bin_dir / "claude"
    agent.write_text(f"#!/bin/sh\ncat {bin_dir}/hostile.txt\n")
    agent.chmod(0o755)
    (place / ".ralph").mkdir(exist_ok=True)
    (place / ".ralph" / "config.toml").write_text('model = "\\u001b]0;owned\\u0007\\u202e[bold red]x[/bold red]"\n')
    assert "claude" in seen(ralph, place, "doctor", code=1)
    assert MARKUP in seen(ralph, place, "config")
