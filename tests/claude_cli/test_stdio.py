"""Messages, and what an interrupt among them is meant for."""

from __future__ import annotations

import threading

import pytest

from ralph.claude_cli.stdio import Stdin, said


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def inbox(stop: threading.Event) -> Stdin:
    return Stdin(stop)


def test_an_interrupt_right_behind_its_message_is_kept(inbox: Stdin, stop: threading.Event) -> None:
    inbox.put(said("a"))
    inbox.interrupt()
    assert inbox.next() == said("a")
    assert stop.is_set()


def test_an_interrupt_reaches_the_turn_that_is_held(inbox: Stdin, stop: threading.Event) -> None:
    inbox.put(said("a"))
    inbox.next()
    inbox.interrupt()
    assert stop.is_set()


def test_an_interrupt_of_nothing_is_none(inbox: Stdin, stop: threading.Event) -> None:
    inbox.interrupt()
    inbox.put(said("a"))
    inbox.next()
    assert not stop.is_set()


def test_an_interrupt_that_came_too_late_is_for_the_message_behind(inbox: Stdin, stop: threading.Event) -> None:
    for text in "ab":
        inbox.put(said(text))
    inbox.next()
    inbox.interrupt()
    assert inbox.next() == said("b")
    assert stop.is_set()
    inbox.close()
    assert inbox.next() is None
    assert not stop.is_set()


def test_what_is_abandoned_is_not_answered(inbox: Stdin, stop: threading.Event) -> None:
    for text in "ab":
        inbox.put(said(text))
    inbox.next()
    inbox.abandon()
    assert stop.is_set()
    assert inbox.next() is None
