"""Finds and renders the prompt templates: strictly, in a sandbox. Goal and quotes are variables, never templates."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2
import jinja2.sandbox

from ralph.core.errors import RalphError
from ralph.core.goal import Goal
from ralph.core.run import Iteration, Run
from ralph.core.summary import RECENT, SHORT
from ralph.core.text import both_ends, fenced
from ralph.core.verdict import PROMISE, Reply, defused, obstacle_in

_LONGEST_SUMMARY = 4000
_MOST_CONDENSED = 200
_LONGEST_TALE = 80_000
"""Of so many iterations, in so many characters, a summarizer is told at once."""

_LONGEST_QUOTE = 12_000

MAP = ".ralph/codebase-map.md"
"""What a scout found out about the code base, for every worker to read."""


class PromptError(RalphError):
    """A template cannot be rendered."""

    exit_code = 2


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
        verbatim: int = RECENT,
        shrunk: bool = False,
    ) -> str:
        """What a worker session is told; `shrunk` keeps only what a too long prompt must not lose."""
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
                "reply": str(reply),
                "promise": PROMISE,
            },
        )

    def summarizer(self, goal: Goal, run: Run, through: int, *, reply: Reply) -> str:
        """What a summarizer session is told: the iterations up to `through`, and the summary of those before them."""
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
        """What a scout session is told, which maps the code base and changes nothing."""
        variables = {
            "has_agents_md": (root / "AGENTS.md").is_file(),
            "has_map": bool(_codebase_map(root)),
            "reply": str(reply),
        }
        return self._render("scout.md.j2", variables)

    def _render(self, name: str, variables: Mapping[str, object]) -> str:
        folders = tuple(str(folder) for folder in (self.overrides, _shipped()) if folder is not None)
        try:
            template = _environment(folders).get_template(name)
            rendered = template.render(variables)
        except (
            jinja2.TemplateError,
            UnicodeDecodeError,
            OSError,
            TypeError,
            ValueError,
            ArithmeticError,
            RecursionError,
        ) as error:
            where = f"{self.overrides / name}: " if self.overrides and (self.overrides / name).exists() else f"{name}: "
            raise PromptError(
                f"{where}the template cannot be rendered: {error}", "see the template that ships with ralph"
            ) from error
        if rendered.lstrip().startswith("/"):
            # Claude Code takes `/word` at the start for a slash command: success, and not one call to the model.
            raise PromptError(f"{name}: a prompt must not start with a slash")
        return defused(rendered)


def _obstacle(run: Run) -> str:
    """What the last session says it is blocked by, if the next one is to confirm that."""
    last = run.history.last
    return both_ends(obstacle_in(last.summary), _LONGEST_SUMMARY) if run.obstacles and last is not None else ""


@functools.cache
def _environment(folders: tuple[str, ...]) -> jinja2.Environment:
    """The engine for these folders, kept: compiling a template takes longer than all else in an iteration."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown for an agent, not HTML for a browser
    )
    environment.filters["fenced"] = fenced  # pyright: ignore[reportUnknownMemberType] - jinja2 does not type it
    return environment


def _quoted(item: Iteration, most: int) -> Mapping[str, object]:
    """What a template may say of an iteration, its summary in about so many characters."""
    return {"number": item.number, "verdict": str(item.verdict), "summary": both_ends(item.summary, most)}


def _codebase_map(root: Path) -> str:
    """The map, both its ends if it is long; empty where there is none. A link is none: it may lead anywhere."""
    path = root / MAP
    if path.is_symlink() or not path.is_file():
        return ""
    try:
        return both_ends(path.read_text("utf-8", "replace").strip(), _LONGEST_QUOTE)
    except OSError:  # a worker finds its way without a map
        return ""


@functools.cache
def _shipped() -> Path:
    """The templates of the wheel, else those of the checkout."""
    packaged = Path(__file__).parent.parent / "_prompts"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent.parent / "prompts"
