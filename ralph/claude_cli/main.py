"""The entry point of `ralph-claude`: from the command line to the exit code.

The main thread reads stdin and the signals, and answers control requests at once. A second thread holds the
conversation, so a turn can be interrupted whatever it is waiting for.
"""

import contextlib
import os
import queue
import select
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, assert_never

from ralph.claude_cli.flags import FLAGS, BadUsage, Use, parse
from ralph.claude_cli.history import NoSuchSession
from ralph.claude_cli.options import Options, settle
from ralph.claude_cli.session import Session, assemble, tell
from ralph.claude_cli.stdio import (
    BadInput,
    Control,
    ControlAnswer,
    OutputLost,
    StreamOutput,
    UserMessage,
    read_line,
    said,
)
from ralph.claude_cli.stream import VERSION, no_session
from ralph.claude_cli.toolbox import Leaving
from ralph.claude_cli.upstream import EarlierStage, is_harness, read_upstream
from ralph.core.errors import ExitCode, RalphError
from ralph.core.ndjson import LineSplitter, Oversized, lines_in
from ralph.system import environ
from ralph.system.signals import SIGINT, Signals, SignalSafeQueue

_CHUNK = 1 << 16
_PIPE_PATIENCE = 3.0
"""Seconds that a prompt from the command line waits for more on stdin (2.1.325): a pipe may be open and silent."""

_STEP = 0.1
_LAST_MOMENT = 3.0
"""Seconds to end a running command after a signal."""


@dataclass(frozen=True, slots=True)
class Line:
    text: bytes


@dataclass(frozen=True, slots=True)
class Signalled:
    number: int


@dataclass(frozen=True, slots=True)
class TurnsOver:
    """The conversation has ended: nobody will say anything more."""

    exit_code: int
    lost: OutputLost | BadUsage | None = None


class EndOfInput:
    """stdin was closed."""


Call = Line | Signalled | TurnsOver | EndOfInput


def main() -> NoReturn:
    """Run, and leave at once with the exit code: whatever still waits on a network has no say."""
    try:
        _open_what_is_closed()
        code = _run(sys.argv, environ.inherited(), _working_directory())
        sys.stdout.flush()
    except BrokenPipeError:
        code = 1
    except (BadUsage, BadInput) as error:
        code = _complain(str(error))
    except RalphError as error:
        code = _complain(f"ralph-claude: {error.message}") if error.message else 1
    except OSError as error:
        code = _complain(f"ralph-claude: {error.strerror or error}")
    os._exit(code)


