"""The agents that take over at a usage limit: the user's list, and the pure choice among them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ralph.core.text import format_duration

_UNTOLD_RESET = 1800.0
"""Seconds before ralph tries an agent again whose usage limit has no known reset, while another agent works."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The agents that take over, each as `AGENT` or `AGENT:MODEL`; ralph waits for a reset within `after` seconds."""

    names: tuple[str, ...] = ()
    after: float = 600.0

    @property
    def header(self) -> list[tuple[str, str]]:
        """The labelled line in a run's header; none without a fallback."""
        words = f"at its usage limit, if that resets in more than {format_duration(self.after)}: "
        return [("", words + ", then ".join(self.names))] if self.names else []

    def account(self, own: str, waits: Mapping[str, float], now: float) -> str:
        """Name the agent that a goal would begin with; `waits`: until when the quota of some is used up."""
        for agent in (own, *(agent_and_model(each)[0] for each in self.names)):
            if agent not in waits or waits[agent] - now <= self.after:
                return agent
        return own


NO_FALLBACK = Fallback()


def agent_and_model(written: str) -> tuple[str, str]:
    """Split `AGENT:MODEL`; the model is empty where none is named, and may hold colons of its own."""
    agent, _, model = written.partition(":")
    return agent.strip(), model.strip()


@dataclass(frozen=True, slots=True)
class AgentQuotas:
    """Agents in the order in which the user wants them, and until when the quota of each is used up."""

    until: tuple[float, ...]
    patience: float

    def choose(self, now: float) -> int:
        """The first agent with a quota; if there is none, the one whose quota resets first."""
        ready = [number for number, until in enumerate(self.until) if until <= now]
        return ready[0] if ready else self.until.index(min(self.until))

    def back_at(self, number: int, now: float) -> float | None:
        """When an agent that comes before this one can work again; None: this is the one that the user wants."""
        return min((until for until in self.until[:number] if until > now), default=None)

    def after_limit(
        self, number: int, resets_at: float | None, not_before: float | None, now: float
    ) -> tuple["AgentQuotas", float | None]:
        """Record the usage limit of an agent; return also when the next session can begin. None: now.

        `not_before` is when this agent can be tried again. ralph waits for a near reset; an unknown one counts as far.
        """
        again = not_before if resets_at is not None and not_before is not None else now + _UNTOLD_RESET
        if again - now <= self.patience:
            return self, not_before
        later = replace(self, until=tuple(again if each == number else at for each, at in enumerate(self.until)))
        earliest = min(later.until)
        if earliest <= now:
            return later, None
        return later, earliest if not_before is None else min(earliest, not_before)
