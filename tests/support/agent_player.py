"""The scripted agent at work: plays the steps that `scripted_agent` wrote, as if a model had asked for them.

A turn answers one message. Thoughts and words belong to the message that the next tool call completes, so a message
has at most one tool call; every message costs what the script says. Part of the scripted agent's own process:
standard library only, and few of its modules, for start-up counts.
"""

# Importing pathlib takes start-up time.
# ruff: noqa: PTH103, PTH109, PTH110, PTH118, PTH120, PTH123

from __future__ import annotations

import json
import os
import signal
import sys
import time

from tests.support.agent_account import Account, usage_of
from tests.support.agent_events import NUDGE, REJECTED, VERSION, Events, error_type_of, shell_output, uuid4
from tests.support.agent_inbox import Inbox, Interrupted, Log, print_event, print_line, read_options, to_json
from tests.support.agent_spawn import spawn, start_command

TYPE_CHECKING = False  # importing typing would take as long as all the rest
if TYPE_CHECKING:
    from typing import Any

    from tests.support.agent_events import Event

    Step = dict[str, Any]


class Turn:
    """What one turn gathers for its result."""

    def __init__(self, origin: Event | None = None) -> None:
        self.origin = origin
        self.began = time.monotonic()
        self.message_id = ""  # of the message in progress
        self.tool_id = ""  # of the tool call in progress
        self.last_text = ""
        self.user_events = 0
        self.denials: list[Event] = []
        self.has_result = False


