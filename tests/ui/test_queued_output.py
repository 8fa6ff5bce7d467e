"""Lines for a reader who stops reading: nobody is held up, and nothing is lost that there is room for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ralph.ui.output import Output, QueuedOutput

LINES = [b"%06d %s\n" % (number, b"x" * 1000) for number in range(1000)]  # far more than a pipe holds


@contextmanager
def relayed(in_haste: bool = False) -> Iterator[tuple[QueuedOutput, BinaryIO]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        yield QueuedOutput(Output(stream, lambda: in_haste)), reader


def read(reader: BinaryIO, into: list[bytes], most: int) -> threading.Thread:
    """Begin to read so many lines."""
    thread = threading.Thread(target=lambda: into.extend(reader.readline() for _ in range(most)))
    thread.start()
    return thread


def test_who_does_not_read_holds_nobody_up_and_finds_all_of_it_later() -> None:
    with relayed() as (relay, reader):
        began = time.monotonic()
        for line in LINES:
            relay.write_bytes(line)
        assert time.monotonic() - began < 30, "an output would wait for a minute"
        found: list[bytes] = []
        reading = read(reader, found, len(LINES) + 1)
        relay.finish()
        relay.write("and more\n")
        reading.join()
    assert found == [*LINES, b"and more\n"]


def test_where_everything_is_read_nothing_waits_and_there_is_no_thread() -> None:
    before = threading.active_count()
    with relayed() as (relay, reader):
        for number in range(10):
            relay.write(f"{number}\n")
            assert reader.readline() == f"{number}\n".encode()
        assert threading.active_count() == before


def test_in_haste_nobody_is_waited_for() -> None:
    with relayed(in_haste=True) as (relay, reader):
        began = time.monotonic()
        for line in LINES:
            relay.write_bytes(line)
        relay.finish()
        assert time.monotonic() - began < 30
        found: list[bytes] = []
        read(reader, found, len(LINES)).join()
    assert found == LINES, "what there is room for in memory is not lost by that"


def test_in_haste_who_reads_gets_the_last_words_too() -> None:
    with relayed(in_haste=True) as (relay, reader):
        for line in LINES:
            relay.write_bytes(line)
        found: list[bytes] = []
        reading = read(reader, found, len(LINES))
        relay.finish()
        at_the_end = len(found)
        reading.join()
    assert at_the_end > 100, "more than the pipe held: nobody writes when ralph is gone"
