"""What goals are asked for: files, directories of them and manifests, read into submissions or refused as a whole.

What is said of one goal in several places counts in this order: the command line, the goal's entry in a manifest, its
own front matter, the manifest's defaults. Only a repository in an entry overrides `--repo`; and what a goal
comes after adds up.
"""

import contextlib
import re
import tomllib
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from ralph.config import settings
from ralph.config.files import TOML, Folders, goal_in, read_goal, read_text
from ralph.config.keys import KEYS, MANIFEST
from ralph.config.paths import user_config
from ralph.config.settings import Settings
from ralph.config.values import Parser
from ralph.core.errors import UsageError
from ralph.core.goal import Goal, NoObjectiveError, goal_name
from ralph.core.progress import Reporter, TaskProgress, unreported
from ralph.core.text import did_you_mean
from ralph.git.address import clone_path, local_path, require_source
from ralph.git.repo import open_repo, require_branch_name
from ralph.queue.goals import MergeMode, Submission, require_no_cycle

NAME = "batch.toml"
_LEAST_PRIORITY, _MOST_PRIORITY = -(2**63), 2**63 - 1
"""64 bits: SQLite and PostgreSQL store no larger integer."""
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(_\d+)*")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is said of a goal in one place: the command line, an entry of a manifest, its front matter, the defaults."""

    repos: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    priority: int | None = None
    merge: MergeMode | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    trust_envrc: bool = False
    """Only the command line can say so."""


@dataclass(frozen=True, slots=True)
class ManifestGoal:
    """A goal's file in a manifest, and what is said of it there."""

    file: Path
    wishes: Wishes


@dataclass(frozen=True, slots=True)
class Manifest:
    """A `batch.toml`: what holds for all of its goals, and the goals."""

    defaults: Wishes
    entries: tuple[ManifestGoal, ...]


def read_manifest(path: Path) -> Manifest:
    """Read a manifest, or say all that is wrong with it."""
    tables = _tables(path)
    faults: list[str] = []
    faults += [f"unknown table `{name}`" + did_you_mean(name, _TABLES) for name in tables if name not in _TABLES]
    defaults = tables.get("defaults", {})
    if not isinstance(defaults, dict):
        faults.append("`defaults` must be a table: [defaults]")
        defaults = {}
    goals = tables.get("goal", [])
    if not isinstance(goals, list) or not all(isinstance(goal, dict) for goal in cast("list[object]", goals)):
        faults.append("`goal` must be a list of tables: [[goal]]")
        goals = []
    elif not goals:
        faults.append("no goals: write a [[goal]] table with a `file` for each")
    common = _wishes(cast("dict[str, object]", defaults), _DEFAULTS, "[defaults]", path, faults)
    entries = [
        _entry(table, number, path, faults)
        for number, table in enumerate(cast("list[dict[str, object]]", goals), start=1)
    ]
    if faults:
        told = faults[0] if len(faults) == 1 else "\n" + "\n".join(f"  {fault}" for fault in faults)
        raise UsageError(f"{path}: {told}", f"valid keys of a [[goal]]: {', '.join(_ENTRY)}")
    return Manifest(common, tuple(entries))


def _tables(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"cannot read {path}: no such file", "name a manifest, a folder of goals, or goal files"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "check that you can read that file") from error
    except (ValueError, RecursionError) as error:  # an integer of 5000 digits is a plain ValueError
        raise UsageError(f"cannot read {path}: invalid TOML: {error}", TOML) from error


def _entry(table: Mapping[str, object], number: int, path: Path, faults: list[str]) -> ManifestGoal:
    file = table.get("file")
    name = f"goal {number}" + (f" ({file})" if isinstance(file, str) else "")
    if file is None:
        faults.append(f"{name}: `file` is missing")
    wishes = _wishes(table, _ENTRY, name, path, faults)
    return ManifestGoal(path.parent / file if isinstance(file, str) else path, wishes)


def _wishes(
    table: Mapping[str, object], keys: Mapping[str, Parser], name: str, path: Path, faults: list[str]
) -> Wishes:
    values: dict[str, object] = {}
    for key, written in table.items():
        if key not in keys:
            faults.append(f"{name}: unknown key `{key}`" + did_you_mean(key, keys))
            continue
        try:
            values[key] = keys[key](written)
        except ValueError as fault:
            faults.append(f"{name}: {key}: {fault}")
    if "repo" in table and "repos" in table:
        faults.append(f"{name}: use either `repo` or `repos`, not both")
    repos = cast("tuple[str, ...]", values.get("repos") or ((values["repo"],) if "repo" in values else ()))
    return Wishes(
        tuple(dict.fromkeys(repo_from(repo, path.parent) for repo in repos)),
        names_in(cast("tuple[str, ...]", values.get("after", ()))),
        cast("int | None", values.get("priority")),
        cast("MergeMode | None", values.get("merge")),
        {key: str(table[key]) for key in MANIFEST if key in values},
    )


def _text(written: object) -> str:
    if not isinstance(written, str) or not written.strip():
        raise ValueError(f"{written!r} is not a string")
    return written.strip()


def _texts(written: object) -> tuple[str, ...]:
    if not isinstance(written, list) or not written:
        raise ValueError(f"{written!r} is not a list of strings")
    return tuple(_text(item) for item in cast("list[object]", written))


def priority(written: object) -> int:
    """Read a priority: a whole number that a database can store."""
    if not isinstance(written, int) or isinstance(written, bool):
        raise ValueError(f"{written!r} is not a whole number")
    if not _LEAST_PRIORITY <= written <= _MOST_PRIORITY:  # not quoted: it may have thousands of digits
        raise ValueError(f"it must be between {_LEAST_PRIORITY} and {_MOST_PRIORITY}")
    return written


