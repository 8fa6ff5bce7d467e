"""Completion in the real bash, zsh and fish: `--install-completion`, then TAB in a new shell."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import typer

from ralph.cli.completion import queued_goals
from tests.support.batches import Batch
from tests.support.postgres import Postgres
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary
from tests.support.shells import Shell, shell

TITLE = "The answer is 42"
HOSTILE = "\\$(touch pwned) `touch pwned` 'a' \"b\" \\"
"""What a shell would execute: typer escapes the dollar for zsh, and not the backslash before it."""


@pytest.fixture(params=["bash", "zsh", "fish"])
def real_shell(request: pytest.FixtureRequest, ralph: Ralph, bin_dir: Path) -> Shell:
    """A shell in which completion was installed for both programs, as the documentation says."""
    found = shell(str(request.param), ralph.env, bin_dir)
    with found.opened(ralph.repo) as terminal:
        terminal.does("ralph --install-completion")
        terminal.does("ralph-runs --install-completion")
    return found


def write_goal(place: Path, title: str) -> Path:
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"# {title}\n\n## Objective\nDo it.\n")
    return place


_READERS = ".sqlite-shm"
"""Where SQLite notes who reads a file that has a log beside it."""


def contents(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file() and path.suffix != _READERS}


def queue(ralph: Ralph, *goals: Path) -> None:
    runs = Ralph(ralph.repo, ralph.env, "ralph.cli.runs")
    done = runs("add", *map(str, goals), "--repo", str(ralph.repo), "--merge", "none")
    assert done.exit_code == 0, done


def test_goals_ids_and_values_are_completed_and_nothing_is_written(
    real_shell: Shell, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    goal = write_goal(ralph.repo / "goals" / "forty-two.md", TITLE)
    claude_script([summary("DONE")])
    assert ralph("run", "goals/forty-two.md", "--no-check").exit_code == 0
    queue(ralph, goal, write_goal(ralph.repo / "goals" / "second.md", "Another goal"))
    write_goal(ralph.repo / "third.md", "A goal elsewhere")
    before = contents(Path(ralph.env["RALPH_DIR"]))

    with real_shell.opened(ralph.repo) as terminal:
        if real_shell.name == "zsh":  # the first TAB in a new one only loads what typer 0.28 installed
            terminal.completes("ralph ")
            terminal.completes("ralph-runs ")
        terminal.completes("ralph und", "ralph understand")
        terminal.completes("ralph run goals/f", "goals/forty-two.md")
        offered = terminal.completes("ralph run ", "goals/forty-two.md", "goals/second.md", "third.md")
        assert "README" not in "".join(offered)
        terminal.completes("ralph log f", "ralph log forty-two")
        terminal.completes("ralph run --max-i", "--max-iterations")
        terminal.completes("ralph run --agent cl", "--agent claude")
        terminal.completes("ralph-runs add --merge ", "direct", "branch", "none")
        terminal.completes("ralph config set notif", "set notify")
        shown = "\n".join(terminal.completes("ralph-runs show g", "g1", "g2"))
        terminal.completes("ralph-runs show fort", "show forty-two")
        terminal.completes("ralph-runs cancel g1 sec", "g1 second")
    if real_shell.name != "bash":  # which shows words alone
        assert f"{TITLE} (draft)" in shown
    assert contents(Path(ralph.env["RALPH_DIR"])) == before


def test_faults_are_silent_and_nothing_is_executed_or_created(real_shell: Shell, ralph: Ralph) -> None:
    state = Path(ralph.env["RALPH_DIR"])
    with real_shell.opened(ralph.repo) as terminal:
        if real_shell.name == "zsh":
            terminal.completes("ralph ")
            terminal.completes("ralph-runs ")
        for line in ("ralph nonsense -", "ralph-runs show g", "ralph log x", "ralph-runs show --db mysql://x g"):
            terminal.completes(line)
            said = terminal.completes("echo so it goes", "echo so it goes")
            assert said[0].startswith("step ")
            assert len(said) == 2, said
        assert not state.exists()

        goal = write_goal(ralph.repo / "hostile.md", HOSTILE)
        shutil.copy(goal, ralph.repo / "$(touch pwned).md")
        queue(ralph, goal)
        terminal.completes("ralph-runs show g", "show g1")
        terminal.completes("ralph run h", "run hostile.md")
        terminal.completes("ralph-runs show ho", "show hostile")
    assert not (ralph.repo / "pwned").exists()


@dataclass
class Line:
    """What typer knows of the line so far."""

    params: dict[str, str]


def test_ids_come_from_a_server_as_well(postgres: Postgres, batch: Batch) -> None:
    db = postgres.database()
    batch.upstream()
    goal = batch.goal("shared", [])
    added = batch.runs("add", str(goal), "--db", db)
    assert added.exit_code == 0, added
    assert queued_goals(cast("typer.Context", Line({"db": db})), "g") == [("g1", "shared (draft)")]
