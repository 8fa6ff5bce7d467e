"""What `ralph run` needs to know before it begins: goal, place, settings, agent, check. It looks, and refuses."""

import os
import shlex
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import environ, gitrepo, jsonline, plugins, protected, settings
from ralph.check import Check, find_check
from ralph.errors import BlockedError, RepoError, UsageError
from ralph.events import Usage
from ralph.goal import Goal, goal_name, parse_goal
from ralph.pricing import Prices, priced
from ralph.pricing import parse as parse_prices
from ralph.prompts import Prompts
from ralph.run import Run
from ralph.runners import Account, Request, Runner
from ralph.settings import Mode, Settings
from ralph.transcripts import Transcript

_LARGEST_GOAL = 4 * 1024 * 1024


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
    """Where the run works: the repository ralph stands in, or a clone of `url`; on `branch`, if one is named."""

    root: Path
    url: str | None
    branch: str | None

    def standing(self) -> gitrepo.Repo | None:
        """The repository, if it is there and on its branch already."""
        if not self.root.is_dir():
            return None
        repo = gitrepo.open_repo(self.root)
        return repo if self.branch in (None, repo.branch()) else None

    def open(self, goal: Path) -> gitrepo.Repo:
        """Clone and switch as needed; a branch is not left with changes in the tree."""
        if (repo := self.standing()) is not None:
            return repo
        repo = gitrepo.open_repo(self.root) if self.url is None else gitrepo.clone(self.url, self.root)
        if self.branch is not None and repo.branch() != self.branch:
            if dirty := repo.dirty_paths(goal):
                raise UsageError(
                    f"cannot switch to {self.branch}: {', '.join(dirty[:5])} changed", "commit or stash it"
                )
            try:
                repo.switch(self.branch)
            except RepoError as error:
                raise UsageError(error.message, "choose another --branch") from error
        return repo


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants done, and where."""

    flags: RunFlags
    written: Mapping[str, object]
    goal: Goal
    place: Place
    env: Mapping[str, str]
    ralph_dir: Path

    def settings_at(self, root: Path | None) -> Settings:
        return settings.load(
            env=self.env, root=root, flags=self.written, front_matter=self.goal.front_matter, goal=self.goal.path
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is settled before a run begins."""

    asked: Asked
    repo: gitrepo.Repo
    settings: Settings
    runner: Runner
    transcript: Callable[[], Transcript]
    prices: Prices
    check: Check | None

    @property
    def flags(self) -> RunFlags:
        return self.asked.flags

    @property
    def goal(self) -> Goal:
        return self.asked.goal

    def price(self, usage: Usage) -> Usage:
        """Fill in what a session's tokens cost by the user's own table."""
        return priced(usage, self.prices, self.settings.model)

    @property
    def account(self) -> Account | None:
        """Where the agent itself keeps what its sessions use, if it does."""
        chosen, root, folder = self.settings, self.repo.root, self.asked.ralph_dir
        request = session_request("", "", chosen, chosen.worker, root=root, env=self.asked.env, folder=folder)
        return self.runner.launch(request).account

    @property
    def check_label(self) -> str:
        """The check as people call it; empty without one."""
        return self.check.label if self.check else ""


def look(flags: RunFlags, written: Mapping[str, object]) -> Asked:
    """Find out what is asked for; refuse what can be refused before the repository is known."""
    _refuse_contradictions(flags, written)
    env = environ.without_redirections()
    goal = read_goal(flags.goal)
    ralph_dir = settings.ralph_dir(env)
    asked = Asked(flags, written, goal, _find_place(flags, goal, ralph_dir), env, ralph_dir)
    if asked.place.branch is not None:
        gitrepo.require_branch_name(asked.place.branch)
    if ralph_dir.resolve().is_relative_to(asked.place.root) and asked.place.url is None:
        raise UsageError(
            f"RALPH_DIR={ralph_dir} lies in the repository itself", "put it elsewhere: it would be committed"
        )
    if asked.place.url is not None and not asked.place.root.is_dir():  # a clone that is still to be made
        find_agent(asked.settings_at(None), env)
        gitrepo.require_source(asked.place.url)
    return asked


def settle(asked: Asked, repo: gitrepo.Repo) -> Prepared:
    """Settle settings, agent and check with what stands in the repository, or say what is wrong."""
    protected.require_plain_directory(repo.root)
    chosen = asked.settings_at(repo.root)
    runner = find_agent(chosen, asked.env)
    transcript = plugins.find_transcript(runner.transcript)
    prices = read_prices(repo.root)
    _refuse_bypass(chosen, asked.env)
    if operation := repo.operation_in_progress():
        raise UsageError(f"a git {operation} is in progress in {repo.root}", f"finish it, or git {operation} --abort")
    check = _find_check(asked, repo.root, chosen)
    _first_prompt(asked.goal, repo.root, check, chosen, runner)  # a template that cannot be rendered is refused now
    return Prepared(asked, repo, chosen, runner, transcript, prices, check)


def read_goal(path: Path) -> Goal:
    """Read a goal file, or say why not."""
    try:
        if path.exists() and not path.is_dir() and not path.is_file():
            raise UsageError(f"{path} is no regular file", "a goal is a Markdown file with an `## Objective`")
        with path.open("rb") as file:
            data = file.read(_LARGEST_GOAL + 1)
        if len(data) > _LARGEST_GOAL:
            raise UsageError(f"{path}: larger than {_LARGEST_GOAL // 2**20} MiB", "refer to long texts by their path")
        text = data.decode("utf-8")
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory, not a goal file", "name one Markdown file") from None
    except FileNotFoundError:
        raise UsageError(f"{path}: no such goal file", "a goal is a Markdown file with an `## Objective`") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error
    goal = parse_goal(text, path.parent.resolve() / path.name)
    _refuse_namesake(goal)
    return goal


