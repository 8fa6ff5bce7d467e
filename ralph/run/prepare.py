"""What `ralph run` needs to know before it begins: goal, place, settings, agent, check. It looks, and refuses."""

import os
import shlex
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.config import paths, settings
from ralph.config.environment import AgentEnvironment
from ralph.config.files import read_goal
from ralph.config.settings import Settings
from ralph.config.trust import refuse_sessions
from ralph.core import ndjson
from ralph.core.errors import BlockedError, RepoError, UsageError
from ralph.core.goal import Goal
from ralph.core.limits import allowance
from ralph.core.run import Run
from ralph.git.address import clone_path, require_source
from ralph.git.repo import Repo, clone, open_repo, require_branch_name
from ralph.run.agent import ChosenAgent, choose_agent, require_file
from ralph.run.check import Check, find_check
from ralph.run.prompts import MAP, Prompts
from ralph.state import project
from ralph.system import environ


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
    trust_envrc: bool
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

    def standing(self) -> Repo | None:
        """The repository, if it is there and on its branch already."""
        if not self.root.is_dir():
            return None
        repo = open_repo(self.root)
        return repo if self.branch in (None, repo.branch()) else None

    def open(self, goal: Path) -> Repo:
        """Clone and switch as needed; a branch is not left with changes in the tree."""
        if (repo := self.standing()) is not None:
            return repo
        repo = open_repo(self.root) if self.url is None else clone(self.url, self.root)
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
class RunRequest:
    """What the user wants done, and where."""

    flags: RunFlags
    written: Mapping[str, object]
    goal: Goal
    place: Place
    env: Mapping[str, str]
    ralph_dir: Path

    @property
    def directory(self) -> Path:
        """Where the runs of the repository are kept."""
        return self.ralph_dir / "runs" / paths.repo_key(self.place.root)

    def settings_at(self, root: Path | None) -> Settings:
        return settings.load(
            env=self.env, root=root, flags=self.written, front_matter=self.goal.front_matter, goal=self.goal.path
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is settled before a run begins."""

    asked: RunRequest
    repo: Repo
    agent: ChosenAgent
    check: Check | None
    around: AgentEnvironment
    """The environment of the agent and the check; ralph's own until `.envrc` is looked at."""

    @property
    def env(self) -> Mapping[str, str]:
        return self.around.env

    @property
    def settings(self) -> Settings:
        return self.agent.settings

    @property
    def flags(self) -> RunFlags:
        return self.asked.flags

    @property
    def goal(self) -> Goal:
        return self.asked.goal

    @property
    def check_label(self) -> str:
        """The check as people call it; empty without one."""
        return self.check.label if self.check else ""


def look(flags: RunFlags, written: Mapping[str, object]) -> RunRequest:
    """Find out what is asked for; refuse what can be refused before the repository is known."""
    _refuse_contradictions(flags, written)
    env = environ.without_redirections()
    if flags.trust_envrc:
        refuse_sessions(env)
    goal = read_goal(flags.goal)
    ralph_dir = paths.ralph_dir(env)
    asked = RunRequest(flags, written, goal, _find_place(flags, goal, ralph_dir), env, ralph_dir)
    if asked.place.branch is not None:
        require_branch_name(asked.place.branch)
    if ralph_dir.resolve().is_relative_to(asked.place.root) and asked.place.url is None:
        raise UsageError(
            f"RALPH_DIR={ralph_dir} lies in the repository itself", "put it elsewhere: it would be committed"
        )
    if asked.place.url is not None and not asked.place.root.is_dir():  # a clone that is still to be made
        choose_agent(asked.settings_at(None), asked.place.root, env)
        require_source(asked.place.url)
    return asked


@dataclass(frozen=True, slots=True)
class SurveyRequest:
    """What a scout is to map, and with what; `directory` is where the runs of the repository are kept."""

    env: Mapping[str, str]
    ralph_dir: Path
    repo: Repo
    directory: Path
    agent: ChosenAgent
    prompt: str
    around: AgentEnvironment
    """The environment of the agent; ralph's own until `.envrc` is looked at."""


def look_to_map(written: Mapping[str, object]) -> SurveyRequest:
    """Find out what `ralph understand` is to map: the repository ralph stands in."""
    env = environ.without_redirections()
    try:
        repo = open_repo(Path.cwd())
    except UsageError as error:
        raise UsageError(error.message, "go to the repository that is to be mapped") from error
    project.require_plain_directory(repo.root)
    ralph_dir = paths.ralph_dir(env)
    if ralph_dir.resolve().is_relative_to(repo.root):
        raise UsageError(f"RALPH_DIR={ralph_dir} lies in the repository itself", "put it elsewhere")
    require_place_for_map(repo.root)
    agent = choose_agent(settings.load(env=env, root=repo.root, flags=written), repo.root, env)
    require_file(agent.settings.scout, "scout", repo.root)
    prompt = _prompts(repo.root).scout(repo.root, reply=agent.runner.reply)
    directory = ralph_dir / "runs" / paths.repo_key(repo.root)
    return SurveyRequest(env, ralph_dir, repo, directory, agent, prompt, AgentEnvironment(env))


def require_place_for_map(root: Path) -> None:
    """Refuse a place where the map cannot be written, or from which a link leads elsewhere."""
    project.require_plain_directory(root)
    place = root / MAP
    if place.is_symlink() or (place.exists() and not place.is_file()):
        raise UsageError(f"{place} is no plain file", "remove it: the map is written there")
    folder = place.parent if place.parent.exists() else root
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written: the map is to be {place}", "make it writable")


def settle(asked: RunRequest, repo: Repo) -> Prepared:
    """Settle settings, agent and check with what stands in the repository, or say what is wrong."""
    project.require_plain_directory(repo.root)
    agent = choose_agent(asked.settings_at(repo.root), repo.root, asked.env)
    if operation := repo.operation_in_progress():
        raise UsageError(f"a git {operation} is in progress in {repo.root}", f"finish it, or git {operation} --abort")
    check = _find_check(asked, repo.root, agent.settings)
    _first_prompt(asked.goal, repo.root, check, agent)  # a template that cannot be rendered is refused now
    _prompts(repo.root).summarizer(asked.goal, _new_run(asked.goal), 1, reply=agent.runner.reply)
    return Prepared(asked, repo, agent, check, AgentEnvironment(asked.env))


def command_again(flags: RunFlags, written: Mapping[str, object]) -> str:
    """The command that goes on with a run: as given, without the flags that begin anew, or trust what stands now."""
    goal = str(flags.goal)
    words = ["ralph", "run", f"./{goal}" if goal.startswith("-") else goal]
    for flag, value in (("--repo", flags.repo), ("--branch", flags.branch)):
        words += [flag, value] if value is not None else []
    for name, value in written.items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag] if value is True else [flag, str(value)]
    switches = {
        "--continue": flags.resume,
        "--no-check": flags.no_check,
        "--allow-dirty": flags.allow_dirty,
        "--json": flags.json,
        "--quiet": flags.quiet,
        "--verbose": flags.verbose,
    }
    return shlex.join([*words, *(flag for flag, is_given in switches.items() if is_given)])


