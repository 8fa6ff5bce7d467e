"""The way out: to readers that read, that do not, and that are gone."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ralph.ui.terminal import Output

LINES = [b"%06d %s\n" % (number, b"x" * 1000) for number in range(300)]  # more than a pipe holds


def test_who_is_not_read_is_not_waited_for_in_haste_and_no_line_is_torn() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as stream:
        outlet = Output(stream, in_haste=lambda: True)
        for line in LINES[:200]:
            outlet.write_bytes(line)
        first = reader.read(1 << 20)
        for line in LINES[200:]:  # he reads on
            outlet.write_bytes(line)
            first += reader.read(1 << 20)
    lines = first.splitlines(keepends=True)
    assert set(lines) <= set(LINES)
    assert lines == sorted(lines)
    assert lines[0] == LINES[0]
    assert lines[-1] == LINES[-1]
    assert len(lines) < len(LINES)


def test_what_is_read_arrives_whole(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as stream:
        outlet = Output(stream)
        for line in LINES:
            outlet.write(line.decode())
    assert (tmp_path / "file").read_bytes() == b"".join(LINES)


def test_a_reader_that_left_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        outlet = Output(stream)
        for line in LINES[:3]:
            outlet.write_bytes(line)
        assert os.fstat(writing).st_rdev == Path(os.devnull).stat().st_rdev
        assert outlet.closed


def test_who_stops_reading_is_waited_for_as_long_as_was_said() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as stream:
        outlet = Output(stream, patience=0)
        began = time.monotonic()
        for line in LINES:
            outlet.write_bytes(line)
        assert time.monotonic() - began < 30  # it would be a minute
        assert not outlet.closed
        assert len(reader.read(1 << 20)) < sum(map(len, LINES))


def test_what_is_offered_is_taken_or_refused_and_never_torn() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as stream:
        outlet = Output(stream)
        texts = [line.decode() for line in LINES]
        taken = [text for text in texts if outlet.offer(text)]
        assert 0 < len(taken) < len(texts)
        assert not outlet.settle()
        data = reader.read(1 << 20)
        assert outlet.settle()
        assert outlet.offer("more")
        assert data + reader.read(1 << 20) == "".join([*taken, "more"]).encode()
