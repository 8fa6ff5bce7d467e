"""The models of one conversation in the order in which they are asked: the first, and what --fallback-model names.

When one steps back for the next, as seen on 2.1.325: at the third 529 in a row, at any other fault of the server, for a
model that does not exist, and for a request that it calls wrong. Every turn begins with the first model again.
"""

import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from ralph.claude_cli.models.base import (
    FellBack,
    Model,
    ModelError,
    ModelRequest,
    ModelSaid,
    Provider,
    Retrying,
    Traits,
    Utterance,
)
from ralph.core.errors import fault_of
from ralph.system.signals import SignalSafeQueue

_OVERLOADED = 529
_LOOK = 0.05
"""Seconds between two looks at whether we were called away."""

_PATIENCE = 2
"""So many times an overloaded model is asked again."""


class CalledOff(Exception):
    """The user wants this turn ended."""


def listen(model: Model, request: ModelRequest, stop: threading.Event) -> Iterator[Utterance]:
    """Yield what the model says; raise CalledOff as soon as `stop` is set, whatever the network does."""
    heard: SignalSafeQueue[Utterance | Exception | None] = SignalSafeQueue()
    cancelled = threading.Event()

    def ask() -> None:
        for utterance in model.ask(request, cancelled):
            heard.put(utterance)

    # What ends it belongs to the thread that listens: a fault, or None.
    threading.Thread(target=lambda: heard.put(fault_of(ask)), daemon=True, name="model").start()
    try:
        while True:
            if stop.is_set():
                raise CalledOff
            try:
                utterance = heard.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if utterance is None:
                return
            if isinstance(utterance, Exception):
                raise utterance
            yield utterance
    finally:
        cancelled.set()


class ModelChain:
    """A model with others behind it; without any it is that model."""

    def __init__(self, *models: Model) -> None:
        self._models: Sequence[Model] = list({model.name: model for model in models}.values())
        self._at = 0

    @property
    def current(self) -> Model:
        """The model that is asked next."""
        return self._models[self._at]

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def provider(self) -> Provider:
        return self.current.provider

    @property
    def traits(self) -> Traits:
        return self.current.traits

    @property
    def key_source(self) -> str:
        return self._models[0].key_source

    def begin_turn(self) -> None:
        self._at = 0

    def ask(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        """Say what the current model says; while there is another, give up on this one early."""
        while self._at + 1 < len(self._models):
            failed = yield from self._try(request, cancelled)
            if failed is None:
                return
            original = self.current.name
            self._at += 1
            yield FellBack(failed.trigger, original, self.current.name, failed.said)
        yield from self.current.ask(request, cancelled)

    def _try(
        self, request: ModelRequest, cancelled: threading.Event
    ) -> Generator[Utterance, None, "_SteppedBack | None"]:
        said, retries = False, 0
        try:
            for utterance in self.current.ask(request, cancelled):
                if isinstance(utterance, Retrying):
                    if trigger := _of_server(utterance.status, utterance.attempt - 1):
                        return _SteppedBack(trigger)
                    retries = utterance.attempt
                said = said or isinstance(utterance, ModelSaid)
                yield utterance
        except ModelError as error:
            trigger = _of_server(error.status, retries) or _of_request(error)
            if said or not trigger:
                raise
            return _SteppedBack(trigger, error.text)
        return None


@dataclass(frozen=True, slots=True)
class _SteppedBack:
    """Why a model is not asked again in this turn."""

    trigger: str
    said: str = ""


def _of_server(status: object, retries: int) -> str:
    if not isinstance(status, int) or status < 500:
        return ""
    if status == _OVERLOADED:
        return "overloaded" if retries >= _PATIENCE else ""
    return "server_error"


def _of_request(error: ModelError) -> str:
    if error.status == 404:
        return "model_not_found"
    return "last_resort" if error.status == 400 and error.error == "unknown" else ""