def dry_run(asked: RunRequest) -> None:
    """Print the prompt and the command of a first session; start nothing."""
    root, env = asked.place.root, asked.env
    agent = choose_agent(asked.settings_at(root if root.is_dir() else None), root, env)
    chosen, runner = agent.settings, agent.runner
    check = _find_check(asked, root, chosen) if root.is_dir() else None
    prompt = _first_prompt(asked.goal, root, check, agent)
    folder = asked.ralph_dir / "runs" / "…"
    given = allowance(chosen.limits, spent=_new_run(asked.goal).spend, elapsed=0.0, timeout=chosen.iteration_timeout)
    nobody = str(uuid.UUID(int=0))
    launch = runner.launch(
        agent.request(prompt, nobody, chosen.worker, root=root, env=env, folder=folder, allowance=given)
    )
    changed = {name: value for name, value in launch.environment.items() if env.get(name) != value}
    if asked.flags.json:
        document = {"cwd": str(root), "argv": launch.argv, "environment": changed, "prompt": prompt}
        document |= {"transcript": runner.transcript, "files": {str(path): text for path, text in launch.files.items()}}
        sys.stdout.write(ndjson.encode(document) + "\n")
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
        return Place(open_repo(Path.cwd()).root, None, branch)
    return Place(clone_path(ralph_dir / "clones", url, goal.name), url, branch or f"ralph/{goal.name}")


def _find_check(asked: RunRequest, root: Path, chosen: Settings) -> Check | None:
    check = None
    if not asked.flags.no_check:
        # Where there is a .envrc, that may be what puts the check's program on PATH: it is looked for later.
        path = None if (root / ".envrc").is_file() else asked.env.get("PATH", "")
        check = find_check(root, chosen.check, timeout=chosen.check_timeout, path=path)
    if check is None and chosen.require_check:
        raise BlockedError(
            "no check to prove the goal with, and one is required", "write .ralph/check, or name one with --check"
        )
    return check


def _first_prompt(goal: Goal, root: Path, check: Check | None, agent: ChosenAgent) -> str:
    """The prompt of a first iteration; a file that it needs and that is missing is refused."""
    if root.is_dir():
        require_file(agent.settings.worker, "worker", root)
    label = check.label if check else ""
    return _prompts(root).worker(goal, _new_run(goal), root=root, check=label, reply=agent.runner.reply)


def _prompts(root: Path) -> Prompts:
    return Prompts(root / ".ralph" / "prompts")


def _new_run(goal: Goal) -> Run:
    return Run(id="", goal=goal.name, branch="", base=None)
