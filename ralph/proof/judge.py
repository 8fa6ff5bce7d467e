"""How a claim of DONE is judged: the check on a clean checkout of its commit, and again with the base's tests.

Before the first session the check runs on the base, in the working tree and on a clean checkout, side by side. This
baseline tells what the check can prove of the goal, which failures the agent inherits, and whether clean checkouts can
be judged. It is kept by the base's tree, the check and the setup script, so that eight goals share it.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import RepoError
from ralph.core.proof import (
    BASELINE_VERSION,
    Baseline,
    JudgedBy,
    Judgement,
    Proof,
    ProofRules,
    ProtectedChanges,
    TestCounts,
    TestPolicy,
)
from ralph.core.records import NotARecord, parse, to_record
from ralph.core.text import few, plural
from ralph.proof.check import CheckReport, counts_in, missing_in
from ralph.proof.checkout import (
    CheckSite,
    changes_between,
    files_of,
    restore_protected,
    texts_of,
    tree_of,
    untracked_files,
)
from ralph.proof.protected import ProtectedFiles, classify, is_manifest, lost_tests, named_in, new_skips
from ralph.state.lock import taking_turns
from ralph.state.project import Entry, File, move_aside
from ralph.system.files import make_private_directory, replace_file
from ralph.system.guardian import Guardian

Show = Callable[[bytes], None]
_CHANGED = (
    "The check passes, but only with your version of these protected files: {paths}. With the version from the start of"
    " the run it fails. They may not change in this repository: restore them, and make the check pass with them.\n"
)
_BASELINE = "baseline.json"


@dataclass(frozen=True, slots=True)
class BaselineRequest:
    """Where a baseline is taken, and kept for other runs; `logs`: for the working tree, for the checkout."""

    site: CheckSite
    base: str | None
    cache: Path
    logs: tuple[Path, Path]
    dirty: bool
    """The working tree has changes: the result is of no use to others."""
    goal: str
    """The goal file, seen from the repository: it is not part of the work."""
    aside: Path
    """Where files are moved that the check leaves behind in the working tree."""


def find_baseline(asked: BaselineRequest) -> Baseline:
    """Return what the check says of the base, from the cache or by running it."""
    others = untracked_files(asked.site.repo, "--directory") - {asked.goal}
    if asked.base is None or asked.dirty:
        return _measure(asked, tree_differs=True)
    make_private_directory(asked.cache)
    file = asked.cache / f"{_key(asked, others)}.json"
    with taking_turns(file.with_suffix(".lock"), lambda: asked.site.stop_requests() > 0):
        if (cached := _kept(file)) is not None:
            return cached
        found = _measure(asked, tree_differs=bool(others))
        if not asked.site.stop_requests():
            replace_file(file, ndjson.encode(to_record(found)) + "\n", durable=False)
        return found


def keep_baseline(found: Baseline, directory: Path) -> None:
    """Keep a run's baseline in its directory."""
    replace_file(directory / _BASELINE, ndjson.encode(to_record(found)) + "\n", durable=False)


def kept_baseline(directory: Path) -> Baseline | None:
    """Read a run's baseline; None if it is unknown."""
    return _kept(directory / _BASELINE)


def _kept(file: Path) -> Baseline | None:
    try:
        found = parse(Baseline, file.read_bytes())
    except (OSError, NotARecord):
        return None
    return found if found.version == BASELINE_VERSION else None


def _key(asked: BaselineRequest, others: Collection[str]) -> str:
    """Name a baseline by everything that decides it."""
    site = asked.site
    entries = site.project.without_links().entries
    scripts = [_content(entries.get(name)) for name in ("check", "setup")]
    # A tree with files beside the commit's, such as a virtual environment, is like no other.
    own = str(site.repo.root) if others else ""
    parts = [tree_of(site.repo, asked.base).encode(), site.check.label.encode(), *scripts, own.encode()]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:40]


def _content(entry: Entry) -> bytes:
    return entry.content if isinstance(entry, File) else repr(entry).encode()


