"""The screen that tests look at: a frame is seen whole or not at all, however its bytes arrive."""

from pathlib import Path

import pytest

from tests.support.terminal import InTerminal, Screen
from tests.support.waiting import wait_until

FRAME = b"\x1b[?2026h\x1b[2J\x1b[Hstatus\r\nkeys\x1b[?2026l"


def test_half_a_frame_is_not_to_be_seen() -> None:
    for torn in range(len(FRAME)):
        screen = Screen(20)
        screen.feed(b"before\r\n" + FRAME[:torn])
        assert screen.rows == ["before"], torn
        screen.feed(FRAME[torn:])
        assert screen.rows == ["status", "keys"], torn
        screen.feed(b"!")
        assert screen.rows[1] == "keys!"


def test_what_is_no_frame_is_seen_at_once() -> None:
    screen = Screen(20)
    for letter in "hello":
        screen.feed(letter.encode())
    assert screen.rows == ["hello"]
    screen.feed(b"\x1b[1mbold")
    assert screen.rows == ["hellobold"]


def test_a_program_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    with InTerminal(["/bin/sh", "-c", "echo no queue"], tmp_path, {}) as terminal:
        with pytest.raises(pytest.fail.Exception, match=r"(?s)ended without 'a goal'.*no queue"):
            terminal.shows("a goal")
        with pytest.raises(pytest.fail.Exception, match=r"(?s)in vain: a goal.*has ended.*no queue"):
            wait_until(lambda: False, "a goal", timeout=0)
        terminal.shows("no queue")
