"""The three forms of output: a stream of events, one document, or the last word alone."""

import sys
import threading
from typing import Protocol

from ralph.core import ndjson
from ralph.core.errors import RalphError

Event = dict[str, object]


class OutputLost(RalphError):
    """What is said reaches nobody: a full disk, a reader that has gone."""

    def __init__(self, error: OSError) -> None:
        super().__init__("" if isinstance(error, BrokenPipeError) else f"cannot write to stdout: {error.strerror}")


class Output(Protocol):
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
