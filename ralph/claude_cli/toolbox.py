"""Running what the model calls for: its stream of replies, permission checks, tool runs, and the structured output."""

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ralph.claude_cli.desk import Desk, Tool, ToolResult, crashed, failed, rejected
from ralph.claude_cli.models.base import Block, Model, ModelRequest, ToolOffer, Utterance
from ralph.claude_cli.permissions.decide import Permissions
from ralph.claude_cli.permissions.rules import Allowed, Denied
from ralph.claude_cli.schemas import argument_faults, violations
from ralph.claude_cli.stream import Stream
from ralph.core import ndjson
from ralph.core.errors import fault_of
from ralph.system.signals import SignalSafeQueue

_LOOK = 0.05
"""Seconds between two looks at whether we were called away."""

TOOL = "StructuredOutput"
TRIES = 5
NUDGE = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this tool now."
)
_OUTPUT_TAKEN = "Structured output provided successfully"
_DESCRIPTION = (
    "Use this tool to return your final response in the requested structured format. You MUST call this tool exactly "
    "once at the end of your response to provide the structured output."
)

_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)

_STOPPED = (
    f"{_REJECTED} Correction to the text above: this call was stopped while running, not refused before it ran. It may "
    "have run in part or in full, and its changes may have been written. No permission prompt was involved. Work it "
    "started elsewhere (a remote command, a background process) may still be running, so check before starting the "
    "same work again. The instruction to stop and wait still stands."
)
_FOR_THE_SYSTEM = ("file_path", "path", "command", "pattern", "glob", "type")
"""The arguments that name a file, are run, or are arguments of a program."""
_CALLED_OFF: Mapping[str, object] = {"non_execution_kind": "user-rejected"}
_ACCEPTED: Mapping[str, object] = {"permission_decision": {"decision": "accept", "source": "config"}}


class CalledOff(Exception):
    """The user wants this turn ended."""


def listen(model: Model, request: ModelRequest, stop: threading.Event) -> Iterator[Utterance]:
    """Yield what the model says; raise CalledOff as soon as `stop` is set, whatever the network does."""
    heard: SignalSafeQueue[Utterance | Exception | None] = SignalSafeQueue()
    cancelled = threading.Event()

    def ask() -> None:
        for utterance in model.ask(request, cancelled):
            heard.put(utterance)

    # What ends it belongs to the thread that listens: a fault, or None.
    threading.Thread(target=lambda: heard.put(fault_of(ask)), daemon=True, name="model").start()
    try:
        while True:
            if stop.is_set():
                raise CalledOff
            try:
                utterance = heard.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if utterance is None:
                return
            if isinstance(utterance, Exception):
                raise utterance
            yield utterance
    finally:
        cancelled.set()


@dataclass(slots=True)
class StructuredOutput:
    """What one turn is to hand in, and how that went so far."""

    schema: Mapping[str, object]
    most: int = TRIES
    tries: int = 0
    fault: str = ""
    nudged: bool = False
    accepted: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    """What was handed in; the last one stands (2.1.325, two calls in one message)."""

    @property
    def is_given_up(self) -> bool:
        return not self.accepted and self.tries >= self.most

    def offer(self) -> ToolOffer:
        return ToolOffer(TOOL, _DESCRIPTION, self.schema)

    def take(self, arguments: Mapping[str, object]) -> ToolResult:
        """Accept what keeps to the schema; say what is wrong with anything else."""
        self.tries += 1
        if faults := violations(self.schema, arguments):
            self.fault = f"Output does not match required schema: {', '.join(faults)}"
            return failed(self.fault)
        self.accepted.append(arguments)
        return ToolResult(_OUTPUT_TAKEN, detail=_OUTPUT_TAKEN)


class Leaving(Exception):
    """The process is about to end: nothing more is said."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, as the model wrote it."""

    id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(slots=True)
