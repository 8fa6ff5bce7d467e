"""The requirements of the five specs that ralph follows, and the tests that prove each of them.

`tests/specs/*.toml` lists the requirements in our own words, with a reason where ralph differs on purpose or is not
there yet. A test says what it proves with `@pytest.mark.spec("2.6-ad")`: requirements a and d of section 2.6. `case=`
names one case of a parametrized test. Tests are parsed, never imported.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
_MARK = "pytest.mark.spec"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a spec asks for, and what we have to say about it."""

    id: str
    text: str
    differs: str
    missing: str
    tests: tuple[str, ...]

    @property
    def fault(self) -> str:
        """What is wrong with what we say, if anything."""
        if self.missing and (self.tests or self.differs):
            return f"{self.id} is listed as missing, but has a test or another reason"
        if not (self.missing or self.differs or self.tests):
            return f"{self.id} has neither a test nor a reason"
        return ""


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec: its requirements under its headings."""

    title: str
    sections: Mapping[str, tuple[Requirement, ...]]

    @property
    def requirements(self) -> list[Requirement]:
        """The requirements of all sections."""
        return [requirement for section in self.sections.values() for requirement in section]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """How many there are, and how many of them are proven as they stand, differ, are missing."""
        every = self.requirements
        differ = sum(bool(requirement.differs) for requirement in every)
        missing = sum(bool(requirement.missing) for requirement in every)
        return len(every), len(every) - differ - missing, differ, missing


def specs(tests: Path = TESTS) -> dict[str, Spec]:
    """Return every spec by its number, with the tests that prove its requirements."""
    proofs = marks(tests)
    return {path.name[0]: _spec(tomllib.loads(path.read_text()), proofs) for path in sorted(_lists(tests))}


def _lists(tests: Path) -> Iterable[Path]:
    return (tests / "specs").glob("[0-9]-*.toml")


def _spec(document: Mapping[str, dict[str, str]], proofs: Mapping[str, list[str]]) -> Spec:
    differs, missing = document.get("differs", {}), document.get("missing", {})
    sections: dict[str, tuple[Requirement, ...]] = {}
    for heading, texts in document.items():
        if heading not in ("title", "differs", "missing"):
            ids = {f"{heading.split()[0]}-{letter}": text for letter, text in texts.items()}
            sections[heading] = tuple(
                Requirement(each, text, differs.get(each, ""), missing.get(each, ""), tuple(proofs.get(each, ())))
                for each, text in ids.items()
            )
    return Spec(str(document["title"]), sections)


def marks(tests: Path = TESTS) -> dict[str, list[str]]:
    """Return the tests that are marked with each id, as pytest names them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, module in _marked_modules(tests):
        for test, mark in _marks_in(module):
            case = _case_of(mark)
            name = f"{path.relative_to(tests.parent)}::{test}" + (f"[{case}]" if case else "")
            for section, _, letters in (ast.literal_eval(argument).partition("-") for argument in mark.args):
                for letter in letters:
                    found[f"{section}-{letter}"].append(name)
    return found


def _marked_modules(tests: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(tests.rglob("test_*.py")):
        if _MARK in (source := path.read_text()):
            yield path, ast.parse(source)


def _marks_in(module: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for test in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)):
        for decorator in test.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == _MARK:
                yield test.name, decorator


def _case_of(mark: ast.Call) -> str:
    return next((ast.literal_eval(keyword.value) for keyword in mark.keywords if keyword.arg == "case"), "")


def _unknown_cases(tests: Path) -> Iterator[str]:
    """Name the cases that a module only has in marks: the case itself has gone, or has another name."""
    for path, module in _marked_modules(tests):
        texts = Counter(node.value for node in ast.walk(module) if isinstance(node, ast.Constant))
        cases = Counter(_case_of(mark) for _, mark in _marks_in(module))
        yield from (f"{path.name} has no case {case!r}" for case in cases if case and texts[case] == cases[case])


def faults(tests: Path = TESTS) -> list[str]:
    """Name every requirement that nothing is said about, and every mark and reason that belongs to none."""
    known = {requirement.id: requirement for spec in specs(tests).values() for requirement in spec.requirements}
    found = [requirement.fault for requirement in known.values() if requirement.fault]
    for path in _lists(tests):
        document = tomllib.loads(path.read_text())
        reasons = [*document.get("differs", ()), *document.get("missing", ())]
        found += [f"{path.name} gives a reason for {each}, but lists none" for each in reasons if each not in known]
    for each, names in marks(tests).items():
        found += [f"{name} is marked {each}, but no list has it" for name in names if each not in known]
    return [*found, *_unknown_cases(tests)]
