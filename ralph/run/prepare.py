"""What `ralph run` needs before it starts: goal, place, settings, agent, check. It reads and validates, no more."""

import os
import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.config import paths, settings
from ralph.config.environment import AgentEnvironment, Beginning, agent_environment, stands
from ralph.config.files import goal_in, read_text, read_words
from ralph.config.settings import Settings
from ralph.config.trust import refuse_sessions
from ralph.core.errors import BlockedError, UsageError
from ralph.core.goal import Goal, goal_of_words, parse_goal
from ralph.core.limits import allowance
from ralph.core.run import Run
from ralph.git.repo import Repo, open_repo, require_branch_name
from ralph.proof.check import Check, find_check, require_program
from ralph.run.agent import AgentHost, ChosenAgent, choose_agent, choose_fallbacks, require_file, version_of
from ralph.run.place import Place, find_place
from ralph.run.prompts import MAP, AgentsMd, Prompts, standing_agents_md
from ralph.state import project
from ralph.system import environ
from ralph.ui import page
from ralph.ui.theme import Look

_LONGEST_WORDS = 200
"""Longest `-p` goal, in characters, that a printed command repeats."""


@dataclass(frozen=True, slots=True)
class RunFlags:
    """What the user asked for on the command line, apart from settings."""

    goal: Path | None
    words: str | None
    """The goal from `-p`, instead of a file."""
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
class RunRequest:
    """What the user wants done, and where."""

    flags: RunFlags
    written: Mapping[str, object]
    goal: Goal
    place: Place
    env: Mapping[str, str]
    ralph_dir: Path
    text: str
    """The text of the goal file, including its front matter."""

    @property
    def directory(self) -> Path:
        """The directory of the repository's runs."""
        return _runs_of(self.place, self.ralph_dir)

    def settings_at(self, root: Path | None) -> Settings:
        return settings.load(
            env=self.env, root=root, flags=self.written, front_matter=self.goal.front_matter, goal=self.goal.path
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is decided before a run starts."""

    asked: RunRequest
    repo: Repo
    agent: ChosenAgent
    check: Check | None
    around: AgentEnvironment
    """The environment of the agent and the check; ralph's own until `.envrc` is read."""
    fallbacks: tuple[ChosenAgent, ...] = ()
    """The agents that stand in while its quota is used up."""

    @property
    def env(self) -> Mapping[str, str]:
        # A `ralph run` that the agent starts has attempts of its own to count.
        return {name: value for name, value in self.around.env.items() if name != settings.ITERATIONS_BEFORE}

    @property
    def settings(self) -> Settings:
        return self.agent.settings

    @property
    def flags(self) -> RunFlags:
        return self.asked.flags

    @property
    def goal(self) -> Goal:
        return self.asked.goal

    def environment(self, run: Run, iteration: int) -> dict[str, str]:
        """Return the environment of the agent and the check in an iteration."""
        return {
            **self.env,
            "RALPH_GOAL": self.goal.name,
            "RALPH_ITERATION": str(iteration),
            "RALPH_RUN_ID": run.id,
        }

    def require_program(self) -> None:
        """Refuse a check whose program is not on the PATH of the agent and the check."""
        if self.check is not None:
            require_program(self.check, self.repo.root, self.around.env.get("PATH", ""))

    @property
    def check_label(self) -> str:
        """The check's name for people; empty without one."""
        return self.check.label if self.check else ""


def look(flags: RunFlags, written: Mapping[str, object]) -> RunRequest:
    """Read the request; refuse what can be refused before the repository is known."""
    _refuse_contradictions(flags, written)
    env = environ.without_redirections()
    if flags.trust_envrc:
        refuse_sessions(env)
    ralph_dir = paths.ralph_dir(env)
    text, goal = _read_goal(flags)
    place = find_place(goal, ralph_dir, url=flags.repo, branch=flags.branch)
    if flags.words is not None:
        goal = replace(goal, path=_runs_of(place, ralph_dir) / goal.name / "goal" / goal.path.name)
        flags = replace(flags, goal=goal.path, words=flags.words if _fits_a_command(flags.words) else None)
    asked = RunRequest(flags, written, goal, place, env, ralph_dir, text)
    if asked.place.branch is not None:
        require_branch_name(asked.place.branch)
    if ralph_dir.resolve().is_relative_to(asked.place.root) and asked.place.url is None:
        raise UsageError(
            f"RALPH_DIR={ralph_dir} is inside the repository", "set it to a directory outside: ralph would commit it"
        )
    if asked.place.url is not None and not asked.place.root.is_dir():  # a clone that is still to be made
        choose_agent(asked.settings_at(None), asked.place.root, env)
        asked.place.require_source()
    return asked


def _read_goal(flags: RunFlags) -> tuple[str, Goal]:
    """Read the goal file, or make one of the user's words."""
    if flags.words is not None:
        name, text = goal_of_words(read_words(flags.words))
        return text, parse_goal(text, Path(f"{name}.md"))
    if flags.goal is None:
        raise UsageError("there is no goal to run", 'pass a file: ralph run goal.md; or a sentence: ralph run -p "..."')
    text = read_text(flags.goal)
    return text, goal_in(text, flags.goal)


def _fits_a_command(words: str) -> bool:
    """Tell whether a printed command can repeat this `-p` goal; a goal from stdin is named by its file."""
    return words != "-" and len(words) <= _LONGEST_WORDS and "\n" not in words


def _runs_of(place: Place, ralph_dir: Path) -> Path:
    return ralph_dir / "runs" / paths.repo_key(place.root)


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
    asked = look_around(written, "go to the repository that you want to map")
    require_place_for_map(asked.repo.root)
    require_file(asked.agent.settings.scout, "scout", asked.repo.root)
    prompt = _prompts(asked.repo.root).scout(asked.repo.root, reply=asked.agent.runner.reply)
    return replace(asked, prompt=prompt)


def look_around(
    written: Mapping[str, object],
    elsewhere: str,
    front_matter: Mapping[str, object] | None = None,
    file: Path | None = None,
) -> SurveyRequest:
    """Look at the repository ralph stands in, and find the agent; `elsewhere` says what to do outside of one."""
    env = environ.without_redirections()
    try:
        repo = open_repo(Path.cwd())
    except UsageError as error:
        raise UsageError(error.message, elsewhere) from error
    project.require_plain_directory(repo.root)
    ralph_dir = paths.ralph_dir(env)
    if ralph_dir.resolve().is_relative_to(repo.root):
        raise UsageError(f"RALPH_DIR={ralph_dir} is inside the repository", "set it to a directory outside")
    chosen = settings.load(env=env, root=repo.root, flags=written, front_matter=front_matter, goal=file)
    agent = choose_agent(chosen, repo.root, env)
    directory = ralph_dir / "runs" / paths.repo_key(repo.root)
    return SurveyRequest(env, ralph_dir, repo, directory, agent, "", AgentEnvironment(env))


def surround(asked: SurveyRequest, host: AgentHost) -> SurveyRequest:
    """Settle sandbox and environment of the agent before the tree is copied: `.envrc` may add to the tree.

    It is evaluated in the user's repository, where it is trusted; what it names there, PATH say, stays there.
    """
    host.open_sandbox(asked.agent.settings, asked.env, asked.ralph_dir)
    around = agent_environment(
        stands(asked.repo.root, asked.env),
        asked.env,
        guardian=host.guardian,
        sandbox=host.sandbox,
        signals=host.signals,
        ralph_dir=asked.ralph_dir,
        timeout=asked.agent.settings.envrc_timeout,
        beginning=Beginning(None),
    )
    env = {name: value for name, value in around.env.items() if name != "OLDPWD"}
    return replace(asked, around=replace(around, env=env | {"PWD": str(host.root)}))


def require_place_for_map(root: Path) -> None:
    """Refuse a place where the map cannot be written, or from which a link leads elsewhere."""
    project.require_plain_directory(root)
    place = root / MAP
    if place.is_symlink() or (place.exists() and not place.is_file()):
        raise UsageError(f"cannot write {place}: it is not a regular file", "remove it")
    folder = place.parent if place.parent.exists() else root
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {place}: {folder} is not writable", "make it writable")


def settle(asked: RunRequest, repo: Repo) -> Prepared:
    """Decide settings, agent and check from the repository, or raise what is wrong."""
    project.require_plain_directory(repo.root)
    agent = choose_agent(asked.settings_at(repo.root), repo.root, asked.env)
    if operation := repo.operation_in_progress():
        raise UsageError(f"a git {operation} is in progress in {repo.root}", f"finish it, or git {operation} --abort")
    check = _find_check(asked, repo.root, agent.settings)
    fallbacks = choose_fallbacks(agent, repo.root, asked.env)
    for each in (agent, *fallbacks):  # refuses a broken template now
        _first_prompt(asked.goal, repo.root, check, each)
        _prompts(repo.root).summarizer(asked.goal, _new_run(asked.goal), 1, reply=each.runner.reply)
    return Prepared(asked, repo, agent, check, AgentEnvironment(asked.env), fallbacks)


def command_again(flags: RunFlags, written: Mapping[str, object]) -> str:
    """Return the command that continues a run: the user's own, without --fresh and --trust-envrc."""
    goal = str(flags.goal)
    named = [f"./{goal}" if goal.startswith("-") else goal] if flags.words is None else ["-p", flags.words]
    words = ["ralph", "run", *named]
    for flag, value in (("--repo", flags.repo), ("--branch", flags.branch)):
        words += [flag, value] if value is not None else []
    for name, value in written.items():
        words += [settings.flag(name)] if value is True else [settings.flag(name), str(value)]
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
    agents_md = AgentsMd(standing_agents_md(root), chosen, root, lambda: version_of(agent, env))
    prompt = _first_prompt(asked.goal, root, check, agent, agents_md.to_quote(env))
    folder = asked.ralph_dir / "runs" / "…"
    given = allowance(chosen.limits, spent=_new_run(asked.goal).spend, elapsed=0.0, timeout=chosen.iteration_timeout)
    nobody = str(uuid.UUID(int=0))
    launch = runner.launch(
        agent.request(prompt, nobody, chosen.worker, root=root, env=env, folder=folder, allowance=given)
    )
    changed = {name: value for name, value in launch.environment.items() if env.get(name) != value}
    held = chosen.held_back(launch.environment)
    changed = {name: value for name, value in changed.items() if name not in held}
    if asked.flags.json:
        document = {"cwd": str(root), "argv": launch.argv, "environment": changed, "prompt": prompt, "held_back": held}
        document |= {"transcript": runner.transcript, "files": {str(path): text for path, text in launch.files.items()}}
        page.show_json(document)
        return
    command = shlex.join([*(f"{name}={value}" for name, value in changed.items()), *launch.argv])
    clone = [f"would clone {asked.place.url} into {root} on branch {asked.place.branch}", ""]
    quiet = Look.QUIET
    heading = (f"# command, in {root}", quiet)
    named = [(f"# without the variables {', '.join(held)}", quiet)] if held else []
    lines = [heading, *named, command, "", ("# prompt", quiet), prompt.rstrip("\n")]
    page.show([*([] if root.is_dir() else clone), *lines])


def _refuse_contradictions(flags: RunFlags, written: Mapping[str, object]) -> None:
    pairs = (
        ("--continue", flags.resume, "--fresh", flags.fresh),
        ("--no-check", flags.no_check, "--check", "check" in written),
        ("--no-check", flags.no_check, "--require-check", "require_check" in written),
        ("--quiet", flags.quiet, "--verbose", flags.verbose),
        ("GOAL.md", flags.goal is not None, "-p", flags.words is not None),
    )
    for one, one_given, other, other_given in pairs:
        if one_given and other_given:
            raise UsageError(f"{one} and {other} cannot be combined", "use one of them")
    for name, value in (("--repo", flags.repo), ("--branch", flags.branch)):
        if value is not None and not value.strip():
            raise UsageError(f"{name} is empty", "give it a value, or leave it out")


def _find_check(asked: RunRequest, root: Path, chosen: Settings) -> Check | None:
    check = None
    if not asked.flags.no_check:
        # A .envrc may put the check's program on PATH, so the program is looked up later.
        path = None if (root / ".envrc").is_file() else asked.env.get("PATH", "")
        check = find_check(root, chosen.check, timeout=chosen.check_timeout, path=path)
    if check is None and chosen.require_check:
        raise BlockedError(
            "this run requires a check, and there is none", "write .ralph/check, or pass one with --check"
        )
    return check


def _first_prompt(goal: Goal, root: Path, check: Check | None, agent: ChosenAgent, agents_md: str = "") -> str:
    """Return the prompt of a first iteration; refuse a missing file that it needs."""
    if root.is_dir():
        require_file(agent.settings.worker, "worker", root)
    label, reply = check.label if check else "", agent.runner.reply
    return _prompts(root).worker(goal, _new_run(goal), root=root, check=label, reply=reply, agents_md=agents_md)


def _prompts(root: Path) -> Prompts:
    return Prompts(root / ".ralph" / "prompts")


def _new_run(goal: Goal) -> Run:
    return Run(id="", goal=goal.name, branch="", base=None)
