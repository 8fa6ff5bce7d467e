"""The header and the final report of `ralph run`: place, agent, limits; result and next step."""

import contextlib
import math
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ralph import __version__
from ralph.agents.base import OWN_TRANSCRIPTS
from ralph.config.settings import Settings
from ralph.core.errors import ExitCode, RalphError
from ralph.core.events import RunStarted
from ralph.core.limits import Limit, Reasoning, limit_reached, told_limits
from ralph.core.plan import Plan
from ralph.core.proof import JudgedBy, Judgement, Proof
from ralph.core.run import Ending, Run, RunResult
from ralph.core.status import TimeSpent
from ralph.core.text import few, format_duration, format_money, plural
from ralph.core.usage import Spend
from ralph.core.verdict import Reply
from ralph.git import repo
from ralph.git.repo import size_of_changes
from ralph.run.agent import ChosenAgent
from ralph.run.prepare import Prepared, SurveyRequest, command_again
from ralph.run.prompts import MAP
from ralph.run.scout import Survey

Lines = Iterator[tuple[str, str]]

_SUBAGENTS = {"Agent", "Task"}
"""Tools of Claude Code that start subagents."""


def greeting(prepared: Prepared, run: Run, directory: Path, version: str = "") -> Lines:
    """The header of a run, as labelled lines; `version` is the agent's, if known."""
    chosen, check, runner = prepared.settings, prepared.check, prepared.agent.runner
    yield headline(f"{run.goal}: {prepared.goal.title}")
    yield from introduction(prepared, version=version)
    yield from chosen.fallback.header
    yield "repo", f"{prepared.repo.root} · branch {run.branch or '(detached HEAD)'}"
    if check is None:
        yield "check", "none: ralph will accept DONE without proof"
    else:
        yield "check", f"{check.label}, as it was when the run started" if check.script else check.label
    if prepared.around.header:
        yield "envrc", prepared.around.header
    yield "limits", _limits(chosen)
    yield "run", str(directory)
    yield from dict.fromkeys(note for each in (prepared.agent, *prepared.fallbacks) for note in _unheld(each))
    if chosen.reasoning is Reasoning.NONE and runner.reply == Reply.TOOL:
        yield "note", "thinking is off, but some versions of Claude Code (2.1.325) still think at low effort"
    if not prepared.repo.has_identity:
        yield "note", f"git has no user name and email here: ralph commits as {repo.FALLBACK_IDENTITY}"
    if prepared.asked.place.is_old_clone:
        yield "note", "ralph uses the existing clone as it is; to fetch it:"
        yield "fetch", shlex.join(["git", "-C", str(prepared.repo.root), "fetch"])
    for note in chosen.notes:
        yield "note", note


def headline(what: str) -> tuple[str, str]:
    """Return the first line of a header."""
    return "ralph", f"{__version__} · {what}"


def _limits(chosen: Settings) -> str:
    if chosen.limited_by_default:
        return f"{told_limits(chosen.limits)}, because you set no limit (--max-iterations 0 removes it)"
    return told_limits(chosen.limits) or "none (see --max-iterations, --duration, --max-cost, --max-tokens)"


def run_started(prepared: Prepared, run: Run) -> RunStarted:
    """Return the first event of a start."""
    return replace(
        _started(prepared),
        goal=run.goal,
        run=run.id,
        branch=run.branch,
        check=prepared.check_label,
        continued=bool(run.history.iterations or run.failed),
        iteration=run.iteration,
        cost_usd=run.spend.cost_usd,
        tokens=run.spend.tokens,
        max_iterations=prepared.settings.limits.iterations,
        fallback=prepared.settings.fallback.names,
    )


def survey_started(asked: SurveyRequest) -> RunStarted:
    """Return the first event of a scout's pass, which has no goal and no check."""
    return replace(_started(asked), branch=asked.repo.branch())


def _started(asked: Prepared | SurveyRequest) -> RunStarted:
    agent, around = asked.agent, asked.around
    return RunStarted(
        goal="",
        run="",
        repo=str(asked.repo.root),
        branch="",
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
        sandbox=around.sandbox.mode,
    )


