"""Hooks: commands of the settings files, and callbacks of the harness, that run around tool calls, prompts and turns.

Input, answers and wordings are those of Claude Code 2.1.325. Exit code 2 blocks, a JSON object on stdout decides, and
a hook that fails in any other way decides nothing.
"""

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, get_args

from ralph.claude_cli.control import RequestFailed, Requests
from ralph.claude_cli.desk import Desk
from ralph.claude_cli.settings import ClaudeSettings
from ralph.claude_cli.stream import Stream
from ralph.core.errors import RalphError
from ralph.core.ndjson import Malformed, amount, decode, encode_line, mapping, sequence, text
from ralph.system.child import Child
from ralph.system.guardian import Guardian

Event = Literal[
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStop", "SessionStart",
    "SessionEnd", "PreCompact",
]  # fmt: skip
Decision = Literal["", "allow", "ask", "deny"]

EVENTS: tuple[str, ...] = get_args(Event)
_BLOCKS = 2
_NOT_RUN = (126, 127)
"""Exit codes of a shell that could not start the command."""
_PATIENCE = 60.0
_POLL = 0.05
_LARGEST = 1 << 20
_PLAIN = re.compile(r"[\w|]*")
_DECISIONS: Mapping[str, Decision] = {
    "approve": "allow",
    "block": "deny",
    "allow": "allow",
    "ask": "ask",
    "deny": "deny",
}
_NO_VERDICT = "A hook gave no usable answer, so it didn't check this action."
_TOO_SLOW = "A hook didn't answer in time, so it didn't check this action."


@dataclass(frozen=True, slots=True)
class HookRun:
    """What one hook did; `exit_code` None: it ran out of time."""

    exit_code: int | None
    output: str = ""
    complaints: str = ""


class Hook(Protocol):
    """One hook; `name` is how messages call it, empty for one that has no command."""

    @property
    def name(self) -> str: ...
    def run(self, given: Mapping[str, object], desk: Desk) -> HookRun: ...


@dataclass(frozen=True, slots=True)
class CommandHook:
    """A shell command with the event as JSON on stdin."""

    name: str
    patience: float
    project: Path

    def run(self, given: Mapping[str, object], desk: Desk) -> HookRun:
        output = desk.place_for_output("hook")
        complaints = output.with_suffix(".err")
        environment = {**desk.environment, "CLAUDECODE": "1", "CLAUDE_PROJECT_DIR": str(self.project)}
        deadline = time.monotonic() + self.patience
        try:
            with (
                Guardian() as guardian,
                Child(
                    ["/bin/sh", "-c", self.name],
                    guardian=guardian,
                    cwd=desk.cwd if desk.cwd.is_dir() else desk.start,
                    environment=environment,
                    stdout_log=output,
                    stderr_log=complaints,
                ) as child,
            ):
                child.say(encode_line(given))
                child.end_input()
                while child.read(_POLL) is not None:
                    if desk.stop.is_set() or time.monotonic() > deadline:
                        child.kill()
                        return HookRun(None)
                code = child.exit_code
            return HookRun(code if code is not None else 1, _start_of(output), _start_of(complaints))
        except (RalphError, OSError) as error:
            return HookRun(_NOT_RUN[0], complaints=str(error))
        finally:
            output.unlink(missing_ok=True)
            complaints.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class CallbackHook:
    """A function of the harness, called by a control request."""

    callback: str
    patience: float
    requests: Requests
    name: str = ""

    def run(self, given: Mapping[str, object], desk: Desk) -> HookRun:
        request: dict[str, object] = {"subtype": "hook_callback", "callback_id": self.callback, "input": dict(given)}
        if call := given.get("tool_use_id"):
            request["tool_use_id"] = call
        try:
            answer = self.requests.ask(request, desk.stop, self.patience)
        except RequestFailed as error:
            return HookRun(1, complaints=str(error))
        return HookRun(0, encode_line(answer).decode("utf-8", "replace"))


