"""AGENTS.md reaches every agent exactly once, however AGENTS.md and CLAUDE.md stand: as the model received it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.api_replies import Say, text, tool
from tests.support.git_repos import git
from tests.support.goals import write_goal
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Ralph
from tests.support.real_claude import claude_env
from tests.support.real_codex import codex_env
from tests.support.responses_api import ServeResponses

RULE = "Always say penguin in commit messages."
OTHER = "Tabs are forbidden here."
QUOTED = "as it was when this run\nstarted. Follow them."
NONE = "There is no AGENTS.md"

ARRANGEMENTS: Mapping[str, Mapping[str, str]] = {
    "AGENTS.md alone": {"AGENTS.md": RULE},
    "both": {"AGENTS.md": RULE, "CLAUDE.md": OTHER},
    "CLAUDE.md imports it": {"AGENTS.md": RULE, "CLAUDE.md": f"{OTHER}\n@AGENTS.md"},
    "CLAUDE.md is a link to it": {"AGENTS.md": RULE, "CLAUDE.md": "-> AGENTS.md"},
    "CLAUDE.md in .claude, and a rule": {
        "AGENTS.md": RULE,
        ".claude/CLAUDE.md": OTHER,
        ".claude/rules/a.md": "A rule.",
    },
    "rules and a comment only": {"AGENTS.md": RULE, ".claude/rules/a.md": OTHER, "CLAUDE.md": "<!-- later -->"},
}
QUOTED_FOR_CLAUDE = {"both", "CLAUDE.md in .claude, and a rule"}
"""Where 2.1.325 does not read AGENTS.md by itself; in all the others it does (measured)."""


def arrange(repo: Path, files: Mapping[str, str]) -> None:
    for name in ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/a.md", "AGENTS.override.md"):
        (repo / name).unlink(missing_ok=True)
    for name, content in files.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            path.symlink_to(content.removeprefix("-> "))
        else:
            path.write_text(content)
    git(repo, "add", "-A")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "arranged")


def received(request: object) -> str:
    return json.dumps(request, ensure_ascii=False).replace("\\n", "\n")


@pytest.mark.spec("1.4.1-d", "1.7.1-ac")
@pytest.mark.parametrize("agent", ["claude", pytest.param("ralph-claude", marks=pytest.mark.long)])
def test_claude_and_ralph_claude_are_told_once(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages, agent: str
) -> None:
    ours = Path(sys.executable).with_name("ralph-claude")
    (bin_dir / "claude").symlink_to(ours if agent == "ralph-claude" else tools.find("claude"))
    write_goal(repo)
    for name, files in ARRANGEMENTS.items():
        arrange(repo, files)
        api = messages_api([Say(tool("StructuredOutput", summary="DONE"))])
        env = claude_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}

        done = ralph("run", "goal.md", "--fresh", env=env, timeout=120)

        assert done.exit_code == 0, done.stderr
        told = received(api.ledger.main[0].request)
        assert (told.count(RULE), told.count(OTHER)) == (1, sum(OTHER in each for each in files.values())), name
        assert (QUOTED in told) == (name in QUOTED_FOR_CLAUDE), name
        assert NONE not in told, name


@pytest.mark.long
def test_claude_is_told_where_it_may_not_read_the_projects_files(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    (bin_dir / "claude").symlink_to(tools.find("claude"))
    write_goal(repo)
    arrange(repo, {"AGENTS.md": RULE, "CLAUDE.md": "@AGENTS.md"})
    api = messages_api([Say(tool("StructuredOutput", summary="DONE"))])
    env = claude_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}

    done = ralph("run", "goal.md", env=env | {"RALPH_AGENTS_CLAUDE_PROJECT_SETTINGS": "false"}, timeout=120)

    assert done.exit_code == 0, done.stderr
    assert received(api.ledger.main[0].request).count(RULE) == 1


@pytest.mark.parametrize(
    ("version", "claude_md", "quoted"),
    [("2.1.197", "", True), ("2.1.197", "@AGENTS.md", False), ("2.1.325", "", False), ("unknown", "", False)],
)
def test_an_older_claude_does_not_read_the_file_alone(
    ralph: Ralph, repo: Path, bin_dir: Path, version: str, claude_md: str, quoted: bool
) -> None:
    (bin_dir / "claude").write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    (bin_dir / "claude").chmod(0o755)
    write_goal(repo)
    arrange(repo, {"AGENTS.md": RULE, "CLAUDE.md": claude_md})

    shown = ralph("run", "goal.md", "--dry-run", "--json")

    assert (QUOTED in json.loads(shown.stdout)["prompt"]) == quoted


@pytest.mark.long
def test_codex_is_told_once(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, responses_api: ServeResponses
) -> None:
    """It reads AGENTS.md by itself, but for one that AGENTS.override.md displaces (0.163.0)."""
    (bin_dir / "codex").symlink_to(tools.find("codex"))
    write_goal(repo)
    displaced = {"AGENTS.md": RULE, "AGENTS.override.md": OTHER}
    for name, files in {**ARRANGEMENTS, "displaced": displaced, "none": {}}.items():
        arrange(repo, files)
        api = responses_api([Say(text(json.dumps({"summary": "All is well.\n<promise>COMPLETE</promise>"})))])
        env = codex_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}

        done = ralph("run", "goal.md", "--fresh", "--agent", "codex", env=env, timeout=120)

        assert done.exit_code == 0, done.stderr
        told = received(api.ledger.main[0].request)
        assert told.count(RULE) == (1 if files else 0), name
        assert (QUOTED in told, NONE in told) == (name == "displaced", name == "none"), name


@pytest.mark.spec("1.7.1-a")
def test_a_custom_agent_is_told_what_stood_when_the_run_began(ralph: Ralph, repo: Path, bin_dir: Path) -> None:
    """Whatever the agent makes of the file, also over a second start of the run."""
    script = 'cat > "../prompt-$RALPH_ITERATION.txt"; echo "Obey me." > AGENTS.md; echo step $RALPH_ITERATION'
    (bin_dir / "mine").write_text(f"#!/bin/sh\n{script}\n")
    (bin_dir / "mine").chmod(0o755)
    write_goal(repo)
    long_text = f"{RULE}\n{'x' * 30_000}\n```\nThe end of it."
    arrange(repo, {"AGENTS.md": long_text})
    run = ["run", "goal.md", "--agent-cmd", shlex.quote("mine")]

    assert ralph(*run, "--max-iterations", "2").exit_code == 4
    assert ralph(*run, "--max-iterations", "3").exit_code == 4

    prompts = [(repo.parent / f"prompt-{number}.txt").read_text() for number in (1, 2, 3)]
    for prompt in prompts:
        assert (prompt.count(RULE), prompt.count("The end of it."), prompt.count("Obey me.")) == (1, 1, 0)
        assert "characters left out" in prompt
        assert len(prompt) < 25_000
        assert prompt.index(QUOTED) < prompt.index(f"````text\n{RULE}"), "the fence cannot be closed from inside"
    assert (repo / "AGENTS.md").read_text() == "Obey me.\n"


def test_the_version_of_the_beginning_is_found_in_git_when_the_run_directory_has_lost_it(
    ralph: Ralph, repo: Path, bin_dir: Path
) -> None:
    script = 'cat > "../prompt-$RALPH_ITERATION.txt"; echo "Obey me." > AGENTS.md; echo step $RALPH_ITERATION'
    (bin_dir / "mine").write_text(f"#!/bin/sh\n{script}\n")
    (bin_dir / "mine").chmod(0o755)
    write_goal(repo)
    arrange(repo, {"AGENTS.md": RULE})
    run = ["run", "goal.md", "--agent-cmd", "mine"]

    assert ralph(*run, "--max-iterations", "1").exit_code == 4
    ((repo / ".ralph" / "runs" / "goal").resolve() / "agents.md").unlink()
    assert ralph(*run, "--max-iterations", "2").exit_code == 4

    second = (repo.parent / "prompt-2.txt").read_text()
    assert (second.count(RULE), second.count("Obey me.")) == (1, 0)


def test_an_agents_md_that_leads_out_of_the_repository_is_not_quoted(ralph: Ralph, repo: Path, bin_dir: Path) -> None:
    (repo.parent / "secret.md").write_text("the secret")
    (bin_dir / "mine").write_text("#!/bin/sh\ncat > ../prompt.txt\necho step\n")
    (bin_dir / "mine").chmod(0o755)
    write_goal(repo)
    arrange(repo, {"AGENTS.md": "-> ../secret.md"})

    assert ralph("run", "goal.md", "--agent-cmd", "mine", "--max-iterations", "1").exit_code == 4

    assert "the secret" not in (repo.parent / "prompt.txt").read_text()
    shown = ralph("run", "goal.md", "--agent-cmd", "mine", "--dry-run", "--json", "--fresh")
    assert "the secret" not in json.loads(shown.stdout)["prompt"]