def introduction(asked: Prepared | SurveyRequest, *, read_only: bool = False, version: str = "") -> Lines:
    """Describe the agent: its program, model, permissions, sandbox and transcript."""
    agent, around = asked.agent, asked.around
    chosen, runner, sandbox = agent.settings, agent.runner, around.sandbox
    thinking = (
        "" if chosen.agent == "custom" else f" · reasoning {chosen.reasoning}"
    )  # a custom command does not get it
    yield "agent", f"{f'{chosen.agent} {version}'.rstrip()} ({runner.path}) · model {agent.model}{thinking}"
    yield "", f"{runner.permissions(read_only=read_only)} · sandbox: {sandbox.label} · transcript {runner.transcript}"
    yield from (("", note) for note in sandbox.notes(around.env, chosen.agent))
    if runner.notice:
        yield "", runner.notice


def _unheld(agent: ChosenAgent) -> Lines:
    """List the settings that this agent cannot honour."""
    chosen, runner = agent.settings, agent.runner
    own = OWN_TRANSCRIPTS.get(chosen.agent, runner.transcript)
    as_claude = own == "claude"
    in_words = own in ("claude", "codex") and runner.transcript != own  # it prints only its last message then
    tells = agent.transcript().capabilities.supports_usage_events and not in_words
    on_cost = chosen.limits.cost_usd or chosen.limits.iteration_cost_usd
    on_use = on_cost or chosen.limits.tokens or chosen.limits.iteration_tokens
    if on_use and not tells:
        yield "note", f"--max-cost and --max-tokens can't be enforced: a {runner.transcript} transcript has no usage"
        yield "", "use --max-iterations, --duration or --iteration-timeout instead"
    elif on_use and runner.transcript == "codex":
        yield "note", "codex reports usage at the end of a turn: ralph enforces cost and token limits between turns"
    if on_use and not on_cost and as_claude and _SUBAGENTS & set(chosen.worker.tools):
        yield "note", "subagents report their output at the end of a turn: --max-tokens may act late within a turn"
        yield "", "with --max-cost, the agent itself enforces the budget, subagents included"
    if on_cost and tells and not as_claude and agent.prices.price(chosen.model) is None:
        model = chosen.model or "its model"
        yield "note", f"--max-cost needs a cost from the agent, or a price for {model} in .ralph/pricing.toml"
    if chosen.worker.system_prompt_file and not as_claude:
        yield "note", f"modes.worker.system_prompt_file is ignored: {chosen.agent} has no such option"


def farewell(result: RunResult, prepared: Prepared, seconds: float, times: TimeSpent, *, continued: bool) -> Lines:
    """The report at the end of a run, as labelled lines; `seconds` and `times` cover this start, the rest the run."""
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
    yield from _proof(result)
    yield "files", f".ralph/runs/{run.goal}/result.json · raw logs in .ralph/logs/"
    if result.ending is Ending.STALLED:
        if (prepared.asked.directory / run.goal / "dossier.md").is_file():
            yield "", f".ralph/runs/{run.goal}/dossier.md: what was tried, what the check said, what changed"
        yield "next", f'tell the agent what to do instead: ralph tell {run.goal} "…"; then continue'
    if prepared.asked.place.url is not None:
        yield "clone", f"{prepared.repo.root} · branch {run.branch}, not pushed"
        yield "push", shlex.join(["git", "-C", str(prepared.repo.root), "push", "origin", run.branch])
    if prepared.settings.limits.cost_usd and not run.spend.costed and run.used_iterations:
        yield "note", "--max-cost was not enforced: the agent reported no cost, and its model has no price"
    yield from _leftovers(result, prepared)
    yield from (("next", step) for step in next_steps(result, prepared))


def _proof(result: RunResult) -> Lines:
    """Say what the proof is worth."""
    judged = result.run.check.judgement if result.proven and result.run.check is not None else None
    if judged is None:
        return
    if judged.proof is Proof.COMMIT:
        yield "proof", f"verified on a clean checkout of {(result.run.tip or '')[:10]}"
    else:
        yield "proof", "verified in the working tree" + (f": {judged.why_tree}" if judged.why_tree else "")
    if judged.judged_by is JudgedBy.BASE:
        return
    yield "", f"with changed tests: {few(facts_of(judged), 5)}"
    yield "", "look at them before you trust it; to refuse such proofs, set tests = frozen"