def _start_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Matched:
    """A hook with the event it is for, and the tools or sources it is about."""

    event: str
    matcher: str
    hook: Hook

    def is_about(self, event: Event, subject: str) -> bool:
        if self.event != event:
            return False
        if self.matcher in ("", "*") or not subject:
            return True
        if _PLAIN.fullmatch(self.matcher):
            return subject in self.matcher.split("|")
        try:
            return re.search(self.matcher, subject) is not None
        except (re.error, RecursionError, OverflowError):
            return False


@dataclass(frozen=True, slots=True)
class Block:
    """A hook that blocks: its command, what it says with where that comes from, and its own words."""

    command: str
    said: str
    reason: str


@dataclass(slots=True)
class HookVerdict:
    """What the hooks of one event came to together: the strictest decision, and all they have to say."""

    decision: Decision = ""
    reason: str = ""
    blocks: list[Block] = field(default_factory=list["Block"])

    arguments: Mapping[str, object] | None = None
    contexts: list[str] = field(default_factory=list[str])
    """What the model gets to read."""

    notices: list[str] = field(default_factory=list[str])
    """What the user gets to read."""

    stopped: str | None = None
    """Why nothing should go on; None: it may."""

    lost: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    """Warnings about hooks that did not decide, though they should have; and whether they ran out of time."""

    runs: list[HookRun] = field(default_factory=list[HookRun])

    def take(self, name: str, hook: str, event: Event, run: HookRun) -> None:
        """Add what one hook did; `name` is the event with its tool, as messages call it."""
        self.runs.append(run)
        if run.exit_code is None:
            self.lost.append((_TOO_SLOW, True))
        elif run.exit_code == _BLOCKS:
            self.block(hook, f"[{hook}]: {run.complaints or 'No stderr output'}", run.complaints.strip())
        elif run.exit_code in _NOT_RUN:
            self.lost.append((_NO_VERDICT, False))
        elif (answer := _object(run.output)) is not None:
            if is_usable(answer, event):
                self._follow(name, hook, event, answer)
            else:
                self.lost.append((_NO_VERDICT, False))
        elif run.exit_code == 0 and run.output.strip() and event in ("UserPromptSubmit", "SessionStart"):
            self.contexts.append(f"{name} hook success: {run.output.strip()}")

    def block(self, hook: str, said: str, reason: str) -> None:
        self.blocks.append(Block(hook, said, reason))
        self.decide("deny", said)

    def decide(self, decision: Decision, reason: str) -> None:
        """Of several decisions the strictest counts, and the last of those that are alike."""
        strictness = ("", "allow", "ask", "deny")
        if strictness.index(decision) >= strictness.index(self.decision):
            self.decision, self.reason = decision, reason

    def _follow(self, name: str, hook: str, event: Event, answer: Mapping[str, object]) -> None:
        own = mapping(answer.get("hookSpecificOutput"))
        if said := text(answer.get("systemMessage")):
            self.notices.append(f"{name} says: {said}")
        if answer.get("continue") is False:
            self.stopped = text(answer.get("stopReason"))
        reason = text(answer.get("reason"))
        decision = _DECISIONS.get(text(answer.get("decision")), "")
        if own.get("permissionDecision") in _DECISIONS:
            decision = _DECISIONS[text(own.get("permissionDecision"))]
            reason = text(own.get("permissionDecisionReason")) or reason
        if decision == "deny":
            self.block(hook, reason or "Blocked by hook", reason)
        elif decision:
            self.decide(decision, reason)
        if isinstance(own.get("updatedInput"), dict):
            self.arguments = mapping(own.get("updatedInput"))
        if context := text(own.get("additionalContext")):
            bare = event in ("UserPromptSubmit", "SessionStart")
            self.contexts.append(f"{event if bare else name} hook additional context: {context}")


def _object(output: str) -> Mapping[str, object] | None:
    """The JSON object that a hook printed, if it printed one."""
    if not output.lstrip().startswith("{"):
        return None
    try:
        answer = decode(output)
    except Malformed:
        return None
    return mapping(answer)  # it begins with a brace


