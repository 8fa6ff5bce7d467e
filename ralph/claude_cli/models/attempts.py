"""Asking a model until it answers: what a provider reports when it does not, and how often it is asked again."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ralph.claude_cli.models import faults
from ralph.claude_cli.models.base import ModelSaid, Retrying, Utterance
from ralph.claude_cli.models.faults import FaultKind, ModelFault

_RETRIES = 10
_TIMEOUT_MS = 600_000


class NoMessage(Exception):
    """A request brought no message."""

    def __init__(self, fault: ModelFault) -> None:
        super().__init__(fault)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a provider is asked, and how long it may be silent."""

    retries: int
    timeout: float

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Patience":
        return cls(
            _number(environment, "CLAUDE_CODE_MAX_RETRIES", _RETRIES),
            _number(environment, "API_TIMEOUT_MS", _TIMEOUT_MS) / 1000,
        )

    def ask(self, stream: Callable[[], Iterator[Utterance]], cancelled: threading.Event) -> Iterator[Utterance]:
        """Stream one message; retry a fault that may pass, unless a part of the message was said. Raise NoMessage."""
        attempt, said = 0, False
        while not cancelled.is_set():
            try:
                for utterance in stream():
                    said = said or isinstance(utterance, ModelSaid)
                    yield utterance
                return
            except NoMessage as failed:
                fault = failed.fault
            if said or attempt >= self.retries or not fault.is_worth_another_try:
                raise NoMessage(fault)
            attempt += 1
            delay = faults.delay_ms(fault, attempt, time.monotonic() % 1)
            yield Retrying(attempt, self.retries, delay, fault.status, fault.word)
            cancelled.wait(delay / 1000)


def unreached(error: BaseException | None) -> ModelFault:
    """The fault of a connection that was not made."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError) or "Connection refused" in str(error):
            return ModelFault(FaultKind.REFUSED)
        error = error.__cause__ or error.__context__
    return ModelFault(FaultKind.UNREACHABLE)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    said = environment.get(name, "")
    return int(said[:9]) if said.isascii() and said.isdigit() else default