def facts_of(judged: Judgement) -> list[str]:
    """Name what the work did to the files that judge it."""
    lost = [f"{plural(judged.lost_tests, 'test')} removed"] if judged.lost_tests else []
    skipped = [f"{plural(judged.newly_skipped, 'test')} skipped"] if judged.newly_skipped else []
    return [*lost, *skipped, *judged.changes.paths]


def next_steps(result: RunResult, prepared: Prepared) -> Iterator[str]:
    """Yield the next steps after a run; commands repeat the user's own flags."""
    if result.hint:
        yield hint_of(result)
    if result.limit is not None:
        yield f"continue with a higher limit: {_raised(result.limit, result.run, prepared)}"
    elif result.exit_code not in (ExitCode.DONE, ExitCode.BLOCKED):
        yield f"continue where it stopped: {command_again(prepared.flags, prepared.asked.written)}"


def _times(seconds: float, times: TimeSpent) -> str:
    """Return the duration and its parts; parts of no time are left out."""
    parts = {"model": times.model, "tools": times.tools, "check": times.check, "waiting": times.waiting}
    split = ", ".join(f"{name} {format_duration(part)}" for name, part in parts.items() if part)
    return f"{format_duration(seconds)}: {split}" if split else format_duration(seconds)


def _leftovers(result: RunResult, prepared: Prepared) -> Lines:
    """Name the uncommitted files of an unfinished run; ignore a failure to read the tree."""
    paths: list[str] = []
    with contextlib.suppress(RalphError):
        paths = [] if result.exit_code == ExitCode.DONE else list(prepared.repo.dirty_paths(prepared.goal.path))
    if paths:
        shown = few(paths, 3)
        yield "note", f"the working tree has uncommitted work ({shown}); the next session will know"


def short_greeting(prepared: Prepared) -> Lines:
    """The header of a start that has nothing to run."""
    yield headline(f"{prepared.goal.name}: {prepared.goal.title}")
    yield "repo", f"{prepared.repo.root} · branch {prepared.repo.branch() or '(detached HEAD)'}"
    if dirty := prepared.repo.dirty_paths(prepared.goal.path):
        yield "note", f"the proof does not cover uncommitted changes: {few(dirty, 5)}"


def still_proven_reason(commit: str | None, check: str = "") -> str:
    """Say in one line that a goal is already done, and at which commit; `check` is the one that just proved it."""
    short = (commit or "")[:10]
    if check:
        return f"done: proven again by {check} at commit {short}"
    return f"done: already proven at commit {short}; neither the goal nor HEAD has changed"


def still_proven(reason: str, prepared: Prepared) -> Lines:
    """The report of a start that needed no session."""
    yield "", ""
    yield "result", reason
    yield "next", f"start over: {command_again(prepared.flags, prepared.asked.written)} --fresh"


def _ending(result: RunResult, prepared: Prepared) -> str:
    if result.proven and prepared.check is not None:
        return f"done: proven by {prepared.check.label}"
    return f"failed: {reason_of(result)}" if result.exit_code in _FAILED else reason_of(result)


_FAILED = (ExitCode.FAILED, ExitCode.BUG)


def reason_of(result: RunResult) -> str:
    """Say in a line how a run ended."""
    match result.ending:
        case Ending.PROVEN:
            return "done"
        case Ending.UNPROVEN:
            return "done (not verified: there is no check)"
        case Ending.LIMIT:
            return limit_reached(result.limit or "")
        case Ending.FAILURES:
            return f"{result.run.failures} failures in a row; the last one: {result.fact}"
        case Ending.STALLED:
            return f"stalled: the last {result.run.stall.idle} iterations changed nothing"
        case Ending.SESSION:
            return f"blocked: {result.fact}"
        case Ending.OBSTACLE:
            return f"blocked: the agent reports: {result.fact}"
        case Ending.NO_CHECK:
            return f"blocked: your check can't run: {result.fact}"
        case Ending.STOP_KEY:
            return "stopped after this iteration, as you asked"
        case Ending.STOP_COMMAND:
            return "stopped by `ralph stop`"
        case Ending.QUIT_KEY:
            return "stopped with q"
        case Ending.SIGNAL:
            return f"stopped by {signal_name(result.signal)}"
        case Ending.FAULT | Ending.UNABLE | Ending.BUG:
            return result.fact