def is_usable(answer: Mapping[str, object], event: Event) -> bool:
    """Tell whether the fields have the kinds they must have, and whether the answer is about this event."""
    own = answer.get("hookSpecificOutput")
    if own is not None and mapping(own).get("hookEventName") != event:
        return False
    kinds: dict[str, type] = {"continue": bool, "stopReason": str, "reason": str, "systemMessage": str}
    if any(key in answer and not isinstance(answer[key], kind) for key, kind in kinds.items()):
        return False
    if answer.get("decision") not in (None, "approve", "block"):
        return False
    return mapping(own).get("permissionDecision") in (None, "allow", "ask", "deny", "defer")


@dataclass(slots=True)
class Hooks:
    """The hooks of one session; `facts` are what every event says about the session."""

    desk: Desk
    stream: Stream
    facts: Mapping[str, object]
    matched: list[Matched] = field(default_factory=list[Matched])
    shows_all: bool = False
    """The stream shows every hook, not only those of a session's start."""

    def about(self, event: Event, subject: str = "") -> list[Hook]:
        """The hooks of this event, each command once."""
        found = [each.hook for each in self.matched if each.is_about(event, subject)]
        return [hook for at, hook in enumerate(found) if not hook.name or hook.name not in {h.name for h in found[:at]}]

    def run(self, event: Event, subject: str = "", **more: object) -> HookVerdict:
        """Run all hooks of an event, one after the other, and put together what they say."""
        verdict = HookVerdict()
        name = f"{event}:{subject}" if subject else event
        facts = {**self.facts, "cwd": str(self.desk.cwd), "hook_event_name": event}
        if not event.startswith("Session"):
            facts["permission_mode"] = self.stream.setting.permission_mode
        given = facts | more
        for hook in self.about(event, subject):
            is_shown, hook_id = self.shows_all or event == "SessionStart", str(uuid.uuid4())
            if is_shown:
                self.stream.hook_started(hook_id, name, event)
            began = time.monotonic()
            ran = hook.run(given, self.desk)
            ended = "no answer in time" if ran.exit_code is None else f"exit code {ran.exit_code}"
            self.desk.debug.tell("hooks", f"{name}: {ended}", milliseconds=int((time.monotonic() - began) * 1000))
            if is_shown:
                code = 1 if ran.exit_code is None else ran.exit_code
                self.stream.hook_ended(hook_id, name, event, ran.output, ran.complaints, code)
            verdict.take(name, hook.name, event, ran)
        return verdict


def from_settings(settings: ClaudeSettings, project: Path) -> tuple[list[Matched], list[str]]:
    """The hooks of the settings files, and the notes on those that have no effect here."""
    if settings.are_hooks_off:
        return [], []
    found: list[Matched] = []
    idle: dict[str, None] = {}
    for file in settings.files:
        for event, matcher, hook in _entries(mapping(file.values.get("hooks"))):
            kind = text(hook.get("type"))
            if event not in EVENTS:
                idle[event] = None
            elif kind != "command":
                idle[f'{event} of type "{kind}"'] = None
            else:
                found.append(Matched(event, matcher, CommandHook(text(hook.get("command")), _time(hook), project)))
    return found, [f"ralph-claude: these hooks have no effect here: {', '.join(idle)}"] if idle else []


def from_harness(declared: object, requests: Requests) -> list[Matched]:
    """The callbacks that `initialize` names."""
    return [
        Matched(event, text(mapping(entry).get("matcher")), CallbackHook(callback, _time(mapping(entry)), requests))
        for event, entries in mapping(declared).items()
        for entry in sequence(entries)
        for callback in _strings(mapping(entry).get("hookCallbackIds"))
    ]


def _entries(hooks: Mapping[str, object]) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    for event, matchers in hooks.items():
        for matcher in sequence(matchers):
            for hook in sequence(mapping(matcher).get("hooks")):
                yield event, text(mapping(matcher).get("matcher")), mapping(hook)


def _strings(values: object) -> Sequence[str]:
    return [value for value in sequence(values) if isinstance(value, str)]


def _time(hook: Mapping[str, object]) -> float:
    """Seconds that a hook may take."""
    return amount(hook.get("timeout")) or _PATIENCE


def reminders(contexts: Iterable[str]) -> list[str]:
    """What hooks add for the model, marked as not being the user's words."""
    return [f"<system-reminder>\n{context}\n</system-reminder>" for context in contexts]