def priority_in(text: str) -> int:
    """Read a priority as a command line has it."""
    try:
        number = int(text)
    except ValueError:
        if _WHOLE_NUMBER.fullmatch(text.strip()) is None:
            raise ValueError(f"{text!r} is not a whole number") from None
        number = _MOST_PRIORITY + 1  # Python reads none of more than 4,300 digits
    return priority(number)


def merge_mode(written: object) -> MergeMode:
    """Read a way to merge."""
    if written not in list(MergeMode):
        raise ValueError(f"{written!r} is not one of {', '.join(MergeMode)}")
    return MergeMode(str(written))


_TABLES = ("defaults", "goal")
_DEFAULTS: Mapping[str, Parser] = {
    "repo": _text,
    "repos": _texts,
    "priority": priority,
    "merge": merge_mode,
    **{name: KEYS[name].parse for name in MANIFEST},
}
_ENTRY: Mapping[str, Parser] = {"file": _text, **_DEFAULTS, "after": _texts}


def repo_from(repo: str, base: Path) -> str:
    """An address as it is; a path made absolute, from where it was written."""
    if repo.startswith("file://") or local_path(repo) is None:
        return repo
    return str((base / Path(repo).expanduser()).resolve())


def names_in(written: Iterable[str]) -> tuple[str, ...]:
    """Names of goals; their files may be meant as well."""
    return tuple(goal_name(name.removesuffix(".md")) for name in written)


@dataclass(frozen=True, slots=True)
class Batch:
    """The goals that are asked for, and what is to be said of the reading."""

    submissions: tuple[Submission, ...] = ()
    notes: tuple[str, ...] = ()


def read_batch(
    sources: Sequence[Path],
    said: Wishes,
    *,
    env: Mapping[str, str],
    here: Path,
    known: Collection[str] = (),
    report: Reporter = unreported,
) -> Batch:
    """Read every source, or name all that is wrong; `said` on the command line, `known` are the names in the queue."""
    settings.load(env=env, flags=said.settings)  # what is wrong for all goals is said once
    reading = _Reading(env, here, said, report)
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
            raise UsageError(f"{len(messages)} errors:\n{lines}", "fix them, then run the same command again")


class _Reading:
    """The sources as far as they are read."""

    def __init__(self, env: Mapping[str, str], here: Path, said: Wishes, report: Reporter) -> None:
        self._env = env
        self._report = report
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
            raise UsageError(f"{directory} has both a {NAME} and goals", f"name {manifest} or the goal files")
        files = sorted(path for path in directory.glob("*.md") if not path.name.startswith("."))
        passed_over = [file for file in files if file.stem.lower() == "readme" and not _is_goal(file)]
        self.notes += [f"skipped {file}: it has no `## Objective` section" for file in passed_over]
        if len(files) == len(passed_over):
            raise UsageError(f"no goals in {directory}", "a goal is a Markdown file with an `## Objective` section")
        for file in files:
            if file not in passed_over:
                with self.faults.collected():
                    self._take_goal(file)

    def _take_goal(self, path: Path, entry: Wishes | None = None, defaults: Wishes | None = None) -> None:
        entry, defaults = entry or Wishes(), defaults or Wishes()
        self._report(TaskProgress(detail=f"{len(self.submissions):,} read"))
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
        merge = self._said.merge or entry.merge or (None if own.merge else defaults.merge)
        written = flags | ({"merge": str(merge)} if merge else {})
        chosen = settings.load(env=self._env, flags=written, front_matter=goal.front_matter, goal=goal.path)
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
                _merge_said(chosen),
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
                    f"{goal.path}: no repository is set, and {error.message}",
                    "set it with --repo, with `repo:` in its front matter, or in a manifest",
                ) from error
        return (self._standing,)

    def _require(self, repo: str) -> None:
        """Refuse a path that is no repository, and an address that names none; whether it answers is seen later."""
        if repo not in self._sound:
            require_source(repo)
            clone_path(Path(), repo, "goal")
            self._sound.add(repo)


def _merge_said(chosen: Settings) -> MergeMode | None:
    """The merge mode that is meant for a goal; what the user's configuration says is for new goals alone."""
    value = chosen.values.get("merge")
    return None if value is None or value.source == str(user_config()) else MergeMode(str(value.value))


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
        raise UsageError(
            f"{goal.path}: front matter: priority: {fault}", "fix it, or leave it out: 0 is the default"
        ) from fault


def _judge_names(submissions: Sequence[Submission], known: Collection[str], faults: _Faults) -> None:
    """Refuse a goal that is asked for twice, and an `after` that names nothing or the goal itself."""
    first: dict[tuple[str, str], Submission] = {}
    for submission in submissions:
        other = first.setdefault((submission.name, submission.repo), submission)
        with faults.collected():
            if other is not submission and other.path == submission.path:
                raise UsageError(f"{submission.path} is named twice", "name it once")
            if other is not submission:
                raise UsageError(
                    f"{other.path} and {submission.path} have the same name, {submission.name}, in the same repository",
                    "rename one of them",
                )
    names = {submission.name for submission in submissions} | set(known)
    for submission in first.values():
        for name in submission.after:
            with faults.collected():
                if name == submission.name:
                    raise UsageError(f"{submission.path}: the goal waits for itself", "remove it from its own `after`")
                if name not in names:
                    raise UsageError(
                        f"{submission.path}: after {name}: no such goal, here or in the queue"
                        + did_you_mean(name, names - {submission.name}),
                        "in `after`, use the file names of goals, and add those goals, too",
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
    require_no_cycle(after, lambda cycle: [asked[number].name for number in cycle])
