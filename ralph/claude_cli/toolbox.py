"""Running what the model calls for: its stream of replies, permission checks, tool runs, and the structured output."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ralph.claude_cli.desk import Desk, Tool, ToolResult, crashed, failed, rejected
from ralph.claude_cli.flags import BadUsage
from ralph.claude_cli.hooks import Hooks, HookVerdict, reminders
from ralph.claude_cli.mcp_config import PREFIX
from ralph.claude_cli.models.base import Block, ToolOffer
from ralph.claude_cli.models.fallback import CalledOff
from ralph.claude_cli.permissions.decide import Permissions
from ralph.claude_cli.permissions.prompt import PermissionPrompt, PromptFault
from ralph.claude_cli.permissions.rules import Allowed, Denied
from ralph.claude_cli.schemas import argument_faults, violations
from ralph.claude_cli.stream import AGENT, Stream
from ralph.claude_cli.tools.mcp import McpTools
from ralph.core import ndjson

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
_REFUSED_BY_PROMPT: Mapping[str, object] = {
    "non_execution_kind": "permission-rule",
    "permission_decision": {"decision": "reject", "source": "user_reject"},
}
_ACCEPTED: Mapping[str, object] = {"permission_decision": {"decision": "accept", "source": "config"}}
_BY_HOOK: Mapping[str, object] = {"source": "hook", "reason_type": "hook"}
_BLOCKED: Mapping[str, object] = {
    "non_execution_kind": "permission-rule",
    "permission_decision": {"decision": "reject", **_BY_HOOK},
}


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


class BudgetSpent(Exception):
    """A subagent has spent what the session may cost."""


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

    fatal: BadUsage | None = None
    """The session cannot go on: nobody is there to be asked for permissions."""

    results: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    follow_ups: list[str] = field(default_factory=list[str])
    contexts: list[str] = field(default_factory=list[str])
    """What hooks add for the model; no event shows it."""

    denials: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    is_stopped: bool = False
    """A hook wants no further request."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one session, and who may use them."""

    tools: dict[str, Tool]
    disabled: frozenset[str]
    permissions: Permissions
    desk: Desk
    stream: Stream
    hooks: Hooks
    leaving: threading.Event
    servers: McpTools | None = None
    prompt: PermissionPrompt | None = None
    """Who is asked where no rule decides; None: nobody."""

    def connect(self) -> list[str]:
        """Wait for MCP servers, and offer their tools; return what the model should know of them."""
        if self.servers is None or self.stream.setting.servers:
            return []
        self.servers.wait(self.desk.stop)
        found = self.servers.tools()
        gone = self.permissions.removed(found) | ({self.prompt.name} if self.prompt else set[str]())
        self.tools.update({name: tool for name, tool in found.items() if name not in gone})
        self.stream.setting = replace(
            self.stream.setting,
            tools=sorted({*self.stream.setting.tools, *(found.keys() - gone)}),
            servers=self.servers.statuses(),
            server_errors=self.servers.errors,
            far_tools={name: tool.meta for name, tool in found.items()},
        )
        return self.servers.notes()

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
            self.desk.call_id = call.id
            result, meta = self._attempt(call, verdict, done)
            done.denials += result.denials
            if result.is_spent:
                raise BudgetSpent
            if stop.is_set() and not self.leaving.is_set():
                result, meta = _called_off(_STOPPED), _CALLED_OFF
            self._tell(call, result, meta, done)
            if self.leaving.is_set():
                raise Leaving
            if done.fatal is not None:
                raise done.fatal
        if stop.is_set():
            raise CalledOff

    def _attempt(
        self, call: ToolCall, verdict: StructuredOutput | None, done: Done
    ) -> tuple[ToolResult, Mapping[str, object]]:
        tool = self.tools.get(AGENT if call.name == "Task" else call.name)  # its name in earlier versions
        is_verdict = call.name == TOOL and verdict is not None
        if not is_verdict:
            if tool is None:
                return self._unknown(call.name), {}
            if fault := _fault(tool, call.arguments):
                return fault, {}
        guard = self.hooks.run("PreToolUse", call.name, **_facts(call))
        self._pass_on(guard, call, done)
        if guard.decision == "deny":
            self._deny(call, done)
            return failed(f"PreToolUse:{call.name} hook error: {guard.reason}"), _BLOCKED
        if guard.arguments is not None:
            call = replace(call, arguments=guard.arguments)
            if tool is not None and (fault := _fault(tool, call.arguments)):
                return fault, {}
        began = time.monotonic()
        if verdict is not None and is_verdict:
            result, meta = verdict.take(call.arguments), _ACCEPTED
        elif tool is not None:
            result, meta, ran = self._use(tool, call, guard, done)
            if not ran:
                return result, meta
        else:
            return self._unknown(call.name), {}
        self._look_back(call, result, int((time.monotonic() - began) * 1000), done)
        return result, meta

    def _use(
        self, tool: Tool, call: ToolCall, guard: HookVerdict, done: Done
    ) -> tuple[ToolResult, Mapping[str, object], bool]:
        """Run the tool, if it may run; tell also whether it was tried."""
        try:
            decision = self._decide(call, guard)
            said = "allowed" if isinstance(decision, Allowed) else f"not allowed by {decision.by}"
            self.desk.debug.tell("permissions", f"{call.name}: {said}", id=call.id)
            if isinstance(decision, Denied) and self.prompt is not None and decision.may_be_asked:
                return self._prompted(self.prompt, tool, call, done)
            if isinstance(decision, Allowed):
                result = tool.run(call.arguments, self.desk)
                # {}: the call itself was wrong
                return result, _accepted(decision) if result.was_tried else {}, result.was_tried
        except Exception as error:  # a boundary: the model gets every fault of a call, and may find a way round
            return crashed(call.name, str(error) or type(error).__name__), {}, False
        return self._denied(call, decision, done), _refused(decision), False

    def _decide(self, call: ToolCall, guard: HookVerdict) -> Allowed | Denied:
        decision = self.permissions.decide(call.name, call.arguments, self.desk)
        if guard.decision == "allow" and (isinstance(decision, Allowed) or decision.by == "ask"):
            return Allowed("hook", "hook")
        if guard.decision == "ask" and isinstance(decision, Allowed):
            return Denied(guard.reason or f"Claude requested permissions to use {call.name}.", "hook", guard.reason)
        return decision

    def _look_back(self, call: ToolCall, result: ToolResult, took: int, done: Done) -> None:
        """Let hooks see what a call came to."""
        if result.is_error:
            outcome = {"error": result.content, "is_interrupt": self.desk.stop.is_set()}
            verdict = self.hooks.run("PostToolUseFailure", call.name, **_facts(call), **outcome, duration_ms=took)
        else:
            outcome = {"tool_response": result.detail}
            verdict = self.hooks.run("PostToolUse", call.name, **_facts(call), **outcome, duration_ms=took)
        for block in verdict.blocks:
            event = "PostToolUseFailure" if result.is_error else "PostToolUse"
            error = f'hook blocking error from command: "{block.command}": {block.said}'
            verdict.contexts.append(f"{event}:{call.name} {error}")
        self._pass_on(verdict, call, done)

    def _pass_on(self, verdict: HookVerdict, call: ToolCall, done: Done) -> None:
        """Give the user and the model what hooks have to say."""
        for notice in verdict.notices:
            self.stream.system("informational", content=notice, level="notice")
        for warning, timed_out in verdict.lost:
            about = {"hook_event": "PreToolUse", "tool_use_id": call.id, "timed_out": timed_out}
            self.stream.system(
                "informational", content=warning, level="warning", tag="hook_no_verdict", hook_no_verdict=about
            )
        done.contexts += reminders(verdict.contexts)
        done.is_stopped |= verdict.stopped is not None

    def _prompted(
        self, prompt: PermissionPrompt, tool: Tool, call: ToolCall, done: Done
    ) -> tuple[ToolResult, Mapping[str, object], bool]:
        """Ask whether the call may run, and run it if it may."""
        try:
            answer = prompt.ask(call.name, call.arguments, self.desk)
        except PromptFault as fault:
            return crashed(call.name, str(fault)), {}, False
        except BadUsage as fault:
            done.fatal = fault
            return crashed(call.name, str(fault)), {}, False
        if not answer.is_allowed:
            self._deny(call, done)
            if answer.interrupts:
                self.desk.stop.set()
            return failed(answer.message), _REFUSED_BY_PROMPT, False
        result = tool.run(call.arguments if answer.arguments is None else answer.arguments, self.desk)
        return result, _accepted(Allowed("", "user_temporary")) if result.was_tried else {}, result.was_tried

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
        self._deny(call, done)
        return rejected(denied.message) if denied.is_rejection else failed(denied.message)

    def _deny(self, call: ToolCall, done: Done) -> None:
        done.denials.append({"tool_name": call.name, "tool_use_id": call.id, "tool_input": dict(call.arguments)})

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


def _facts(call: ToolCall) -> dict[str, object]:
    return {"tool_name": call.name, "tool_input": dict(call.arguments), "tool_use_id": call.id}


def _fault(tool: Tool, arguments: Mapping[str, object]) -> ToolResult | None:
    """What is wrong with the arguments of a call."""
    if tool.name.startswith(PREFIX):  # those are for the server to judge
        return None
    if faults := argument_faults(tool.input_schema, arguments):
        return _malformed(tool.name, faults)
    return rejected(fault) if (fault := _unusable(arguments)) else None


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
