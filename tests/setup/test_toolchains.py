"""What is proposed for a repository, from its files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ralph.setup.toolchains import propose

NPM = json.dumps({"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "^3"}})
PYTEST = "def test_it():\n    pass\n"
UNITTEST = "import unittest\n"
VENV = 'if [ -d .venv/bin ]; then PATH="$PWD/.venv/bin:$PATH"; fi'
PIP = ".venv/bin/python -m pip install --quiet --disable-pip-version-check"
Files = Mapping[str, str]


def proposed(root: Path, files: Files) -> tuple[list[str], list[str], str]:
    """The lines of the check and of the setup below their heads, and the reasons."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    found = propose(root, files)
    return _lines(found.check), _lines(found.setup), "\n".join(found.reasons)


def _lines(script: str) -> list[str]:
    head, _, lines = script.partition("set -eu\n")
    assert not script or head.startswith("#!/bin/sh\n# ")
    return lines.splitlines()


CHECKS: Mapping[str, tuple[Files, list[str], list[str]]] = {
    "pytest by its settings": (
        {"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_a.py": UNITTEST},
        ["python3 -m pytest -q"],
        [],
    ),
    "pytest by a plain function": ({"test_a.py": PYTEST}, ["python3 -m pytest -q"], []),
    "pytest by conftest.py": ({"tests/conftest.py": ""}, ["python3 -m pytest -q"], []),
    "pytest that nothing declares": (
        {"pyproject.toml": '[project]\nname = "a"\ndependencies = ["httpx"]\n', "test_a.py": "import pytest\n"},
        [VENV, "python3 -m pytest -q"],
        ["python3 -m venv .venv", f"{PIP} --editable . pytest"],
    ),
    "pytest in an extra": (
        {"pyproject.toml": '[project]\nname = "a"\n[project.optional-dependencies]\ntest = ["pytest"]\ndocs = ["x"]\n'},
        [VENV, "python3 -m pytest -q"],
        ["python3 -m venv .venv", f"{PIP} --editable '.[test]'"],
    ),
    "pytest in a dependency group": (
        {"pyproject.toml": '[dependency-groups]\ndev = ["pytest>=8", {include-group = "lint"}]\n'},
        [VENV, "python3 -m pytest -q"],
        ["python3 -m venv .venv", f"{PIP} 'pytest>=8'"],
    ),
    "requirements": (
        {"requirements.txt": "httpx\n", "requirements-dev.txt": "pytest\n"},
        [VENV, "python3 -m pytest -q"],
        ["python3 -m venv .venv", f"{PIP} --requirement requirements.txt --requirement requirements-dev.txt"],
    ),
    "uv": (
        {"pyproject.toml": '[dependency-groups]\ndev = ["pytest"]\n', "uv.lock": ""},
        [VENV, "python3 -m pytest -q"],
        ["uv sync --quiet"],
    ),
    "poetry": (
        {"pyproject.toml": "[tool.pytest.ini_options]\n", "poetry.lock": ""},
        ["poetry run python -m pytest -q"],
        ["poetry install --quiet"],
    ),
    "unittest at the root": ({"test_a.py": UNITTEST}, ["python3 -m unittest"], []),
    "unittest in a package": (
        {"tests/__init__.py": "", "tests/test_a.py": UNITTEST},
        ["python3 -m unittest"],
        [],
    ),
    "unittest in a folder": (
        {"setup.cfg": "", "tests/test_a.py": UNITTEST},
        ["python3 -m unittest discover -s tests"],
        [],
    ),
    "unittest, named the other way": (
        {"a_test.py": UNITTEST},
        ["python3 -m unittest discover -p '*_test.py'"],
        [],
    ),
    "npm with a lock": (
        {"package.json": NPM, "package-lock.json": "{}"},
        ["CI=true npm --silent test"],
        ["npm ci --silent --no-audit --no-fund"],
    ),
    "npm without a lock": (
        {"package.json": NPM},
        ["CI=true npm --silent test"],
        ["npm install --silent --no-audit --no-fund --no-package-lock"],
    ),
    "npm without dependencies": (
        {"package.json": '{"scripts": {"test": "node t.js"}}'},
        ["CI=true npm --silent test"],
        [],
    ),
    "pnpm": (
        {"package.json": NPM, "pnpm-lock.yaml": ""},
        ["CI=true pnpm --silent test"],
        ["pnpm install --frozen-lockfile --silent"],
    ),
    "make test": ({"Makefile": "all:\n\techo\ntest: all\n\t./run\n"}, ["make test"], []),
    "make check that runs test": ({"Makefile": "test:\n\t./run\ncheck: lint test\n"}, ["make check"], []),
    "make test that runs check": (
        {"Makefile": "test: tools\n\t@$(MAKE) --no-print-directory check\n\ncheck:\n\t./run\n"},
        ["make test"],
        [],
    ),
    "make check and test": ({"Makefile": "check:\n\t./lint\ntest:\n\t./run\n"}, ["make check test"], []),
    "a Makefile without them": (
        {"Makefile": "test := 1\nall:\n\techo\n.PHONY: test\n", "go.mod": ""},
        ["go test ./..."],
        [],
    ),
    "a Makefile of CMake's": (
        {"Makefile": "# CMAKE generated file: DO NOT EDIT!\ntest:\n", "CMakeLists.txt": "enable_testing()\n"},
        [
            "cmake -S . -B build",
            "cmake --build build",
            "ctest --test-dir build --output-on-failure --no-tests=error",
        ],
        [],
    ),
    "CMake without tests": ({"CMakeLists.txt": ""}, ["cmake -S . -B build", "cmake --build build"], []),
    "just": (
        {"justfile": "set shell := ['sh']\ncheck: lint\n    ./x\n\ntest *args:\n    ./run\n"},
        ["just check", "just test"],
        [],
    ),
    "cargo": ({"Cargo.toml": "[package]\n"}, ["cargo test --quiet"], []),
    "a workspace of cargo's": ({"Cargo.toml": "[workspace]\n"}, ["cargo test --quiet --workspace"], []),
    "go": ({"go.mod": "module x\n"}, ["go test ./..."], []),
    "rspec": ({"Gemfile": "", "spec/a_spec.rb": ""}, ["bundle exec rspec"], ["bundle install --quiet"]),
    "rake": ({"Gemfile": "", "Rakefile": ""}, ["bundle exec rake test"], ["bundle install --quiet"]),
    "maven": ({"pom.xml": ""}, ["mvn -q test"], []),
    "maven's wrapper": ({"pom.xml": "", "mvnw": ""}, ["./mvnw -q test"], []),
}