def _measure(asked: BaselineRequest, *, tree_differs: bool) -> Baseline:
    site, logs = asked.site, asked.logs
    with Guardian() as second:
        try:
            with site.checked_out(asked.base) as checkout:
                clean_order = site.on(checkout, logs[1], guardian=second)
                if not tree_differs:  # it has nothing that the checkout lacks
                    clean = site.run(clean_order)
                    return _of(clean, clean, "")
                with _tidied(asked):
                    tree, clean = site.run_all(site.in_tree(logs[0]), clean_order)
        except RepoError as error:
            with _tidied(asked):
                tree = site.run(site.in_tree(logs[0]))
            return _of(tree, CheckReport(None, 0.0, ""), f"git cannot check it out: {error.message}")
    return _of(tree, clean, _why_tree(tree, clean))


@contextlib.contextmanager
def _tidied(asked: BaselineRequest) -> Generator[None]:
    """Move files aside that the check leaves in the working tree: the first iteration would commit them."""
    repo = asked.site.repo
    before = untracked_files(repo, "--exclude-standard")
    yield
    for path in sorted(untracked_files(repo, "--exclude-standard") - before):
        asked.aside.mkdir(parents=True, exist_ok=True)
        move_aside(repo.root / path, asked.aside)


def _of(tree: CheckReport, clean: CheckReport, why_tree: str) -> Baseline:
    judge = tree if why_tree else clean
    output = "" if judge.passed else judge.output
    return Baseline(BASELINE_VERSION, tree.exit_code, clean.exit_code, why_tree, output, counts_in(judge.output))


