"""What goals are asked for: files, directories of them and manifests, read into submissions or refused as a whole.

What is said of one goal in several places counts in this order: the command line, the goal's entry in a manifest, its
own front matter, the manifest's defaults. Only a repository in an entry counts more than `--repo`; and what a goal
comes after adds up.
"""

import contextlib
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ralph.batch.manifest import NAME, Wishes, names_in, priority, read_manifest, repo_from
from ralph.batch.plan import find_cycle
from ralph.config import settings
from ralph.config.files import Folders, goal_in, read_goal, read_text
from ralph.core.errors import UsageError
from ralph.core.goal import Goal, NoObjectiveError
from ralph.core.text import did_you_mean
from ralph.git.address import clone_path, require_source
from ralph.git.repo import open_repo, require_branch_name
from ralph.queue.goals import MergeMode, Submission


@dataclass(frozen=True, slots=True)
class Batch:
    """The goals that are asked for, and what is to be said of the reading."""

    submissions: tuple[Submission, ...] = ()
    notes: tuple[str, ...] = ()


def read_batch(
    sources: Sequence[Path], said: Wishes, *, env: Mapping[str, str], here: Path, known: Collection[str] = ()
) -> Batch:
    """Read every source, or name all that is wrong; `said` on the command line, `known` are the names in the queue."""
    settings.load(env=env, flags=said.settings)  # what is wrong for all goals is said once
    reading = _Reading(env, here, said)
    for source in sources:
        with reading.faults.collected():
            reading.take(source)
    _judge_names(reading.submissions, known, reading.faults)
    reading.faults.raise_any()
    return Batch(tuple(reading.submissions), tuple(reading.notes))


class _Faults:
    """What is wrong, all of it: one fault does not hide another."""

    def __init__(self) -> None:
        self._errors: list[UsageError] = []

    @contextlib.contextmanager
    def collected(self) -> Generator[None]:
        try:
            yield
        except UsageError as error:
            self._errors.append(error)

    def raise_any(self) -> None:
        messages = list(dict.fromkeys(error.message for error in self._errors))
        if len(messages) == 1:
            raise self._errors[0]
        if messages:
            lines = "\n".join(f"- {message}" for message in messages)
            raise UsageError(f"{len(messages)} things are wrong:\n{lines}", "mend them, and run this again")


class _Reading:
    """The sources as far as they are read."""

    def __init__(self, env: Mapping[str, str], here: Path, said: Wishes) -> None:
        self._env = env
        self._here = here
        repos = tuple(repo_from(repo, here) for repo in said.repos)
        self._said = replace(said, repos=repos, after=names_in(said.after))
        self._sound: set[str] = set()
        self._standing: str | None = None
        self._folders = Folders()
        self.submissions: list[Submission] = []
        self.notes: list[str] = []
        self.faults = _Faults()

    def take(self, source: Path) -> None:
        """Read a manifest, a directory or a goal's file."""
        if source.suffix == ".toml" and not source.is_dir():
            manifest = read_manifest(source)
            for entry in manifest.entries:
                with self.faults.collected():
                    self._take_goal(entry.file, entry.wishes, manifest.defaults)
        elif source.is_dir():
            self._take_directory(source)
        else:
            self._take_goal(source)

    def _take_directory(self, directory: Path) -> None:
        if (manifest := directory / NAME).is_file():
            raise UsageError(
                f"{directory} has a {NAME} beside its goals", f"name that, {manifest}, or the goals themselves"
            )
        files = sorted(path for path in directory.glob("*.md") if not path.name.startswith("."))
        passed_over = [file for file in files if file.stem.lower() == "readme" and not _is_goal(file)]
        self.notes += [f"{file} is passed over: it has no `## Objective`" for file in passed_over]
        if len(files) == len(passed_over):
            raise UsageError(f"{directory} holds no goal", "a goal is a Markdown file with an `## Objective`")
        for file in files:
            if file not in passed_over:
                with self.faults.collected():
                    self._take_goal(file)

    def _take_goal(self, path: Path, entry: Wishes | None = None, defaults: Wishes | None = None) -> None:
        entry, defaults = entry or Wishes(), defaults or Wishes()
        text = read_text(path)
        goal = goal_in(text, path, self._folders)
        own = _front_matter(goal)
        branch = str(goal.front_matter.get("branch") or "")
        if branch:
            require_branch_name(branch)
        flags = {
            **{name: value for name, value in defaults.settings.items() if name not in goal.front_matter},
            **entry.settings,
            **self._said.settings,
        }
        settings.load(env=self._env, flags=flags, front_matter=goal.front_matter, goal=goal.path)
        by_weight = (self._said, entry, own, defaults)
        after = tuple(dict.fromkeys(name for wishes in by_weight for name in wishes.after))
        for repo in self._repos(goal, (entry, self._said, own, defaults)):
            self._require(repo)
            submission = Submission(
                goal.name,
                goal.title,
                text,
                str(goal.path),
                repo,
                after,
                next((wishes.priority for wishes in by_weight if wishes.priority is not None), 0),
                branch,
                next((wishes.merge for wishes in by_weight if wishes.merge is not None), None),
                flags,
                self._said.trust_envrc,
                str(goal.front_matter.get("agent") or ""),
            )
            self.submissions.append(submission)

    def _repos(self, goal: Goal, by_weight: Iterable[Wishes]) -> tuple[str, ...]:
        named = next((wishes.repos for wishes in by_weight if wishes.repos), ())
        if named:
            return named
        if self._standing is None:
            try:
                self._standing = str(open_repo(self._here).root)
            except UsageError as error:
                raise UsageError(
                    f"{goal.path}: no repository is named for it, and {error.message}",
                    "name one with --repo, with `repo:` in its front matter, or in a batch.toml",
                ) from error
        return (self._standing,)

    def _require(self, repo: str) -> None:
        """Refuse a path that is no repository, and an address that names none; whether it answers is seen later."""
        if repo not in self._sound:
            require_source(repo)
            clone_path(Path(), repo, "goal")
            self._sound.add(repo)


