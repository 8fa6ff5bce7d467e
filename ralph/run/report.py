"""What `ralph run` says first and last: where it works and with what, how it ended and what to type next."""

import contextlib
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralph import __version__
from ralph.agents.base import OWN_TRANSCRIPTS
from ralph.core.errors import RalphError
from ralph.core.events import RunStarted
from ralph.core.limits import Limit, Reasoning, told_limits
from ralph.core.run import Run, RunResult
from ralph.core.status import TimeSpent
from ralph.core.text import both_ends, fenced, few, format_duration, format_money, plural
from ralph.core.usage import Spend
from ralph.core.verdict import Reply
from ralph.git import repo
from ralph.git.repo import size_of_changes
from ralph.run.agent import ChosenAgent
from ralph.run.loop import STALLED
from ralph.run.prepare import Prepared, SurveyRequest, command_again
from ralph.run.prompts import MAP
from ralph.run.scout import Survey
from ralph.state.journal import Journal

Lines = Iterator[tuple[str, str]]

_SUBAGENTS = {"Agent", "Task"}
"""Tools of Claude Code that have another agent work."""


def greeting(prepared: Prepared, run: Run, directory: Path, version: str = "") -> Lines:
    """The header of a run, as labelled lines; `version` is the agent's, where it was asked for it."""
    chosen, check, runner = prepared.settings, prepared.check, prepared.agent.runner
    yield "ralph", f"{__version__} · goal {run.goal}: {prepared.goal.title}"
    yield from introduction(prepared.agent, version=version)
    yield "repo", f"{prepared.repo.root} · branch {run.branch or '(detached HEAD)'}"
    if check is None:
        yield "check", "none: a DONE will be believed without proof"
    elif check.script:
        yield "check", f"{check.label}, in the version that stood when this began"
    else:
        yield "check", f"{check.label} (the files it calls are not protected from the agent)"
    if prepared.around.header:
        yield "envrc", prepared.around.header
    none = "none (see --max-iterations, --duration, --max-cost, --max-tokens)"
    yield "limits", told_limits(chosen.limits) or none
    yield "run", str(directory)
    yield from _unheld(prepared.agent)
    if chosen.reasoning is Reasoning.NONE and runner.reply == Reply.TOOL:
        yield (
            "note",
            "no thinking is asked for; some versions of Claude Code (2.1.325) think at low effort all the same",
        )
    if not prepared.repo.has_identity:
        yield "note", f"git knows no identity here: ralph commits as {repo.FALLBACK_IDENTITY}"
    if prepared.asked.place.url is not None:
        yield "note", "the clone is taken as it is, not fetched; to fetch it:"
        yield "fetch", shlex.join(["git", "-C", str(prepared.repo.root), "fetch"])
    for note in chosen.notes:
        yield "note", note


def run_started(prepared: Prepared, run: Run) -> RunStarted:
    """The event that opens a start of a run."""
    agent, around = prepared.agent, prepared.around
    return RunStarted(
        goal=run.goal,
        run=run.id,
        repo=str(prepared.repo.root),
        branch=run.branch,
        agent=agent.settings.agent,
        agent_path=agent.runner.path,
        transcript=agent.runner.transcript,
        model=agent.model,
        reasoning=agent.settings.reasoning,
        check=prepared.check_label,
        continued=bool(run.history.iterations or run.failed),
        iteration=run.iteration,
        envrc=around.header,
        cost_usd=run.spend.cost_usd,
        tokens=run.spend.tokens,
        envrc_used=around.used,
        envrc_why=around.why,
    )


def introduction(agent: ChosenAgent, *, read_only: bool = False, version: str = "") -> Lines:
    """Who works, with what rights, and how it is read."""
    chosen, runner = agent.settings, agent.runner
    thinking = "" if chosen.agent == "custom" else f" · reasoning {chosen.reasoning}"  # a command is not told
    named = f"{chosen.agent} {version}".rstrip()
    yield "agent", f"{named} ({runner.path}) · model {agent.model}{thinking}"
    yield "", f"{runner.permissions(read_only=read_only)} · transcript {runner.transcript}"
    if runner.notice:
        yield "", runner.notice


