"""What a key asks for beyond looking."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cancel:
    goal: int


@dataclass(frozen=True, slots=True)
class Retry:
    goal: int


@dataclass(frozen=True, slots=True)
class Wake:
    goal: int


@dataclass(frozen=True, slots=True)
class Tell:
    goal: int
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    paused: bool


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave; whoever is the worker stops with that."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Stop, as Ctrl-Z does."""


Deed = Cancel | Retry | Wake | Tell | Pause | Quit | Suspend
