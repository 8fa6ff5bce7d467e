"""Codex: fresh `codex exec --json` sessions, one process a turn, and the transcript of either of its formats.

A correction resumes the session in another process.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.agents.base import (
    CODEX_TRANSCRIPT,
    AgentLog,
    AgentOptions,
    CodexOptions,
    Launch,
    Request,
    find_program,
    own_or_words,
    without_nesting,
)
from ralph.agents.codex_stream import CodexJson
from ralph.agents.codex_text import CodexHuman, is_banner
from ralph.agents.transcript import Capabilities, spoken
from ralph.core import ndjson
from ralph.core.errors import BlockedError
from ralph.core.events import Event, Tag
from ralph.core.limits import Reasoning
from ralph.core.verdict import Reply

# Two kinds of lines (0.163.0); the first is there as soon as the model has answered, the second after the tool has.
_USAGE_LINE = re.compile(
    rb'\{"timestamp":"[^"]*",("ordinal":\d+,)?"type":"(token_usage_record"|event_msg","payload":\{"type":"token_count")'
)
_EFFORT = {Reasoning.NONE: "none", Reasoning.LOW: "low", Reasoning.MED: "medium", Reasoning.HIGH: "high"}

TYPES = (
    "thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.updated", "item.completed",
)  # fmt: skip
"""The types that identify codex's JSON; not `error`, which other agents have, too."""

_MOST_HELD = 65_536
"""Characters that are held back until the format is clear."""


def find_codex(options: AgentOptions, env: Mapping[str, str]) -> "CodexRunner":
    """Find codex, or raise an error that says how to get it."""
    path = options.codex.path
    found = find_program(path or "codex", env)
    if found is None:
        raise BlockedError(
            f"cannot find the agent: {path}" if path else "cannot find the agent: `codex` is not on PATH",
            "install Codex (npm install -g @openai/codex) and log in: codex login\n"
            "  or set its path: ralph config set agents.codex.path /path/to/codex",
        )
    return CodexRunner((found,), options.codex, own_or_words(options, CODEX_TRANSCRIPT))


@dataclass(frozen=True, slots=True)
class CodexRunner:
    """The `codex` command. With another transcript than its own, it prints only its last message."""

    command: tuple[str, ...]
    options: CodexOptions
    transcript: str = CODEX_TRANSCRIPT
    required_tool: str = ""
    notice: str = ""

    @property
    def path(self) -> str:
        return shlex.join(self.command)

    @property
    def reply(self) -> Reply:
        return Reply.MESSAGE if self.transcript == CODEX_TRANSCRIPT else Reply.WORDS

    def permissions(self, *, read_only: bool = False) -> str:
        return f"commands approved · codex's own sandbox: {self._sandbox(read_only)}"

    def model(self, asked: str) -> str:
        return asked or "codex's own choice"

    def launch(self, request: Request) -> Launch:
        return self._start(request, request.prompt, *(["resume", request.resumes] if request.resumes else []))

    def follow_up(self, request: Request, session_id: str, text: str) -> Launch | None:
        return self._start(request, text, "resume", session_id) if self.reply == Reply.MESSAGE else None

    def interrupt(self) -> bytes:
        return b""

    def _start(self, request: Request, said: str, *resumed: str) -> Launch:
        # Explicit, because trusted projects (0.166.0 marks them by itself) have another default.
        sandbox = self._sandbox(request.read_only)
        argv = [*self.command, "exec", "--sandbox", sandbox, "--skip-git-repo-check"]
        argv += ["-c", f'model_reasoning_effort="{_EFFORT[request.reasoning]}"']
        if request.model:
            argv += ["--model", request.model]
        files: dict[Path, str] = {}
        if self.reply == Reply.MESSAGE:
            schema = request.folder / "schema.json"
            # The API takes a schema only if it forbids what it does not name; codex does not hold the answer to it
            # (0.166.0).
            files[schema] = json.dumps({**json.loads(request.schema), "additionalProperties": False})
            argv += ["--json", "--output-schema", str(schema)]
        argv += self.options.extra_args
        # With the prompt as an argument, codex waits for ever on an open stdin (0.166.0); `-` reads it from there.
        argv += [*resumed, "-"]
        environment = without_nesting(request.environment)
        first = said.encode("utf-8", "replace")
        return Launch(tuple(argv), environment, first, listens=False, files=files, session_id="".join(resumed[1:]))

    def _sandbox(self, read_only: bool) -> str:
        return "read-only" if read_only else self.options.sandbox


def account(environment: Mapping[str, str]) -> AgentLog:
    """Return where codex keeps its threads (0.163.0): only there is the usage of a failed or interrupted turn."""
    home = environment.get("CODEX_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".codex")
    return AgentLog(Path(home) / "sessions", "*/*/*/rollout-*{session_id}.jsonl", _USAGE_LINE)


class CodexTranscript:
    """One session of codex. Output before the format is clear comes from codex's environment."""

    capabilities = Capabilities(
        supports_roles=True, supports_tool_events=True, supports_usage_events=True, supports_prompt_hiding=True
    )

    def __init__(self) -> None:
        self._reader: CodexJson | CodexHuman | None = None
        self._held: list[str] = []
        self._held_size = 0

    def feed(self, line: str) -> list[Event]:
        if self._reader is not None:
            return self._reader.feed(line)
        if has_codex_type(line):
            self._reader = CodexJson()
        elif is_banner(line):
            self._reader = CodexHuman()
        else:
            return self._hold(line)
        return [*self._release(Tag.SYS), *self._reader.feed(line)]

    def flush(self) -> list[Event]:
        """Close what is open; undecided lines count as the agent's."""
        return [*self._release(Tag.AI), *([] if self._reader is None else self._reader.flush())]

    def _hold(self, line: str) -> list[Event]:
        """Hold a line back until the format is clear; give up after too many."""
        self._held.append(line)
        self._held_size += len(line) + 1
        return self._release(Tag.AI) if self._held_size > _MOST_HELD else []

    def _release(self, tag: Tag) -> list[Event]:
        held, self._held = self._held, []
        return [event for line in held for event in spoken(tag, line.rstrip("\r"))]


def has_codex_type(line: str) -> bool:
    """Tell whether a line is codex's JSON."""
    if not line.startswith("{"):
        return False
    try:
        return ndjson.mapping(ndjson.decode(line)).get("type") in TYPES
    except ndjson.Malformed:
        return False