def hint_of(result: RunResult) -> str:
    """Say what the user can do after this ending; empty if the ending says it."""
    return f"{result.hint}, then run the same command again" if result.again else result.hint


def signal_name(number: int) -> str:
    """Return a signal's usual name."""
    return {1: "SIGHUP", 2: "Ctrl-C (SIGINT)", 15: "SIGTERM"}.get(number, f"signal {number}")


def spent(spend: Spend, between: str = " · ") -> str:
    """Say what was used, in dollars and in tokens."""
    return _spent_money(spend) + between + _spent_tokens(spend)


def _cost(run: Run) -> str:
    apart = run.condensed.spend
    details = [
        "partly estimated" if run.spend.estimated else "",
        f"{format_money(apart.cost_usd)} of it for summaries" if apart.costed else "",
    ]
    said = "; ".join(filter(None, details))
    return _spent_money(run.spend) + (f" ({said})" if said and run.spend.costed else "")


def _tokens(run: Run) -> str:
    apart = run.condensed.spend
    return _spent_tokens(run.spend) + (f" ({apart.tokens:,} for summaries)" if apart.knows_tokens else "")


def _spent_money(spend: Spend) -> str:
    return format_money(spend.cost_usd) if spend.costed else "cost unknown"


def _spent_tokens(spend: Spend) -> str:
    return f"{spend.tokens:,} tokens" if spend.knows_tokens else "tokens unknown"


def _raised(limit: Limit, run: Run, prepared: Prepared) -> str:
    """Return the user's command with a higher value for the limit that was reached."""
    limits = prepared.settings.limits
    higher = {
        Limit.ITERATIONS: str(run.used_iterations + (limits.iterations or 0)),
        Limit.DURATION: f"{max(1, math.ceil(2 * (limits.duration or 0)))}s",
        Limit.COST: f"{math.ceil(100 * (run.spend.cost_usd + (limits.cost_usd or 0))) / 100:.2f}",
        Limit.TOKENS: str(run.spend.tokens + (limits.tokens or 0)),
    }[limit]
    return command_again(prepared.flags, {**prepared.asked.written, limit.setting: higher})


def survey_greeting(asked: SurveyRequest) -> Lines:
    """The header of a scout's pass."""
    yield headline("mapping the code base")
    yield from introduction(asked, read_only=True)
    yield "repo", f"{asked.repo.root} · branch {asked.repo.branch() or '(detached HEAD)'}"
    if asked.around.header:
        yield "envrc", asked.around.header
    for note in asked.agent.settings.notes:
        yield "note", note
    yield "", ""


def survey_farewell(survey: Survey, spend: Spend, seconds: float, logs: Path, kept: Path | None) -> Lines:
    """The report of a scout's pass; `kept` is the previous map, if it was different."""
    yield "", ""
    if survey.map:
        lines = len(survey.map.splitlines())
        yield "result", f"wrote {MAP} ({plural(lines, 'line')}); every worker session reads it from now on"
        if kept is not None:
            yield "", f"the previous map is kept in {kept}"
    else:
        yield "result", f"failed: {survey.reason}" if survey.exit_code == ExitCode.FAILED else survey.reason
    yield "", f"{spent(spend)} · {format_duration(seconds)}"
    yield "files", f"raw logs in {logs}"
    if survey.hint:
        yield "next", survey.hint


def plan_greeting(asked: SurveyRequest, plan: Plan) -> Lines:
    """The header of a planner's conversation."""
    yield headline("turning an idea into a goal")
    yield from introduction(asked, read_only=True)
    yield "idea", " ".join(plan.idea.split())[:_LONGEST_IDEA]
    for note in asked.agent.settings.notes:
        yield "note", note
    yield "", ""


def plan_farewell(plan: Plan, steps: Sequence[str], logs: Path) -> Lines:
    """The last words of a planner's conversation; `steps` are the commands that come next."""
    names = " and ".join([os.path.relpath(plan.file), *([".ralph/check"] if plan.check else [])])
    yield "", ""
    yield "result", f"wrote {names}" if plan.is_written else "nothing was written"
    yield "", spent(plan.spend)
    yield "files", f"raw logs in {logs}"
    yield from zip(("next", *[""] * len(steps)), steps, strict=False)


_LONGEST_IDEA = 200