def _open_what_is_closed() -> None:
    """Take the place of standard files that are missing, before another file gets their number."""
    closed = [number for number in range(3) if not _is_open(number)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # the lowest free number
    if 2 in closed:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - to the end; for None, `print` takes stdout
    if 1 in closed:
        raise RalphError("cannot print the answer: stdout is closed")


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise RalphError("the working directory no longer exists") from error


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _run(argv: list[str], environment: Mapping[str, str], cwd: Path) -> int:
    given = parse(argv[1:])
    if "version" in given:
        print(_version(argv[0]))
        return 0
    if "help" in given:
        print(_help())
        return 0
    if "print" not in given and sys.stdout.isatty():
        raise BadUsage("Error: ralph-claude has no interactive mode: give it a prompt with --print")
    try:
        options = settle(given, is_root=os.geteuid() == 0, environment=environment, cwd=cwd)
    except NoSuchSession as error:
        if given.last("output-format") == "stream-json":
            StreamOutput().put(no_session(error.session_id, str(error)))
        return _complain(str(error))
    for note in filter(None, [*options.notes, options.debug.begin()]):
        _complain(note)
    first = b""
    message: UserMessage | None = None
    upstream = EarlierStage()
    if options.reads_stream and options.prompt and not is_harness((first := _first_line()).split(b"\n")[0]):
        upstream = read_upstream(lines_in(_rest_of_stdin(first)), with_user=options.replays)
        message = replace(said(options.prompt), before=upstream.events)
    elif not options.reads_stream:
        message = said(_prompt(options))
    elif options.prompt:
        _complain("ralph-claude: the prompt is ignored: the messages come from standard input")
    if upstream.failure:
        return _refuse_upstream(options, upstream.failure)
    session = assemble(options, environment, cwd)
    session.conversation.dialogue.take_up(upstream.messages)
    try:
        return _attend(session, message, first)
    finally:
        session.output.end()
        session.close()
        if (fault := options.record.fault) is not None:
            _complain(f"ralph-claude: the session could not be stored: {fault.strerror or fault}")


def _refuse_upstream(options: Options, failure: str) -> int:
    """Say that the stage before this one failed, also to the stage after this one."""
    said = f"The command before this one in the pipe failed: {failure}"
    if options.output != "text":
        StreamOutput().put(no_session(options.record.session_id, said))
    return _complain(f"ralph-claude: {said}")


def _attend(session: Session, prompt: UserMessage | None, first: bytes) -> int:
    """Be the porter until the conversation has ended or a signal says so; `first` was read of stdin already."""
    calls: SignalSafeQueue[Call] = SignalSafeQueue()  # signal handlers put to it
    with Signals(lambda number: calls.put(Signalled(number))).watched():
        if prompt is None:
            threading.Thread(target=_read_stdin, args=[calls, first], daemon=True, name="stdin").start()
        else:
            session.conversation.inbox.put(prompt)
            session.conversation.inbox.close()
        threading.Thread(target=_converse, args=[session, calls], daemon=True, name="conversation").start()
        interrupted = False
        while True:
            match call := _next(calls):
                case Line():
                    _hear(call.text, session)
                case EndOfInput():
                    session.conversation.inbox.close()
                    session.requests.close()
                case Signalled() if call.number == SIGINT:
                    interrupted = True
                    session.finish_early()
                case Signalled():
                    session.leave()
                    _await_end(calls)
                    return ExitCode.of_signal(call.number)
                case TurnsOver():
                    if call.lost is not None:
                        raise call.lost
                    return 0 if interrupted else call.exit_code
                case _:
                    assert_never(call)


def _next(calls: SignalSafeQueue[Call]) -> Call:
    """Wait for the next call, in short steps: a signal that reaches another thread does not wake this one, and its
    handler runs in no other.
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return calls.get(timeout=_STEP)


def _hear(line: bytes, session: Session) -> None:
    match heard := read_line(line):
        case UserMessage():
            session.conversation.inbox.put(heard)
        case Control(subtype="interrupt"):
            session.conversation.stream.control(heard.request_id, {"still_queued": []})
            session.interrupt()
        case Control(subtype="initialize"):
            session.begin(heard.request)
            nothing: list[object] = []
            more = {"pending_permission_requests": nothing, "pending_user_dialog_requests": nothing}
            session.conversation.stream.control(heard.request_id, session.introduction(), **more)
        case ControlAnswer():
            session.requests.answer(heard.request_id, heard.response)
        case Control():
            session.conversation.stream.control_refused(heard.request_id, heard.subtype)
        case None:
            pass


def _converse(session: Session, calls: SignalSafeQueue[Call]) -> None:
    """Answer messages until there are no more; the exit code follows the last result."""
    code, lost = 1, None
    try:
        failed = False
        is_greeted = False
        while (message := session.conversation.inbox.next()) is not None or not is_greeted:
            if not is_greeted:
                session.conversation.greet("resume" if session.conversation.dialogue.record.is_resumed else "startup")
                is_greeted = True
            if message is None:
                break
            failed = session.conversation.answer(message).is_error
        session.conversation.part()
        code = int(failed)
    except Leaving:
        pass
    except (OutputLost, BadUsage) as error:
        lost = error
    finally:
        calls.put(TurnsOver(code, lost))


def _await_end(calls: SignalSafeQueue[Call]) -> None:
    try:
        while not isinstance(calls.get(timeout=_LAST_MOMENT), TurnsOver):
            pass
    except queue.Empty:
        pass


def _read_stdin(calls: SignalSafeQueue[Call], first: bytes) -> None:
    splitter = LineSplitter()
    try:
        _deliver(splitter.feed(first), calls)
        while chunk := os.read(0, _CHUNK):
            _deliver(splitter.feed(chunk), calls)
        _deliver(splitter.flush(), calls)
    except OSError:
        pass  # what cannot be read has ended: a folder, a terminal that is gone
    finally:
        calls.put(EndOfInput())


def _deliver(lines: list[bytes | Oversized], calls: SignalSafeQueue[Call]) -> None:
    for line in lines:
        calls.put(Line(line if isinstance(line, bytes) else b"{"))


def _first_line() -> bytes:
    """What stdin holds up to the end of its first line, and what came along with it."""
    read = b""
    with contextlib.suppress(OSError):  # what cannot be read has ended
        while b"\n" not in read.lstrip() and (chunk := os.read(0, _CHUNK)):
            read += chunk
    return read.lstrip()


def _rest_of_stdin(first: bytes) -> Iterator[bytes]:
    yield first
    with contextlib.suppress(OSError):  # what cannot be read has ended
        while chunk := os.read(0, _CHUNK):
            yield chunk


def _prompt(options: Options) -> str:
    """The prompt of the command line, and below it whatever stdin holds."""
    piped = "" if os.isatty(0) or (options.prompt and not _has_input()) else _all_of_stdin()
    if not (prompt := "\n".join(filter(None, [options.prompt, piped]))).strip():
        raise BadUsage("Error: Input must be provided either through stdin or as a prompt argument when using --print")
    return prompt


def _has_input() -> bool:
    return bool(select.select([0], [], [], _PIPE_PATIENCE)[0])


def _all_of_stdin() -> str:
    parts: list[bytes] = []
    with contextlib.suppress(OSError):  # what cannot be read has ended
        while chunk := os.read(0, _CHUNK):
            parts.append(chunk)
    return b"".join(parts).decode("utf-8", "replace")


def _version(program: str) -> str:
    """Linked as `claude`, the line that a harness expects of it; by its own name, whose child it is."""
    from ralph import __version__

    is_claude = Path(program).name == "claude"
    return f"{VERSION} (Claude Code)" if is_claude else f"ralph-claude {__version__} (as Claude Code {VERSION})"


def _help() -> str:
    def listed(use: Use) -> str:
        return "\n".join(f"  {flag.notation}" for flag in FLAGS if flag.use is use)

    return (
        "Usage: ralph-claude -p [options] [prompt]\n\n"
        "A stand-in for the claude command: same flags, same stream. --model scripted:FILE plays a script.\n\n"
        f"Options:\n{listed(Use.WORKS)}\n\nAccepted, already the default:\n{listed(Use.MOOT)}\n\n"
        f"Accepted, but ignored:\n{listed(Use.IGNORED)}\n\nNot supported:\n{listed(Use.REFUSED)}"
    )


def _complain(line: str) -> int:
    tell(line)
    return 1
