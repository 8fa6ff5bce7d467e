"""How a session can end, and who pays: one row per end, one pure decision. The evidence is the agent's own events.

Prose never counts: words about limits in a tool's output or in the agent's text match nothing here; only an `is_error`
result, a `rate_limited` event, an exit status or our own watchdog do.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from ralph.core.events import Denial, QuotaStatus, RateLimited, TurnEnded
from ralph.core.limits import Limit
from ralph.core.text import exit_words
from ralph.core.verdict import Answer, Reply, Verdict, VerdictFault, read_reply


class End(StrEnum):
    """How a session ended."""

    OK = "ok"
    DONE = "done"
    BLOCKED = "blocked"
    INVALID = "invalid"
    CRASHED = "crashed"
    NO_RESULT = "no-result"
    HUNG = "hung"
    USAGE_LIMIT = "usage-limit"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    AUTH = "auth"
    BILLING = "billing"
    CONFIG = "config"
    TOO_LONG = "too-long"
    DENIED = "denied"
    BUDGET = "budget"
    ERROR = "error"


class Policy(StrEnum):
    """Who pays for an end."""

    ITERATION = "an iteration"
    CONFIRM = "an iteration; if the next session confirms it, exit 6 with its reason"
    FAILURE = "a failure"
    RETRY_ONCE = "one immediate retry, then a failure"
    WAIT = "wait until the quota resets, or retry from time to time; the same iteration again, free"
    BACKOFF = "backoff with jitter, bounded, then a failure"
    STOP = "stop now, exit 6 with the next command"
    SHRINK = "shrink the prompt once, then a failure"
    BUDGET = "a failure; if a limit of the run is reached, exit 4"


@dataclass(frozen=True, slots=True)
class Row:
    meaning: str
    policy: Policy
    hint: str = ""
    again: bool = False
    """After that, the same command continues the run."""


_LOGIN = (
    "log in with the agent's own command (Claude Code: run `claude`, type /login; Codex: `codex login`;"
    " ralph-claude: set ANTHROPIC_API_KEY)"
)

TABLE: dict[End, Row] = {
    End.OK: Row("a valid verdict", Policy.ITERATION),
    End.DONE: Row("a valid verdict that claims DONE", Policy.ITERATION),
    End.BLOCKED: Row("a valid verdict that says that a person is needed", Policy.CONFIRM),
    End.INVALID: Row("no valid structured output after 3 corrections", Policy.FAILURE),
    End.CRASHED: Row("the agent crashed or was killed", Policy.RETRY_ONCE),
    End.NO_RESULT: Row("the agent exited without a result", Policy.RETRY_ONCE),
    End.HUNG: Row("the agent was silent for too long, and ralph stopped it", Policy.RETRY_ONCE),
    End.USAGE_LIMIT: Row("the account's quota is used up", Policy.WAIT),
    End.OVERLOADED: Row("429, 5xx", Policy.BACKOFF),
    End.NETWORK: Row("no connection to the API", Policy.BACKOFF),
    End.AUTH: Row("401, 403", Policy.STOP, _LOGIN, again=True),
    End.BILLING: Row("credit too low", Policy.STOP, "add credit to the account, or use another login", again=True),
    End.CONFIG: Row(
        "unknown model, unusable agent", Policy.STOP, "see `ralph config`, and choose a model with --model"
    ),
    End.TOO_LONG: Row("the prompt exceeds the context", Policy.SHRINK),
    End.DENIED: Row(
        "the agent's permissions refused a tool",
        Policy.STOP,
        "allow the tool (`ralph config set agents.claude.permission_mode`, or the agent's own settings),"
        " or continue anyway: `ralph config set on_denial continue`",
    ),
    End.BUDGET: Row("the session's budget, time or turns ran out", Policy.BUDGET),
    End.ERROR: Row("the agent reported an error of another kind", Policy.FAILURE),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a session: the agent's own events and its process.

    `words` is its last text; `promised`: it claimed completion there.
    """

    reply: Reply = Reply.TOOL
    turn: TurnEnded | None = None
    words: str = ""
    promised: bool = False
    quota: RateLimited | None = None
    denials: tuple[Denial, ...] = ()
    exit_code: int | None = None
    watchdog: str = ""
    used_up: str = ""
    """The limit that ended it, in words; `limit` for one of the run's, `bound` for the session's own."""
    limit: Limit | None = None
    bound: str = ""
    stopped: bool = False
    """ralph ended it: its clean exit then means nothing."""
    unlisted_tool: str = ""
    """The tool for verdicts, if the agent does not list it: then asking again for a verdict is useless."""
    login_refused: bool = False
    elsewhere: str = ""
    """The folder that the agent works in, if that is not the one it was started in."""
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """An end with its reason in words, and the answer if it is valid."""

    end: End
    reason: str = ""
    answer: Answer | None = None
    resets_at: float | None = None
    limit: Limit | None = None
    """The limit of the run that it reached."""
    bound: str = ""
    """The session's own limit that it reached, as the user sets it."""
    hint: str = ""
    """What to do about it, where the row of the table does not say."""