class Player:
    """One session of the scripted agent: hears messages, plays turns, prints events."""

    def __init__(self, script: Event, session: list[list[Step]], options: dict[str, str], log: Log) -> None:
        tools = {tool for tool in options.get("--tools", "Bash,Edit,Glob,Grep,Read,Skill,Write").split(",") if tool}
        self.has_schema = "--json-schema" in options
        self.in_pieces = "--include-partial-messages" in options
        tools = tools | {"StructuredOutput"} if self.has_schema else tools - {"StructuredOutput"}
        bypass = "--dangerously-skip-permissions" in options
        self.events = Events(
            options.get("--session-id") or options.get("--resume") or uuid4(),
            os.getcwd(),
            options.get("--model", "sonnet"),
            sorted(tools),
            "bypassPermissions" if bypass else options.get("--permission-mode", "default"),
        )
        self.session = session
        self.tokens: dict[str, int] = script["tokens"]
        self.cost: float = script["cost"]
        self.context_window: int = script["context_window"]
        self.log = log
        self.inbox = Inbox(log)
        self.account = Account()
        self.turn = Turn()
        self.results = 0
        self.failed = False
        self.stays = False
        self.command = 0  # pid of the command that runs
        self.background: list[tuple[float, str, list[Step]]] = []

    def converse(self) -> int:
        """Answer messages until stdin ends and nothing runs in the background; return the exit code."""
        answered = 0
        while True:
            now = time.monotonic()
            self.background.sort(key=lambda task: task[0])
            if self.background and self.background[0][0] <= now:
                self.wake_up(*self.background.pop(0)[1:])
            elif self.inbox.messages:
                self.inbox.messages.pop(0)
                turns = self.session
                self.play_turn(turns[min(answered, len(turns) - 1)] if turns else [], Turn())
                answered += 1
            elif self.inbox.closed and not self.background and not self.stays:
                return int(self.failed)
            else:
                self.inbox.wait(self.background[0][0] - now if self.background else None)

    def play_turn(self, steps: list[Step], turn: Turn) -> None:
        self.turn = turn
        self.account.begin_turn()
        print_event(self.events.init())
        self.inbox.in_turn = True
        try:
            for step in steps:
                self.inbox.wait(0)
                play = getattr(self, f"play_{step['step']}")
                play(**{name: value for name, value in step.items() if name != "step"})
            if not turn.has_result:
                self.end_with_words()
        except Interrupted as interrupted:
            self.abort()
            if interrupted.by_signal:
                sys.exit(0)
        finally:
            self.inbox.in_turn = False
            self.kill_command()

    # What a model does: blocks of messages.

    def block(self, block: Event) -> None:
        """Print one block; the first of a message is where the message is paid for."""
        tokens = {name: count for name, count in usage_of(self.tokens).items() if name.endswith("_tokens")}
        if self.in_pieces:
            tokens["output_tokens"] = 1  # as the message begins; its end tells the rest
        if not self.turn.message_id:
            self.turn.message_id = f"msg_{uuid4()[:8]}"
            self.account.spend(self.tokens, self.cost)
            self.log.note("message", tokens=self.tokens, cost=self.cost)
            message = {"id": self.turn.message_id, "model": self.events.model, "content": [], "usage": tokens}
            self.piece("message_start", message=message)
        print_event(self.events.assistant(self.turn.message_id, block, tokens))

    def call(self, tool: str, arguments: Event) -> str:
        """Print the tool call that completes the message; return its id."""
        self.turn.tool_id = f"toolu_{uuid4()[:8]}"
        self.block({"type": "tool_use", "id": self.turn.tool_id, "name": tool, "input": arguments})
        self.end_message()
        return self.turn.tool_id

    def piece(self, kind: str, **fields: object) -> None:
        """One of the events of which a message consists, where they are asked for."""
        if self.in_pieces:
            stamp = {"session_id": self.events.session_id, "parent_tool_use_id": None, "uuid": uuid4()}
            event = {"type": kind, **fields}
            print_event({"type": "stream_event", "event": event, **stamp, "api_message_id": self.turn.message_id})

    def end_message(self) -> None:
        if self.turn.message_id:
            self.piece("message_delta", usage={"output_tokens": self.tokens["output"]})
            self.piece("message_stop")
        self.turn.message_id = ""

    def hear(self, event: Event) -> None:
        """Print what the model is told next."""
        self.turn.user_events += 1
        self.turn.tool_id = ""
        print_event(event)

    def play_say(self, text: str) -> None:
        self.turn.last_text = text
        self.block({"type": "text", "text": text})

    def play_think(self, text: str) -> None:
        estimate = len(text) // 4
        print_event(self.events.system("thinking_tokens", estimated_tokens=estimate, estimated_tokens_delta=estimate))
        self.block({"type": "thinking", "thinking": text, "signature": "c2ln"})

    def play_bill(self, cost: float | None, tokens: dict[str, int] | None) -> None:
        self.cost = self.cost if cost is None else cost
        self.tokens = tokens or self.tokens

    def play_write(self, path: str, text: str) -> None:
        path = os.path.join(self.events.cwd, path)
        tool_id = self.call("Write", {"file_path": path, "content": text})
        os.makedirs(os.path.dirname(path), exist_ok=True)
        before = None
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as file:
                before = file.read()
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        details = {"type": "create", "filePath": path, "content": text, "structuredPatch": [], "originalFile": before}
        known = "(file state is current in your context — no need to Read it back)"
        content = f"File created successfully at: {path} {known}"
        if before is not None:
            details["type"] = "update"
            content = f"The file {path} has been updated successfully. {known}"
        self.hear(self.events.tool_done(tool_id, content, details | {"userModified": False}))

    def play_run(self, command: str) -> None:
        tool_id = self.call("Bash", {"command": command, "description": "Run a command"})
        self.command, output = start_command(command, self.events.session_id)
        pause = 0.001
        while (exited := os.waitpid(self.command, os.WNOHANG)) == (0, 0):
            self.inbox.wait(pause)
            pause = min(2 * pause, 0.02)
        self.command = 0
        exit_code = os.waitstatus_to_exitcode(exited[1])
        exit_code = exit_code if exit_code >= 0 else 128 - exit_code
        with output:
            output.seek(0)
            printed = output.read().decode(errors="replace").removesuffix("\n")
        if exit_code:
            content = f"Exit code {exit_code}\n{printed}"
            self.hear(self.events.tool_done(tool_id, content, f"Error: {content}", is_error=True))
        else:
            details = shell_output(printed)
            content = printed or "(Bash completed with no output)"
            self.hear(self.events.tool_done(tool_id, content, details, is_error=False))

    def play_deny(self, tool: str, arguments: Event) -> None:
        tool_id = self.call(tool, arguments)
        reason = f"Claude requested permissions to use {tool}, but you haven't granted it yet."
        denied = self.events.system("permission_denied", tool_name=tool, tool_use_id=tool_id, message=reason)
        print_event(denied)
        self.turn.denials.append({"tool_name": tool, "tool_use_id": tool_id, "tool_input": arguments})
        self.hear(self.events.tool_refused(tool_id, reason, f"Error: {reason}", REJECTED))

    def play_background(self, seconds: float, then: list[Step]) -> None:
        task_id = f"b{uuid4()[:8]}"
        command = f"sleep {seconds}"
        tool_id = self.call("Bash", {"command": command, "run_in_background": True})
        task = {"task_id": task_id, "run_id": task_id, "task_type": "local_bash", "description": command}
        print_event(self.events.system("background_tasks_changed", tasks=[task]))
        print_event(self.events.system("task_started", tool_use_id=tool_id, is_backgrounded=True, **task))
        content = f"Command running in background with ID: {task_id}."
        details = shell_output("") | {"backgroundTaskId": task_id}
        self.hear(self.events.tool_done(tool_id, content, details, is_error=False))
        self.background.append((time.monotonic() + seconds, task_id, then))

    def wake_up(self, task_id: str, steps: list[Step]) -> None:
        """The turn that nobody asked for, when a background command has ended."""
        task = {"task_id": task_id, "run_id": task_id}
        done = {"status": "completed", "end_time": int(time.time() * 1000)}
        print_event(self.events.system("task_updated", patch=done, **task))
        print_event(self.events.system("task_notification", status="completed", summary="completed", **task))
        print_event(self.events.system("background_tasks_changed", tasks=[]))
        origin = {"kind": "task-notification", "producer": "session-task", "runId": task_id}
        self.play_turn(steps, Turn(origin))

    # How a turn ends.

    def play_structured(self, output: Event) -> None:
        tool_id = self.call("StructuredOutput", output)
        done = "Structured output provided successfully"
        self.hear(self.events.tool_done(tool_id, done, done))
        self.succeed(to_json(output), "tool_use", structured_output=output)

    def play_answer(self, text: str) -> None:
        self.play_say(text)
        self.end_with_words()

    def end_with_words(self) -> None:
        """End as claude does when the model only talks: it asks once more for the structured output, then gives up."""
        if self.has_schema:
            self.end_message()
            self.hear(self.events.user_text(NUDGE, synthetic=True))
            self.play_say(self.turn.last_text)
        self.succeed(self.turn.last_text, "end_turn")

    def play_api_error(self, status: int | None, text: str, error: str, terminal_reason: str) -> None:
        print_event(self.events.api_error(status, text, error))
        self.result(
            subtype="success",
            is_error=True,
            api_error_status=status,
            result=text,
            stop_reason="stop_sequence",
            terminal_reason=terminal_reason,
            **error_type_of(status),
        )

    def play_result_subtype(self, subtype: str, errors: list[str]) -> None:
        reason = subtype.removeprefix("error_")
        self.result(subtype=subtype, is_error=True, errors=errors, stop_reason="tool_use", terminal_reason=reason)

    def abort(self) -> None:
        self.kill_command()
        tool_id = self.turn.tool_id
        if tool_id:
            content = "The user doesn't want to proceed with this tool use. STOP what you are doing."
            self.hear(self.events.tool_refused(tool_id, content, "User rejected tool use", None))
        self.hear(self.events.user_text(f"[Request interrupted by user{' for tool use' if tool_id else ''}]"))
        self.result(
            subtype="error_during_execution",
            is_error=True,
            errors=["[ede_diagnostic] result_type=user last_content_type=n/a"],
            stop_reason="tool_use" if tool_id else None,
            terminal_reason="aborted_tools" if tool_id else "aborted_streaming",
        )

    def succeed(self, text: str, stop_reason: str, **more: object) -> None:
        self.end_message()
        self.result(
            subtype="success",
            is_error=False,
            api_error_status=None,
            result=text,
            stop_reason=stop_reason,
            terminal_reason="completed",
            ttft_ms=1,
            ttft_stream_ms=1,
            time_to_request_ms=1,
            first_content_frame_ms=1,
            **more,
        )

    def result(self, **fields: object) -> None:
        turn, account, model = self.turn, self.account, self.events.model
        # A message that came during the turn is answered by it; one that comes after the result is not.
        self.inbox.in_turn = False
        self.inbox.wait(0)
        self.inbox.messages.clear()
        if turn.origin:
            fields["origin"] = turn.origin
        event = self.events.result(
            num_turns=1 + turn.user_events,
            duration_ms=int((time.monotonic() - turn.began) * 1000),
            total_cost_usd=account.whole.cost,
            usage=usage_of(account.turn.tokens),
            modelUsage=account.whole.by_model(model, self.context_window),
            model_usage_since_last_result=account.turn.by_model(model, self.context_window),
            permission_denials=turn.denials,
            result_index=self.results,
            **fields,
        )
        self.results += 1
        self.failed = bool(fields["is_error"])
        turn.has_result = True
        print_event(event)

    # What a model cannot do: faults.

    def play_raw(self, line: str) -> None:
        print_line(line.encode("latin-1"))

    def play_stderr(self, text: str) -> None:
        os.write(2, text.encode())

    def play_rate_limit(self, status: str, resets_at: int | None) -> None:
        info: Event = {"status": status, "isUsingOverage": False}
        if resets_at is not None:
            info |= {"resetsAt": resets_at, "rateLimitType": "five_hour"}
        stamp = {"uuid": uuid4(), "session_id": self.events.session_id}
        print_event({"type": "rate_limit_event", "rate_limit_info": info, **stamp})

    def play_pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.inbox.wait(left)

    def play_hang(self) -> None:
        while True:
            self.inbox.wait(None)

    def play_exit(self, code: int) -> None:
        os._exit(code)

    def play_kill_self(self, number: int) -> None:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def play_spawn(self, pidfile: str, kind: str) -> None:
        spawn(pidfile, kind)

    def play_ignore_signals(self) -> None:
        self.inbox.ignore_everything()

    def play_no_exit_after_result(self) -> None:
        self.stays = True

    def kill_command(self) -> None:
        if self.command:
            os.killpg(self.command, signal.SIGKILL)
            os.waitpid(self.command, 0)
            self.command = 0


