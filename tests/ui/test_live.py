"""The live view in a real terminal: whatever it is handed, whatever the terminal does, the run goes on."""

from __future__ import annotations

import io
import os
import re
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

import pytest

from ralph.core.events import (
    Event,
    IterationStarted,
    SessionEnded,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
)
from ralph.core.guidance import Act, Steering
from ralph.core.limits import Limits
from ralph.core.usage import Spend
from ralph.ui.console import Console
from ralph.ui.live import LiveRun, LiveTerminal, LiveView
from ralph.ui.output import Output
from ralph.ui.render import Detail
from ralph.ui.run_keys import RunControls, RunKeys
from tests.support.hostile import TEXTS, every_event, steering
from tests.support.terminal import Screen
from tests.support.waiting import wait_until

AT = "2026-11-16T00:48:20.000Z"


class Stage:
    """A view, the terminal it draws in, and what it asks of its run."""

    def __init__(self, ours: int, theirs: int, columns: int, rows: int, detail: Detail, plain: TextIO | None) -> None:
        self.ours, self.theirs = ours, theirs
        self.screen = Screen(columns, rows)
        self._written = b""
        self.asked: list[Act] = []
        self.ends = 0
        self.continued = 0
        stream = os.fdopen(theirs, "w", closefd=False)
        output = Output(stream, timeout=0.5)
        reins = RunKeys(RunControls(self.asked.append, Steering(list), self._end, lambda: self.ends > 0), detail)
        live_terminal = LiveTerminal(
            output, stream, stream, colour=True, continued=lambda: self.continued, suspend=self._end
        )
        course = LiveRun(Limits(iterations=9), Spend(), "/repo", lambda: 61.0, time.time)
        self.output = output
        self.view = LiveView(live_terminal, course, reins, Console(output if plain is None else Output(plain)))

    def _end(self) -> None:
        self.ends += 1

    def show(self, *events: Event) -> None:
        self.view(events, AT, b"x" * 100 * len(events))

    def look(self) -> list[str]:
        while True:
            try:
                data = os.read(self.ours, 65536)
            except OSError:  # nothing there, or hung up
                return self.screen.rows
            self.screen.feed(data)
            self._written += data

    @property
    def written(self) -> str:
        self.look()
        return self._written.decode("utf-8", "ignore")  # a letter may be read in two

    def shows(self, words: str) -> None:
        wait_until(lambda: any(words in row for row in self.look()), f"{words!r} on the screen")

    def close(self) -> list[str]:
        """Close the view while somebody reads what it writes."""
        begun = time.monotonic()
        self.view.close()
        assert time.monotonic() - begun < 20
        return self.look()