def _unheld(agent: ChosenAgent) -> Lines:
    """What was asked for and this agent cannot give."""
    chosen, runner = agent.settings, agent.runner
    own = OWN_TRANSCRIPTS.get(chosen.agent, runner.transcript)
    as_claude = own == "claude"
    in_words = own in ("claude", "codex") and runner.transcript != own  # it is made to print its last words only
    tells = agent.transcript().capabilities.supports_usage_events and not in_words
    limits = chosen.limits
    on_cost = limits.cost_usd or limits.iteration_cost_usd
    on_use = on_cost or limits.tokens or limits.iteration_tokens
    if on_use and not tells:
        yield "note", f"read as {runner.transcript}, this agent reports no usage: limits on cost and tokens never hold"
        yield "", "what ends it is time (--duration, --iteration-timeout) and --max-iterations"
    elif on_use and runner.transcript == "codex":
        yield (
            "note",
            "codex tells its use at the end of a turn: limits on cost and tokens hold from one turn to the next",
        )
    if on_use and not on_cost and as_claude and _SUBAGENTS & set(chosen.worker.tools):
        yield (
            "note",
            "what subagents write is known at the end of a turn only: within one, a limit on tokens holds late",
        )
        yield "", "with --max-cost as well, the agent itself keeps to the money, theirs included"
    if on_cost and tells and not as_claude and agent.prices.price(chosen.model) is None:
        model = chosen.model or "its model"
        yield "note", f"--max-cost holds only if the agent tells its cost, or .ralph/pricing.toml a price for {model}"
    if chosen.worker.system_prompt_file and not as_claude:
        yield "note", f"modes.worker.system_prompt_file is not used: {chosen.agent} does not take one"


def farewell(result: RunResult, prepared: Prepared, seconds: float, times: TimeSpent, *, continued: bool) -> Lines:
    """The last words of a run, as labelled lines; `seconds` and `times` are of this start, all else of the run."""
    run = result.run
    facts = [plural(len(run.history.iterations), "iteration")]
    if run.failed:
        facts.append(plural(run.failed, "failure"))
    facts += [_cost(run), _tokens(run)]
    yield "", ""
    yield "result", _ending(result, prepared)
    yield "", " · ".join(facts)
    yield "time", _times(seconds, times) + (" (this start)" if continued else "")
    if changes := size_of_changes(prepared.repo.root, run.base):
        yield "changed", changes
    yield "files", f".ralph/runs/{run.goal}/result.json · raw logs in .ralph/logs/"
    if result.exit_code == STALLED:
        yield "", f".ralph/runs/{run.goal}/dossier.md: what was tried, what the check said, what changed"
        yield "next", f'say what to do instead: ralph tell {run.goal} "…"; then go on'
    if prepared.asked.place.url is not None:
        yield "clone", f"{prepared.repo.root} · branch {run.branch}, not pushed"
        yield "push", shlex.join(["git", "-C", str(prepared.repo.root), "push", "origin", run.branch])
    if prepared.settings.limits.cost_usd and not run.spend.costed and run.used_iterations:
        yield "note", "no cost was reported, and none could be reckoned: --max-cost did not hold"
    yield from _leftovers(result, prepared)
    yield from (("next", step) for step in next_steps(result, prepared))


def next_steps(result: RunResult, prepared: Prepared) -> Iterator[str]:
    """What there is to do after a run, in the user's own words as far as that is a command."""
    if result.hint:
        yield result.hint
    if result.limit is not None:
        yield f"go on with a higher limit: {_raised(result.limit, result.run, prepared)}"
    elif result.exit_code not in (0, 6):
        yield f"go on where it ended: {command_again(prepared.flags, prepared.asked.written)}"


