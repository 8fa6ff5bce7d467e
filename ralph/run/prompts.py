"""Finds and renders the prompt templates: strictly, in a sandbox. Goal and quotes are variables, never templates.

AGENTS.md is quoted as it stood when the run began, where the agent does not read the file by itself.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.config.settings import Settings
from ralph.core.errors import ExitCode, RalphError
from ralph.core.goal import Goal
from ralph.core.plan import Plan
from ralph.core.run import Iteration, Run, Trespass, Undone
from ralph.core.summary import RECENT, SHORT
from ralph.core.text import both_ends
from ralph.core.verdict import PROMISE, Reply, defused, obstacle_in
from ralph.git.repo import committed_text
from ralph.run.template import TemplateFault, render, render_with_limits, require_inside
from ralph.system.files import named_in_faults, replace_file
from ralph.system.instruction_files import read_memory, real, stays_inside

_LONGEST_SUMMARY = 4000
_MOST_CONDENSED = 200
_LONGEST_TALE = 80_000
"""The most iterations and characters that one summarizer prompt quotes."""

_LONGEST_QUOTE = 12_000

MAP = ".ralph/codebase-map.md"
"""The scout's map of the code base, which every worker reads."""


class PromptError(RalphError):
    """A template cannot be rendered."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class Prompts:
    """Templates by file name: those of the project first, then those that ship with ralph."""

    overrides: Path | None = None

    def worker(
        self,
        goal: Goal,
        run: Run,
        *,
        root: Path,
        check: str,
        reply: Reply,
        agents_md: str = "",
        verbatim: int = RECENT,
        shrunk: bool = False,
    ) -> str:
        """Return a worker's prompt; `shrunk` keeps only what a prompt that was too long must not lose.

        `agents_md` is AGENTS.md for an agent that does not read it by itself.
        """
        summary = run.condensed.summary
        uncondensed = run.history.since(run.condensed.through)
        recent = uncondensed[-(SHORT if shrunk else verbatim) :]
        red = run.check is not None and not run.check.passed
        return self._render(
            "worker.md.j2",
            {
                "title": goal.title,
                "goal": goal.text,
                "iteration": run.iteration,
                "has_agents_md": (root / "AGENTS.md").is_file(),
                "agents_md": both_ends(agents_md.strip(), _LONGEST_SUMMARY if shrunk else _LONGEST_QUOTE),
                "codebase_map": "" if shrunk else _codebase_map(root),
                "summary": ""
                if summary is None
                else both_ends(summary.text, _LONGEST_SUMMARY if shrunk else _LONGEST_QUOTE),
                "summarised": run.condensed.through,
                "recent": [_quoted(item, _LONGEST_SUMMARY) for item in recent],
                "left_out": len(uncondensed) - len(recent),
                "guidance": [
                    {"number": item.number, "text": both_ends(item.text, _LONGEST_QUOTE)} for item in run.guidance
                ],
                "obstacle": _obstacle(run),
                "notes": [both_ends(note, _LONGEST_QUOTE) for note in run.notes],
                "check": check,
                "check_output": both_ends(run.check.output, 2000 if shrunk else _LONGEST_QUOTE)
                if red and run.check
                else "",
                "check_exit_code": run.check.exit_code if red and run.check else None,
                "check_red": red,
                "was_proven": red and run.check is not None and run.check.iteration == 0,
                "reply": str(reply),
                "promise": PROMISE,
            },
        )

    def summarizer(self, goal: Goal, run: Run, through: int, *, reply: Reply) -> str:
        """Return a summarizer's prompt: the iterations up to `through`, and the summary before them."""
        older = [item for item in run.history.since(run.condensed.through) if item.number <= through]
        told = older[-_MOST_CONDENSED:]
        most = min(_LONGEST_SUMMARY, _LONGEST_TALE // max(1, len(told)))
        variables = {
            "title": goal.title,
            "through": through,
            "summary": run.condensed.summary.text if run.condensed.summary else "",
            "summarised": run.condensed.through,
            "iterations": [_quoted(item, most) for item in told],
            "left_out": len(older) - len(told),
            "reply": str(reply),
        }
        return self._render("summarizer.md.j2", variables)

    def scout(self, root: Path, *, reply: Reply) -> str:
        """Return a scout's prompt: map the code base and change nothing."""
        variables = {
            "has_agents_md": (root / "AGENTS.md").is_file(),
            "has_map": bool(_codebase_map(root)),
            "reply": str(reply),
        }
        return self._render("scout.md.j2", variables)

    def planner(self, plan: Plan, root: Path, *, check: str, may_ask: bool, reply: Reply) -> str:
        """Return a planner's prompt: turn an idea into a goal, after a conversation if there was one."""
        variables = {
            "idea": both_ends(plan.idea, _LONGEST_QUOTE),
            "exchanges": [{"question": each.question, "answer": each.answer} for each in plan.exchanges],
            "draft": plan.goal,
            "wishes": list(plan.wishes),
            "has_agents_md": (root / "AGENTS.md").is_file(),
            "has_map": bool(_codebase_map(root)),
            "check": check,
            "may_ask": may_ask,
            "reply": str(reply),
        }
        return self._render("planner.md.j2", variables)

    def stage(self, variables: Mapping[str, object], *, agents_md: str, reply: Reply) -> str:
        """Render the prompt for a stage of a pipeline; the variables name it, its task and the earlier stages."""
        quoted = both_ends(agents_md.strip(), _LONGEST_QUOTE)
        return self._render("stage.md.j2", {**variables, "agents_md": quoted, "reply": str(reply)})

    def _render(self, name: str, variables: Mapping[str, object]) -> str:
        own = self.overrides if self.overrides is not None and (self.overrides / name).exists() else None
        try:
            if own is None:
                rendered = render((str(_shipped()),), name, variables)
            else:
                require_inside(own)
                rendered = render_with_limits((str(own), str(_shipped())), name, variables)
        except TemplateFault as error:
            where = name if own is None else own / name
            raise PromptError(
                f"{where}: cannot render the template: {error}", "compare it with the template that ships with ralph"
            ) from error
        if rendered.lstrip().startswith("/"):
            # Claude Code reads `/word` at the start as a slash command and reports success without calling the model.
            raise PromptError(f"{name}: a prompt cannot start with a slash")
        return defused(rendered)


def said_of(undone: Undone) -> str:
    """Say what a session did that ralph undid, as the end of a sentence: for the next session and the screen."""
    match undone.trespass:
        case Trespass.CHANGED_FILES:
            return f"changed {', '.join(undone.what)}"
        case Trespass.SWITCHED_BRANCH:
            return "switched branches"
        case Trespass.ATTACHED_HEAD:
            return "left the detached HEAD"
        case Trespass.MOVED_BRANCH:
            return "moved the branch off its last commit"
        case Trespass.UNFINISHED_OPERATION:
            return f"left `git {undone.what[0]}` unfinished"


_AGENTS_MD = "AGENTS.md"
_OVERRIDE = "AGENTS.override.md"
"""Codex reads this file instead of AGENTS.md, even an empty one (0.163.0)."""
_LAST_WITHOUT = (2, 1, 197)
"""The last version of Claude Code known to read AGENTS.md only where CLAUDE.md imports it; 2.1.325 reads it alone."""


def standing_agents_md(root: Path) -> str:
    """Return the current AGENTS.md; empty if it is missing or a link out of the repository."""
    path = root / _AGENTS_MD
    with named_in_faults(path):
        return path.read_text("utf-8", "replace").strip() if path.is_file() and stays_inside(path, root) else ""


def kept_agents_md(directory: Path, root: Path, base: str | None, *, begins: bool) -> str:
    """Return AGENTS.md as it stood when the run began, and keep it in the run directory for the next start."""
    kept = directory / "agents.md"
    with named_in_faults(kept):
        if kept.is_file():
            return kept.read_text("utf-8", "replace")
    text = standing_agents_md(root) if begins or base is None else committed_text(root, base, _AGENTS_MD)
    replace_file(kept, text)
    return text


class AgentsMd:
    """Decides for each session whether the prompt has to quote AGENTS.md."""

    def __init__(self, text: str, settings: Settings, root: Path, version: Callable[[], str]) -> None:
        """`text` is the version to quote; `version` is the agent's own, asked for once and only where it matters."""
        self._text, self._settings, self._root, self._version = text.strip(), settings, root, version
        self._reads_it_alone: bool | None = None

    def to_quote(self, env: Mapping[str, str]) -> str:
        """Return the text, unless the agent reads the file by itself; empty without one."""
        match self._settings.agent:
            case "codex":
                reads = bool(standing_agents_md(self._root)) and not (self._root / _OVERRIDE).is_file()
            case "claude" | "ralph-claude" | "demo":
                reads = self._claude_reads_it(Path(env.get("HOME") or Path.home()))
            case _:
                reads = False
        return "" if reads else self._text

    def _claude_reads_it(self, home: Path) -> bool:
        """Tell by the rules of 2.1.325: without a CLAUDE.md, or if one imports it, links to it or repeats it."""
        if not self._text or not self._settings.agents.claude.project_settings:
            return False  # --setting-sources user leaves out AGENTS.md and CLAUDE.md alike (2.1.325)
        memory, path = read_memory(self._root, home), real(self._root / _AGENTS_MD)
        if not any(real(each.path) == path or self._text in each.text for each in memory):
            return False
        of_claude = [each for each in memory if each.kind != "user" and each.path.name != _AGENTS_MD]
        return (
            bool(of_claude) or self._is_read_alone()
        )  # else nothing imports it: this is the file in CLAUDE.md's place

    def _is_read_alone(self) -> bool:
        """Tell whether this claude reads AGENTS.md where nothing imports it; ralph-claude does."""
        if self._reads_it_alone is None:
            version = self._version() if self._settings.agent == "claude" else ""
            numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
            self._reads_it_alone = not numbers or numbers > _LAST_WITHOUT
        return self._reads_it_alone


def _obstacle(run: Run) -> str:
    """Return what blocks the last session, if the next one should confirm it."""
    last = run.history.last
    return both_ends(obstacle_in(last.summary), _LONGEST_SUMMARY) if run.obstacles and last is not None else ""


def _quoted(item: Iteration, most: int) -> Mapping[str, object]:
    """Return an iteration for a template, with its summary cut to about `most` characters."""
    return {"number": item.number, "verdict": str(item.verdict), "summary": both_ends(item.summary, most)}


def _codebase_map(root: Path) -> str:
    """Return the map, shortened in the middle; empty if there is none. A link does not count: it may lead anywhere."""
    path = root / MAP
    if path.is_symlink() or not path.is_file():
        return ""
    try:
        return both_ends(path.read_text("utf-8", "replace").strip(), _LONGEST_QUOTE)
    except OSError:  # a worker can do without a map
        return ""


@functools.cache
def _shipped() -> Path:
    """The templates of the wheel, else those of the checkout."""
    packaged = Path(__file__).parent.parent / "_prompts"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent.parent / "prompts"