class Done:
    """What one turn's calls left behind."""

    results: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    follow_ups: list[str] = field(default_factory=list[str])
    denials: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one session, and who may use them."""

    tools: Mapping[str, Tool]
    disabled: frozenset[str]
    permissions: Permissions
    desk: Desk
    stream: Stream
    leaving: threading.Event

    def offers(self, verdict: StructuredOutput | None) -> list[ToolOffer]:
        """Return every tool as the model sees it, sorted by name."""
        offers = [ToolOffer(tool.name, tool.description, tool.input_schema) for tool in self.tools.values()]
        return sorted([*offers, *([verdict.offer()] if verdict else [])], key=lambda offer: offer.name)

    def run(self, calls: Sequence[ToolCall], verdict: StructuredOutput | None, done: Done) -> None:
        """Run the calls in their order; an interrupt rejects the running one and all that follow."""
        stop = self.desk.stop
        for call in calls:
            if stop.is_set():
                self._tell(call, _called_off(_REJECTED), _CALLED_OFF, done)
                continue
            result, meta = self._attempt(call, verdict, done)
            if stop.is_set() and not self.leaving.is_set():
                result, meta = _called_off(_STOPPED), _CALLED_OFF
            self._tell(call, result, meta, done)
            if self.leaving.is_set():
                raise Leaving
        if stop.is_set():
            raise CalledOff

    def _attempt(
        self, call: ToolCall, verdict: StructuredOutput | None, done: Done
    ) -> tuple[ToolResult, Mapping[str, object]]:
        if call.name == TOOL and verdict is not None:
            return verdict.take(call.arguments), _ACCEPTED
        tool = self.tools.get(call.name)
        if tool is None:
            return self._unknown(call.name), {}
        if faults := argument_faults(tool.input_schema, call.arguments):
            return _malformed(call.name, faults), {}
        if fault := _unusable(call.arguments):
            return rejected(fault), {}
        try:
            decision = self.permissions.decide(call.name, call.arguments, self.desk)
            if isinstance(decision, Allowed):
                result = tool.run(call.arguments, self.desk)
                return result, _accepted(decision) if result.was_tried else {}  # {}: the call itself was wrong
        except Exception as error:  # a boundary: the model gets every fault of a call, and may find a way round
            return crashed(call.name, str(error) or type(error).__name__), {}
        return self._denied(call, decision, done), _refused(decision)

    def _unknown(self, name: str) -> ToolResult:
        said = f"Error: No such tool available: {name}"
        if name in self.disabled:
            said += f". {name} is disabled for this session, in subagents as well as here."
        return ToolResult(f"<tool_use_error>{said}</tool_use_error>", is_error=True, detail=said)

    def _denied(self, call: ToolCall, denied: Denied, done: Done) -> ToolResult:
        reasons = {"decision_reason_type": denied.reason_type, "decision_reason": denied.reason}
        given = {name: reason for name, reason in reasons.items() if reason}
        self.stream.system(
            "permission_denied", tool_name=call.name, tool_use_id=call.id, **given, message=denied.message
        )
        done.denials.append({"tool_name": call.name, "tool_use_id": call.id, "tool_input": dict(call.arguments)})
        return rejected(denied.message) if denied.is_rejection else failed(denied.message)

    def _tell(self, call: ToolCall, result: ToolResult, meta: Mapping[str, object], done: Done) -> None:
        content = [dict(block) for block in result.blocks] if result.blocks else result.content
        block: dict[str, object] = {"tool_use_id": call.id, "type": "tool_result", "content": content}
        if result.is_error or call.name == "Bash":  # of the tools, only Bash says that it did not fail (2.1.325)
            block["is_error"] = result.is_error
        more = {"tool_result_meta": [{"id": call.id, **meta}]} if meta else {}
        self.stream.user([block], tool_use_result=result.detail, **more)
        done.results.append(block)
        if result.follow_up:
            self.stream.user([{"type": "text", "text": result.follow_up}], isSynthetic=True)
            done.follow_ups.append(result.follow_up)


def calls_of(blocks: Sequence[Block]) -> list[ToolCall]:
    """The calls among a message's blocks."""
    return [
        ToolCall(ndjson.text(block.get("id")), ndjson.text(block.get("name")), ndjson.mapping(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]


def _unusable(arguments: Mapping[str, object]) -> str:
    """Return why the system cannot take an argument: it has a NUL, or half of a character; empty: it can."""
    for name in _FOR_THE_SYSTEM:
        value = ndjson.text(arguments.get(name))
        if "\0" in value:
            return f"{name} must not contain a NUL character"
        try:
            os.fsencode(value)
        except UnicodeEncodeError:
            return f"{name} must not contain a lone surrogate"
    return ""


def _called_off(said: str) -> ToolResult:
    return ToolResult(said, is_error=True, detail="User rejected tool use")


def _malformed(name: str, faults: Sequence[str]) -> ToolResult:
    said = f"InputValidationError: {name} failed due to the following {'issue' if len(faults) == 1 else 'issues'}:\n"
    said += "\n".join(faults)
    return ToolResult(f"<tool_use_error>{said}</tool_use_error>", is_error=True, detail=said)


def _accepted(allowed: Allowed) -> Mapping[str, object]:
    reason = {"reason_type": allowed.reason_type} if allowed.reason_type else {}
    return {"permission_decision": {"decision": "accept", "source": allowed.source, **reason}}


def _refused(denied: Denied) -> Mapping[str, object]:
    """How the call was refused: as if the user had been asked and had said no, or by decree."""
    by_decree = denied.by != "ask"
    decision = {"decision": "reject", "source": denied.source, **({"reason_type": denied.by} if by_decree else {})}
    kind = {} if denied.is_rejection else {"non_execution_kind": "permission-rule" if by_decree else "user-rejected"}
    return {**kind, "permission_decision": decision}
