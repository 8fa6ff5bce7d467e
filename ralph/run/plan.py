"""One `ralph plan`: questions to the user, a draft to look at, and files only with the user's consent.

ralph saves the plan after every answer and every turn; `ralph plan --continue` continues from there.
"""

import contextlib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.config.files import read_stdin
from ralph.core import ndjson
from ralph.core.errors import DiskError, ExitCode, Interrupted, RalphError, StateError, UsageError
from ralph.core.events import RunEnded
from ralph.core.goal import goal_name
from ralph.core.plan import Exchange, Plan
from ralph.core.records import NotARecord, parse, to_record
from ralph.run.agent import AgentHost, refusing_a_bad_disk
from ralph.run.planner import GO_ON, Planner, look_to_plan
from ralph.run.prepare import surround
from ralph.run.report import plan_farewell, plan_greeting, signal_name, survey_started
from ralph.run.screen import RunScreen
from ralph.state.journal import Journal
from ralph.state.lock import OwnedLock, Owner
from ralph.system.files import named_in_faults, replace_file, write_new
from ralph.ui.output import Output
from ralph.ui.page import Part, show
from ralph.ui.theme import Look

_FOLDER, _STATE, _LOCK = ".plan", "plan.json", ".lock"
_CHECK = Path(".ralph") / "check"
_USUAL = "goal.md"
_NO_ANSWER = "(no answer: decide yourself)"


@dataclass(frozen=True, slots=True)
class PlanFlags:
    """What the user asked for on the command line, apart from settings."""

    idea: str | None
    output: Path | None
    resume: bool
    no_questions: bool
    unasked: bool
    """Write without asking."""
    json: bool
    quiet: bool
    verbose: bool


def plan_goal(flags: PlanFlags, written: Mapping[str, object]) -> int:
    """Turn an idea into a goal file; return the exit code."""
    asked = look_to_plan(written)
    is_attended = not flags.json and _is_attended()
    if not flags.unasked and not is_attended:
        raise UsageError(
            "ralph plan asks before it writes, and there is no terminal to ask in",
            "to write without being asked, add --yes",
        )
    directory = asked.around.directory / _FOLDER
    journal, host = Journal(directory), AgentHost(asked.around.repo.root)
    screen = RunScreen(host, as_json=flags.json, quiet=flags.quiet, verbose=flags.verbose)
    kept = _KeptPlan(directory / _STATE)
    plan = _begun(flags, kept, asked.around.agent.settings.agent)
    with contextlib.ExitStack() as held:
        with refusing_a_bad_disk():
            held.enter_context(OwnedLock(directory / _LOCK, {"repo": str(asked.around.repo.root)}, _refused))
            held.enter_context(host.guardian)
            held.callback(screen.finish_lines)
            journal.open()
            held.callback(journal.close)
            with host.signals.watched():
                asked = replace(asked, around=surround(asked.around, host))
            kept.save(plan)
        screen.say(plan_greeting(asked.around, plan), first=True)
        recorder = screen.recorder(journal, spent=plan.spend)
        recorder(survey_started(asked.around))
        planner = Planner(asked, host, journal, screen, may_ask=is_attended and not flags.no_questions, keep=kept.save)
        try:
            plan = _Conversation(flags, planner, kept).hold(plan)
        except (Interrupted, KeyboardInterrupt) as stopped:  # at a question, nothing watches for signals
            by_signal = isinstance(stopped, Interrupted)
            code = stopped.exit_code if by_signal else ExitCode.INTERRUPTED
            by = signal_name(stopped.signal_number) if by_signal else "Ctrl-C"
            screen.say([("", ""), ("next", GO_ON)])
            recorder(RunEnded(code, f"stopped by {by}", proven=False))
            raise
        except RalphError as error:
            recorder(RunEnded(error.exit_code, str(error), proven=False))
            raise
        code = ExitCode.DONE if plan.is_written else ExitCode.FAILED
        recorder(RunEnded(code, "written" if plan.is_written else "not written", proven=False))
        screen.say(plan_farewell(plan, _next_steps(plan), journal.logs))
        return code


def _next_steps(plan: Plan) -> list[str]:
    if not plan.is_written:
        return [GO_ON]
    trial = ["ralph check  # your new check: it should fail today"] if plan.check else []
    return [*trial, f"ralph run {shlex.quote(os.path.relpath(plan.file))}"]


def _is_attended() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def _refused(owner: Owner) -> UsageError:
    return UsageError(
        f"ralph plan is already running in this repository: process {owner.pid or '?'}", "wait for it, or stop it"
    )


