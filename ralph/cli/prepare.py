"""What `ralph run` needs to know before it begins: goal, place, settings, agent, check. Nothing is written here."""

import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import gitrepo, protected, settings
from ralph.check import Check, find_check
from ralph.errors import BlockedError, UsageError
from ralph.goal import Goal, parse_goal
from ralph.prompts import Prompts
from ralph.run import Run
from ralph.runners import ClaudeRunner, Request
from ralph.settings import Settings


@dataclass(frozen=True, slots=True)
class RunFlags:
    """What the user asked for on the command line, apart from settings."""

    goal: Path
    repo: str | None
    branch: str | None
    resume: bool
    fresh: bool
    no_check: bool
    allow_dirty: bool
    json: bool
    dry_run: bool
    quiet: bool
    verbose: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where the run works: the repository ralph stands in, or a clone of `url` on `branch`."""

    root: Path
    url: str | None
    branch: str | None

    @property
    def exists(self) -> bool:
        return self.root.is_dir()

    def open(self) -> gitrepo.Repo:
        if self.url is not None and self.branch is not None:
            return gitrepo.clone(self.url, self.root, self.branch)
        return gitrepo.open_repo(self.root)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is settled before a run begins."""

    flags: RunFlags
    goal: Goal
    place: Place
    repo: gitrepo.Repo
    settings: Settings
    runner: ClaudeRunner
    check: Check | None
    env: Mapping[str, str]
    ralph_dir: Path


def prepare(flags: RunFlags, written: Mapping[str, object]) -> Prepared | None:
    """Find out all that a run needs, or say what is wrong; None: a dry run, which is over."""
    _refuse_contradictions(flags, written)
    env = settings.environment()
    goal = read_goal(flags.goal)
    ralph_dir = settings.ralph_dir(env)
    place = _find_place(flags, goal, ralph_dir)
    if place.branch is not None:
        gitrepo.require_branch_name(place.branch)
    root = place.root if place.exists else None
    chosen = settings.load(env=env, root=root, flags=written, front_matter=goal.front_matter, goal=goal.path)
    runner = _claude(chosen, env)
    if flags.dry_run:
        _dry_run(flags, goal, place, chosen, runner, env)
        return None
    repo = place.open()
    protected.require_plain_directory(repo.root)
    if root is None:  # a new clone brings settings of its own
        chosen = settings.load(env=env, root=repo.root, flags=written, front_matter=goal.front_matter, goal=goal.path)
        runner = _claude(chosen, env)
    _refuse_bypass(chosen, env)
    check = _find_check(flags, repo.root, chosen, env)
    _first_prompt(goal, repo.root, check, chosen)  # a template that cannot be rendered is refused now
    return Prepared(flags, goal, place, repo, chosen, runner, check, env, ralph_dir)


def read_goal(path: Path) -> Goal:
    """Read a goal file, or say why not."""
    try:
        text = path.read_bytes().decode("utf-8")
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory, not a goal file", "name one Markdown file") from None
    except FileNotFoundError:
        raise UsageError(f"{path}: no such goal file", "a goal is a Markdown file with an `## Objective`") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error
    return parse_goal(text, path.parent.resolve() / path.name)


def _refuse_contradictions(flags: RunFlags, written: Mapping[str, object]) -> None:
    pairs = (
        ("--continue", flags.resume, "--fresh", flags.fresh),
        ("--no-check", flags.no_check, "--check", "check" in written),
        ("--no-check", flags.no_check, "--require-check", "require_check" in written),
        ("--quiet", flags.quiet, "--verbose", flags.verbose),
    )
    for one, one_given, other, other_given in pairs:
        if one_given and other_given:
            raise UsageError(f"{one} and {other} contradict each other", "choose one of them")


