"""Streams that no model would send: an error event or one line, never a crash."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_replies import Say, text, thinking, tool
from tests.support.chat_api import ChatApi
from tests.support.messages_api import MessagesApi
from tests.support.real_claude import claude_env

PROGRAM = Path(sys.executable).with_name("ralph-claude")
ARGS = ("-p", "--verbose", "--output-format", "stream-json", "--allowedTools", "Bash", "--max-turns", "3")
JUNK = (None, True, -1, 1e300, "", "text", "\u2028\x00", [], [[]], {}, {"type": "tool_use"}, {"type": 3}, 10**30)


class Broken:
    """A server that sends the bytes it is given to whoever asks."""

    def __init__(self) -> None:
        self.body = b""
        broken = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.wfile.write(broken.body)

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - named by the base class

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def broken() -> Iterator[Broken]:
    server = Broken()
    yield server
    server.close()


def whole(provider: str) -> bytes:
    """A stream as it should be."""
    say = Say(thinking("hm"), text("I look"), tool("Bash", command="echo out"))
    api = ChatApi() if provider == "openai" else MessagesApi()
    with api:
        return b"".join(api.dialect.says(say, "main", {"model": "m", "stream": True, "messages": []}).parts)


def spoiled(stream: bytes, chance: random.Random) -> bytes:
    """Change one value somewhere, drop or repeat an event, or break the bytes."""
    events = stream.split(b"\n\n")
    at = chance.randrange(len(events) - 1)
    match chance.randrange(6):
        case 0:
            del events[at]
        case 1:
            events.insert(at, events[chance.randrange(len(events))])
        case 2:
            events[at] = events[at][: chance.randrange(len(events[at]) + 1)]
        case 3:
            events.insert(at, b"data: " + bytes(chance.randrange(256) for _ in range(30)).replace(b"\n", b""))
        case _:
            head, mark, data = events[at].partition(b"data: ")
            if data.startswith(b"{"):
                events[at] = head + mark + json.dumps(_changed(json.loads(data), chance)).encode()
    return b"\n\n".join(events)


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        return {**value, key: _changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        return [_changed(value[0], chance), *value[1:]]
    return chance.choice(JUNK)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_broken_stream_is_an_error_and_no_crash(broken: Broken, tmp_path: Path, provider: str, seed: int) -> None:
    broken.body = spoiled(whole(provider), random.Random(f"{provider}{seed}"))
    env = claude_env(tmp_path / "home", broken.url) | {"OPENAI_BASE_URL": f"{broken.url}/v1"}
    model = "openai:m" if provider == "openai" else "sonnet"
    done = subprocess.run(
        [PROGRAM, *ARGS, "--model", model, "--", "hi"],
        cwd=tmp_path,
        env=env | {"CLAUDE_CODE_MAX_RETRIES": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    last = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    said = (broken.body, done.stdout[-500:], done.stderr)
    assert "Traceback" not in done.stderr, said
    assert done.returncode in (0, 1), said
    assert last.get("type") == "result" or len(done.stderr.splitlines()) == 1, said
