"""The preflight of a batch: what would keep its goals from starting, found before anything is cloned or charged.

Each agent must be installed and logged in, each check must be startable, and at least one repository must answer.
Nothing is spent, and nothing is written.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.config import settings
from ralph.config.keys import KEYS
from ralph.core.errors import BlockedError, RalphError, RepoError, UsageError
from ralph.core.reason import Reason
from ralph.core.secrets import without_login
from ralph.core.text import few
from ralph.git.address import require_source
from ralph.proof.check import find_check
from ralph.queue.goals import BatchGoal, State, front_matter_of
from ralph.queue.news import News, NewsKind
from ralph.queue.repos.mirror import open_mirror
from ralph.queue.repos.remote import Bare
from ralph.queue.store import Store
from ralph.run.agent import require_ready
from ralph.system import environ
from ralph.system.notify import Occasion
from ralph.ui.progress import ProgressScreen

_LOOKED_AT = (".envrc", ".claude/settings.json", ".claude/settings.local.json", ".ralph/check", ".ralph/config.toml")
"""The files of a repository that decide its agent, the agent's login, and its check."""
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Blocker:
    """A reason why goals cannot start, and what the user can do about it."""

    message: str
    hint: str


def preflight(
    goals: Sequence[BatchGoal],
    store: Store,
    *,
    env: Mapping[str, str],
    ralph_dir: Path,
    tell: Callable[[News], None],
    asks_repositories: bool,
    quiet: bool = False,
) -> None:
    """Refuse to start if none of these goals can; those that cannot while others can are stuck, without an attempt.

    `env` is that of the runs. Without `asks_repositories` they may be away: who serves a queue for long waits for them.
    """
    look = _Look(env, ralph_dir)
    found = look.blockers(goals)
    ready = dict.fromkeys(goal.repo for goal in goals if goal.id not in found)
    away: dict[str, Blocker] = {}
    tasks = ProgressScreen(sys.stderr, environ.inherited(), quiet=quiet)
    for repo in ready if asks_repositories else ():
        with tasks.shown(f"waiting for {without_login(repo)}"):
            blocker = look.unreachable(repo)
        if blocker is None:
            break  # goals of another one that does not answer are stuck later
        away[repo] = blocker
    if goals and len(away) == len(ready) and (asks_repositories or not ready):
        raise _refusal(goals, {goal.id: found.get(goal.id) or away[goal.repo] for goal in goals})
    told: set[Blocker] = set()
    for goal in goals:
        if (blocker := found.get(goal.id)) is not None and goal.state is State.QUEUED:
            why = Reason(blocker.message)
            if store.move(goal, State.STUCK, comment=blocker.message, why=why) is State.STUCK:
                event = None if blocker in told else Occasion.STUCK
                _publish(store, tell, News(time.time(), NewsKind.STUCK, blocker.message, goal, event))
            told.add(blocker)
    for blocker in told:
        ways_out = "; ".join(" ".join(line.split()) for line in blocker.hint.splitlines())
        _publish(store, tell, News(time.time(), NewsKind.NOTE, f"{ways_out}; then: ralph-runs retry ID"))


def _publish(store: Store, tell: Callable[[News], None], news: News) -> None:
    store.publish(news)
    tell(news)