@pytest.mark.parametrize(("files", "check", "setup"), CHECKS.values(), ids=CHECKS)
def test_a_toolchain_gets_its_usual_commands(tmp_path: Path, files: Files, check: list[str], setup: list[str]) -> None:
    assert proposed(tmp_path, files)[:2] == (check, setup)


NOTHING: Mapping[str, tuple[Files, str]] = {
    "nothing": ({"README.md": "make test"}, ""),
    "npm's placeholder": (
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        "package.json: it has no test script",
    ),
    "npm without a script": ({"package.json": "[]"}, "package.json: it has no test script"),
    "a broken package.json": ({"package.json": "{"}, "package.json: left out, because it is not valid JSON"),
    "Python without tests": (
        {"pyproject.toml": "[project\n", "app.py": ""},
        "pyproject.toml: a Python project, without tests that pytest or unittest would find",
    ),
    "Ruby without tests": ({"Gemfile": ""}, "Gemfile: a Ruby project, without specs or a Rakefile"),
}


@pytest.mark.parametrize(("files", "reason"), NOTHING.values(), ids=NOTHING)
def test_where_nothing_tests_no_check_is_made_up(tmp_path: Path, files: Files, reason: str) -> None:
    assert proposed(tmp_path, files) == ([], [], reason)


def test_several_toolchains_are_all_run_after_all_their_setups(tmp_path: Path) -> None:
    files = {"package.json": NPM, "package-lock.json": "{}", "requirements.txt": "pytest\n", "Cargo.toml": ""}
    check, setup, reasons = proposed(tmp_path, files)
    assert check == [VENV, "python3 -m pytest -q", "CI=true npm --silent test", "cargo test --quiet"]
    assert [line.split()[0] for line in setup] == ["python3", ".venv/bin/python", "npm"]
    assert len(reasons.splitlines()) == 3


def test_what_make_runs_is_left_to_make_and_only_that(tmp_path: Path) -> None:
    files = {"Makefile": "test:\n\tpython -m pytest\n", "requirements.txt": "pytest\n", "package.json": NPM}
    check, setup, reasons = proposed(tmp_path, files)
    assert check == [VENV, "make test", "CI=true npm --silent test"]
    assert len(setup) == 3
    assert reasons.splitlines() == [
        "Makefile: it has the target test",
        "requirements.txt: it names pytest; left to make test, which runs pytest",
        "package.json: it has a test script, because the Makefile does not run it",
    ]


def test_names_of_files_are_quoted(tmp_path: Path) -> None:
    check, _, _ = proposed(tmp_path, {"a; rm -rf b/test_a.py": UNITTEST})
    assert check == ["python3 -m unittest discover -s 'a; rm -rf b'"]