def _why_tree(tree: CheckReport, clean: CheckReport) -> str:
    if clean.passed:
        return ""
    if missing := missing_in(clean, tree):
        return missing
    if tree.passed:
        last = [line.strip() for line in clean.output.splitlines() if line.strip()][-1:]
        return last[0] if last else f"exit {clean.exit_code}"
    return ""


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the claims of one run."""

    site: CheckSite
    rules: ProofRules
    base: str | None
    baseline: Baseline | None

    def judge(self, commit: str | None, logs: Callable[[str], Path], show: Show) -> CheckReport:
        """Run the check on an iteration's work; a green report says what it is worth.

        `logs` names a log for each run.
        """
        if commit is None or (self.baseline is not None and not self.baseline.judges_commits):
            why = "" if self.baseline is None else self.baseline.why_tree
            return self._in_tree(commit, why, logs, show)
        try:
            clean = self._on_commit(commit, logs("check"), show)
        except RepoError as error:
            return self._in_tree(commit, f"git cannot check it out: {error.message}", logs, show)
        if self.site.stop_requests() or not clean.passed:
            return clean if self.site.stop_requests() else self._after_red(commit, clean, logs, show)
        return self._weighed(commit, clean, logs("base-check"))

    def _on_commit(self, commit: str, log: Path, show: Show) -> CheckReport:
        with self.site.checked_out(commit) as checkout:
            return self.site.run(self.site.on(checkout, log, show))

    def _after_red(self, commit: str, clean: CheckReport, logs: Callable[[str], Path], show: Show) -> CheckReport:
        """Tell work that fails from a checkout that lacks something which the working tree has."""
        if not missing_in(clean, None):
            return clean
        tree = self.site.run(self.site.in_tree(logs("tree-check"), show))
        why = missing_in(clean, tree)
        if not tree.passed or not why:
            return clean
        return self._lesser(commit, tree, why)

    def _in_tree(self, commit: str | None, why: str, logs: Callable[[str], Path], show: Show) -> CheckReport:
        report = self.site.run(self.site.in_tree(logs("check"), show))
        return self._lesser(commit, report, why) if report.passed else report

    def _lesser(self, commit: str | None, report: CheckReport, why: str) -> CheckReport:
        """Weigh a check that passed in the working tree alone: nobody can say what the base's tests say of it."""
        if self.rules.needs_commit:
            said = f"The check passes in the working tree, but a clean checkout of the commit lacks something: {why}\n"
            return replace(report, exit_code=1, output=said + report.output)
        changes = ProtectedChanges() if commit is None else self.changes(commit)
        lost, skipped = (0, 0) if commit is None else self._counted(commit, changes)
        judged_by = JudgedBy.CHANGED if changes.paths or lost or skipped else JudgedBy.BASE
        judgement = Judgement(Proof.TREE, judged_by, changes, why, counts_in(report.output), lost, skipped)
        return self._by_policy(report, judgement, None)

    def _weighed(self, commit: str, report: CheckReport, log: Path) -> CheckReport:
        """Decide whose tests let the check pass on a clean checkout."""
        changes, tests = self.changes(commit), counts_in(report.output)
        lost, skipped = self._counted(commit, changes)
        lost, skipped = self._by_report(tests, lost, skipped)
        restored: CheckReport | None = None
        judged_by = JudgedBy.BASE
        if changes.paths or changes.added:
            restored = self._with_the_bases(commit, changes, log)
            judged_by = JudgedBy.BASE if restored is not None and restored.passed else JudgedBy.CHANGED
        if lost or skipped or changes.deleted:
            judged_by = JudgedBy.CHANGED
        judgement = Judgement(Proof.COMMIT, judged_by, changes, "", tests, lost, skipped)
        return self._by_policy(report, judgement, restored)

    def _with_the_bases(self, commit: str, changes: ProtectedChanges, log: Path) -> CheckReport | None:
        """Run the check with the base's protected files and none that are new; None if git cannot do that.

        New test files are left out as well: one that ends the test runner early would pass every check.
        """
        with contextlib.suppress(RepoError), self.site.checked_out(commit) as checkout:
            restore_protected(checkout.root, self.base, changes)
            return self.site.run(self.site.on(checkout, log))
        return None

    def changes(self, commit: str) -> ProtectedChanges:
        """Return what the work does to protected files."""
        repo, changes = self.site.repo, changes_between(self.site.repo, self.base, commit)
        linked = {os.path.relpath(place, repo.root) for place in self.site.project.targets.get("check", {})}
        named = named_in(self._script(), files_of(repo, self.base)) | linked
        rules = ProtectedFiles(self.rules.protect, named)
        manifests = [change.path for change in changes if change.status == "M" and is_manifest(change.path)]
        return classify(changes, rules, texts_of(repo, self.base, manifests), texts_of(repo, commit, manifests))

    def _script(self) -> str:
        """Return the text that names the check's files: the script, or the user's command."""
        entry = self.site.project.without_links().entries.get("check")
        if self.site.check.script and isinstance(entry, File):
            return entry.content.decode("utf-8", "replace")
        return self.site.check.label

    def _counted(self, commit: str, changes: ProtectedChanges) -> tuple[int, int]:
        """Count the tests that are gone from the changed files, and those that are newly skipped."""
        if not (changes.changed or changes.added):
            return 0, 0
        before = list(texts_of(self.site.repo, self.base, changes.changed).values())
        after = list(texts_of(self.site.repo, commit, (*changes.changed, *changes.added)).values())
        return lost_tests(before, after), new_skips(before, after)

    def _by_report(self, tests: TestCounts, lost: int, skipped: int) -> tuple[int, int]:
        """Add what the test runners' own reports say."""
        before = None if self.baseline is None else self.baseline.tests
        if before is None or before.passed is None:
            return lost, skipped
        if tests.passed is None:  # the runner that reported before the work no longer does
            return max(lost, 1), skipped
        fewer = before.passed - tests.passed
        return max(lost, fewer), max(skipped, (tests.skipped or 0) - (before.skipped or 0))

    def _by_policy(self, report: CheckReport, judgement: Judgement, restored: CheckReport | None) -> CheckReport:
        report = replace(report, judgement=judgement)
        if judgement.judged_by is JudgedBy.BASE or self.rules.tests is not TestPolicy.FROZEN:
            return report
        said = _CHANGED.format(paths=few([*judgement.changes.paths, *_missing(judgement)], 10))
        if restored is not None and not restored.passed:
            said += f"With the earlier version it says:\n{restored.output}\nWith yours:\n"
        code = 1 if restored is None or restored.passed else restored.exit_code
        return CheckReport(code, report.seconds, said + report.output)


def _missing(judgement: Judgement) -> Sequence[str]:
    lost = [f"{plural(judgement.lost_tests, 'test')} removed"] if judgement.lost_tests else []
    skipped = [f"{plural(judgement.newly_skipped, 'test')} skipped"] if judgement.newly_skipped else []
    return [*lost, *skipped]
