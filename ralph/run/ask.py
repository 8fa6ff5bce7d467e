"""`ralph ask`: one question to Claude Code, with limits on turns and time; nothing keeps running."""

import contextlib
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.agents.base import Launch, find_program, without_nesting
from ralph.agents.claude_answer import (
    OUT_OF_TURNS,
    Completion,
    Context,
    Message,
    Role,
    arguments,
    parse_history,
    read_result,
)
from ralph.config import paths, settings
from ralph.config.files import read_stdin
from ralph.config.settings import AskOptions
from ralph.core.errors import BlockedError, ExitCode, RalphError, UsageError
from ralph.core.text import exit_words, format_duration
from ralph.git.repo import open_repo
from ralph.run.agent import AgentHost
from ralph.state.journal import LogFiles
from ralph.system import environ
from ralph.system.clock import monotonic_with_sleep

_POLL = 0.2


@dataclass(frozen=True, slots=True)
class AskFlags:
    """The command-line flags that are not settings."""

    prompt: str | None
    system: str
    history: Path | None
    session_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer, with warnings for the user."""

    answer: Completion
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Ended:
    exit_code: int | None
    output: bytes
    complaints: str


def ask(flags: AskFlags, written: Mapping[str, object]) -> Answered:
    """Ask Claude Code in the current directory, and return its answer."""
    env = environ.without_redirections()
    session = _session_id(flags.session_id)
    context = _context(flags)
    root = None
    with contextlib.suppress(UsageError):  # a question needs no repository
        root = open_repo(Path.cwd()).root
    chosen = settings.load(env=env, root=root, flags=written)
    claude, started = _find(chosen.agents.claude.path, env), monotonic_with_sleep()
    host = AgentHost(Path.cwd(), root)
    sandbox = host.open_sandbox(chosen, env, paths.ralph_dir(env))
    with host.guardian, host.signals.watched(), tempfile.TemporaryDirectory(prefix="ralph-ask-") as folder:
        ended = _run(host, claude, context, chosen.ask, session, env, Path(folder))
    answered = _answered(ended, chosen.ask)
    if sandbox.missing is not None:
        answered = replace(answered, warnings=(*answered.warnings, next(sandbox.notes({}, "claude"))))
    milliseconds = round((monotonic_with_sleep() - started) * 1000)
    return replace(answered, answer=replace(answered.answer, processing_time_ms=milliseconds))


def _session_id(written: str) -> str:
    try:
        return str(uuid.UUID(written)) if written else ""
    except ValueError:
        raise UsageError(f"--session-id: {written!r} is not a UUID", "create one with: uuidgen") from None


def _context(flags: AskFlags) -> Context:
    """Join the history and the prompt; without a prompt, the last message of the history is the prompt."""
    history = () if flags.history is None else _read_history(flags.history)
    if flags.prompt is None:
        if not history or history[-1].role is not Role.USER:
            raise UsageError(
                "there is no prompt", 'pass a question: ralph ask "why does the build fail?" (- reads stdin)'
            )
        *before, last = history
        return Context(last.content, flags.system, tuple(before))
    prompt = read_stdin("ralph ask -") if flags.prompt == "-" else flags.prompt
    if not prompt.strip():
        raise UsageError("the prompt is empty", 'pass a question: ralph ask "why does the build fail?" (- reads stdin)')
    return Context(prompt, flags.system, history)


def _read_history(path: Path) -> tuple[Message, ...]:
    try:
        return parse_history(path.read_text("utf-8"))
    except OSError as error:
        hint = "pass a file with a JSON list of messages"
        raise UsageError(f"--history: cannot read {path}: {error.strerror}", hint) from error
    except ValueError as fault:
        words = "not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else str(fault)
        hint = (
            'write a JSON list of messages: [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'
        )
        raise UsageError(f"--history: {path}: {words}", hint) from fault


def _find(path: str, env: Mapping[str, str]) -> str:
    found = find_program(path or "claude", env)
    if found is None:
        raise BlockedError(
            f"cannot run claude: {path or 'claude'} was not found{'' if path else ' on PATH'}",
            "install Claude Code (npm install -g @anthropic-ai/claude-code) and log in by running `claude` once,\n"
            "or tell ralph where it is: ralph config set agents.claude.path /path/to/claude",
        )
    return found


def _run(
    host: AgentHost,
    claude: str,
    context: Context,
    options: AskOptions,
    session: str,
    env: Mapping[str, str],
    folder: Path,
) -> _Ended:
    """Ask; if the session id already has a conversation, continue it.

    claude refuses `--session-id` for such an id before it prints anything, and `--resume` for a new one (2.1.325).
    """
    deadline = monotonic_with_sleep() + options.timeout
    ended = _Ended(None, b"", "")
    for way in [["--session-id", session], ["--resume", session]] if session else [[]]:
        argv = arguments(max_turns=options.max_turns, allowed_tools=options.allowed_tools, session=way)
        launch = Launch((claude, *argv), without_nesting(env), context.flattened.encode("utf-8", "replace"))
        before, ended = ended, _run_once(host, launch, folder / way[0] if way else folder / "claude", deadline, options)
        if ended.exit_code == 0 or ended.output:
            return ended
        ended = before if before.complaints else ended
    return ended


def _run_once(host: AgentHost, launch: Launch, log: Path, deadline: float, options: AskOptions) -> _Ended:
    """Run claude to its end, and leave nothing running."""
    logs = LogFiles(log.with_suffix(".json"), log.with_suffix(".stderr"))
    with host.start(launch, logs, "claude") as process:
        process.say(launch.first_input)
        process.end_input()
        while process.read(_POLL) is not None:
            host.leave_if_interrupted()
            if monotonic_with_sleep() > deadline:
                raise RalphError(
                    f"claude did not answer within {format_duration(options.timeout)}",
                    "raise --timeout, or lower --max-turns",
                )
        host.leave_if_interrupted()
        exit_code = process.exit_code
    return _Ended(exit_code, logs.stdout.read_bytes(), process.stderr_tail.strip())


def _answered(ended: _Ended, options: AskOptions) -> Answered:
    """Read the answer. Every failure of claude's is an error, except running out of turns."""
    result = read_result(ended.output)
    if result is not None and result.subtype == OUT_OF_TURNS:
        warning = f"claude used all of its {options.max_turns} turns: the answer may be incomplete"
        return Answered(result.answer, (warning,))
    if ended.exit_code != 0:
        words = exit_words(ExitCode.FAILED if ended.exit_code is None else ended.exit_code)
        errors: Sequence[str] = () if result is None else result.errors
        complaint = ended.complaints or "; ".join(errors) or "no message on stderr"
        refused = result is not None and result.login_refused
        raise RalphError(f"claude failed ({words}): {complaint}", "log in: run `claude` once" if refused else "")
    if result is None:
        raw = ended.output.decode("utf-8", "replace").strip()
        return Answered(
            Completion(raw or "(No response text returned)"), ("claude did not print JSON; this is its raw output",)
        )
    return Answered(result.answer)