@contextmanager
def stage(
    columns: int = 80, rows: int = 24, detail: Detail = Detail.NORMAL, plain: TextIO | None = None
) -> Iterator[Stage]:
    """A view whose plain lines, should it break, go to the same terminal, or to `plain`."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    termios.tcsetwinsize(theirs, (rows, columns))
    made = Stage(ours, theirs, columns, rows, detail, plain)
    try:
        yield made
    finally:
        made.view.close()
        os.close(theirs)
        os.close(made.ours)


BEGUN = IterationStarted(1, "s", "log")
GONE = SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="")


def test_events_scroll_above_a_status_that_stays() -> None:
    with stage() as place:
        place.view.say("ralph", "begins")
        place.show(BEGUN, Text(Tag.AI, "hello"), ToolStart("1", "Bash", {"command": "make /repo/x"}))
        place.shows("Bash make x")
        assert place.look()[-2][2:].startswith("Bash make x ")
        assert place.look()[-1] == "iteration 1 of 9 ░░░░░░░░░░░░░░░░ · 1m01s"
        place.show(ToolEnd("1", ToolStatus.OK, 2500), Usage(total_tokens=5000, context_pct=50.0))
        place.shows("✓ Bash     make x  2.5s")
        place.shows("50 %")
        place.show(GONE)
        place.view.say("result", "done")
        assert place.close()[-4:] == [
            "✓ Bash     make x  2.5s",
            "ACTIONS    Bash 1: 1 ok · 2.5s",
            "REPORT     5,000 tokens · context 50 %",
            "result     done",
        ]
        assert place.screen.is_as_a_shell_expects


def test_the_hostile_corpus_steers_nothing_and_breaks_nothing() -> None:
    with stage(columns=60) as place:
        texts = [text for text in TEXTS.values() if len(text) < 1000]
        for number in range(0, len(texts), 10):
            for text in texts[number : number + 10]:
                place.show(*every_event(text))
            place.view.say("note", f"text {number}")
            wait_until(lambda number=number: f"text {number}" in place.written, "the texts")
        place.close()
        assert not steering(place.written)
        assert "broken" not in place.written
        assert place.screen.title == ""
        assert place.screen.is_as_a_shell_expects


class Trap(Mapping[str, object]):
    """An input that nothing can be made of."""

    def __getitem__(self, key: str) -> object:
        raise RuntimeError("no item")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no items")

    def __len__(self) -> int:
        raise RuntimeError("no length")


def test_a_view_that_breaks_gives_way_to_plain_lines() -> None:
    with stage() as place:
        place.show(BEGUN, Text(Tag.AI, "before"))
        place.shows("before")
        place.show(ToolStart("1", "Bash", Trap()))
        wait_until(lambda: not place.view.is_live, "the end of the view")
        place.show(Text(Tag.AI, "after"))
        place.show(Text(Tag.AI, "chatter"))
        place.view.say("result", "done")
        shown = place.close()
        assert [row for row in shown if row][-5:] == [
            "agent      before",
            "note       the live view failed (RuntimeError('no item')); using plain text",
            "agent      after",
            "agent      chatter",
            "result     done",
        ]
        assert place.screen.is_as_a_shell_expects


def test_a_view_that_breaks_takes_nothing_with_it() -> None:
    """What was taken together with what broke it is told in plain lines, and the last words are."""
    with stage() as place:
        place.show(BEGUN, Text(Tag.AI, "before"), ToolStart("1", "Bash", Trap()), Text(Tag.AI, "after"))
        wait_until(lambda: not place.view.is_live, "the end of the view")  # closed sooner, it is whole
        place.view.say("result", "done")
        shown = [row for row in place.close() if row]
        assert shown[-5].startswith("note       the live view failed")
        assert shown[-4].startswith("── iteration 1 ")
        assert shown[-3:] == ["agent      before", "agent      after", "result     done"]


def test_a_terminal_that_hangs_up_is_no_fault() -> None:
    lines = io.StringIO()
    with stage(plain=lines) as place:
        place.show(BEGUN)
        place.shows("iteration 1 of 9")
        ours, place.ours = place.ours, os.open(os.devnull, os.O_RDONLY)
        os.close(ours)
        for _ in range(20):
            place.show(Text(Tag.AI, "nobody reads this"))
        place.view.close()
        assert not place.view.is_live
        assert place.output.closed
        assert "broken" not in lines.getvalue()


def test_a_terminal_that_is_not_read_holds_nobody_up() -> None:
    with stage() as place:
        place.show(BEGUN)
        place.shows("iteration 1 of 9")
        begun = time.monotonic()
        for number in range(5000):
            place.show(Text(Tag.AI, f"line {number} " + "x" * 200))
        assert time.monotonic() - begun < 20, "handing over takes no time"
        place.view.say("result", "done")
        wait_until(lambda: "result     " in place.written, "the last words")
        assert "events left out" in place.written


def test_what_is_left_out_is_counted_and_what_failed_is_shown() -> None:
    """An agent that prints all its calls at once: far more than is drawn, before the view has taken any."""
    with stage() as place:
        events: list[Event] = [BEGUN, Text(Tag.THINK, "Plan: many calls")]
        for number in range(3000):
            failed = number == 1000
            events += [
                ToolStart(str(number), "Bash", {"command": "make broken" if failed else "true"}),
                ToolOutput(str(number), "no rule" if failed else "fine"),
                ToolEnd(str(number), ToolStatus.FAIL if failed else ToolStatus.OK, 1),
            ]
        place.show(*events, ToolStart("open", "Read", {}), Usage(total_tokens=5000))
        place.shows("Read")
        place.show(GONE)
        place.view.say("result", "done")
        place.close()
        text = place.screen.text
        assert "ACTIONS    Bash 3,000: 2,999 ok, 1 failed · 3.0s · 3,000 lines" in text
        assert "✗ Bash     make broken" in text
        assert "           no rule" in text
        assert "PLAN       many calls" in text
        told = text.index("events left out")
        assert text.index("PLAN") < told < text.index("ACTIONS") < text.index("result     done")
        assert "left out" not in text[text.index("ACTIONS") :]


def test_calls_that_are_open_are_known_also_if_their_like_was_left_out() -> None:
    with stage(columns=120) as place:
        calls = [ToolStart(str(number), "Bash", {"command": f"call {number}"}) for number in range(1000)]
        ends = [ToolEnd(str(number), ToolStatus.OK, 1) for number in range(1000) if number != 999]
        place.show(BEGUN, *calls, *ends, *(Text(Tag.AI, "chatter") for _ in range(1000)))
        place.shows("events left out")
        wait_until(lambda: " Bash call 999 " in place.look()[-2], "the open call")
        assert place.look()[-3].startswith("────"), "no other call is open"


@pytest.mark.parametrize("end", [[], [ToolStart("1", "Bash", {}), GONE]])
def test_that_something_was_left_out_is_said_before_what_sums_it_up(end: list[Event]) -> None:
    with stage() as place:
        place.show(BEGUN)
        place.shows("iteration 1 of 9")  # a note was due then; the next one is in a second
        place.show(*(Text(Tag.AI, "word") for _ in range(1000)), *end)
        place.view.say("result", "done")
        rows = place.close()
        note = next(row for row in place.screen.text.split("\n") if "events left out" in row)
        assert rows[-1] == "result     done"
        assert rows.index(note) < next(number for number, row in enumerate(rows) if row[:7] in ("ACTIONS", "result "))


def test_a_verdict_is_not_told_as_a_call_also_if_its_beginning_was_left_out() -> None:
    with stage() as place:
        verdict = ToolStart("v", "StructuredOutput", {"summary": "half of it"})
        place.show(
            BEGUN, verdict, *(Text(Tag.AI, "chatter") for _ in range(1000)), ToolEnd("v", ToolStatus.OK, 1), GONE
        )
        place.view.say("result", "done")
        place.close()
        assert "events left out" in place.screen.text
        assert "StructuredOutput" not in place.screen.text


def test_in_brief_nothing_is_left_out_for_nothing_was_to_be_shown() -> None:
    with stage(detail=Detail.QUIET) as place:
        place.show(BEGUN, Text(Tag.THINK, "Plan: many words"), *[Text(Tag.AI, "chatter")] * 1000, GONE)
        place.view.say("result", "done")
        place.close()
        assert [row for row in place.screen.text.split("\n") if row and "──" not in row] == ["result     done"]


def test_an_agent_that_fails_without_end_before_a_terminal_that_is_held_still_is_told_in_few_lines() -> None:
    with stage() as place:
        place.show(BEGUN)
        place.shows("iteration 1 of 9")
        termios.tcflow(place.theirs, termios.TCOOFF)
        for burst in range(10):
            names = [f"{burst} {number}" for number in range(2000)]
            place.show(*[Text(Tag.THINK, "Plan: another one")] * 2000)
            place.show(*(ToolStart(name, "Bash", {}) for name in names))
            place.show(*(ToolEnd(name, ToolStatus.FAIL, 1) for name in names))
            time.sleep(0.1)  # as long as a turn of the view's
        place.show(Text(Tag.AI, "chatter"), GONE)
        termios.tcflow(place.theirs, termios.TCOON)
        place.view.say("result", "done")
        place.shows("result     done")
        text = place.screen.text
        assert "ACTIONS    Bash 20,000: 20,000 failed · 20s" in text
        assert 0 < text.count("PLAN") < 1500
        assert 0 < text.count("✗ Bash") < 2000


def test_what_a_terminal_that_is_held_still_does_not_show_is_shown_later_or_told_to_be_left_out() -> None:
    with stage() as place:
        place.show(BEGUN)
        place.shows("iteration 1 of 9")
        termios.tcflow(place.theirs, termios.TCOOFF)
        for burst in range(20):
            place.show(*(Text(Tag.AI, f"line {burst * 100 + number}") for number in range(100)))
            time.sleep(0.1)  # as long as a turn of the view's
        termios.tcflow(place.theirs, termios.TCOON)
        place.shows("line 1999")
        place.close()
        text = place.screen.text
        shown = [row for row in text.split("\n") if row.startswith("agent      line ")]
        told = re.findall(r"… ([0-9,]+) events? left out", text)
        assert len(shown) == len(set(shown)) < 2000
        assert len(shown) + sum(int(number.replace(",", "")) for number in told) == 2000


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (5, 3), (500, 200), (0, 0)])
def test_any_size_of_the_terminal_will_do(size: tuple[int, int]) -> None:
    with stage() as place:
        place.show(BEGUN, Text(Tag.AI, "hello " * 50))
        place.shows("iteration 1 of 9")
        for columns, rows in (size, (80, 24), size, (60, 10)):
            termios.tcsetwinsize(place.theirs, (rows, columns))
            place.show(Text(Tag.AI, "more words"))
        place.screen.resize(60, 10)
        place.shows("more words")
        wait_until(lambda: place.look()[-1].startswith("iteration 1 of 9"), "the foot")
        place.close()
        assert "broken" not in place.written


def test_after_a_shell_had_the_terminal_the_foot_is_drawn_below() -> None:
    with stage() as place:
        place.show(BEGUN)
        place.shows("iteration 1 of 9")
        place.screen.feed(b"\r\n[1]+ Stopped\r\n$ fg\r\n")
        place.continued += 1
        wait_until(lambda: place.look()[-1].startswith("iteration 1"), "the foot anew")
        assert "$ fg" in place.look()
