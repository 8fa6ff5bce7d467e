"""The events that a session prints, and the ways a turn can end, field by field as in Claude Code 2.1.325.

Fields for features that ralph-claude does not have (plugins, agents, fast mode) hold the value of an unused feature.
"""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ralph.claude_cli.mcp_config import PREFIX, display
from ralph.claude_cli.models.base import Block, FellBack, ModelError, Retrying, display_name
from ralph.claude_cli.stdio import Event, ResultOutput, UserMessage
from ralph.claude_cli.usage import message_usage, usage
from ralph.core import ndjson
from ralph.core.usage import Tokens

Piece: TypeAlias = dict[str, object]

VERSION = "2.1.325"
"""The Claude Code whose stream this is."""

AGENT = "Agent"
_SHOWN = {AGENT: "Task"}
"""Tools that init calls otherwise (2.1.325)."""


def message_start(message_id: str, model: str, tokens: Tokens) -> Piece:
    message: Piece = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": message_usage(tokens),
    }
    return {"type": "message_start", "message": message}


def block_start(index: int, block: Block) -> list[Piece]:
    """A block as it begins, empty, and what it then is filled with."""
    empty, deltas = _unfilled(block)
    return [
        {"type": "content_block_start", "index": index, "content_block": {**block, **empty}},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
    ]


def block_stop(index: int) -> Piece:
    return {"type": "content_block_stop", "index": index}


def message_end(stop_reason: str, tokens: Tokens) -> list[Piece]:
    """The end of a message, which alone tells its final output."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens.output}},
        {"type": "message_stop"},
    ]


def _unfilled(block: Block) -> tuple[Mapping[str, object], list[Piece]]:
    match block.get("type"):
        case "text":
            return {"text": ""}, [{"type": "text_delta", "text": block.get("text")}]
        case "thinking":
            signature = {"type": "signature_delta", "signature": block.get("signature")}
            thought: Piece = {"type": "thinking_delta", "thinking": block.get("thinking")}
            return {"thinking": "", "signature": ""}, [thought, signature]
        case "tool_use":
            written = json.dumps(block.get("input"), ensure_ascii=False)
            return {"input": {}}, [{"type": "input_json_delta", "partial_json": written}]
        case _:
            return {}, []


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """What one turn came to."""

    subtype: str
    is_error: bool
    stop_reason: str | None
    terminal_reason: str
    fields: Mapping[str, object] = field(default_factory=dict[str, object])
    """What only this kind of result says: `result` or `errors`, `structured_output`, the API's own words."""

    plain: str = ""
    """What text output prints."""


def finished(text: str, stop_reason: str) -> TurnEnd:
    """The model has said its last word."""
    fields: dict[str, object] = {"api_error_status": None, "result": text}
    return TurnEnd("success", False, stop_reason, "completed", fields, f"{text}\n")


def answered(structured: object, stop_reason: str) -> TurnEnd:
    """The model has handed in what the schema asks for."""
    text = ndjson.encode(structured)
    fields: dict[str, object] = {"api_error_status": None, "result": text, "structured_output": structured}
    return TurnEnd("success", False, stop_reason, "completed", fields, f"{text}\n")


def unanswered(tries: int, fault: str) -> TurnEnd:
    """The model has violated the schema too often."""
    said = f"Failed to provide valid structured output after {tries} attempts — last StructuredOutput error: {fault}"
    reason = "structured_output_retry_exhausted"
    return _error("error_max_structured_output_retries", "tool_use", reason, said, f"Error: {said}")


def held_by_hook(reason: str, text: str, stop_reason: str | None) -> TurnEnd:
    """A hook has ended the turn; `reason` is claude's word for when."""
    fields: dict[str, object] = {"api_error_status": None, "result": text}
    return TurnEnd("success", False, stop_reason, reason, fields, f"{text}\n")


def turned_away(said: str) -> TurnEnd:
    """A hook did not let the prompt through."""
    return TurnEnd("success", False, None, "", {"result": said}, f"{said}\n")


def out_of_turns(most: int, stop_reason: str) -> TurnEnd:
    said = f"Reached maximum number of turns ({most})"
    return _error("error_max_turns", stop_reason, "max_turns", said, f"Error: Reached max turns ({most})")


def out_of_money(most: float, stop_reason: str | None) -> TurnEnd:
    said = f"Reached maximum budget (${most:g})"
    plain = f"Error: Exceeded USD budget ({most:g})"
    return _error("error_max_budget_usd", stop_reason, "budget_exhausted", said, plain)


def interrupted(*, in_tools: bool) -> TurnEnd:
    stop_reason = "tool_use" if in_tools else None
    said = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop_reason or 'null'}"
    reason = "aborted_tools" if in_tools else "aborted_streaming"
    return _error("error_during_execution", stop_reason, reason, said, "Error: Request interrupted by user")


def failed(error: ModelError) -> TurnEnd:
    """The model was not available. The subtype `success` with `is_error` is what claude itself prints."""
    fields = {"api_error_status": error.status, "result": error.text, **error.facts}
    return TurnEnd("success", True, "stop_sequence", error.terminal_reason, fields, f"{error.text}\n")


