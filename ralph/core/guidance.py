"""Requests to a live run, which handles them between sessions and while it waits."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

_MOST_TOLD = 3
"""Sessions that get a message before ralph stops asking for an acknowledgement."""


class Act(StrEnum):
    """A request; the value is also the command, if there is one."""

    TELL = "tell"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    WAKE = "wake"
    CARRY_ON = "carry on"
    """Undo a stop that has not happened yet; only a key does this."""


class StoppedBy(StrEnum):
    """How the user stopped a run after its iteration."""

    KEY = "key"
    COMMAND = "command"


class Receipt(StrEnum):
    """What happened to a message."""

    RECEIVED = "received"
    """The next session gets it."""
    ACKNOWLEDGED = "acknowledged"
    MISSING = "unacknowledged"
    """A session got it, and did not say so: the next one gets it again."""
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One request; `number` counts all requests to a run from 1."""

    number: int
    act: Act
    text: str = ""
    by_key: bool = False
    at: str = field(default="", compare=False)
    """The time of the request."""
    message: int = field(default=0, compare=False)
    """Its number among the messages to the agent; 0 for other requests."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """A message from the user to the agent; `told` counts the sessions that got it."""

    number: int
    text: str
    told: int = 0

    def told_once_more(self) -> "Guidance":
        return replace(self, told=self.told + 1)

    def receipt_in(self, summary: str, *, done: bool) -> Receipt:
        """Tell whether a summary names it by its number, as the prompt asks; `done`: no session follows."""
        named = re.search(rf"\bguidance\s*(?:no\.?|number|#)?\s*{self.number}\b", summary, re.IGNORECASE)
        if named is not None:
            return Receipt.ACKNOWLEDGED
        return Receipt.DROPPED if done or self.told >= _MOST_TOLD else Receipt.MISSING


class Steering:
    """Open requests; of contradicting ones, the latest counts."""

    def __init__(self, hear: Callable[[], Sequence[Instruction]]) -> None:
        self._hear = hear
        self._told: list[Instruction] = []
        self.paused = False
        self.stopping = False
        self.stopped_by = StoppedBy.COMMAND
        """Means something only while `stopping`."""
        self._awake = False

    def listen(self) -> None:
        """Read new requests."""
        for word in self._hear():
            match word.act:
                case Act.TELL:
                    self._told.append(word)
                case Act.PAUSE:
                    self.paused = True
                case Act.RESUME:
                    self.paused = False
                case Act.STOP:
                    self.stopping = True
                    self.stopped_by = StoppedBy.KEY if word.by_key else StoppedBy.COMMAND
                case Act.CARRY_ON:
                    self.stopping = False
                case Act.WAKE:
                    self._awake = True

    def begin_wait(self) -> None:
        """Forget what woke an earlier wait."""
        self._awake = False

    @property
    def roused(self) -> bool:
        """Whether there is a reason not to wait any longer."""
        return self._awake or self.stopping

    def take_told(self) -> list[Instruction]:
        """Return the messages for the agent, once."""
        told, self._told = self._told, []
        return told