class _Look:
    """Looks at the goals of one batch; what several of them share is looked at once."""

    def __init__(self, env: Mapping[str, str], ralph_dir: Path) -> None:
        self._env, self._ralph_dir = env, ralph_dir
        self._glimpses: dict[str, Path | None] = {}
        self._found: dict[str, Blocker | None] = {}

    def blockers(self, goals: Sequence[BatchGoal]) -> dict[int, Blocker]:
        """Tell which of these goals cannot start, whether their repository answers or not."""
        with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
            for number, repo in enumerate(dict.fromkeys(goal.repo for goal in goals)):
                self._glimpses[repo] = self._glimpse(repo, Path(folder, str(number)))
            return {goal.id: blocker for goal in goals if (blocker := self._obstacle(goal)) is not None}

    def unreachable(self, repo: str) -> Blocker | None:
        """Return why a repository is unavailable; None if it was fetched before."""
        mirror = open_mirror(self._ralph_dir, repo)
        try:
            if not mirror.is_usable:
                mirror.upstream.require_reachable()
        except RepoError as error:
            return Blocker(error.message, error.hint)
        return None

    def _obstacle(self, goal: BatchGoal) -> Blocker | None:
        said = {name: value for name, value in front_matter_of(goal.text, goal.path).items() if name in KEYS}
        key = repr((goal.repo, sorted(goal.settings.items()), sorted(said.items(), key=repr)))
        if key not in self._found:
            self._found[key] = self._look(goal, said)
        return self._found[key]

    def _look(self, goal: BatchGoal, said: Mapping[str, object]) -> Blocker | None:
        """Look at a goal's agent and check as its run would find them."""
        root = self._glimpses[goal.repo]
        try:
            chosen = settings.load(env=self._env, root=root, flags=goal.settings, front_matter=said)
        except UsageError:
            return None  # its run says it, with the file as it is there
        try:
            require_ready(chosen, root, self._env)
            if root is not None:
                # A path is the repository's own business, and a PATH of `.envrc` is known only to its run.
                is_path = "/" in (chosen.check or "").partition(" ")[0] or (root / ".envrc").exists()
                find_check(root, chosen.check, timeout=0, path=None if is_path else self._env.get("PATH", ""))
        except (BlockedError, UsageError) as error:
            where = str(root)
            return Blocker(error.message.replace(where, goal.repo), error.hint.replace(where, goal.repo))
        return None

    def _glimpse(self, repo: str, root: Path) -> Path | None:
        """Lay out the few files that matter, as they are committed; None: ralph has seen nothing of this repository."""
        try:
            if (found := self._source(repo)) is None:
                return None
            _lay_out(*found, root)
        except RalphError:  # whatever is wrong with it, its goals say it
            return None
        return root

    def _source(self, repo: str) -> tuple[Bare, str] | None:
        """A repository with the commits of this one that is on this machine, and the commit that work begins at."""
        mirror = open_mirror(self._ralph_dir, repo)
        if mirror.upstream.path is not None:
            bare = Bare(Path(require_source(repo)))
            tip = bare.commit_at("HEAD")
            return None if tip is None else (bare, tip)
        return (mirror.bare, mirror.base().tip) if mirror.is_usable else None


def _lay_out(bare: Bare, tip: str, root: Path) -> None:
    root.mkdir()
    for line in bare.git("ls-tree", "-z", tip, "--", *_LOOKED_AT).split("\0"):
        about, _, path = line.partition("\t")
        mode, kind, sha = (*about.split(), "", "", "")[:3]
        if kind != "blob" or mode == "120000":
            continue
        content = bare.git("cat-file", "blob", sha)
        if path == ".ralph/check" and content.startswith("#!") and not content[2:].lstrip().startswith("/"):
            continue  # it is run by something in the repository
        file = root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, "utf-8", "surrogateescape", newline="")
        file.chmod(0o700 if mode == "100755" else 0o600)


def _refusal(goals: Sequence[BatchGoal], found: Mapping[int, Blocker]) -> BlockedError:
    """Say once what keeps all goals from starting."""
    kinds: dict[Blocker, list[str]] = {}
    for goal in goals:
        kinds.setdefault(found[goal.id], []).append(goal.label)
    first = next(iter(kinds))
    if len(kinds) == 1:
        return BlockedError(first.message, first.hint)
    lines = [f"  {few(labels, _MOST_NAMED)}: {kind.message}" for kind, labels in kinds.items()]
    return BlockedError("\n".join(["no goal can start:", *lines]), first.hint)
