"""`ralph transcript`: the events that ralph reads in a log that an agent left."""

import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ralph.agents import registry
from ralph.agents.base import transcript_names
from ralph.agents.registry import TRANSCRIPTS, sniff
from ralph.agents.transcript import Reader
from ralph.core import ndjson
from ralph.core.errors import DiskError, RalphError, UsageError, fault_of
from ralph.core.events import Event
from ralph.core.ndjson import LineSplitter, Oversized
from ralph.core.records import to_json
from ralph.core.text import timestamp
from ralph.ui.console import Console, write_json
from ralph.ui.output import Output
from ralph.ui.render import Detail

_AUTO = "auto"
_CHUNK = 1 << 16
_MOST_HELD = 1 << 20
"""Bytes to search for the line that decides the transcript; without one, a log is plain."""

_Lines = Sequence[bytes | Oversized]
_Show = Callable[[Sequence[Event]], None]


def retell(file: str, name: str, *, as_json: bool, detail: Detail = Detail.NORMAL) -> None:
    """Write the events of a log to stdout until it ends or the reader leaves."""
    if name not in (_AUTO, *TRANSCRIPTS) and name not in (known := transcript_names()):
        raise UsageError(f"--transcript {name}: no such transcript", f"use one of {', '.join([_AUTO, *known])}")
    output = Output(sys.stdout, timeout=math.inf)  # a pager reads slowly
    console = Console(output, detail)
    show = _json(output) if as_json else _for_people(console)
    with _opened(file) as stream:
        for events in _events(_lines(stream, file), name):
            show(events)
            if output.closed:
                break
    if not as_json:
        console.close_session()
    if output.fault is not None:
        raise RalphError(
            f"cannot write to stdout: {output.fault.strerror}", "write to another place, or free some disk space"
        )


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    if not file:
        raise UsageError("FILE is empty", "pass a file, or - for stdin")
    if file == "-" and sys.stdin is not None:  # it is None where it was closed
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(os.devnull if file == "-" else file).open("rb")
    except OSError as error:
        hint = "pass a file with an agent's output; ralph keeps its own logs in .ralph/logs"
        raise UsageError(f"cannot read {file}: {error.strerror or error}", hint) from error


def _lines(stream: BinaryIO, file: str) -> Iterator[_Lines]:
    """Yield the lines of each chunk as it arrives: a pipe may be slow."""
    splitter = LineSplitter()
    try:
        while chunk := os.read(stream.fileno(), _CHUNK):
            yield splitter.feed(chunk)
    except OSError as error:
        raise DiskError(file, error) from error
    yield splitter.flush()


def _events(batches: Iterator[_Lines], name: str) -> Iterator[list[Event]]:
    held: Iterable[_Lines] = ()
    if name == _AUTO:
        name, held = _sniffed(batches)
    reader = Reader(registry.find_transcript(name)())
    for lines in itertools.chain(held, batches):
        yield [event for line in lines for event in (*reader.hear(line), *reader.settle())]
    yield reader.close()


def _sniffed(batches: Iterator[_Lines]) -> tuple[str, list[_Lines]]:
    """Return the transcript's name, decided by the first telling line, and the lines read so far."""
    held: list[_Lines] = []

    def looked_at() -> Iterator[str]:
        size = 0
        for lines in batches:
            held.append(lines)
            for line in lines:
                if isinstance(line, bytes):
                    size += len(line) + 1
                    yield line.decode("utf-8", "replace")
            if size > _MOST_HELD:
                return

    return sniff(looked_at()), held


def _json(output: Output) -> _Show:
    numbers = itertools.count(1)

    def show(events: Sequence[Event]) -> None:
        at = timestamp(time.time())
        stamped = [{"seq": next(numbers), "at": at, **to_json(event)} for event in events]
        write_json(output, ndjson.encode_lines(stamped))

    return show


def _for_people(console: Console) -> _Show:
    def show(events: Sequence[Event]) -> None:
        if fault_of(lambda: console(events, None, b"")) is None:
            return
        for event in events:  # nobody else has the events, so each is tried by itself
            if error := fault_of(partial(console, [event], None, b"")):
                console.say("ralph", f"{event.type}: cannot show this event ({type(error).__name__})")

    return show