def _error(subtype: str, stop_reason: str | None, reason: str, said: str, plain: str) -> TurnEnd:
    return TurnEnd(subtype, True, stop_reason, reason, {"errors": [said]}, plain)


def no_session(session_id: str, said: str) -> Event:
    """The only event of a process whose session is not there."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "duration_ms": 0,
        "duration_api_ms": 0,
        "is_error": True,
        "num_turns": 0,
        "stop_reason": None,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": usage(Tokens()),
        "modelUsage": {},
        "permission_denials": [],
        "uuid": str(uuid.uuid4()),
        "errors": [said],
        "result_index": 0,
    }


@dataclass(frozen=True, slots=True)
class Setting:
    """The facts about a session in `system/init`."""

    session_id: str
    cwd: str
    model: str
    tools: Sequence[str]
    permission_mode: str
    key_source: str
    skills: Sequence[str] = ()
    directories: Sequence[str] = ()
    agents: Sequence[str] = ()
    servers: Sequence[Mapping[str, object]] = ()
    """The MCP servers and their states."""

    far_tools: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """What `tool_use_meta` says of each tool of theirs."""

    server_errors: Sequence[Mapping[str, object]] = ()
    """The MCP servers whose entries make no sense."""


@dataclass(slots=True)
class Stream:
    """Says everything that a session prints."""

    setting: Setting
    output: ResultOutput
    in_pieces: bool = False
    """Partial messages are reported, too."""
    replays: bool = False
    """The user's messages are printed again."""
    results: int = 0
    said: int = field(default=0)
    """User events since the turn began: `num_turns` counts those, not the calls of the model."""
    blocks: int = 0
    """Blocks of the message in progress."""

    trail: list[str] = field(default_factory=list[str])
    """The events of the model's last message, and those after it."""

    _spoken: str = ""
    parent: str | None = None
    """The call that sent the subagent out whose stream this is."""

    about: Event = field(default_factory=dict[str, object])

    def begin_turn(self) -> None:
        """Every turn opens with an init of its own."""
        self.said = 0
        self.output.put(_system("init") | _init(self.setting) | self._stamp())

    def replay(self, message: UserMessage) -> None:
        """Print what another stage said, and with --replay-user-messages the user's message."""
        for event in message.before:
            self.output.put(dict(event))
        if self.replays:
            event = self._whole({"type": "user", "message": dict(message.said)}) | self._stamp()
            event |= {"uuid": message.id} if message.id else {}
            self.output.put(event | {"timestamp": _timestamp(), "isReplay": True})

    def system(self, subtype: str, **fields: object) -> None:
        self.output.put(_system(subtype) | fields | self._stamp())

    def hook_started(self, hook_id: str, name: str, event: str) -> None:
        self.system("hook_started", hook_id=hook_id, hook_name=name, hook_event=event)

    def hook_ended(self, hook_id: str, name: str, event: str, output: str, complaints: str, exit_code: int) -> None:
        self.system(
            "hook_response",
            hook_id=hook_id,
            hook_name=name,
            hook_event=event,
            output=output + complaints,
            stdout=output,
            stderr=complaints,
            exit_code=exit_code,
            outcome="success" if exit_code == 0 else "error",
        )

    def thinking(self, characters: int) -> None:
        tokens = -(-characters // 4)
        self.system("thinking_tokens", estimated_tokens=tokens, estimated_tokens_delta=tokens)

    def retrying(self, retry: Retrying) -> None:
        self.system(
            "api_retry",
            attempt=retry.attempt,
            max_retries=retry.most,
            retry_delay_ms=retry.delay_ms,
            error_status=retry.status,
            error=retry.error,
        )

    def fell_back(self, step: FellBack) -> None:
        original, fallback = display_name(step.original), display_name(step.fallback)
        match step.trigger:
            case "model_not_found":
                why = f"because {original} is not available"
            case "last_resort":
                why = f"because {original} returned an error that could not be retried ({step.said})"
            case _:
                why = f"due to high demand for {original}"
        self.system(
            "model_fallback",
            trigger=step.trigger,
            original_model=step.original,
            fallback_model=step.fallback,
            content=f"Switched to {fallback} {why}",
        )

    def quota(self, info: Mapping[str, object]) -> None:
        self.output.put({"type": "rate_limit_event", "rate_limit_info": dict(info), **self._stamp()})

    def asking(self) -> None:
        """The model is about to be asked."""
        if self.in_pieces:
            self.system("status", status="requesting")

    def message_started(self, message_id: str, model: str, tokens: Tokens) -> None:
        self.blocks = 0
        self._tell(message_id, message_start(message_id, model, tokens))

    def message_ended(self, message_id: str, stop_reason: str, tokens: Tokens) -> None:
        self._tell(message_id, *message_end(stop_reason, tokens))

    def assistant(self, message_id: str, model: str, block: Block, tokens: Tokens) -> None:
        """One block of a message: an event each, all with the usage of the message's start."""
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [dict(block)],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": message_usage(tokens),
            "context_management": None,
        }
        event = self._whole({"type": "assistant", "message": message}) | self._stamp() | {"timestamp": _timestamp()}
        if block.get("type") == "thinking":
            event |= {"thinking_duration_ms": 1, "thinking_display": "updates"}
        if (name := ndjson.text(block.get("name"))).startswith(PREFIX) and block.get("type") == "tool_use":
            meta = self.setting.far_tools.get(name, {"display_name": display(name)})
            event |= {"tool_use_meta": [{"id": block.get("id"), **meta}]}
        self._tell(message_id, *block_start(self.blocks, block))
        if message_id != self._spoken:
            self.trail, self._spoken = [], message_id
        self.trail.append(str(event["uuid"]))
        self.output.put(event)
        self._tell(message_id, block_stop(self.blocks))
        self.blocks += 1

    def failure(self, error: ModelError) -> None:
        """The message that is made up where the model gave none."""
        absent = {"service_tier": None, "inference_geo": None, "iterations": None, "speed": None}
        message = {
            "diagnostics": None,
            "id": str(uuid.uuid4()),
            "container": None,
            "model": "<synthetic>",
            "role": "assistant",
            "stop_details": None,
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
            "type": "message",
            "usage": usage(Tokens()) | {"output_tokens_details": None} | absent,
            "content": [{"type": "text", "text": error.text}],
            "context_management": None,
        }
        event = self._whole({"type": "assistant", "message": message}) | self._stamp() | {"timestamp": _timestamp()}
        event |= {"error": error.error, "is_api_error_message": True, **error.facts}
        self.output.put(event if error.status is None else event | {"api_error_status": error.status})

    def user(self, content: Sequence[Mapping[str, object]], **fields: object) -> None:
        self.said += 1
        message = {"role": "user", "content": [dict(block) for block in content]}
        event = self._whole({"type": "user", "message": message}) | self._stamp() | {"timestamp": _timestamp()} | fields
        self.trail.append(str(event["uuid"]))
        self.output.put(event)

    def result(
        self, outcome: TurnEnd, figures: Mapping[str, object], times: Mapping[str, int], **fields: object
    ) -> None:
        event: Event = {
            "stop_reason": outcome.stop_reason,
            "session_id": self.setting.session_id,
            **({"terminal_reason": outcome.terminal_reason} if outcome.terminal_reason else {}),
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "safety_stops": 0,
            "is_error": outcome.is_error,
            "num_turns": 1 + self.said if outcome.terminal_reason else 0,
            "subtype": outcome.subtype,
            **outcome.fields,
            **figures,
            **times,
            **fields,
            "type": "result",
            "uuid": str(uuid.uuid4()),
            "queued_turn_count": 0,
            "result_index": self.results,
        }
        self.results += 1
        self.output.put(event, outcome.plain)

    def control(self, request_id: str, response: Mapping[str, object], **more: object) -> None:
        answer = {"subtype": "success", "request_id": request_id, "response": dict(response), **more}
        self.output.put({"type": "control_response", "response": answer})

    def control_refused(self, request_id: str, subtype: str) -> None:
        said = f"Unsupported control request subtype: {subtype}"
        answer = {"subtype": "error", "request_id": request_id, "error": said, "error_code": "unsupported_request"}
        self.output.put({"type": "control_response", "response": answer})

    def _tell(self, message_id: str, *told: Piece) -> None:
        if self.in_pieces:
            for piece in told:
                event = self._whole({"type": "stream_event", "event": piece}) | self._stamp()
                self.output.put(event | {"api_message_id": message_id})

    def _whole(self, event: Event) -> Event:
        return event | {"parent_tool_use_id": self.parent} | self.about

    def _stamp(self) -> Event:
        return {"session_id": self.setting.session_id, "uuid": str(uuid.uuid4())}


