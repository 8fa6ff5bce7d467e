"""The working tree of a run: undoing what a session must not do, commits, and the judgement of a claim."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core.errors import BlockedError
from ralph.core.proof import Baseline
from ralph.core.run import Committed, Held, Run, Trespass, Undone, with_protected
from ralph.core.text import both_ends, timestamp
from ralph.proof.check import CheckReport, find_setup
from ralph.proof.checkout import CheckSite, reword
from ralph.proof.judge import BaselineRequest, Judge, find_baseline, keep_baseline, kept_baseline
from ralph.run.agent import AgentHost
from ralph.run.prepare import Prepared
from ralph.state.git_settings import Protected
from ralph.state.journal import Journal
from ralph.state.project import Snapshot

_LONGEST_QUOTE = 4000
"""Characters of inherited failures that a prompt quotes."""


class WorkTree:
    """The repository that a run works in, and its check."""

    def __init__(
        self,
        prepared: Prepared,
        host: AgentHost,
        journal: Journal,
        run: Run,
        snapshot: Snapshot,
        show: Callable[[bytes], None],
    ) -> None:
        """`show` gets what the check prints, while it runs."""
        self._prepared, self._host, self._journal, self._run = prepared, host, journal, run
        self._show = show
        self._repo, self._goal_path = prepared.repo, prepared.goal.path
        self._snapshot = snapshot
        self._protected = Protected(prepared.repo, journal, snapshot)
        self._tip = self._repo.head()
        self._baseline = kept_baseline(journal.directory)
        self._owned = self._repo.owned(run.base, self._goal_path)
        self._told_left_out: set[str] = set()
        self._nested: set[str] = set()

    @property
    def has_check(self) -> bool:
        return self._prepared.check is not None

    def undo(self) -> Held:
        files = self._protected.undo()
        held = self._repo.hold(self._run.branch, self._tip)
        if not files:
            return held
        return replace(held, undone=(Undone(Trespass.CHANGED_FILES, tuple(files)), *held.undone))

    def commit(self, message: str, *, claims: bool) -> Committed:
        """Commit; report files that are left out once, not with every iteration."""
        disturbed = self._repo.head() != self._tip
        committed = self._repo.commit_all(message, self._goal_path, self._owned, disturbed=disturbed)
        if claims and self.has_check and (changed := self._judge(0).changes(committed.sha).paths):
            committed = replace(committed, sha=reword(self._repo, with_protected(message, changed)))
        self._protected.committed()
        self._tip = committed.sha
        news = [path for path in committed.left_out if path not in self._told_left_out]
        nested = [path for path in committed.nested if path not in self._told_left_out]
        self._told_left_out.update(news, nested)
        self._nested.update(committed.nested)
        return replace(committed, left_out=tuple(news), nested=tuple(nested))

    def changes(self) -> list[str]:
        return self._repo.dirty_paths(self._goal_path)

    def leave(self) -> None:
        """Put git's settings back when no session follows."""
        self._protected.leave()

    def same_tree(self, commits: Sequence[str], other: str) -> bool:
        return self._repo.same_tree(commits, other)

    def elsewhere(self) -> str:
        return self._repo.elsewhere(self._run.branch, sorted(self._nested))

    def find_baseline(self) -> tuple[list[str], list[str]]:
        """Run the check on the base, where the run begins; return what to say of it, and notes for the first session.

        Later claims are compared with the result.
        """
        found = find_baseline(
            BaselineRequest(
                self._site(0),
                self._run.base,
                cache=self._prepared.asked.ralph_dir / "baselines",
                logs=(self._log_of("base", 0), self._log_of("clean-base", 0)),
                dirty=bool(self.changes()),
                goal=os.path.relpath(self._goal_path, self._repo.root),
                aside=self._journal.undone,
            )
        )
        self.undo()
        if found.why_tree and self._prepared.settings.proof.needs_commit:
            raise BlockedError(
                f"cannot prove anything on a clean checkout: {found.why_tree}",
                "let .ralph/setup install what a clean checkout lacks, or leave out --require-proof",
            )
        self._baseline = found
        keep_baseline(found, self._journal.directory)
        return _said_of(found, self._prepared.check_label)

    def prove(self, iteration: int) -> CheckReport:
        self.undo()
        report = self._judge(iteration).judge(self._tip, lambda kind: self._log_of(kind, iteration), self._show)
        self.undo()  # the check's own changes must not count against the next session
        return report

    def _judge(self, iteration: int) -> Judge:
        return Judge(self._site(iteration), self._prepared.settings.proof, self._run.base, self._baseline)

    def _site(self, iteration: int) -> CheckSite:
        prepared = self._prepared
        assert prepared.check is not None  # noqa: S101 - `has_check` was asked
        return CheckSite(
            prepared.repo,
            prepared.check,
            find_setup(prepared.repo.root, timeout=prepared.check.timeout),
            self._snapshot,
            prepared.environment(self._run, iteration),
            self._host.guardian,
            self._host.sandbox,
            prepared.asked.ralph_dir / "proofs",
            lambda: self._host.stop_requests,
        )

    def _log_of(self, kind: str, iteration: int) -> Path:
        """Name the log of one run of the check."""
        logs = self._journal.log_files("check", kind, iteration, timestamp(time.time()))
        return logs.stdout.with_suffix(".log")


def _said_of(found: Baseline, label: str) -> tuple[list[str], list[str]]:
    """Word a baseline: for the user, and for the agent."""
    said: list[str] = []
    if found.why_tree:
        said.append(f"a clean checkout cannot be checked ({found.why_tree}): ralph checks the working tree instead")
        said.append("to have the exact commit checked, let .ralph/setup install what is missing")
    if found.passes:
        return [*said, f"{label} passes before any work is done: it cannot prove this goal"], []
    if not found.output:
        return said, []
    note = (
        f"ralph ran the check ({label}) before the first session, and it failed. These failures are not yours, but the"
        f" check must pass in the end. Its output:\n{both_ends(found.output, _LONGEST_QUOTE)}"
    )
    return [*said, f"{label} fails before any work is done; the agent gets its output"], [note]