def _times(seconds: float, times: TimeSpent) -> str:
    """How long it took, and what for; what was not there is not said."""
    parts = {"model": times.model, "tools": times.tools, "check": times.check, "waiting": times.waiting}
    split = ", ".join(f"{name} {format_duration(part)}" for name, part in parts.items() if part)
    return f"{format_duration(seconds)}: {split}" if split else format_duration(seconds)


def _leftovers(result: RunResult, prepared: Prepared) -> Lines:
    """What an unfinished run leaves in the tree: a look at the tree may fail, and is not worth a fault by then."""
    paths: list[str] = []
    with contextlib.suppress(RalphError):
        paths = [] if result.exit_code == 0 else list(prepared.repo.dirty_paths(prepared.goal.path))
    if paths:
        shown = few(paths, 3)
        yield "note", f"the tree holds work that is not committed ({shown}); the next session is told of it"


def _ending(result: RunResult, prepared: Prepared) -> str:
    if result.proven and prepared.check is not None:
        return f"done: proven by {prepared.check.label}"
    return f"failed: {result.reason}" if result.exit_code in (1, 3) else result.reason


def _cost(run: Run) -> str:
    if not run.spend.costed:
        return "cost unknown"
    apart = run.condensed.spend
    details = [
        "in part an estimate" if run.spend.estimated else "",
        f"of that {format_money(apart.cost_usd)} for summaries" if apart.costed else "",
    ]
    said = "; ".join(filter(None, details))
    return format_money(run.spend.cost_usd) + (f" ({said})" if said else "")


def _tokens(run: Run) -> str:
    apart = run.condensed.spend
    return _spent_tokens(run.spend) + (f" ({apart.tokens:,} for summaries)" if apart.knows_tokens else "")


def _spent_tokens(spend: Spend) -> str:
    return f"{spend.tokens:,} tokens" if spend.knows_tokens else "tokens unknown"


def _raised(limit: Limit, run: Run, prepared: Prepared) -> str:
    """The command that was given, with the limit that was reached set higher."""
    limits = prepared.settings.limits
    higher = {
        Limit.ITERATIONS: str(run.used_iterations + (limits.iterations or 0)),
        Limit.DURATION: f"{max(1, math.ceil(2 * (limits.duration or 0)))}s",
        Limit.COST: f"{math.ceil(100 * (run.spend.cost_usd + (limits.cost_usd or 0))) / 100:.2f}",
        Limit.TOKENS: str(run.spend.tokens + (limits.tokens or 0)),
    }[limit]
    name = limit.removeprefix("--").replace("-", "_")
    return command_again(prepared.flags, {**prepared.asked.written, name: higher})


def survey_started(asked: SurveyRequest) -> RunStarted:
    """The event that opens a scout's pass, which has no goal and no check."""
    agent, around = asked.agent, asked.around
    return RunStarted(
        goal="",
        run="",
        repo=str(asked.repo.root),
        branch=asked.repo.branch(),
        agent=agent.settings.agent,
        agent_path=agent.runner.path,
        transcript=agent.runner.transcript,
        model=agent.model,
        reasoning=agent.settings.reasoning,
        check="",
        continued=False,
        iteration=0,
        envrc=around.header,
        envrc_used=around.used,
        envrc_why=around.why,
    )


def survey_greeting(asked: SurveyRequest) -> Lines:
    """The header of a scout's pass."""
    yield "ralph", f"{__version__} · a scout maps the code base"
    yield from introduction(asked.agent, read_only=True)
    yield "repo", f"{asked.repo.root} · branch {asked.repo.branch() or '(detached HEAD)'}"
    if asked.around.header:
        yield "envrc", asked.around.header
    for note in asked.agent.settings.notes:
        yield "note", note
    yield "", ""


