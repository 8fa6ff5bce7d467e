"""Claude Code as a provider of answers, for Python programs: what `ralph ask` does, as a typed API.

Each question is a `ralph ask` of its own, on a leash: neither it nor anything that claude starts outlives the call or
the program, nothing is forked into the program, and threads and event loops may ask at the same time.
"""

import asyncio
import logging
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ralph.agents.base import find_program
from ralph.agents.claude_answer import Completion, Context, Message, Role
from ralph.config import settings
from ralph.core import ndjson
from ralph.core.errors import BlockedError, ExitCode, RalphError, UsageError
from ralph.core.records import NotARecord, parse, to_record
from ralph.core.text import exit_words
from ralph.system import environ
from ralph.system.files import replace_file
from ralph.system.leash import Leashed, read_fault
from ralph.system.programs import ask

__all__ = ["BlockedError", "ClaudeCode", "Completion", "Context", "Message", "RalphError", "Role", "UsageError"]

_log = logging.getLogger(__name__)

_VERSION_LIMIT = 10.0
_FAULTS = {ExitCode.USAGE: UsageError, ExitCode.BLOCKED: BlockedError}


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """The `claude` command with the user's own login. What is None is as `[provider.claude-code]` sets it."""

    max_turns: int | None = None
    allowed_tools: Sequence[str] | None = None
    """The only tools that claude may use; none at all if empty."""
    timeout: float | None = None
    """Seconds."""
    session_id: str | None = None
    """A UUID: questions with the same one, in the same folder, share a conversation of claude's."""
    cwd: Path | str | None = None
    """The folder that claude works in; the current one if None."""

    name: ClassVar[str] = "claude-code"
    requires_api_key: ClassVar[bool] = False

    def is_available(self) -> bool:
        """Tell whether `claude` is installed and starts."""
        env = environ.inherited()
        found = find_program(settings.load(env=env).agents.claude.path or "claude", env)
        if found is None:
            return False
        return ask([found, "--version"], cwd=Path("/"), environment=env, limit=_VERSION_LIMIT).exit_code == 0

    def complete(self, context: Context | str) -> Completion:
        """Ask, and wait for the answer.

        Raise `BlockedError` if there is no claude, `UsageError` for a value that cannot be, and `RalphError` if claude
        fails or takes too long. An answer whose turns ran out is `partial`, and logged as a warning.
        """
        return self._complete(context, threading.Event())

    async def is_available_async(self) -> bool:
        """The same as `is_available`, without blocking the event loop."""
        return await asyncio.to_thread(self.is_available)

    async def complete_async(self, context: Context | str) -> Completion:
        """The same as `complete`, without blocking the event loop. Cancelling it ends claude."""
        cancelled = threading.Event()
        asked = asyncio.ensure_future(asyncio.to_thread(self._complete, context, cancelled))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([asked])
            asked.exception()  # it was cancelled: how it ended is nobody's concern
            raise

    def _complete(self, context: Context | str, cancelled: threading.Event) -> Completion:
        asked = Context(context) if isinstance(context, str) else context
        with tempfile.TemporaryDirectory(prefix="ralph-ask-") as folder:
            history, stderr = Path(folder) / "history.json", Path(folder) / "stderr"
            said = [*asked.history, Message(Role.USER, asked.message)]
            if asked.system:
                said.insert(0, Message(Role.SYSTEM, asked.system))
            replace_file(history, ndjson.encode([to_record(message) for message in said]), durable=False)
            argv = [sys.executable, "-P", "-m", "ralph", "ask", "--json", "--history", str(history), *self._flags()]
            cwd = Path(self.cwd or Path.cwd())
            with Leashed(argv, cwd=cwd, environment=environ.inherited(), stderr_log=stderr) as child:
                printed = b"".join(child.lines(lambda: 1 if cancelled.is_set() else 0))
                exit_code = child.exit_code
            return _read(printed, exit_code, stderr)

    def _flags(self) -> list[str]:
        given = {
            "max-turns": self.max_turns,
            "allowed-tools": None if self.allowed_tools is None else ",".join(self.allowed_tools),
            "timeout": None if self.timeout is None else f"{self.timeout:f}s",
            "session-id": self.session_id,
        }
        return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _read(printed: bytes, exit_code: int | None, stderr: Path) -> Completion:
    complaints = stderr.read_text("utf-8", "replace").strip()
    if exit_code == ExitCode.DONE:
        if complaints:
            _log.warning("%s", complaints)
        try:
            return parse(Completion, printed)
        except NotARecord as fault:
            raise RalphError("cannot read the answer of `ralph ask`: it is longer than 4 MiB, or incomplete") from fault
    fault = read_fault(stderr)
    if fault is None:
        words = "it was stopped" if exit_code is None else exit_words(exit_code)
        raise RalphError(f"`ralph ask` ended without an answer ({words})", complaints)
    kind = _FAULTS.get(ExitCode(exit_code), RalphError) if exit_code in set(ExitCode) else RalphError
    raise kind(fault.message, fault.hint)
