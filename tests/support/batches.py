"""Batches for tests: upstream repositories with a check, goals whose agent plays a script, and what came of them."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ralph.cli.queue_show import known_of
from ralph.dashboard import report
from ralph.dashboard.reasons import reason_line
from ralph.queue.database import default_url
from ralph.queue.news import Bulletin
from ralph.queue.open import QueueAddress, is_cut_off
from ralph.queue.store import Store, open_store
from tests.support.git_repos import commits, git, make_repo
from tests.support.ralph_process import Finished, Ralph, RunningRalph

Turn = list[dict[str, Any]]
Session = list[Turn]

CHECK_TEXTS = """#!/bin/sh
# Green when every text ends with a full stop; or where a file says so that is not committed.
[ -e .passed ] && exit 0
for text in texts/*; do
    [ -e "$text" ] || continue
    tail -c 2 "$text" | grep -q '\\.' || { echo "$text: no full stop"; exit 1; }
done
"""


def green_before_merges() -> str:
    """Return a check that passes in the proof of a run, and judges the texts in a merge."""
    opening, rest = CHECK_TEXTS.split("\n", 1)
    return f"{opening}\ncase $PWD in */proofs/*) exit 0;; esac\n{rest}"


def write(path: str, content: str) -> Turn:
    """A turn that writes a file."""
    return [{"type": "tool_use", "name": "Write", "input": {"file_path": path, "content": content}}]


def shell(command: str) -> Turn:
    """A turn that runs a command."""
    return [{"type": "tool_use", "name": "Bash", "input": {"command": command, "description": "As the script says"}}]


def says(summary: str) -> Turn:
    """A turn that ends the session."""
    return [{"type": "tool_use", "name": "StructuredOutput", "input": {"summary": summary}}]


def wrote(name: str, content: str = "Fine.\n") -> list[Session]:
    """One session, which writes a text and says that all is done."""
    return [[write(f"texts/{name}.txt", content), says("DONE")]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that one test of ralph-runs works with."""

    runs: Ralph
    root: Path
    repos: dict[str, Path] = field(default_factory=dict[str, Path])

    def upstream(
        self, name: str = "upstream", files: Mapping[str, str] | None = None, check: str = CHECK_TEXTS
    ) -> Path:
        """A bare repository that nobody works in, as on a server, with a check on its main."""
        first = make_repo(
            self.root / f"{name}-first",
            {"README.md": f"# {name}\n", ".gitignore": ".passed\n", **(files or {})},
            commit=False,
        )
        if check:
            (first / ".ralph").mkdir(exist_ok=True)
            (first / ".ralph" / "check").write_text(check)
            (first / ".ralph" / "check").chmod(0o755)
        git(first, "add", "--all")
        git(first, "commit", "--quiet", "-mstart")
        bare = self.root / f"{name}.git"
        git(self.root, "clone", "--quiet", "--bare", str(first), str(bare))
        self.repos[name] = bare
        return bare

    def goal(
        self, name: str, sessions: Sequence[Session], *, repo: str | Path | None = None, body: str = "", **keys: object
    ) -> Path:
        """A goal for ralph-claude, which plays these sessions: the n-th iteration of a run the n-th one."""
        folder = self.root / "goals"
        folder.mkdir(exist_ok=True)
        script = self.root / "scripts" / f"{name}.json"
        script.parent.mkdir(exist_ok=True)
        script.write_text(json.dumps(sessions))
        known: dict[str, object] = {"agent": "ralph-claude", "model": f"scripted:{script}", **keys}
        if repo is not None:
            known["repo"] = str(self.repos.get(str(repo), repo))
        head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in known.items())
        goal = folder / f"{name}.md"
        goal.write_text(f"---\n{head}---\n# {name}\n\n## Objective\nWrite {name}.\n{body}")
        return goal

    def run(self, *args: str | Path, timeout: float = 180, env: Mapping[str, str] | None = None) -> Finished:
        return self.runs("run", *_or_all(args), timeout=timeout, cwd=self.root, env=env)

    def start(self, *args: str | Path, env: Mapping[str, str] | None = None) -> RunningRalph:
        return self.runs.start("run", *_or_all(args), cwd=self.root, env=env)

    def goals(self) -> dict[str, dict[str, Any]]:
        """Every goal of the queue, by its title, which is its name."""
        with self._store() as store:
            goals = [] if store is None else store.goals()
        cut_off = is_cut_off(self._address, goals)
        return {goal.title: report.row(goal, cut_off=cut_off) for goal in goals}

    def states(self) -> dict[str, str]:
        return {name: goal["state"] for name, goal in self.goals().items()}

    def show(self, name: str) -> dict[str, Any]:
        """All that is known of one goal."""
        with self._store() as store:
            assert store is not None
            return report.document(known_of(store.find(name), self._address, store))

    def bulletin(self) -> Bulletin | None:
        """What its worker has said last."""
        with self._store() as store:
            return None if store is None else store.bulletin()

    def cautions(self) -> tuple[str, ...]:
        """What its worker says at present to keep work from being merged."""
        told = self.bulletin()
        return () if told is None else tuple(map(reason_line, told.cautions))

    @contextlib.contextmanager
    def _store(self) -> Iterator[Store | None]:
        """The queue, read in this process: a `ralph-runs list --json` for each look costs half a second of CPU."""
        store = open_store(default_url(self.ralph_dir), create=False)
        try:
            yield store
        finally:
            if store is not None:
                store.close()

    @property
    def _address(self) -> QueueAddress:
        return QueueAddress(default_url(self.ralph_dir), self.ralph_dir, self.runs.env, most=1, agent="claude")

    @property
    def ralph_dir(self) -> Path:
        return Path(self.runs.env["RALPH_DIR"])

    def clones(self) -> list[Path]:
        return sorted(self.ralph_dir.glob("batch/*/clones/*"))

    def leftovers(self) -> list[Path]:
        """What a batch that is over has no use for: clones, checkouts, locks of git."""
        checkouts = self.ralph_dir.glob("batch/*/checkouts/*")
        return sorted([*self.clones(), *checkouts, *self.ralph_dir.glob("mirrors/**/*.lock/*")])


def _or_all(args: Sequence[str | Path]) -> Sequence[str | Path]:
    """Without goals every queued goal is meant: the folder of a batch is in no repository."""
    return args if any(isinstance(arg, Path) for arg in args) else [*args, "--all"]


def merged_goals(upstream: Path, branch: str = "main") -> list[str]:
    """The goals on the branch, oldest first, by their trailers."""
    return [commit.trailers["Ralph-Goal"] for commit in commits(upstream, branch) if "Ralph-Goal" in commit.trailers]


def require_linear(upstream: Path, branch: str = "main") -> None:
    """Fail if the branch has a merge on it."""
    assert git(upstream, "rev-list", "--merges", branch) == ""


def require_green_history(upstream: Path, scratch: Path, branch: str = "main") -> None:
    """Run each commit's own check on a clean checkout of it."""
    for number, commit in enumerate(git(upstream, "rev-list", "--reverse", branch).split()):
        checkout = scratch / f"{upstream.stem}-{number}"
        git(upstream, "clone", "--quiet", str(upstream), str(checkout))
        git(checkout, "checkout", "--quiet", "--detach", commit)
        done = subprocess.run([str(checkout / ".ralph" / "check")], cwd=checkout, capture_output=True, text=True)
        assert done.returncode == 0, f"{commit} is red: {done.stdout}"