def read_prices(root: Path) -> Prices:
    """Read the user's table of prices, or say what is wrong with it; without one, nothing has a price."""
    path = root / ".ralph" / "pricing.toml"
    try:
        return parse_prices(path.read_text("utf-8"), str(path)) if path.exists() else Prices({})
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as fault:  # not UTF-8, not TOML, not prices
        raise UsageError(str(fault), "see .ralph.example/pricing.toml of ralph for an example") from fault


def _refuse_namesake(goal: Goal) -> None:
    """Two goals of one name in one place would share a run, a branch and a clone."""
    for other in goal.path.parent.glob("*.md"):
        if other.name != goal.path.name and goal_name(other.stem) == goal.name and not other.samefile(goal.path):
            raise UsageError(f"{goal.path} and {other} have one name, {goal.name}", "rename one of them")


def dry_run(asked: Asked) -> None:
    """Print the prompt and the command of a first session; start nothing."""
    root, env = asked.place.root, asked.env
    chosen = asked.settings_at(root if root.is_dir() else None)
    _refuse_bypass(chosen, env)
    check = _find_check(asked, root, chosen) if root.is_dir() else None
    runner = find_agent(chosen, env)
    plugins.find_transcript(runner.transcript)
    prompt = _first_prompt(asked.goal, root, check, chosen, runner)
    folder = asked.ralph_dir / "runs" / "…"
    request = session_request(prompt, str(uuid.UUID(int=0)), chosen, chosen.worker, root=root, env=env, folder=folder)
    launch = runner.launch(request)
    changed = {name: value for name, value in launch.environment.items() if env.get(name) != value}
    if asked.flags.json:
        document = {"cwd": str(root), "argv": launch.argv, "environment": changed, "prompt": prompt}
        document |= {"transcript": runner.transcript, "files": {str(path): text for path, text in launch.files.items()}}
        sys.stdout.write(jsonline.encode(document) + "\n")
        return
    if not root.is_dir():
        sys.stdout.write(f"would clone {asked.place.url} into {root} on branch {asked.place.branch}\n\n")
    command = shlex.join([*(f"{name}={value}" for name, value in changed.items()), *launch.argv])
    sys.stdout.write(f"# command, in {root}\n{command}\n\n# prompt\n{prompt}")


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
    for name, value in (("--repo", flags.repo), ("--branch", flags.branch)):
        if value is not None and not value.strip():
            raise UsageError(f"{name} is empty", "give it a value, or leave it out")


def _find_place(flags: RunFlags, goal: Goal, ralph_dir: Path) -> Place:
    url = flags.repo or str(goal.front_matter.get("repo") or "")
    branch = flags.branch or str(goal.front_matter.get("branch") or "") or None
    if not url:
        return Place(gitrepo.open_repo(Path.cwd()).root, None, branch)
    return Place(gitrepo.clone_path(ralph_dir / "clones", url, goal.name), url, branch or f"ralph/{goal.name}")


def find_agent(chosen: Settings, env: Mapping[str, str]) -> Runner:
    """Find the agent's program, or say how to get it."""
    return plugins.find_runner(chosen.agent, chosen.agents, env)


def _refuse_bypass(chosen: Settings, env: Mapping[str, str]) -> None:
    mode = chosen.agents.claude.permission_mode
    if mode == "bypassPermissions" and os.geteuid() == 0 and env.get("IS_SANDBOX") != "1":
        raise UsageError(
            "agents.claude.permission_mode = bypassPermissions is refused for root",
            "run as another user, leave it unset (the tool set is approved then), or set IS_SANDBOX=1 in a sandbox",
        )


def _find_check(asked: Asked, root: Path, chosen: Settings) -> Check | None:
    check = None
    if not asked.flags.no_check:
        check = find_check(root, chosen.check, timeout=chosen.check_timeout, path=asked.env.get("PATH", ""))
    if check is None and chosen.require_check:
        raise BlockedError(
            "no check to prove the goal with, and one is required", "write .ralph/check, or name one with --check"
        )
    return check


def _first_prompt(goal: Goal, root: Path, check: Check | None, chosen: Settings, runner: Runner) -> str:
    """The prompt of a first iteration; a file that it needs and that is missing is refused."""
    extra = chosen.worker.system_prompt_file
    if extra and root.is_dir() and not (root / extra).is_file():
        raise UsageError(f"modes.worker.system_prompt_file: {root / extra} is no file")
    run = Run(id="", goal=goal.name, branch="", base=None)
    prompts = Prompts(root / ".ralph" / "prompts")
    return prompts.worker(goal, run, root=root, check=check.label if check else "", reply=runner.reply)


def session_request(
    prompt: str,
    session_id: str,
    chosen: Settings,
    mode: Mode,
    *,
    root: Path,
    env: Mapping[str, str],
    folder: Path,
    read_only: bool = False,
) -> Request:
    """What a session is asked to be."""
    file = mode.system_prompt_file
    return Request(
        prompt=prompt,
        session_id=session_id,
        model=chosen.model,
        reasoning=chosen.reasoning,
        tools=mode.tools,
        system_prompt_file=str(root / file) if file else "",
        environment=env,
        folder=folder,
        read_only=read_only,
    )
