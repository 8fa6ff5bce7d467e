"""What claude says besides its work: compactions, events that ralph does not know, denials and use in either shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.api_replies import Say, tool
from tests.support.git_repos import commits
from tests.support.goals import result, write_goal
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Ralph
from tests.support.real_claude import claude_env
from tests.support.scripted_agent import ClaudeScript, Step, raw, say, summary
from tests.support.tokens import Tokens


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def line(**record: object) -> Step:
    return raw(json.dumps(record) + "\n")


def test_a_compaction_is_shown_and_counted(
    ralph: Ralph, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    (bin_dir / "claude").symlink_to(tools.find("claude"))
    full = Say(tool("Bash", command="true", description="Wait"), usage=Tokens(400_000, 100))
    api = messages_api([full, full, Say(tool("StructuredOutput", summary="DONE"))])
    env = claude_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}

    done = ralph("run", "goal.md", env=env | {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "20"}, timeout=120)

    assert done.exit_code == 0, done
    assert [served.kind for served in api.ledger].count("compaction") == 1
    assert "note       the agent summarized its conversation at 400,10" in done.stdout, done.stdout
    assert " · 1 compaction\n" in done.stdout
    (told,) = json.loads(ralph("log", "--json").stdout)["iterations"]
    assert told["compactions"] == 1
    assert "(1 compaction)" in ralph("log").stdout


@pytest.mark.spec("1.4.2-i")
def test_what_ralph_does_not_know_is_shown_under_verbose_only(ralph: Ralph, claude_script: ClaudeScript) -> None:
    novel = [line(type="novelty", text="x"), line(type="system", subtype="tea_break\x1b[31m"), say("On it.")]
    claude_script([*novel, summary("DONE")])

    plain = ralph("run", "goal.md")
    verbose = ralph("run", "goal.md", "--fresh", "--verbose", "--allow-dirty")

    assert (plain.exit_code, verbose.exit_code) == (0, 0), (plain, verbose)
    assert "unknown" not in plain.stdout
    assert "\nunknown    event novelty\n" in verbose.stdout
    assert "\nunknown    event tea_break" in verbose.stdout
    assert "\x1b[31m" not in verbose.stdout


@pytest.mark.spec("4.3.5-c")
def test_a_denial_of_the_documented_shape_stops_the_run(ralph: Ralph, repo: Path, claude_script: ClaudeScript) -> None:
    denials = [{"tool": "Bash", "reason": "network is off"}, {"tool": "WebFetch", "reason": "network is off"}]
    output = {"summary": "I could not look."}
    claude_script(
        [line(type="result", subtype="success", is_error=False, structured_output=output, permission_denials=denials)]
    )

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 6, done
    refused = "permission denied: Bash (network is off); WebFetch (network is off)"
    assert result(repo)["reason"] == f"blocked: denied: {refused}"
    assert len(commits(repo)) == 2


@pytest.mark.spec("4.2-h")
def test_use_in_camel_case_is_held_to_the_limits(ralph: Ralph, repo: Path, bin_dir: Path) -> None:
    used = {"inputTokens": 900, "outputTokens": 50, "cacheReadInputTokens": 60, "cacheCreationInputTokens": 0}
    output = {"summary": "A step."}
    said = {"type": "result", "subtype": "success", "is_error": False, "structured_output": output, "usage": used}
    (bin_dir / "claude").write_text(f"#!/bin/sh\nread -r prompt\necho '{json.dumps(said)}'\ncat > /dev/null\n")
    (bin_dir / "claude").chmod(0o755)

    done = ralph("run", "goal.md", "--max-tokens", "1500")

    assert done.exit_code == 4, done
    assert (result(repo)["tokens"], result(repo)["iterations"]) == (2020, 2)