def _is_goal(file: Path) -> bool:
    try:
        read_goal(file)
    except NoObjectiveError:
        return False
    except UsageError:  # a goal, and something is wrong with it
        return True
    return True


def _front_matter(goal: Goal) -> Wishes:
    said = goal.front_matter
    return Wishes(
        (repo_from(str(said["repo"]), goal.path.parent),) if "repo" in said else (),
        names_in(cast("Sequence[str]", said.get("after", ()))),
        _priority(goal),
        MergeMode(str(said["merge"])) if "merge" in said else None,
    )


def _priority(goal: Goal) -> int | None:
    """What a goal's front matter says; `ralph run`, which has no use for it, takes any whole number."""
    try:
        return priority(goal.front_matter["priority"]) if "priority" in goal.front_matter else None
    except ValueError as fault:
        raise UsageError(f"{goal.path}: front matter: priority: {fault}") from fault


def _judge_names(submissions: Sequence[Submission], known: Collection[str], faults: _Faults) -> None:
    """Refuse a goal that is asked for twice, and an `after` that names nothing or the goal itself."""
    first: dict[tuple[str, str], Submission] = {}
    for submission in submissions:
        other = first.setdefault((submission.name, submission.repo), submission)
        with faults.collected():
            if other is not submission and other.path == submission.path:
                raise UsageError(f"{submission.path} is asked for twice", "name it once")
            if other is not submission:
                raise UsageError(
                    f"{other.path} and {submission.path} have one name, {submission.name}, in one repository",
                    "rename one of them",
                )
    names = {submission.name for submission in submissions} | set(known)
    for submission in first.values():
        for name in submission.after:
            with faults.collected():
                if name == submission.name:
                    raise UsageError(f"{submission.path}: it is to come after itself", "take it out of its own `after`")
                if name not in names:
                    raise UsageError(
                        f"{submission.path}: after {name}: there is no such goal, here or in the queue"
                        + did_you_mean(name, names - {submission.name}),
                        "name the goals that come first by their files' names, and ask for them, too",
                    )
    with faults.collected():
        _refuse_cycle(list(first.values()))


def _refuse_cycle(asked: Sequence[Submission]) -> None:
    """Refuse goals that wait for each other; a circle through goals that are in the queue already is found there."""
    named: dict[str, list[int]] = {}
    for number, submission in enumerate(asked):
        named.setdefault(submission.name, []).append(number)
    after: dict[int, list[int]] = {}
    for number, submission in enumerate(asked):
        namesakes = sorted(at for name in submission.after for at in named.get(name, ()) if at != number)
        beside = {asked[at].name for at in namesakes if asked[at].repo == submission.repo}
        after[number] = [at for at in namesakes if asked[at].repo == submission.repo or asked[at].name not in beside]
    if cycle := find_cycle(after):
        circle = " after ".join(asked[number].name for number in cycle)
        raise UsageError(f"these goals wait for each other: {circle}", "take one of these `after` out")
