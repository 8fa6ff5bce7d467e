"""The way out: to readers that read, that do not, and that are gone."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time
from pathlib import Path

from ralph.ui.output import Output
from ralph.ui.terminal import call_user, terminal
from tests.support.hostile import TEXTS, steering
from tests.support.rows import rows
from tests.support.terminal import read_terminal

LINES = [b"%06d %s\n" % (number, b"x" * 1000) for number in range(300)]  # more than a pipe holds


def test_who_is_not_read_is_not_waited_for_in_haste_and_no_line_is_torn() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as stream:
        output = Output(stream, in_haste=lambda: True)
        for line in LINES[:200]:
            output.write_bytes(line)
        first = reader.read(1 << 20)
        for line in LINES[200:]:  # he reads on
            output.write_bytes(line)
            first += reader.read(1 << 20)
    lines = first.splitlines(keepends=True)
    assert set(lines) <= set(LINES)
    assert lines == sorted(lines)
    assert lines[0] == LINES[0]
    assert lines[-1] == LINES[-1]
    assert len(lines) < len(LINES)


def test_what_is_read_arrives_whole(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as stream:
        output = Output(stream)
        for line in LINES:
            output.write(line.decode())
    assert (tmp_path / "file").read_bytes() == b"".join(LINES)


def test_a_reader_that_left_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        output = Output(stream)
        for line in LINES[:3]:
            output.write_bytes(line)
        assert os.fstat(writing).st_rdev == Path(os.devnull).stat().st_rdev
        assert output.closed


def test_who_stops_reading_is_waited_for_as_long_as_was_said() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as stream:
        output = Output(stream, timeout=0)
        began = time.monotonic()
        for line in LINES:
            output.write_bytes(line)
        assert time.monotonic() - began < 30  # it would be a minute
        assert not output.closed
        assert len(reader.read(1 << 20)) < sum(map(len, LINES))


def test_what_is_offered_is_taken_or_refused_and_never_torn() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as stream:
        output = Output(stream)
        texts = [line.decode() for line in LINES]
        taken = [text for text in texts if output.offer(text)]
        assert 0 < len(taken) < len(texts)
        assert not output.settle()
        data = reader.read(1 << 20)
        assert output.settle()
        assert output.offer("more")
        assert data + reader.read(1 << 20) == "".join([*taken, "more"]).encode()


@rows("name", TEXTS)
def test_no_words_of_a_call_steer_a_terminal(name: str) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream:
        place = terminal(stream, {"TERM": "xterm"})
        assert call_user(Output(stream), place, TEXTS[name])
        written = read_terminal(ours).decode()
    os.close(ours)
    begin, _, words = written.partition(";")
    assert (begin, words[:7], words[-2:]) == ("\x1b]9", "ralph: ", "\x07\x07")
    assert not steering(words[:-2])
    assert len(words) < 220


def test_nothing_but_a_terminal_is_called(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as stream:
        assert not call_user(Output(stream), terminal(stream, {"TERM": "xterm"}), "goal: done")
    assert (tmp_path / "file").read_text() == ""


def test_a_terminal_that_does_not_know_its_size_has_none() -> None:
    """A new pty has 0 columns until somebody sets them: lines folded to that width would be a letter long."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as stream:
        output = Output(stream)
        assert (output.size, output.width) == (None, None)
        fcntl.ioctl(stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        assert (output.size, output.width) == ((80, 24), 80)
