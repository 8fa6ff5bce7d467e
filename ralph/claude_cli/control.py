"""Control requests to the harness: written to stdout, answered by a line on stdin.

The thread that holds the conversation asks and waits; the thread that reads stdin hands over the answers.
"""

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ralph.claude_cli.stdio import Event

_LOOK = 0.05
"""Seconds between two looks at whether the session was interrupted."""


class RequestFailed(Exception):
    """The harness refused a request, or will not answer it any more."""


@dataclass(slots=True)
class Requests:
    """The requests that wait for an answer of the harness."""

    put: Callable[[Event], None]
    """Write an event to stdout."""

    _answers: dict[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    _waiting: set[str] = field(default_factory=set[str])
    _closed: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def ask(
        self, request: Mapping[str, object], stop: threading.Event, timeout: float | None = None
    ) -> Mapping[str, object]:
        """Send one request and return the answer; raise RequestFailed, also when `stop` is set or time is up."""
        request_id = str(uuid.uuid4())
        with self._changed:
            if self._closed:
                raise RequestFailed("the harness has closed its end")
            self._waiting.add(request_id)
        self.put({"type": "control_request", "request_id": request_id, "request": dict(request)})
        left = timeout
        with self._changed:
            try:
                while request_id not in self._answers:
                    if stop.is_set() or (left is not None and left <= 0):
                        self._cancel(request_id)
                        raise RequestFailed("interrupted" if stop.is_set() else "the harness did not answer in time")
                    if self._closed:
                        raise RequestFailed("the harness has closed its end")
                    self._changed.wait(_LOOK)
                    left = None if left is None else left - _LOOK
                return self._content(self._answers.pop(request_id))
            finally:
                self._waiting.discard(request_id)

    def answer(self, request_id: str, response: Mapping[str, object]) -> None:
        """Hand over what the harness answered; an answer that nobody waits for is dropped."""
        with self._changed:
            if request_id in self._waiting:
                self._answers[request_id] = response
                self._changed.notify_all()

    def close(self) -> None:
        """Nothing more will come from the harness."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _cancel(self, request_id: str) -> None:
        self.put({"type": "control_cancel_request", "request_id": request_id})

    def _content(self, response: Mapping[str, object]) -> Mapping[str, object]:
        if response.get("subtype") == "error":
            raise RequestFailed(str(response.get("error") or "the harness refused the request"))
        content = response.get("response")
        return content if isinstance(content, dict) else {}  # pyright: ignore[reportUnknownVariableType] - JSON