def _system(subtype: str) -> Event:
    return {"type": "system", "subtype": subtype}


def _timestamp() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"


def _init(setting: Setting) -> Event:
    errors = [dict(error) for error in setting.server_errors]
    return {
        **({"mcp_server_errors": errors} if errors else {}),
        "cwd": setting.cwd,
        "tools": [_SHOWN.get(name, name) for name in setting.tools],
        "mcp_servers": [dict(server) for server in setting.servers],
        "model": setting.model,
        "permissionMode": setting.permission_mode,
        "slash_commands": list(setting.skills),
        "terminal_slash_commands": [],
        "apiKeySource": setting.key_source,
        "claude_code_version": VERSION,
        "output_style": "default",
        "agents": list(setting.agents),
        "skills": list(setting.skills),
        "plugins": [],
        "capabilities": ["interrupt_receipt_v1"],
        "analytics_disabled": True,
        "product_feedback_disabled": True,
        "memory_paths": {},
        "original_cwd": setting.cwd,
        "additional_directories": list(setting.directories),
        "messaging_socket_path": "",
        "fast_mode_state": "off",
        "fast_mode_disabled_reason": "sdk_opt_in_required",
        "per_turn_effort_active": True,
        "ultrathink_available": False,
        "ultrathink_typed_raises": False,
        "view_mode": "default",
    }