OUT_OF_MONEY = "error_max_budget_usd"
"""The subtype of a turn that ended because of `--max-budget-usd`."""

_LIMIT_TEXT = re.compile(r"\b(?:hit|reached) your\b.{0,40}\blimits?\b|\busage limit reached\b", re.IGNORECASE)
_OF_VERDICT = {Verdict.CONTINUE: End.OK, Verdict.DONE: End.DONE, Verdict.BLOCKED: End.BLOCKED}
_SPENT = ("error_max_turns", OUT_OF_MONEY)


def classify(seen: Evidence) -> SessionEnd:
    """Return the row that fits the evidence; the content of the last result decides, the exit code only helps."""
    if seen.login_refused:
        return SessionEnd(End.AUTH, "the API refuses the agent's login (401)")
    if seen.elsewhere:
        hint = "check which program and arguments ralph uses: ralph config"
        return SessionEnd(End.CONFIG, f"the agent works in {seen.elsewhere}, not in this repository", hint=hint)
    if seen.turn is None and not _left_in_peace(seen):
        return _without_result(seen)
    output = None if seen.turn is None else seen.turn.structured_output
    answer = read_reply(seen.reply, output, seen.words, promised=seen.promised)
    if isinstance(answer, Answer) and not (seen.turn is not None and seen.turn.is_error):
        if seen.denials:
            return SessionEnd(End.DENIED, describe_denials(seen.denials), answer)
        return SessionEnd(_OF_VERDICT[answer.verdict], answer=answer)
    if seen.used_up:
        return SessionEnd(End.BUDGET, seen.used_up, limit=seen.limit, bound=seen.bound)
    if seen.watchdog:
        return SessionEnd(End.HUNG, seen.watchdog)
    if seen.turn is not None and seen.turn.is_error:
        end = _of_error(seen.turn, seen.quota)
        resets_at = seen.quota.resets_at if end is End.USAGE_LIMIT and seen.quota is not None else None
        return SessionEnd(end, _words(seen.turn), resets_at=resets_at)
    if seen.denials:
        return SessionEnd(End.DENIED, describe_denials(seen.denials))
    if seen.reply == Reply.WORDS:
        return SessionEnd(End.NO_RESULT, "the agent printed nothing, so there is no summary of its work")
    if seen.unlisted_tool:
        reason = f"the agent has no {seen.unlisted_tool} tool, which it needs to return a verdict"
        return SessionEnd(End.CONFIG, reason)
    return SessionEnd(End.INVALID, "the agent returned no valid structured output after all corrections")


def _left_in_peace(seen: Evidence) -> bool:
    """Tell whether an agent without turns ended by itself and successfully."""
    return seen.reply == Reply.WORDS and seen.exit_code == 0 and not seen.stopped


def interrupted(turn: TurnEnded) -> bool:
    """Tell whether a turn ended because it was interrupted; the session goes on (2.1.197, 2.1.325)."""
    return turn.is_error and turn.subtype == "error_during_execution"


def correctable(turn: TurnEnded, reply: Reply = Reply.TOOL, *, promised: bool = False) -> VerdictFault | None:
    """Return the correction that a finished turn needs; None if it is valid or failed for another reason."""
    if turn.is_error and turn.subtype != "error_max_structured_output_retries":
        return None
    answer = read_reply(reply, turn.structured_output, turn.text, promised=promised)
    if isinstance(answer, Answer) or reply == Reply.WORDS:
        return None
    return VerdictFault.INVALID if turn.is_error else answer


def describe_denials(denials: tuple[Denial, ...]) -> str:
    """Name each refused tool with its input."""
    return "permission denied: " + "; ".join(f"{denial.tool} {_brief(denial)}".strip() for denial in denials)


def _brief(denial: Denial) -> str:
    asked = next(
        (str(denial.input[key]) for key in ("command", "file_path", "path", "pattern") if key in denial.input), ""
    )
    return f"({(asked or denial.reason)[:80]})" if asked or denial.reason else ""


def _without_result(seen: Evidence) -> SessionEnd:
    # An agent that answers in words also gives its reason there.
    last_words = seen.words.strip().rpartition("\n")[2][:500] if seen.reply == Reply.WORDS else ""
    said = f": {seen.last_error or last_words}" if seen.last_error or last_words else ""
    if seen.used_up:
        return SessionEnd(End.BUDGET, seen.used_up, limit=seen.limit, bound=seen.bound)
    if seen.watchdog:
        return SessionEnd(End.HUNG, seen.watchdog)
    if seen.exit_code is not None and seen.exit_code < 0:
        return SessionEnd(End.CRASHED, f"the agent was {exit_words(seen.exit_code)} without a result{said}")
    if seen.exit_code:
        return SessionEnd(End.CRASHED, f"the agent exited with {seen.exit_code} without a result{said}")
    left = "closed its output" if seen.exit_code is None else "exited with 0"
    return SessionEnd(End.NO_RESULT, f"the agent {left} without a result{said}")


