"""What one iteration costs ralph: git commands, files written, and the memory for a long line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.goals import result, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, hang, raw, summary, write
from tests.support.tokens import Tokens

_WITNESS = """
import json, os, sys

if os.path.basename(sys.orig_argv[-1]) == "goal.md":
    deeds = os.open({deeds!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event, details):
        if event == "subprocess.Popen" and os.path.basename(details[1][0]) == "git":
            os.write(deeds, (json.dumps([str(word) for word in details[1]]) + "\\n").encode())
        elif event == "os.rename":
            os.write(deeds, (json.dumps(["replace", str(details[1])]) + "\\n").encode())

    sys.addaudithook(note)
"""
"""Python's own audit events tell every file that ralph replaces, and every process that it starts."""


@pytest.fixture
def cost(repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path) -> Callable[[list[str]], list[str]]:
    """Run one iteration for each summary; return what the last of them had ralph do."""

    def deeds_of(summaries: list[str]) -> list[str]:
        deeds = tmp_path / "deeds"
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "sitecustomize.py").write_text(_WITNESS.format(deeds=str(deeds)))
        write_goal(repo)
        claude_script(*([write("work.txt", f"{number}\n"), summary(text)] for number, text in enumerate(summaries)))
        limit = f"--max-iterations={len(summaries)}"
        done = ralph("run", "--no-check", limit, "goal.md", env={"PYTHONPATH": str(tmp_path / "site")})
        assert done.exit_code == 4
        told = [json.loads(line) for line in deeds.read_text().splitlines()]
        names = [_name(entry) for entry in told]
        commits = [number for number, name in enumerate(names) if name == "git commit"]
        assert len(commits) == len(summaries)
        return names[commits[-2] + 1 : commits[-1] + 1]  # all after one commit, with the next

    return deeds_of


def _name(entry: list[str]) -> str:
    if entry[0] == "replace":
        return Path(entry[1]).name
    words = iter(entry[1:])
    for word in words:
        if word in ("-C", "-c"):
            next(words)
        elif not word.startswith("-"):
            return f"git {word}"
    return "git"


def test_an_iteration_takes_two_git_commands_and_one_save(cost: Callable[[list[str]], list[str]]) -> None:
    deeds = cost(["read the parser", "changed the lexer", "wrote a test"])
    assert [deed for deed in deeds if deed.startswith("git")] == ["git status", "git commit"]
    assert deeds.count("run.json") == 1


def test_words_that_were_said_before_take_one_git_command_more(cost: Callable[[list[str]], list[str]]) -> None:
    deeds = cost(["went on"] * 6)
    assert [deed for deed in deeds if deed.startswith("git")] == ["git cat-file", "git status", "git commit"]
    assert deeds.count("run.json") == 1


_LINE = 16_000_000


def test_a_long_line_takes_at_most_three_times_its_size(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    text = "x = größe  # „weiter“ 日本語 🙂\n" * (_LINE // 48)
    message = {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}
    line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
    claude_script([write("a.txt", "a"), summary("short")], [raw(line), summary("long")], [hang()])
    with ralph.start("run", "--no-check", "--json", "goal.md") as running:
        running.wait_for("iteration_ended")
        before = _most_memory(running.pid)
        running.wait_for("iteration_started", 3)  # whose session hangs, so that ralph is still there
        assert _most_memory(running.pid) - before <= 3 * len(line)
        texts = [event["text"][:20] for event in running.events if event["type"] == "text"]
    assert any(text.startswith("x = größe") for text in texts), texts


def test_usages_that_come_at_once_are_journaled_as_the_last_of_them(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    messages = [
        {
            "id": f"m{number}",
            "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 10, "output_tokens": 1},
            "content": [],
        }
        for number in range(60)
    ]
    lines = "".join(json.dumps({"type": "assistant", "message": message}) + "\n" for message in messages)
    claude_script([raw(lines), summary("DONE")], tokens=Tokens(), cost=0.0)

    done = ralph("run", "--no-check", "--json", "goal.md")

    usages = [event["usage"] for event in done.events_of("usage")]
    assert 60 * 11 <= usages[-1]["total_tokens"] == result(repo)["tokens"] <= 60 * 11 + 10  # with the verdict's message
    assert len(usages) < 20


def _most_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1]
    return int(status.split()[0]) * 1024
