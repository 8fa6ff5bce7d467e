"""What a green check proves, as values: which files passed, and whose tests judged them."""

from dataclasses import dataclass, field
from enum import StrEnum


class Proof(StrEnum):
    """Which files passed the check."""

    COMMIT = "commit"
    """A clean checkout of the iteration's commit."""
    TREE = "tree"
    """The working tree, with whatever git ignores in it."""


class JudgedBy(StrEnum):
    """Whose version of the protected files let the check pass."""

    BASE = "base"
    """The base's: no protected file changed, or the check also passes with the base's versions."""
    CHANGED = "changed"
    """The work's own."""


class TestPolicy(StrEnum):
    """What a proof is worth that rests on changed protected files: the setting `tests`."""

    __test__ = False  # pytest would collect it

    MAY_CHANGE = "may-change"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class ProofRules:
    """What the settings ask of a proof."""

    tests: TestPolicy = TestPolicy.MAY_CHANGE
    protect: tuple[str, ...] = ()
    """Patterns of further protected files."""
    baseline: bool = True
    """Whether the check runs on the base before the first session."""
    needs_commit: bool = False
    """Whether only a proof of the commit counts."""


@dataclass(frozen=True, slots=True)
class TestCounts:
    """How many tests a runner reports; None if its output does not say."""

    __test__ = False

    passed: int | None = None
    skipped: int | None = None

    @property
    def known(self) -> bool:
        return self.passed is not None


@dataclass(frozen=True, slots=True)
class ProtectedChanges:
    """What the work does to the files that the check relies on, against the base."""

    changed: tuple[str, ...] = ()
    """Changed, deleted or retyped files that the base has."""
    deleted: tuple[str, ...] = ()
    """Those of them that are gone."""
    picked_up: tuple[str, ...] = ()
    """New files that a runner would pick up by their names."""
    added: tuple[str, ...] = ()
    """New test files: they stay in every judgement."""
    locks: tuple[str, ...] = ()
    """Changed lock files, which are only listed."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file whose change needs a second judgement."""
        return (*self.changed, *self.picked_up)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a green check of a claim is worth."""

    proof: Proof
    judged_by: JudgedBy
    changes: ProtectedChanges = field(default_factory=ProtectedChanges)
    why_tree: str = ""
    """Why only the working tree could be judged."""
    tests: TestCounts = field(default_factory=TestCounts)
    lost_tests: int = 0
    """Tests of the base that no longer run."""
    newly_skipped: int = 0


BASELINE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the check says of the base; exit codes are None if it ran out of time."""

    version: int = BASELINE_VERSION
    tree: int | None = None
    """Its exit code in the working tree."""
    clean: int | None = None
    """Its exit code on a clean checkout, or that of the setup script."""
    why_tree: str = ""
    """Why a clean checkout cannot be judged; empty if it can."""
    output: str = ""
    """What the failing check prints: inherited failures."""
    tests: TestCounts = field(default_factory=TestCounts)

    @property
    def passes(self) -> bool:
        """The check passes before any work is done, so it cannot prove the goal."""
        return self.tree == 0 if self.why_tree else self.clean == 0

    @property
    def judges_commits(self) -> bool:
        return not self.why_tree
