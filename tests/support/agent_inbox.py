"""How the scripted agent is spoken to: its command line, its stdin, its signals; and the log of all of it.

Part of the scripted agent's own process: standard library only, and few of its modules, for start-up counts.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

TYPE_CHECKING = False  # importing typing would take as long as all the rest
if TYPE_CHECKING:
    from typing import Any, NoReturn

SWITCHES = """
    -p --print --verbose --dangerously-skip-permissions --no-session-persistence --strict-mcp-config --bare
    --include-partial-messages --include-hook-events --disable-slash-commands --replay-user-messages
    --exclude-dynamic-system-prompt-sections --fork-session -c --continue
"""
OPTIONS = """
    --model --tools --input-format --output-format --json-schema --session-id --permission-mode --setting-sources
    --settings --mcp-config --system-prompt --system-prompt-file --append-system-prompt --append-system-prompt-file
    --effort --max-turns --max-budget-usd --fallback-model --allowedTools --allowed-tools --disallowedTools
    --disallowed-tools --add-dir --agents --betas --name -r --resume
"""


class Interrupted(Exception):
    """The turn was stopped, by a control request or by a SIGINT that also ends the agent."""

    def __init__(self, by_signal: bool) -> None:
        super().__init__(by_signal)
        self.by_signal = by_signal


class Log:
    """What the agent heard and spent, one JSON line each, for the test to read."""

    def __init__(self, path: str, start: int, mode: str) -> None:
        self._mode = mode
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
        self._start = start
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":  # who is killed may tear a write at a page's end
            os.write(self._file, b"\n")

    def note(self, kind: str, **facts: object) -> None:
        os.write(
            self._file, json.dumps({"kind": kind, "start": self._start, "mode": self._mode, **facts}).encode() + b"\n"
        )


def print_line(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]


def to_json(value: object) -> str:
    """JSON as claude prints it: without spaces, not escaped to ASCII."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def print_event(event: dict[str, Any]) -> None:
    print_line(to_json(event).encode() + b"\n")


def fail(message: str) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(1)


def read_options(argv: list[str]) -> dict[str, str]:
    """Read the command line, and refuse what claude 2.1.325 refuses."""
    options: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in OPTIONS.split():
            options[name] = value if equals else next(words, "")
        elif word in SWITCHES.split():
            options[word] = ""
        else:
            fail(f"error: unknown option '{word}'" if word.startswith("-") else "the scripted agent reads only stdin")
    if (options.get("--input-format"), options.get("--output-format")) != ("stream-json", "stream-json"):
        fail("the scripted agent speaks only stream-json")
    if "--verbose" not in options:
        fail("Error: When using --print, --output-format=stream-json requires --verbose")
    bypass = "--dangerously-skip-permissions" in options or options.get("--permission-mode") == "bypassPermissions"
    if bypass and os.geteuid() == 0 and os.environ.get("IS_SANDBOX") != "1":
        fail("--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons")
    if len(options.get("--session-id", "8-4-4-4-12 characters, as in a UUID!")) != 36:
        fail("Error: Invalid session ID. Must be a valid UUID.")
    return options


class Inbox:
    """Everything that reaches the agent while it waits; every wait of the agent is a call of `wait`."""

    def __init__(self, log: Log) -> None:
        self.messages: list[str] = []
        self.closed = False
        self.deaf = False
        self.in_turn = False
        self._log = log
        self._rest = b""
        self._waiting = False
        self._signal = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def ignore_everything(self) -> None:
        """From now on no signal but SIGKILL and no interrupt has an effect."""
        self.deaf = True
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def wait(self, seconds: float | None) -> None:
        """Wait until something arrives, but no longer than so long; `None` is for ever."""
        self._waiting = True
        try:
            if self._signal:
                self._obey()
            ready, _, _ = select.select([] if self.closed else [0], [], [], seconds)
        finally:
            self._waiting = False
        if ready:
            self._read()

    def _read(self) -> None:
        chunk = os.read(0, 1 << 16)
        self.closed = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self.closed and self._rest:
            lines.append(self._rest)
        for line in lines:
            self._receive(line.decode(errors="replace"))

    def _receive(self, line: str) -> None:
        self._log.note("stdin", line=line)
        try:
            message = json.loads(line)
        except ValueError:
            fail(f"Error parsing streaming input line (type=unknown, {len(line)} chars): SyntaxError")
        if message.get("type") == "user":
            content = message["message"]["content"]
            texts = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
            self.messages.append("".join(texts))
        elif message.get("type") == "control_request" and not self.deaf:
            response = {"subtype": "success", "request_id": message["request_id"], "response": {"still_queued": []}}
            print_event({"type": "control_response", "response": response})
            if message["request"]["subtype"] == "interrupt" and self.in_turn:
                raise Interrupted(by_signal=False)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signal = number
        if self._waiting:
            self._obey()

    def _obey(self) -> NoReturn:
        if self._signal == signal.SIGINT:
            if self.in_turn:
                raise Interrupted(by_signal=True)
            sys.exit(0)
        sys.exit(128 + self._signal)
