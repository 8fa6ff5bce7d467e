"""MCP servers that answer wrongly, die or stay: each is an error of its tool, and none outlives the session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
BROKEN = str(ROOT / "tests" / "support" / "broken_mcp_server.py")


def play(
    place: Path, turns: list[list[dict[str, Any]]], servers: dict[str, Any], **env: str
) -> tuple[int, list[dict[str, Any]], str]:
    """Run a scripted session with these servers."""
    script = place / "script.json"
    script.write_text(json.dumps([turns]))
    argv = [Path(sys.executable).with_name("ralph-claude"), "-p", "go", "--model", f"scripted:{script}", "--verbose"]
    config = json.dumps({"mcpServers": servers})
    argv += ["--output-format", "stream-json", "--mcp-config", config, "--allowedTools", "mcp__*", "Bash"]
    known = {"PATH": os.environ["PATH"], "HOME": str(place), "TMPDIR": str(place), "MCP_TIMEOUT": "3000"}
    done = subprocess.run(
        argv, cwd=place, env={**known, **env}, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": arguments}


def say(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.long
@pytest.mark.parametrize("where", ["server/discover", "initialize", "tools/list", "tools/call"])
def test_nonsense_is_an_error_of_its_tool(tmp_path: Path, where: str) -> None:
    names = [f"s{seed}" for seed in range(6)]
    servers = {name: {"command": sys.executable, "args": [BROKEN, str(seed), where]} for seed, name in enumerate(names)}
    calls = [call(f"mcp__{name}__t{number}") for name in names for number in range(3)]
    code, events, stderr = play(tmp_path, [calls, [say("done")]], servers, MCP_TOOL_TIMEOUT="1000")
    assert (code, stderr) == (0, "")
    assert {server["status"] for server in events[0]["mcp_servers"]} <= {"connected", "failed"}
    results = [event for event in events if event["type"] == "user"]
    assert len(results) == len(calls)
    assert (events[-1]["type"], events[-1]["result"]) == ("result", "done")


@pytest.mark.long
def test_a_bash_command_spares_servers_and_the_end_of_the_session_does_not(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, runpy, sys; open({str(pid)!r}, 'w').write(str(os.getpid())); sys.argv = ['x', '0', 'never']; "
    code += f"runpy.run_path({BROKEN!r}, run_name='__main__')"
    servers = {"s": {"command": sys.executable, "args": ["-c", code]}}
    turns = [[call("Bash", command="sleep 300 & true")], [call("mcp__s__t0")], [say("done")]]
    exit_code, events, stderr = play(tmp_path, turns, servers)
    assert (exit_code, stderr) == (0, "")
    answers = [event["message"]["content"][0] for event in events if event["type"] == "user"]
    assert answers[1]["content"] == "no", "the server itself has answered, after the command"
    wait_until(lambda: not Path(f"/proc/{pid.read_text()}").exists(), "the server's end")


@pytest.mark.long
def test_a_server_that_ignores_the_end_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    stubborn = f"trap '' TERM; echo $$ > {pid}; while :; do sleep 0.2; done"
    code, events, _ = play(tmp_path, [[say("done")]], {"s": {"command": "sh", "args": ["-c", stubborn]}})
    assert (code, events[0]["mcp_servers"][0]["status"]) == (0, "failed")
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), "the server's end")