def mode_of(options: dict[str, str]) -> str:
    """What ralph starts this for, as its command line tells."""
    changing = {"Bash", "Edit", "Write"} & set(options.get("--tools", "Bash").split(","))
    return "summarizer" if options.get("--model") == "haiku" and not changing else "worker"


def main(directory: str) -> None:
    """Play the session whose turn it is."""
    if {"-v", "--version"} & set(sys.argv[1:]):
        print(f"{VERSION} (Claude Code)")
        return
    if sys.argv[1:3] == ["auth", "status"]:
        print('{"loggedIn": true}')
        return
    options = read_options(sys.argv[1:])
    mode = mode_of(options)
    # The offset after an append is the number of starts so far, this one included, however many start at once.
    counter = os.open(f"{directory}/starts.{mode}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.write(counter, b".")
    start = os.lseek(counter, 0, os.SEEK_CUR)
    log = Log(f"{directory}/heard.jsonl", start, mode)
    cwd = os.getcwd()
    log.note("start", argv=sys.argv[1:], env=dict(os.environ), cwd=cwd, pid=os.getpid())
    with open(f"{directory}/script.json", encoding="utf-8") as file:
        script = json.load(file)
    sessions = script["sessions"][mode]
    session = sessions[min(start, len(sessions)) - 1] if sessions else []
    try:
        code = Player(script, session, options, log).converse()
    except BrokenPipeError:
        code = 1
    os._exit(code)  # at once: there is nothing to flush