class _KeptPlan:
    """The file with the latest plan of a repository."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def load(self) -> Plan | None:
        try:
            return parse(Plan, self._file.read_bytes())
        except FileNotFoundError:
            return None
        except NotARecord as fault:
            raise StateError(f"{self._file}: {fault}", "start over: leave out --continue") from fault
        except OSError as error:
            raise DiskError(self._file, error) from error

    def save(self, plan: Plan) -> Plan:
        with named_in_faults(self._file):
            replace_file(self._file, ndjson.encode(to_record(plan)))
        return plan


def _begun(flags: PlanFlags, kept: _KeptPlan, agent: str) -> Plan:
    """Return the unfinished plan or a new one; refuse a goal file that could not be written in the end."""
    if flags.resume:
        if flags.idea is not None:
            raise UsageError(
                "--continue continues the latest plan, and takes no idea", "leave out the idea, or --continue"
            )
        plan = kept.load()
        if plan is None or plan.is_written:
            raise UsageError("there is no unfinished plan in this repository", 'start one: ralph plan "your idea"')
        plan = plan if flags.output is None else replace(plan, file=os.path.abspath(flags.output))  # noqa: PTH100
    else:
        if flags.idea is None:
            raise UsageError("there is no idea to plan", 'pass one: ralph plan "let users export their data"')
        plan = Plan(idea=_idea(flags.idea), file=os.path.abspath(flags.output or _USUAL), agent=agent)  # noqa: PTH100
    file = Path(plan.file)
    if os.path.lexists(file):
        raise UsageError(f"cannot write {file.name}: it exists already", "pass another file with -o")
    if not goal_name(file.stem) or file.suffix != ".md":
        raise UsageError(
            f"-o: {file.name} is not a valid name for a goal file", "use letters or digits, and end it with .md"
        )
    if not file.parent.is_dir():
        raise UsageError(f"-o: there is no folder {file.parent}", "create it, or pass another file")
    return plan


def _idea(said: str) -> str:
    """The idea in the user's words, or with `-` what stdin holds."""
    words = read_stdin("ralph plan -") if said == "-" else said
    if not words.strip():
        raise UsageError("the idea is empty", 'pass one: ralph plan "let users export their data"')
    try:
        words.encode()
    except UnicodeEncodeError as error:
        raise UsageError("the idea is not UTF-8 text", "save or type it as UTF-8") from error
    return words.strip()


@dataclass(frozen=True, slots=True)
class _Conversation:
    """Goes between the planner and the user."""

    flags: PlanFlags
    planner: Planner
    kept: _KeptPlan

    def hold(self, plan: Plan) -> Plan:
        """Have a plan finished: written, or left as it stands where the user wants that."""
        said = ""
        while True:
            if plan.questions and self.planner.may_ask:
                plan = self._ask_questions(plan)
                if len(plan.answers) < len(plan.questions):
                    return plan
                said, plan = _told(plan.answered, "Ask what else is open, or write the goal."), plan.closed()
            elif plan.questions:
                said, plan = _told(plan.answered, "Nobody can answer the rest now: decide yourself."), plan.closed()
            elif plan.goal:
                wish = self._consent(plan)
                if wish is None:
                    return self._written(plan)
                if not wish:
                    return plan
                said, plan = f"The user wants this changed:\n\n{wish}", replace(plan, wishes=(*plan.wishes, wish))
            with self.planner.host.signals.watched():
                plan = self.planner.turn(self.kept.save(plan), said)
            self.kept.save(plan)

    def _ask_questions(self, plan: Plan) -> Plan:
        """Ask the user the questions that have no answer yet, and keep each answer at once."""
        show(["", ("The planner has questions. Press Enter to let it decide.", Look.STRONG)])
        for number, question in enumerate(plan.questions[len(plan.answers) :], len(plan.answers) + 1):
            show([f"{number}. {question}"])
            if (answer := _ask("> ")) is None:
                break
            plan = self.kept.save(replace(plan, answers=(*plan.answers, answer.strip() or _NO_ANSWER)))
        return plan

    def _consent(self, plan: Plan) -> str | None:
        """Show what would be written, and ask: None is yes, nothing is no, and anything else is to be changed."""
        names = " and ".join([Path(plan.file).name, *([str(_CHECK)] if plan.check else [])])
        if not self.flags.json and not self.flags.quiet:
            self.planner.screen.finish_lines()
            show([*_shown(Path(plan.file).name, plan.goal), *(_shown(str(_CHECK), plan.check) if plan.check else [])])
        if self.flags.unasked:
            return None
        answer = _ask(f"write {names}? [Y/n, or what to change] ")
        words = (answer or "").strip()
        if answer is None or words.lower() in ("n", "no"):
            return ""
        return None if words.lower() in ("", "y", "yes") else words

    def _written(self, plan: Plan) -> Plan:
        root = self.planner.asked.around.repo.root
        write_new(Path(plan.file), plan.goal, 0o644)
        if plan.check and not os.path.lexists(root / _CHECK):
            with named_in_faults(root / _CHECK.parent):
                (root / _CHECK.parent).mkdir(exist_ok=True)
            write_new(root / _CHECK, plan.check, 0o755)
        return self.kept.save(replace(plan, is_written=True))


def _shown(name: str, text: str) -> list[Part]:
    return ["", (name, Look.STRONG), *(f"  {line}" for line in text.splitlines()), ""]


def _ask(words: str) -> str | None:
    """Ask for a line; None: the terminal has gone, or its user has pressed Ctrl-D."""
    Output(sys.stderr).write(words)
    return sys.stdin.readline() or None


def _told(exchanges: Sequence[Exchange], request: str) -> str:
    """Tell the planner the answers, and what to do next; a prompt must not begin with the user's words."""
    lines = [f"{number}. {each.question}\n   {each.answer}" for number, each in enumerate(exchanges, 1)]
    return "\n".join([*(["The user's answers:", "", *lines, ""] if lines else []), request])
