"""`ralph init`: proposes a check, a setup and a goal, tries the scripts on a copy of the repository, asks, and writes.

The copy is thrown away, so that nothing in the repository changes before the user has said yes.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.config import paths, settings
from ralph.config.files import read_goal
from ralph.core.errors import ExitCode, RalphError, UsageError
from ralph.core.text import few, format_duration
from ralph.git.command import git_output, run_git
from ralph.git.repo import Repo, open_repo
from ralph.setup.toolchains import LOOKED_FOR, ProposedScripts, propose
from ralph.setup.trial import CHECK, SETUP, Trial, try_scripts
from ralph.state import project
from ralph.state.lock import RepoLock
from ralph.system import environ
from ralph.system.files import named_in_faults, write_new
from ralph.ui import page
from ralph.ui.output import Output
from ralph.ui.page import Part
from ralph.ui.theme import Look

GOAL = "goal.md"
_NO_GOAL = "ralph init"
"""What stands in the lock of the tree instead of a goal's name."""
_LAST_LINES = 12
_EXAMPLE = r"printf '#!/bin/sh\nset -eu\nmake test\n' > .ralph/check && chmod +x .ralph/check"

_MEND = """# Make the check pass

## Objective
`.ralph/check` fails. Find out why, and fix the cause.

## Acceptance
- `.ralph/check` passes.
- No test was deleted, skipped or weakened.
"""
_OPEN = """# What you want, in a few words

<!--
Write below `## Objective`, in two or three sentences, what should be different when this is done.
ralph refuses this file as long as that section is empty.
-->

## Objective

## Acceptance
- Replace this line with what you will look at to see that it is done.
"""
_PASSES = "- `.ralph/check` passes.\n"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What can be added to a repository; what is there already stays as it is."""

    repo: Repo
    proposal: ProposedScripts
    kept: tuple[str, ...]
    """Those of the three files that are there."""

    @property
    def scripts(self) -> dict[str, str]:
        """The scripts to write, by their paths."""
        proposed = {SETUP: self.proposal.setup, CHECK: self.proposal.check} if CHECK not in self.kept else {}
        return {path: text for path, text in proposed.items() if text and path not in self.kept}

    @property
    def new(self) -> list[str]:
        """Every file to write."""
        return [*sorted(self.scripts), *([GOAL] if GOAL not in self.kept else [])]


def init_repo(*, unasked: bool) -> int:
    """Set up the repository that ralph stands in; return the exit code. `unasked`: write without asking."""
    env = environ.without_redirections()
    repo = _repository()
    project.require_plain_directory(repo.root)
    ralph_dir = paths.ralph_dir(env)
    if ralph_dir.resolve().is_relative_to(repo.root):
        raise UsageError(f"RALPH_DIR={ralph_dir} is inside the repository", "set it to a directory outside")
    plan = _plan(repo)
    if not plan.new:
        page.show([*_shown_plan(plan), "there is nothing to add", *_next_steps(plan, red=False)])
        return ExitCode.DONE
    if not unasked and not _is_attended():
        raise UsageError(
            "cannot ask before writing: there is no terminal",
            "write without asking: ralph init --yes",
        )
    chosen = settings.load(env=env, root=repo.root)
    directory = ralph_dir / "runs" / paths.repo_key(repo.root)
    page.show(_shown_plan(plan))
    with RepoLock(directory, _NO_GOAL, repo.root):
        trial = Trial()
        if plan.scripts:
            trial = try_scripts(
                repo,
                plan.scripts,
                plan.proposal.programs,
                directory=directory,
                env=env,
                chosen=chosen,
                ralph_dir=ralph_dir,
            )
        page.show([*_shown_trial(trial, plan), ""])
        if not unasked and not _agrees(plan.new):
            page.show(["nothing was written"])
            return ExitCode.FAILED
        _write(plan, _goal(plan, trial))
    page.show([f"wrote {few(plan.new, 3)}", *_next_steps(plan, red=trial.is_red, left_behind=trial.left_behind)])
    return ExitCode.FAILED if plan.scripts and not trial.runs else ExitCode.DONE


def _repository() -> Repo:
    try:
        return open_repo(Path.cwd())
    except UsageError as error:
        raise UsageError(error.message, "create a repository here, then try again: git init") from error


def _plan(repo: Repo) -> _Plan:
    listed = git_output(repo.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    files = [file for file in dict.fromkeys(listed.split("\0")) if file and not file.startswith(".ralph/")]
    kept = tuple(path for path in (CHECK, SETUP, GOAL) if os.path.lexists(repo.root / path))
    return _Plan(repo, propose(repo.root, files), kept)


def _is_attended() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def _agrees(files: Sequence[str]) -> bool:
    Output(sys.stderr).write(f"write {few(files, 3)}? [Y/n] ")
    answer = sys.stdin.readline()
    return answer.strip().lower() in ("", "y", "yes") and answer != ""  # nothing at all: the terminal has gone


def _shown_plan(plan: _Plan) -> list[Part]:
    shown: list[Part] = [*([f"left as they are: {', '.join(plan.kept)}", ""] if plan.kept else [])]
    if CHECK in plan.kept:
        return shown
    if plan.proposal.reasons:
        shown += [("found", Look.STRONG), *(f"  {reason}" for reason in plan.proposal.reasons), ""]
    if not plan.proposal.check:
        where = "" if plan.proposal.reasons else f" (looked for {', '.join(LOOKED_FOR)}, and tests in Python)"
        shown += [
            f"no check proposed: nothing here says how to test this repository{where}",
            "When there is something to test, run ralph init again; or write the check yourself, such as:",
            f"  mkdir -p .ralph && {_EXAMPLE}",
            "Without a check ralph cannot verify DONE, and says so.",
        ]
    for path, text in sorted(plan.scripts.items()):
        shown += [(path, Look.STRONG), *(f"  {line}" for line in text.splitlines()), ""]
    return shown


def _shown_trial(trial: Trial, plan: _Plan) -> list[Part]:
    if trial.missing:
        are = "is" if len(trial.missing) == 1 else "are"
        said = f"not tried: {' and '.join(trial.missing)} {are} not on PATH; install that, then: ralph check"
        return [(said, Look.WARN)]
    shown: list[Part] = []
    for label, report in trial.reports.items():
        ended = "out of time" if report.exit_code is None else f"exit {report.exit_code}"
        look = Look.GOOD if report.exit_code == 0 else Look.WARN
        shown.append(
            (f"tried {label} on a copy of this repository: {ended} after {format_duration(report.seconds)}", look)
        )
        lines = report.output.rstrip().splitlines()
        shown += [*(["  …"] if len(lines) > _LAST_LINES else []), *(f"  {line}" for line in lines[-_LAST_LINES:])]
    if not trial.reports:
        return shown
    if not trial.runs:
        shown.append("It does not run yet: fix it once ralph has written it, then try it with: ralph check")
    elif trial.is_red:
        shown.append(
            f"It fails today. {GOAL} asks the agent to make it pass." if GOAL not in plan.kept else "It fails today."
        )
    else:
        shown.append("It passes today: add a test for your goal, or ralph will accept any DONE.")
    return shown


def _goal(plan: _Plan, trial: Trial) -> str:
    if trial.is_red:
        return _MEND
    return _OPEN + (_PASSES if plan.scripts or CHECK in plan.kept else "")


def _write(plan: _Plan, goal: str) -> None:
    root = plan.repo.root
    if plan.scripts:
        with named_in_faults(root / ".ralph"):
            (root / ".ralph").mkdir(exist_ok=True)
    for path, text in plan.scripts.items():
        write_new(root / path, text, 0o755)
    if GOAL not in plan.kept:
        write_new(root / GOAL, goal, 0o644)


def _is_goal(file: Path) -> bool:
    """Tell whether `ralph run` would take the file."""
    try:
        read_goal(file)
    except RalphError:
        return False
    return True


def _next_steps(plan: _Plan, *, red: bool, left_behind: Sequence[str] = ()) -> list[Part]:
    """The commands that come next, as they can be typed here."""
    goal = shlex.quote(os.path.relpath(plan.repo.root / GOAL))
    steps: list[Part] = ["", ("next", Look.STRONG)]
    folders = [path for path in left_behind if path.endswith("/")]
    if folders:
        patterns = dict.fromkeys(f"{folder.rstrip('/').rpartition('/')[2]}/" for folder in folders)
        ignore = shlex.quote(os.path.relpath(plan.repo.root / ".gitignore"))
        steps.append(f"  printf '%s\\n' {shlex.join(patterns)} >> {ignore}  # what the check leaves behind")
    if files := [path for path in left_behind if not path.endswith("/")]:
        steps.append(f"  commit or ignore what the check leaves behind: {few(files, 5)}")
    if dirty := [path for path in plan.repo.dirty_paths(plan.repo.root / GOAL) if path != ".gitignore"]:
        steps.append(f"  commit or stash your changes, because a run starts on a clean tree: {few(dirty, 3)}")
    if not red and not _is_goal(plan.repo.root / GOAL):
        steps.append(f"  edit {goal}: say under Objective what you want")
    written = [*plan.new, *([".gitignore"] if folders else [])]
    if written:
        force = " --force" if run_git(plan.repo.root, "check-ignore", "--quiet", "--", *plan.new)[0] == 0 else ""
        named = shlex.join(os.path.relpath(plan.repo.root / path) for path in written)
        steps.append(f"  git add{force} {named} && git commit -m 'Set up ralph'")
    steps.append(f"  ralph run {goal}")
    return steps
