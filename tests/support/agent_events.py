"""The events of `claude` as it prints them in stream-json, keys and values as seen on 2.1.325.

Part of the scripted agent's own process: standard library only, and few of its modules, for start-up counts.
"""

from __future__ import annotations

import os
import time

from tests.support.agent_account import usage_of

TYPE_CHECKING = False  # importing typing would take as long as all the rest
if TYPE_CHECKING:
    from typing import Any

    Event = dict[str, Any]

VERSION = "2.1.325"
NUDGE = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this tool now."
)
ACCEPTED = {"decision": "accept", "source": "config", "reason_type": "mode"}
REJECTED = {"decision": "reject", "source": "config"}
MODELS = {
    "haiku": "claude-haiku-5-5",
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "fable": "claude-fable-5-2",
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def uuid4() -> str:
    """A random UUID, without the millisecond that importing `uuid` takes."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def timestamp() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"


class Events:
    """Builds the events of one session; what they share is given once."""

    def __init__(self, session_id: str, cwd: str, model: str, tools: list[str], permission_mode: str) -> None:
        self.session_id = session_id
        self.cwd = cwd
        self.model = MODELS.get(model, model)
        self.tools = tools
        self.permission_mode = permission_mode

    def init(self) -> Event:
        return self.system(
            "init",
            cwd=self.cwd,
            tools=self.tools,
            mcp_servers=[],
            model=self.model,
            permissionMode=self.permission_mode,
            slash_commands=["compact", "context", "usage"],
            terminal_slash_commands=["doctor"],
            apiKeySource="none",
            claude_code_version=VERSION,
            output_style="default",
            agents=["claude", "general-purpose"],
            skills=[],
            plugins=[],
            capabilities=["interrupt_receipt_v1"],
            analytics_disabled=True,
            product_feedback_disabled=True,
            memory_paths={},
            original_cwd=self.cwd,
            additional_directories=[],
            messaging_socket_path="",
            fast_mode_state="off",
            fast_mode_disabled_reason="sdk_opt_in_required",
            per_turn_effort_active=True,
            ultrathink_available=False,
            ultrathink_typed_raises=False,
            view_mode="default",
        )

    def system(self, subtype: str, **fields: object) -> Event:
        return {"type": "system", "subtype": subtype, **fields, **self._stamp()}

    def assistant(self, message_id: str, block: Event, usage: dict[str, int]) -> Event:
        """One block of a message; `usage` is that of the message's start, whose output is not yet counted."""
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage | {"output_tokens": 1},
            "context_management": None,
        }
        event = {"type": "assistant", "message": message, "parent_tool_use_id": None, **self._stamp()}
        if block["type"] == "thinking":
            event |= {"thinking_duration_ms": 1, "thinking_display": "updates"}
        return event | {"timestamp": timestamp()}

    def api_error(self, status: int | None, text: str, error: str) -> Event:
        """The message claude makes up where the API gave none."""
        message = {
            "diagnostics": None,
            "id": uuid4(),
            "container": None,
            "model": "<synthetic>",
            "role": "assistant",
            "stop_details": None,
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
            "type": "message",
            "usage": usage_of({}) | {"service_tier": None, "inference_geo": None, "iterations": None, "speed": None},
            "content": [{"type": "text", "text": text}],
            "context_management": None,
        }
        event = {"type": "assistant", "message": message, "parent_tool_use_id": None, **self._stamp()}
        event |= {"timestamp": timestamp(), "error": error, "is_api_error_message": True}
        return event if status is None else event | {"api_error_status": status, **error_type_of(status)}

    def user_text(self, text: str, *, synthetic: bool = False) -> Event:
        event = self._user([{"type": "text", "text": text}])
        return event | {"isSynthetic": True} if synthetic else event

    def tool_done(self, tool_id: str, content: str, details: object, *, is_error: bool | None = None) -> Event:
        block: Event = {"tool_use_id": tool_id, "type": "tool_result", "content": content}
        if is_error is not None:
            block["is_error"] = is_error
        meta = {"id": tool_id, "permission_decision": ACCEPTED}
        return self._user([block]) | {"tool_use_result": details, "tool_result_meta": [meta]}

    def tool_refused(self, tool_id: str, content: str, details: str, decision: Event | None) -> Event:
        block = {"type": "tool_result", "content": content, "is_error": True, "tool_use_id": tool_id}
        meta: Event = {"id": tool_id, "non_execution_kind": "user-rejected"}
        if decision:
            meta["permission_decision"] = decision
        return self._user([block]) | {"tool_use_result": details, "tool_result_meta": [meta]}

    def result(self, **fields: object) -> Event:
        """A result whose first key is not its type, as claude orders them."""
        return {
            "duration_api_ms": 1,
            "session_id": self.session_id,
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "subagent_stats": {"spawned": 0, "completed": 0, "failed": 0},
            "safety_stops": 0,
            **fields,
            "type": "result",
            "uuid": uuid4(),
            "queued_turn_count": 0,
        }

    def _user(self, content: list[Event]) -> Event:
        message = {"role": "user", "content": content}
        event = {"type": "user", "message": message, "parent_tool_use_id": None, **self._stamp()}
        return event | {"timestamp": timestamp()}

    def _stamp(self) -> dict[str, str]:
        return {"session_id": self.session_id, "uuid": uuid4()}


def shell_output(printed: str) -> Event:
    """What a Bash call gives besides its text; claude folds stderr into stdout."""
    return {"stdout": printed, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}


def error_type_of(status: int | None) -> dict[str, str]:
    """The API's word for an HTTP status, where the API was reached."""
    return {"api_error_type": ERROR_TYPES.get(status, "api_error")} if status else {}
