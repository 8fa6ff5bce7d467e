"""Every requirement of the specs has a test that proves it, or a reason; and no mark is left over."""

from __future__ import annotations

from pathlib import Path

from tests.support.rows import rows
from tools import specs

LISTED = 'title = "A"\n["1.1 Words"]\na = "It speaks."\nb = "It listens."\n'
MARK = '@pytest.mark.spec("1.1-a")\n'
NAME = "tests/test_words.py::test_it"
PROOF = "has a test or another reason"


def test_every_requirement_is_proven_or_explained() -> None:
    assert specs.faults() == []


def test_nothing_is_missing_of_the_specs_that_concern_ralph_itself() -> None:
    """What spec 4 misses is a matter of `ralph-claude` alone."""
    missing = {number: spec.counts[3] for number, spec in specs.specs().items() if number != "4"}
    assert missing == {"1": 0, "2": 0, "3": 0, "5": 0}


def tree(root: Path, listed: str, marks: str) -> Path:
    """A folder of tests with one list and one marked test."""
    (root / "specs").mkdir(parents=True, exist_ok=True)
    (root / "specs" / "1-words.toml").write_text(listed)
    (root / "test_words.py").write_text(f"{marks}def test_it() -> None: ...\n")
    return root


@rows(
    ("reasons", "marks", "faults"),
    [
        ('[differs]\n"1.1-b" = "It is deaf."', MARK, []),
        ("", MARK, ["1.1-b has neither a test nor a reason"]),
        (
            '[missing]\n"1.1-a" = "x"',
            MARK + '@pytest.mark.spec("1.1-b")\n',
            [f"1.1-a is listed as missing, but {PROOF}"],
        ),
        ('[differs]\n"1.1-b" = "x"\n"1.2-a" = "y"', MARK, ["1-words.toml gives a reason for 1.2-a, but lists none"]),
        (
            '[differs]\n"1.1-b" = "x"',
            '@pytest.mark.spec("1.1-a", case="z")\n@pytest.mark.parametrize("x", ["y"])\n',
            ["test_words.py has no case 'z'"],
        ),
        (
            '[differs]\n"1.1-b" = "x"',
            MARK + '@pytest.mark.spec("1.2-a")\n',
            [f"{NAME} is marked 1.2-a, but no list has it"],
        ),
    ],
)
def test_what_does_not_fit_together_is_named(tmp_path: Path, reasons: str, marks: str, faults: list[str]) -> None:
    assert specs.faults(tree(tmp_path / "tests", LISTED + reasons, marks)) == faults


def test_a_case_of_a_parametrized_test_is_named(tmp_path: Path) -> None:
    folder = tree(tmp_path / "tests", LISTED, '@pytest.mark.spec("1.1-ab", case="aloud")\n')
    assert specs.marks(folder) == {"1.1-a": [f"{NAME}[aloud]"], "1.1-b": [f"{NAME}[aloud]"]}
