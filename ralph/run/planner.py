"""A planner's turns: each ends with questions or with a draft, and is continued by the agent where it can do that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ralph.agents.base import Request
from ralph.core.errors import BlockedError, RalphError, UsageError
from ralph.core.limits import Allowance
from ralph.core.plan import SCHEMA, Draft, Flaw, Plan, Questions, read_plan
from ralph.core.verdict import Reply, Verdict, obstacle_in
from ralph.proof.check import Check, find_check
from ralph.run.agent import AgentHost, require_file
from ralph.run.observers import session_screen
from ralph.run.prepare import SurveyRequest, look_around
from ralph.run.prompts import Prompts
from ralph.run.screen import RunScreen
from ralph.run.session import SessionReport
from ralph.run.turn import Talk, Turns
from ralph.state.journal import Journal

MODE = "planner"
GO_ON = "ralph plan --continue"
_MOST_FLAWS = 3
"""Answers of one turn that are neither questions nor a goal."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a planner is to plan with, and for where."""

    around: SurveyRequest
    check: Check | None

    def prompt(self, plan: Plan, *, may_ask: bool) -> str:
        """Return the prompt for a new conversation, which quotes an earlier one."""
        agent, root = self.around.agent, self.around.repo.root
        label = self.check.label if self.check else ""
        return Prompts(root / ".ralph" / "prompts").planner(
            plan, root, check=label, may_ask=may_ask, reply=agent.runner.reply
        )


def look_to_plan(written: Mapping[str, object]) -> PlanRequest:
    """Find out with what `ralph plan` is to plan, in the repository ralph stands in."""
    asked = look_around(written, "go to the repository that the goal is for")
    chosen, root = asked.agent.settings, asked.repo.root
    require_file(chosen.planner, "planner", root)
    if asked.agent.runner.reply is Reply.WORDS:
        raise UsageError(
            f"ralph plan cannot use the agent {chosen.agent}: it does not answer in structured output",
            "use one that does: --agent claude, codex or ralph-claude",
        )
    check = find_check(root, chosen.check, timeout=chosen.check_timeout, path=None)
    request = PlanRequest(asked, check)
    request.prompt(Plan(), may_ask=True)  # a template that cannot be rendered is refused now
    return request


@dataclass
class Planner:
    """Holds the conversation; what it used is in the plan that each turn returns."""

    asked: PlanRequest
    host: AgentHost
    journal: Journal
    screen: RunScreen
    may_ask: bool
    keep: Callable[[Plan], Plan]
    """Takes a plan to disk: what a session has used is not lost with it."""

    def turn(self, plan: Plan, said: str) -> Plan:
        """Send a message to the planner, and return the plan with its questions or its draft.

        `said` is for a planner that remembers the conversation; another one gets the whole conversation.
        """
        flaw = Flaw("")
        for _ in range(_MOST_FLAWS):
            plan, report = self._session(plan, said)
            answer = report.ending.answer
            if answer is not None and answer.verdict is Verdict.BLOCKED:
                raise BlockedError(f"the planner is blocked: {obstacle_in(answer.summary)}", GO_ON)
            wants_check = self.asked.check is None
            match read_plan(report.structured, wants_check=wants_check, may_ask=self.may_ask):
                case Questions(texts):
                    return replace(plan, questions=texts)
                case Draft(goal, check):
                    return replace(plan, goal=goal, check=check)
                case Flaw() as flaw:
                    said = f"This cannot be used: {flaw.words} Answer again, with all four keys."
        raise RalphError(
            f"the planner gave no usable goal in {_MOST_FLAWS} answers: {flaw.words}",
            f"raw logs in {self.journal.logs}; to try again: ralph plan --continue",
        )

    def _session(self, plan: Plan, said: str) -> tuple[Plan, SessionReport]:
        """Run one session, and retry it as the failure table says."""
        asked, around = self.asked, self.asked.around

        def make(session_id: str, resumes: str, left: Allowance) -> Request:
            request = around.agent.request(
                said if resumes else asked.prompt(plan, may_ask=self.may_ask),
                session_id,
                around.agent.settings.planner,
                root=around.repo.root,
                env=around.around.env,
                folder=self.journal.directory,
                read_only=True,
                allowance=left,
            )
            return replace(request, schema=SCHEMA, resumes=resumes)

        def after(talk: Talk) -> Plan:
            spent = {"before": talk.before, "spend": talk.spend}
            return replace(plan, agent=talk.agent, session_id=talk.session_id, **spent)

        screens = [session_screen(around.repo, MODE)]
        turns = Turns(MODE, self.host, self.journal, self.screen, screens, GO_ON)
        before = Talk(plan.agent, plan.session_id, plan.before, plan.spend)
        talk, report = turns.hold(around.agent, before, make, lambda talk: self.keep(after(talk)))
        return after(talk), report
