"""The official Python SDK with either program under it: turns, resumed sessions, callbacks, a server of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.peers import SDK_VERSION
from tests.support import tools
from tests.support.api_replies import Reply, Say, tool
from tests.support.messages_api import ServeMessages
from tests.support.real_claude import claude_env

pytestmark = pytest.mark.long

# Where `make bench` installs it; the tests themselves install nothing. HOME is another one later.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PLACE = _CACHE / "ralph-bench" / f"claude-agent-sdk-{SDK_VERSION}"
SESSION = Path(__file__).parents[1] / "support" / "sdk_session.py"


def bash(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, description="x")


@pytest.fixture
def sdk() -> Path:
    if not (PLACE / "complete").exists():
        pytest.skip(f"claude-agent-sdk {SDK_VERSION} is not installed: make bench installs it")
    return PLACE / "bin" / "python"


@pytest.mark.parametrize("program", ["claude", "ralph-claude"])
@pytest.mark.parametrize(
    ("part", "script", "expected"),
    [
        ("turns", [Say("1"), Say("2")], ["1", "2"]),
        ("resumed", [Say("1"), Say("2"), Say("3")], [True, True, False]),
        ("hooked", [Say(bash("rm x")), Say(bash("echo ok")), Say("done")], ["no rm", "ok", "done"]),
        ("asked", [Say(bash("touch one")), Say(bash("touch two")), Say("done")], ["not that", "changed", "done"]),
        ("served", [Say(tool("mcp__calc__add", a=1, b=2)), Say("done")], [[{"type": "text", "text": "3"}], "done"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_sdk_drives_it(
    program: str,
    part: str,
    script: list[Reply],
    expected: list[object],
    sdk: Path,
    repo: Path,
    world: Path,
    messages_api: ServeMessages,
) -> None:
    path = Path(sys.executable).with_name("ralph-claude") if program == "ralph-claude" else tools.find("claude")
    env = claude_env(world / "home", messages_api(script).url, sandbox=True)
    argv = [sdk, SESSION, part, path]
    done = subprocess.run(argv, cwd=repo, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    if part == "hooked":  # what stands around a hook's reason is claude's
        found[0] = found[0][-len("no rm") :]
    assert found == expected
    assert [path.name for path in repo.iterdir() if path.name in ("one", "two", "changed")] == (
        ["changed"] if part == "asked" else []
    )
