"""Which files the check relies on, and what a change to them means. Pure: paths and texts in, values out."""

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import pathspec

from ralph.core.proof import ProtectedChanges

_TESTS = (
    "test/", "tests/", "spec/", "specs/", "__tests__/", "__mocks__/", "__snapshots__/", "__fixtures__/", "testing/",
    "fixtures/", "testdata/", "test-data/", "e2e/", "cypress/", "features/", "src/test/",
    "test_*.py", "*_test.py", "*_tests.py", "tests.py", "*_test.go", "*_test.rs", "*_spec.rb", "*_test.rb",
    "*.test.[cm]js", "*.test.js", "*.test.jsx", "*.test.ts", "*.test.tsx", "*.test.mts", "*.test.cts",
    "*.spec.[cm]js", "*.spec.js", "*.spec.jsx", "*.spec.ts", "*.spec.tsx", "*.spec.mts", "*.spec.cts",
    "*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Spec.scala", "*Test.php", "*_test.exs", "*Tests.cs",
    "*_test.cc", "*_test.cpp", "*.snap", "*.golden",
)  # fmt: skip
_BUILD = (
    "Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "Justfile", ".justfile", "Taskfile.yml",
    "Taskfile.yaml", "Rakefile", "rakefile", "noxfile.py", "tasks.py", "dodo.py", "build.gradle", "build.gradle.kts",
    "settings.gradle", "pom.xml", "CMakeLists.txt", "CTestConfig.cmake", "meson.build", "BUILD", "BUILD.bazel",
    "package.json", "pyproject.toml", "setup.cfg", "Cargo.toml", "build.rs", "deno.json", "deno.jsonc",
)  # fmt: skip
_PICKED_UP = (
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "tox.toml", ".coveragerc",
    "sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-link", "*.pyc", "*.egg-info", "*.dist-info",
    "GNUmakefile", "makefile", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "node_modules",
    "jest.config.*", "jest.setup.*", "jest.preset.*", "vitest.config.*", "vitest.workspace.*", "vitest.setup.*",
    "vite.config.*", "karma.conf.*", ".mocharc*", "ava.config.*", "playwright.config.*", "cypress.config.*",
    "babel.config.*", ".babelrc*", ".swcrc", ".taprc", ".c8rc*", ".nycrc*", "bunfig.toml", ".rspec", "phpunit.xml*",
    ".cargo", "rust-toolchain", "rust-toolchain.toml", "go.work", ".envrc", ".env", ".env.*", ".tool-versions",
    ".python-version", ".node-version", ".nvmrc", "mise.toml", ".mise.toml", ".gitattributes", ".gitmodules",
)  # fmt: skip
_LOCKS = (
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "poetry.lock",
    "uv.lock", "pdm.lock", "Pipfile.lock", "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock",
    "deno.lock", "gradle.lockfile",
)  # fmt: skip
_RUNNERS = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "nose", "nose2", "tox", "nox", "coverage", "xdist",
                      "hypothesis", "mock", "behave", "robot", "ward", "unittest2", "pkg_resources", "setuptools",
                      "exceptiongroup", "tomli"})  # fmt: skip
"""Modules of Python's test runners; a file of this name in their way is imported instead."""

_TEST_NAMES = re.compile(
    r"^\s*(?:async\s+)?def\s+(test\w*)|^\s*(?:pub\s+)?fn\s+(\w+)|^func\s+((?:Test|Fuzz|Benchmark|Example)\w*)"
    r"|\b(?:it|test)(?:\.\w+)*\(\s*([\"'`][^\"'`\n]{1,200})|^\s*(?:it|scenario|specify)\s+([\"'][^\"'\n]{1,200})"
    r"|@Test[^;{]{0,200}?\b(\w+)\s*\(",
    re.MULTILINE,
)
_SKIPS = re.compile(
    r"mark\.(?:skip|skipif|xfail)\b|\bunittest\.(?:skip\w*|expectedFailure)\b|@(?:skip\w*|expectedFailure)\b"
    r"|\b(?:pytest|self|t|b|suite)\.(?:skip|skipTest|Skip|SkipNow|Skipf|xfail)\("
    r"|\b(?:it|test|describe|suite)\.(?:skip|todo|only|skipIf|fixme)\b|\bx(?:it|test|describe)\(|\bf(?:it|describe)\("
    r"|#\[ignore|@Disabled|@Ignore|\bpending\b|raise\s+(?:unittest\.)?SkipTest|collect_ignore|pytestmark",
)


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path that the work changes, and git's letter for how: A, M, D or T."""

    status: str
    path: str


@dataclass(frozen=True)
class ProtectedFiles:
    """The rules of a repository: the usual names, the user's own patterns, and what the check names."""

    extra: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()

    @cached_property
    def _relied_on(self) -> pathspec.GitIgnoreSpec:
        return _patterns((*_TESTS, *_BUILD, *_PICKED_UP, *self.extra))

    @cached_property
    def _picked_up(self) -> pathspec.GitIgnoreSpec:
        return _patterns(_PICKED_UP)

    @cached_property
    def _locks(self) -> pathspec.GitIgnoreSpec:
        return _patterns(_LOCKS)

    def relied_on(self, path: str) -> bool:
        """Tell whether the check relies on a file of the base."""
        return path in self.named or self._relied_on.match_file(path)

    def picked_up(self, path: str) -> bool:
        """Tell whether a runner would pick up a new file by its name."""
        return self._picked_up.match_file(path) or _shadows_a_module(path)

    def lock(self, path: str) -> bool:
        return self._locks.match_file(path)


