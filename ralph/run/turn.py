"""One turn of a conversation that ralph leads: a session, and others in its place as the table of failures says."""

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ralph.agents.base import RESUMING, Request
from ralph.core.errors import BlockedError, ExitCode, RalphError
from ralph.core.events import IterationStarted, Tag, Text
from ralph.core.failures import Again, Blocked, Failed, Finished, Limited, Tries, decide
from ralph.core.limits import Allowance, Limits, allowance, limit_reached
from ralph.core.text import timestamp
from ralph.core.usage import Spend
from ralph.run.agent import AgentHost, ChosenAgent
from ralph.run.observers import Screen
from ralph.run.screen import RunScreen
from ralph.run.session import SessionReport, Sessions, run_session
from ralph.state.journal import Journal


class TurnLimitReached(RalphError):
    """A limit that the user has set ended the conversation."""

    exit_code = ExitCode.LIMIT


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation with an agent, and what it has used."""

    agent: str = ""
    session_id: str = ""
    """The agent's own name for it; empty before its first turn."""
    before: Spend = field(default_factory=Spend)
    """What conversations before this one have used."""
    spend: Spend = field(default_factory=Spend)


MakeRequest = Callable[[str, str, Allowance], Request]
"""Makes a session's request of its id, of that of the session it goes on with, if any, and of what it may use."""


@dataclass
class Turns:
    """Holds the turns of one command; `go_on` is how its user goes on after a fault."""

    mode: str
    host: AgentHost
    journal: Journal
    screen: RunScreen
    screens: Sequence[Screen]
    go_on: str

    def hold(
        self, agent: ChosenAgent, talk: Talk, make: MakeRequest, keep: Callable[[Talk], object], number: int = 0
    ) -> tuple[Talk, SessionReport]:
        """Return the session that ended well. `keep` gets the usage of each; a `number` makes it an iteration.

        An agent that remembers the conversation continues it. After a fault, the next session starts a new one.
        """
        tries, chosen = Tries(), agent.settings
        remembers = bool(talk.session_id) and talk.agent == chosen.agent and chosen.agent in RESUMING
        while True:
            # On resume both tell what the whole conversation has used (codex 0.163.0, claude 2.1.325).
            base, elapsed = talk.before if remembers else talk.spend, self.host.seconds
            if (limit := chosen.limits.reached(iterations=-1, elapsed=elapsed, spend=talk.spend)) is not None:
                raise TurnLimitReached(limit_reached(limit), f"raise {limit}; then: {self.go_on}")
            own = _of_this_turn(chosen.limits, base, talk.spend)
            left = allowance(own, spent=base, elapsed=elapsed, timeout=chosen.iteration_timeout)
            resumes = talk.session_id if remembers else ""
            request = make(resumes or str(uuid.uuid4()), resumes, left)
            with self.screen.live(chosen.limits, base):
                recorder = self.screen.recorder(self.journal, spent=base, screens=self.screens)
                logs = self.journal.log_files(chosen.agent, self.mode, max(1, number), timestamp(time.time()))
                if number:
                    recorder(IterationStarted(number, request.session_id, str(logs.stdout)))
                report = run_session(request, logs, Sessions(agent, self.host.serving(agent), recorder))
                talk = Talk(chosen.agent, report.session_id, base, recorder.meter.total)
                keep(talk)
                clock = self.screen.visible_wait(recorder)
                clock.leave_if_interrupted()
                jitter = random.random()  # noqa: S311 - so that not all who wait come back at once
                match decide(report.ending, tries, now=clock.now(), jitter=jitter, on_denial=chosen.on_denial):
                    case Finished():
                        return talk, report
                    case Again(reason, tries, not_before):
                        remembers = False  # its conversation may be what is broken
                        recorder(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))
                        if not_before is not None:
                            clock.wait(reason, not_before, self.screen.woken, end=report.ending.end)
                    case Limited(_, limit):
                        raise TurnLimitReached(limit_reached(limit), f"raise {limit}; then: {self.go_on}")
                    case Failed(reason, hint):
                        raise RalphError(f"the {self.mode} failed: {reason} (raw log: {report.log})", hint)
                    case Blocked(reason, hint):
                        raise BlockedError(f"blocked: {reason}", f"{hint}; then: {self.go_on}")


def _of_this_turn(limits: Limits, base: Spend, spend: Spend) -> Limits:
    """Move the limits of a single session by what its conversation has used before it."""
    dollars, tokens = limits.iteration_cost_usd, limits.iteration_tokens
    return replace(
        limits,
        iteration_cost_usd=None if dollars is None else dollars + spend.cost_usd - base.cost_usd,
        iteration_tokens=None if tokens is None else tokens + spend.tokens - base.tokens,
    )