def _of_error(turn: TurnEnded, quota: RateLimited | None) -> End:
    rejected = quota is not None and quota.status == QuotaStatus.USED_UP and quota.resets_at is not None
    status = turn.api_status
    if turn.terminal_reason in ("prompt_too_long", "blocking_limit"):
        return End.TOO_LONG
    if rejected or _LIMIT_TEXT.search(turn.text):
        return End.USAGE_LIMIT
    if turn.error == "billing_error":
        return End.BILLING
    if turn.error == "authentication_failed" or status in (401, 403):
        return End.AUTH
    if turn.error == "model_not_found" or status == 404:
        return End.CONFIG
    if status == 429 or (status is not None and status >= 500):
        return End.OVERLOADED
    if status is None and turn.error in ("server_error", "rate_limit"):
        return End.NETWORK
    if turn.subtype in _SPENT:
        return End.BUDGET
    if turn.subtype == "error_max_structured_output_retries":
        return End.INVALID
    return End.ERROR


def _words(turn: TurnEnded) -> str:
    return turn.text.strip()[:500] or turn.error or turn.subtype


# What to do about it.

MOST_BACKOFFS = 6
_FIRST_BACKOFF = 5.0
_LONGEST_BACKOFF = 300.0
MOST_QUOTA_WAITS = 60
"""Tries while a quota's reset is unknown: more than a day in total, the longest that a usual limit lasts."""
_FIRST_QUOTA_WAIT = 60.0
_LONGEST_QUOTA_WAIT = 1800.0
_AFTER_RESET = 5.0
"""Seconds after the reset: the clocks of both sides need not agree."""


@dataclass(frozen=True, slots=True)
class Tries:
    """The retries that this iteration has used."""

    retried: bool = False
    backoffs: int = 0
    quota_waits: int = 0
    shrunk: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """Run the same iteration again, not before `not_before`; free."""

    reason: str
    tries: Tries
    not_before: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Blocked:
    reason: str
    hint: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """An iteration with its verdict; `blocked`: it counts, but unless it is proven done the run stops after it."""

    answer: Answer
    blocked: Blocked | None = None


@dataclass(frozen=True, slots=True)
class Limited:
    """A limit of the run is reached: nothing failed, and the run stops."""

    reason: str
    limit: Limit


Decision = Finished | Again | Failed | Blocked | Limited


def decide(ending: SessionEnd, tries: Tries, *, now: float, jitter: float, on_denial: str = "stop") -> Decision:
    """Apply the table; `jitter` is a random number in [0, 1)."""
    row = TABLE[ending.end]
    reason = f"{ending.end}: {ending.reason}" if ending.reason else f"{ending.end}: {row.meaning}"
    match row.policy:
        case Policy.ITERATION | Policy.CONFIRM if ending.answer is not None:
            return Finished(ending.answer)
        case Policy.STOP if ending.end is End.DENIED and on_denial == "continue" and ending.answer is not None:
            return Finished(ending.answer)
        case Policy.STOP if ending.end is End.DENIED and on_denial == "continue":
            return Failed(reason)
        case Policy.STOP:
            blocked = Blocked(reason, ending.hint or row.hint, row.again)
            return blocked if ending.answer is None else Finished(ending.answer, blocked)
        case Policy.BUDGET if ending.limit is not None:
            return Limited(reason, ending.limit)
        case Policy.RETRY_ONCE if not tries.retried:
            return Again(reason, replace(tries, retried=True))
        case Policy.SHRINK if not tries.shrunk:
            return Again(reason, replace(tries, shrunk=True))
        case Policy.WAIT if ending.resets_at is not None and ending.resets_at > now:
            return Again(reason, tries, not_before=ending.resets_at + _AFTER_RESET)
        case Policy.WAIT if tries.quota_waits < MOST_QUOTA_WAITS:
            delay = _delay(tries.quota_waits, _FIRST_QUOTA_WAIT, _LONGEST_QUOTA_WAIT, jitter)
            return Again(reason, replace(tries, quota_waits=tries.quota_waits + 1), not_before=now + delay)
        case Policy.BACKOFF if tries.backoffs < MOST_BACKOFFS:
            delay = _delay(tries.backoffs, _FIRST_BACKOFF, _LONGEST_BACKOFF, jitter)
            return Again(reason, replace(tries, backoffs=tries.backoffs + 1), not_before=now + delay)
        case _:
            return Failed(reason, f"raise {ending.bound} to give each session more" if ending.bound else row.hint)


def _delay(tries: int, first: float, longest: float, jitter: float) -> float:
    """Return a delay that doubles each time, up to a bound, with jitter."""
    return min(first * 2 ** min(tries, 30), longest) * (0.5 + jitter / 2)