def survey_farewell(survey: Survey, spend: Spend, seconds: float, logs: Path, kept: Path | None) -> Lines:
    """The last words of a scout's pass; `kept` is the map before, if it was another one."""
    cost = format_money(spend.cost_usd) if spend.costed else "cost unknown"
    yield "", ""
    if survey.map:
        lines = len(survey.map.splitlines())
        size = f"{lines} line{'' if lines == 1 else 's'}"
        yield "result", f"the map is {MAP}, {size}; workers read it from now on"
        if kept is not None:
            yield "", f"the one before is kept: {kept}"
    else:
        yield "result", f"failed: {survey.reason}" if survey.exit_code == 1 else survey.reason
    yield "", f"{cost} · {_spent_tokens(spend)} · {format_duration(seconds)}"
    yield "files", f"raw logs in {logs}"
    if survey.hint:
        yield "next", survey.hint


_LONGEST_QUOTE = 20_000
_LONGEST_SUMMARY = 2000
_MOST_ITERATIONS = 20
"""Those before are told by the commits."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the run itself does not know."""

    title: str
    goal_path: Path
    repo: Path
    check: str
    check_output: str
    """What it said last, on whichever iteration; empty if it never ran."""
    changes: str
    logs: Path


def write_dossier(result: RunResult, prepared: Prepared, journal: Journal) -> None:
    """Leave the dossier of a run that stalled in its directory."""
    root, logs = prepared.repo.root, journal.logs
    checks = sorted((logs / "check").glob("*.log"))
    facts = Facts(
        title=prepared.goal.title,
        goal_path=prepared.goal.path,
        repo=root,
        check=prepared.check_label,
        check_output=both_ends(checks[-1].read_text("utf-8", "replace"), _LONGEST_QUOTE) if checks else "",
        changes=repo.changes(root, result.run.base, _LONGEST_QUOTE),
        logs=logs,
    )
    journal.write_dossier(dossier(result.run, result.reason, facts))


def dossier(run: Run, reason: str, facts: Facts) -> str:
    """Tell what was wanted, what was tried, what the check said, what changed, what it cost and where to look."""
    cost = format_money(run.spend.cost_usd) if run.spend.costed else "cost unknown"
    tokens = f"{run.spend.tokens:,} tokens" if run.spend.knows_tokens else "tokens unknown"
    summary = run.condensed.summary
    apart = run.history.since(run.condensed.through)
    recent = apart[-_MOST_ITERATIONS:]
    earlier = len(apart) - len(recent)
    lines = [
        f"# {facts.title}",
        "",
        f"ralph stopped here: {reason}.",
        "",
        f"- goal: `{facts.goal_path}`",
        f"- repository: `{facts.repo}`, branch `{run.branch or '(detached HEAD)'}`",
        f"- commits: `git -C {facts.repo} log {run.base or ''}{'..' if run.base else ''}{run.tip or 'HEAD'}`",
        f"- spent: {cost}, {tokens}; {len(run.history.iterations)} iterations, {run.failed} failed sessions",
        f"- raw logs: `{facts.logs}`",
        "",
        "## What was tried",
        "",
    ]
    if summary is not None:
        lines += [f"### Iterations 1-{summary.through}, condensed", "", fenced(summary.text), ""]
    if earlier:
        lines += [f"{earlier} {'more' if summary else 'earlier'} iterations are told by their commits.", ""]
    for item in recent:
        said = both_ends(item.summary, _LONGEST_SUMMARY)
        lines += [f"### Iteration {item.number}, commit {item.commit[:10]}", "", fenced(said), ""]
    lines += ["## The last check", ""]
    if not facts.check:
        lines += ["There is none.", ""]
    elif not facts.check_output:
        lines += [f"`{facts.check}` never ran: no session claimed DONE.", ""]
    else:
        on = "on the last iteration" if run.check is not None else "on an earlier iteration"
        lines += [f"`{facts.check}`, {on}, said:", "", fenced(facts.check_output), ""]
    lines += ["## What changed in all", "", fenced(facts.changes or "nothing that was committed"), ""]
    return "\n".join(lines)