def _patterns(lines: Iterable[str]) -> pathspec.GitIgnoreSpec:
    return pathspec.GitIgnoreSpec.from_lines(lines)


def _shadows_a_module(path: str) -> bool:
    """Tell whether a file has the name of a module that a runner imports, and stands where Python looks first."""
    parts = path.split("/")
    inside = parts[1:] if parts[0] in ("src", "test", "tests", "lib") and len(parts) > 1 else parts
    if len(inside) > 2 or not path.endswith((".py", ".so")):
        return False
    stem = inside[0].partition(".")[0]
    is_module = len(inside) == 1 or inside[1].partition(".")[0] == "__init__"
    return is_module and (stem in _RUNNERS or stem in sys.stdlib_module_names)


def classify(
    changes: Sequence[PathChange], rules: ProtectedFiles, before: Mapping[str, str], after: Mapping[str, str]
) -> ProtectedChanges:
    """Sort the changes of the work; `before` and `after` are the texts of changed manifests."""
    changed: list[str] = []
    deleted: list[str] = []
    picked_up: list[str] = []
    added: list[str] = []
    locks: list[str] = []
    for change in changes:
        path = change.path
        if path.startswith(".ralph/"):
            continue  # restored to the version of the run's begin in any case
        if rules.lock(path):
            locks.append(path)
        elif change.status == "A":
            if "__pycache__/" in path:
                added.append(path)  # what any run of Python leaves behind: left out like a new test, and no news
            elif rules.picked_up(path):
                picked_up.append(path)
            elif rules.relied_on(path):
                added.append(path)
        elif rules.relied_on(path) or rules.picked_up(path):
            if path in before and path in after and relevant(path, before[path]) == relevant(path, after[path]):
                continue  # only its dependencies or its version changed
            changed.append(path)
            if change.status == "D":
                deleted.append(path)
    return ProtectedChanges(*(tuple(each) for each in (changed, deleted, picked_up, added, locks)))


_MANIFESTS = frozenset({"package.json", "pyproject.toml", "Cargo.toml", "deno.json"})


def is_manifest(path: str) -> bool:
    """Tell whether only a part of this file matters to a check."""
    return path.rpartition("/")[2] in _MANIFESTS


_PACKAGE_JSON = ("scripts", "jest", "mocha", "ava", "nyc", "c8", "tap", "vitest", "babel", "workspaces", "tasks")
_TOOLS_ASIDE = frozenset({"poetry", "uv", "pdm", "ruff", "black", "isort", "mypy", "pyright", "basedpyright", "pylint"})
_CARGO_ASIDE = frozenset({"dependencies", "dev-dependencies", "build-dependencies", "target", "features", "badges"})


def relevant(path: str, text: str) -> object:
    """Return the part of a manifest that a check relies on; the whole text if it cannot be read."""
    try:
        match path.rpartition("/")[2]:
            case "package.json" | "deno.json":
                document = cast("dict[str, object]", json.loads(text))
                return {key: document[key] for key in _PACKAGE_JSON if key in document}
            case "pyproject.toml":
                return _of_pyproject(tomllib.loads(text))
            case "Cargo.toml":
                return _of_cargo(tomllib.loads(text))
            case _:
                return text
    except (ValueError, TypeError, RecursionError):
        return text


def _of_pyproject(document: Mapping[str, object]) -> object:
    tools = {key: value for key, value in _table(document.get("tool")).items() if key not in _TOOLS_ASIDE}
    return tools, _table(document.get("project")).get("entry-points"), document.get("build-system")


def _of_cargo(document: Mapping[str, object]) -> object:
    kept = {key: value for key, value in document.items() if key not in (*_CARGO_ASIDE, "package", "workspace")}
    package = _table(document.get("package"))
    return kept, {key: package[key] for key in ("autotests", "build", "links") if key in package}


def _table(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


_WORD = re.compile(r"[A-Za-z0-9_@+.,/-]+")


def named_in(script: str, known: Collection[str]) -> frozenset[str]:
    """Return the files of the base that a check script, or a check's command line, names."""
    words = {word.rstrip(".,").removeprefix("./") for word in _WORD.findall(script)}
    return frozenset(word for word in words & set(known) if not word.startswith(".ralph/"))


def lost_tests(before: Iterable[str], after: Iterable[str]) -> int:
    """Count the tests in some files' texts that are in none of the later texts."""
    return (_tests_in(before) - _tests_in(after)).total()


def new_skips(before: Iterable[str], after: Iterable[str]) -> int:
    """Count the marks that skip tests which the later texts have and the earlier ones do not."""
    return max(0, _skips_in(after) - _skips_in(before))


def _tests_in(texts: Iterable[str]) -> Counter[str]:
    return Counter(next(filter(None, found)) for text in texts for found in _TEST_NAMES.findall(text) if any(found))


def _skips_in(texts: Iterable[str]) -> int:
    return sum(len(_SKIPS.findall(text)) for text in texts)
