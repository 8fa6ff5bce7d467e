"""The two ends of a session: messages and control requests read from stdin, and results written to stdout."""

import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ralph.core import ndjson
from ralph.core.errors import RalphError

Content = Sequence[Mapping[str, object]]

Event = dict[str, object]


class BadInput(Exception):
    """A line that ends the process; worded as claude does."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says: content blocks of the Messages API."""

    content: Content
    said: Mapping[str, object] = field(default_factory=dict[str, object])
    """The message as it came, for --replay-user-messages."""

    id: str = ""
    """The uuid that the harness gave it."""

    before: Sequence[Event] = ()
    """Events of another stage that are passed on ahead of the answer."""

    @property
    def text(self) -> str:
        return "\n".join(ndjson.text(block.get("text")) for block in self.content if block.get("type") == "text")


@dataclass(frozen=True, slots=True)
class Control:
    """What the harness wants of the process itself."""

    request_id: str
    subtype: str
    request: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """What the harness answers to a request of ours."""

    request_id: str
    response: Mapping[str, object]


def said(text: str) -> UserMessage:
    content = [{"type": "text", "text": text}]
    return UserMessage(content, {"role": "user", "content": content})


def read_line(line: bytes) -> UserMessage | Control | ControlAnswer | None:
    """Read one line of stream-json; None for a kind that means nothing to us."""
    text = line.decode("utf-8", "replace").strip()
    if not text:
        return None
    try:
        record = ndjson.mapping(ndjson.decode(text))
    except ndjson.Malformed as error:
        raise BadInput(f"Error parsing streaming input line (type=unknown, {len(text)} chars): SyntaxError") from error
    match record.get("type"):
        case "user":
            return _message(ndjson.mapping(record.get("message")), ndjson.text(record.get("uuid")))
        case "control_request":
            request = ndjson.mapping(record.get("request"))
            return Control(ndjson.text(record.get("request_id")), ndjson.text(request.get("subtype")), request)
        case "control_response":
            response = ndjson.mapping(record.get("response"))
            return ControlAnswer(ndjson.text(response.get("request_id")), response)
        case _:
            return None


def _message(message: Mapping[str, object], message_id: str) -> UserMessage:
    role = message.get("role")
    if role != "user":
        raise BadInput(f"Error: Expected message role 'user', got '{'undefined' if role is None else role}'")
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else ndjson.sequence(content)
    return UserMessage([ndjson.mapping(block) for block in blocks], message, message_id)


class Stdin:
    """Messages that wait for an answer. Filled by one thread, emptied by another.

    It also knows what an interrupt is meant for: a message that is being answered, or one that waits to be.
    """

    def __init__(self, stop: threading.Event) -> None:
        """`stop` cancels the current turn, or the next one; the reader clears it."""
        self._stop = stop
        self._waiting: deque[UserMessage] = deque()
        self._answering = False
        self._closed = False
        self._changed = threading.Condition()

    def put(self, message: UserMessage) -> None:
        with self._changed:
            self._waiting.append(message)
            self._changed.notify()

    def close(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def interrupt(self) -> None:
        """Call off the answer that is being given or is yet to be begun; when nothing is asked, there is none."""
        with self._changed:
            if self._answering or self._waiting:
                self._stop.set()

    def abandon(self) -> None:
        """Nothing more will come, what waits is not wanted, and what is being answered is called off."""
        with self._changed:
            self._waiting.clear()
            self._closed = True
            self._stop.set()
            self._changed.notify()

    def next(self) -> UserMessage | None:
        """Wait for a message; None once nothing waits and nothing more will come."""
        with self._changed:
            self._answering = False
            if not self._waiting:
                self._stop.clear()  # it came too late for a turn that had ended by itself
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._answering = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None

    def waiting(self) -> list[UserMessage]:
        """Take all waiting messages."""
        with self._changed:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken


class OutputLost(RalphError):
    """What is said reaches nobody: a full disk, a reader that has gone."""

    def __init__(self, error: OSError) -> None:
        super().__init__("" if isinstance(error, BrokenPipeError) else f"cannot write to stdout: {error.strerror}")


class ResultOutput(Protocol):
    """Where events go; `end` is called once, after the last."""

    def put(self, event: Event, plain: str | None = None) -> None:
        """Take an event; `plain` is what a result says in text output."""
        ...

    def end(self) -> None: ...


class StreamOutput:
    """Every event at once, one line each; also from two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def put(self, event: Event, plain: str | None = None) -> None:
        del plain
        with self._lock:
            _write(ndjson.encode_line(event))

    def end(self) -> None: ...


class JsonOutput:
    """One document at the end: the last result, or with --verbose the list of all events."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._events: list[Event] = []

    def put(self, event: Event, plain: str | None = None) -> None:
        if self._verbose:
            self._events.append(event)
        elif plain is not None:
            self._events = [event]

    def end(self) -> None:
        for event in self._events:
            event.pop("model_usage_since_last_result", None)  # only the stream has it (2.1.325)
        if self._events:
            document = self._events if self._verbose else self._events[0]
            _write(ndjson.encode_line(document))


class TextOutput:
    """The last word, and nothing else."""

    def __init__(self) -> None:
        self._plain = ""

    def put(self, event: Event, plain: str | None = None) -> None:
        del event
        if plain is not None:
            self._plain = plain

    def end(self) -> None:
        _write(self._plain.encode("utf-8", "replace"))


def _write(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputLost(error) from error
