"""What the user asks of a run that is under way: words that it heeds between sessions and while it waits."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

_MOST_TOLD = 3
"""Sessions that are told a guidance before ralph gives up asking for its receipt."""


class Act(StrEnum):
    """What can be asked for; the value is also the command, where there is one."""

    TELL = "tell"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    WAKE = "wake"
    CARRY_ON = "carry on"
    """Take a stop back that has not come yet; only a key does."""


class StoppedBy(StrEnum):
    """What the user stopped a run with after its iteration."""

    KEY = "key"
    COMMAND = "command"

    @property
    def words(self) -> str:
        return "after this iteration, as asked" if self is StoppedBy.KEY else "by `ralph stop`"


class Receipt(StrEnum):
    """What became of a guidance after a session was told of it."""

    ACKNOWLEDGED = "acknowledged"
    MISSING = "unacknowledged"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One request; `number` counts those to a run from 1."""

    number: int
    act: Act
    text: str = ""
    by_key: bool = False
    at: str = field(default="", compare=False)
    """When it was asked for."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """What the user tells the agent; `told` counts the sessions that heard it."""

    number: int
    text: str
    told: int = 0

    def told_once_more(self) -> "Guidance":
        return replace(self, told=self.told + 1)

    def receipt_in(self, summary: str, *, done: bool) -> Receipt:
        """See whether a summary names it by its number, as the prompt asks; `done` stands for all of them."""
        named = re.search(rf"\bguidance\s*(?:no\.?|number|#)?\s*{self.number}\b", summary, re.IGNORECASE)
        if done or named is not None:
            return Receipt.ACKNOWLEDGED
        return Receipt.MISSING if self.told < _MOST_TOLD else Receipt.DROPPED


class Steering:
    """What was asked for and is not done yet; of words that take each other back, the last one counts."""

    def __init__(self, hear: Callable[[], Sequence[Instruction]]) -> None:
        self._hear = hear
        self._told: list[Instruction] = []
        self.paused = False
        self.stopping = False
        self.stopped_by = StoppedBy.COMMAND
        """Means something only while `stopping`."""
        self._awake = False

    def listen(self) -> None:
        """Take in what was asked since the last time."""
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
        """What the agent is to be told, handed over once."""
        told, self._told = self._told, []
        return told