def _find_place(flags: RunFlags, goal: Goal, ralph_dir: Path) -> Place:
    url = flags.repo or str(goal.front_matter.get("repo") or "")
    branch = flags.branch or str(goal.front_matter.get("branch") or "") or None
    if not url:
        return Place(gitrepo.open_repo(Path.cwd()).root, None, branch)
    return Place(gitrepo.clone_path(ralph_dir / "clones", url, goal.name), url, branch or f"ralph/{goal.name}")


def _claude(chosen: Settings, env: Mapping[str, str]) -> ClaudeRunner:
    own = chosen.claude
    wanted = str(Path(own.path).expanduser()) if own.path else "claude"
    found = shutil.which(wanted, path=env.get("PATH"))
    if found is None:
        raise BlockedError(
            f"the agent was not found: {wanted}" if own.path else "the agent `claude` was not found on PATH",
            "install Claude Code (npm install -g @anthropic-ai/claude-code) and log in by running `claude` once,"
            " or say where it is: ralph config set agents.claude.path /path/to/claude",
        )
    return ClaudeRunner(
        path=str(Path(found).absolute()),
        permission_mode=own.permission_mode,
        api_key_auth=own.auth == "api-key",
        project_settings=own.project_settings,
        max_retries=own.max_retries,
        extra_args=own.extra_args,
    )


def _refuse_bypass(chosen: Settings, env: Mapping[str, str]) -> None:
    if chosen.claude.permission_mode == "bypassPermissions" and os.geteuid() == 0 and env.get("IS_SANDBOX") != "1":
        raise UsageError(
            "agents.claude.permission_mode = bypassPermissions is refused for root",
            "run as another user, leave it unset (the tool set is approved then), or set IS_SANDBOX=1 in a sandbox",
        )


def _find_check(flags: RunFlags, root: Path, chosen: Settings, env: Mapping[str, str]) -> Check | None:
    check = (
        None
        if flags.no_check
        else find_check(root, chosen.check, timeout=chosen.check_timeout, path=env.get("PATH", ""))
    )
    if check is None and chosen.require_check:
        raise BlockedError(
            "no check to prove the goal with, and one is required", "write .ralph/check, or name one with --check"
        )
    return check


def _dry_run(
    flags: RunFlags, goal: Goal, place: Place, chosen: Settings, runner: ClaudeRunner, env: Mapping[str, str]
) -> None:
    check = _find_check(flags, place.root, chosen, env) if place.exists else None
    prompt = _first_prompt(goal, place.root, check, chosen)
    launch = runner.launch(session_request(prompt, str(uuid.UUID(int=0)), chosen, place.root, env))
    out = [] if place.exists else [f"would clone {place.url} into {place.root} on branch {place.branch}", ""]
    changed = {name: value for name, value in launch.environment.items() if env.get(name) != value}
    out += [
        "# command, in " + str(place.root),
        shlex.join([*(f"{k}={v}" for k, v in changed.items()), *launch.argv]),
        "",
        "# prompt",
        prompt,
    ]
    sys.stdout.write("\n".join(out))


def _first_prompt(goal: Goal, root: Path, check: Check | None, chosen: Settings) -> str:
    """The prompt of a first iteration; a file that it needs and that is missing is refused."""
    extra = chosen.worker_system_prompt_file
    if extra and root.is_dir() and not (root / extra).is_file():
        raise UsageError(f"modes.worker.system_prompt_file: {root / extra} is no file")
    run = Run(id="", goal=goal.name, branch="", base=None)
    return Prompts(root / ".ralph" / "prompts").worker(goal, run, root=root, check=check.label if check else "")


def session_request(prompt: str, session_id: str, chosen: Settings, root: Path, env: Mapping[str, str]) -> Request:
    file = chosen.worker_system_prompt_file
    return Request(
        prompt=prompt,
        session_id=session_id,
        model=chosen.model,
        reasoning=chosen.reasoning,
        tools=chosen.worker_tools,
        system_prompt_file=str(root / file) if file else "",
        environment=env,
    )
