"""Hearing a model out, from a thread of its own: whoever waits can be called away at any moment."""

import queue
import threading
from collections.abc import Iterator

from ralph.claude_cli.models.base import Model, Request, Utterance
from ralph.system.signals import Handover

_LOOK = 0.05
"""Seconds between two looks at whether we were called away."""


class Interrupted(Exception):
    """The user wants this turn ended."""


def listen(model: Model, request: Request, stop: threading.Event) -> Iterator[Utterance]:
    """Yield what the model says; raise Interrupted as soon as `stop` is set, whatever the network does."""
    heard: Handover[Utterance | BaseException | None] = Handover()
    cancelled = threading.Event()

    def ask() -> None:
        try:
            for utterance in model.ask(request, cancelled):
                heard.put(utterance)
            heard.put(None)
        except BaseException as error:  # it belongs to the thread that listens
            heard.put(error)

    threading.Thread(target=ask, daemon=True, name="model").start()
    try:
        while True:
            if stop.is_set():
                raise Interrupted
            try:
                utterance = heard.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if utterance is None:
                return
            if isinstance(utterance, BaseException):
                raise utterance
            yield utterance
    finally:
        cancelled.set()
