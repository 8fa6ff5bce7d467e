"""Talking to an agent process directly, without ralph: stdin stays open until the test ends it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.output_file import OutputFile
from tests.support.waiting import PATIENCE, kill_tree, wait_until

Event = dict[str, Any]

SCHEMA = '{"type":"object","properties":{"summary":{"type":"string"}},"required":["summary"]}'
CLAUDE_ARGS = (
    *("-p", "--model", "sonnet", "--tools", "Read,Write,Edit,Glob,Grep,Bash", "--verbose", "--json-schema", SCHEMA),
    *("--input-format", "stream-json", "--output-format", "stream-json", "--no-session-persistence"),
    *("--strict-mcp-config", "--setting-sources", "user"),
)


class Conversation:
    """One agent process; use it in a `with` block."""

    def __init__(self, argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> None:
        self._stdout = OutputFile()
        self._stderr = OutputFile()
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=self._stdout.file,
            stderr=self._stderr.file,
            start_new_session=True,
        )

    def say(self, text: str) -> None:
        self.send({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}})

    def interrupt(self) -> None:
        self.send({"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}})

    def send(self, message: Event) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    @property
    def events(self) -> list[Event]:
        return [json.loads(line) for line in self.stdout.split("\n")[:-1]]

    @property
    def stdout(self) -> str:
        return self._stdout.text

    @property
    def stderr(self) -> str:
        return self._stderr.text

    def wait_for(self, kind: str, count: int = 1) -> Event:
        """Wait for the count-th event of this type or subtype, and return it."""

        def found() -> list[Event]:
            return [event for event in self.events if kind in (event["type"], event.get("subtype"))]

        wait_until(lambda: len(found()) >= count or self.process.poll() is not None, f"{kind} event {count}")
        assert len(found()) >= count, f"no {kind} event {count} in:\n{self.stdout}\n{self.stderr}"
        return found()[count - 1]

    def end(self, timeout: float = PATIENCE) -> int:
        """Close stdin and return the exit code."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        return self.process.wait(timeout)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        kill_tree(self.process.pid)
        self.end()
        self._stdout.close()
        self._stderr.close()
