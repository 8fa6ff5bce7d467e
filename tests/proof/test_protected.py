"""Which files the check relies on, and what changing them means."""

from __future__ import annotations

import pytest

from ralph.core.proof import ProtectedChanges
from ralph.proof.protected import PathChange, ProtectedFiles, classify, lost_tests, named_in, new_skips, relevant

RULES = ProtectedFiles()


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py", "test/a.js", "pkg/tests/data.json", "src/a.test.ts", "a_test.go", "spec/a_spec.rb",
        "src/__tests__/a.js", "src/__snapshots__/a.snap", "testdata/in.txt", "conftest.py", "pkg/conftest.py",
        "Makefile", "package.json", "pyproject.toml", "pytest.ini", "tox.ini", "jest.config.mjs", ".npmrc",
        "Cargo.toml", "CMakeLists.txt", ".gitattributes", "src/test/java/ATest.java", "noxfile.py",
    ],
)  # fmt: skip
def test_a_check_relies_on_tests_fixtures_and_build_files(path: str) -> None:
    assert RULES.relied_on(path)


@pytest.mark.parametrize("path", ["src/app.py", "attest.py", "contest/a.py", "docs/tests.md", "latest.go", "README.md"])
def test_it_does_not_rely_on_the_work_itself(path: str) -> None:
    assert not RULES.relied_on(path)
    assert not RULES.picked_up(path)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py", "tests/conftest.py", "pytest.ini", "sitecustomize.py", "lib/evil.pth", "GNUmakefile", ".npmrc",
        "vitest.config.ts", "pytest.py", "tests/pytest/__init__.py", "json.py", "src/unittest/__init__.py",
        "node_modules/jest/index.js", "app/__pycache__/app.cpython-311.pyc", "evil.egg-info/entry_points.txt",
    ],
)  # fmt: skip
def test_a_runner_picks_up_new_files_by_their_names(path: str) -> None:
    assert RULES.picked_up(path)


@pytest.mark.parametrize("path", ["app/json.py", "src/app/queue.py", "tests/unit/json.py", "calendars.py"])
def test_a_module_in_a_package_shadows_nothing(path: str) -> None:
    assert not RULES.picked_up(path)


def test_changes_are_sorted_by_what_they_mean() -> None:
    changes = [
        PathChange("M", "src/app.py"), PathChange("A", "src/new.py"), PathChange("M", "tests/test_a.py"),
        PathChange("D", "tests/test_b.py"), PathChange("A", "tests/test_c.py"), PathChange("A", "conftest.py"),
        PathChange("M", "uv.lock"), PathChange("A", ".ralph/check"), PathChange("T", "Makefile"),
    ]  # fmt: skip
    assert classify(changes, RULES, {}, {}) == ProtectedChanges(
        changed=("tests/test_a.py", "tests/test_b.py", "Makefile"),
        deleted=("tests/test_b.py",),
        picked_up=("conftest.py",),
        added=("tests/test_c.py",),
        locks=("uv.lock",),
    )


def test_the_users_patterns_and_what_the_check_names_are_protected_too() -> None:
    rules = ProtectedFiles(
        ("golden/*.bin",), named_in("#!/bin/sh\nexec ./scripts/verify.sh --all\n", ["scripts/verify.sh"])
    )
    assert rules.relied_on("golden/a.bin")
    assert rules.relied_on("scripts/verify.sh")
    assert not rules.relied_on("scripts/other.sh")


def test_only_a_part_of_a_manifest_matters_to_a_check() -> None:
    before = '{"scripts": {"test": "jest"}, "dependencies": {}}'
    new_dependency = '{"scripts": {"test": "jest"}, "dependencies": {"left-pad": "1"}}'
    other_script = '{"scripts": {"test": "true"}, "dependencies": {}}'
    change = [PathChange("M", "package.json")]
    assert classify(change, RULES, {"package.json": before}, {"package.json": new_dependency}).paths == ()
    assert classify(change, RULES, {"package.json": before}, {"package.json": other_script}).paths == ("package.json",)
    assert classify(change, RULES, {"package.json": before}, {"package.json": "{"}).paths == ("package.json",)


def test_the_part_of_each_manifest() -> None:
    assert relevant("pyproject.toml", "[project]\ndependencies = ['a']\n[tool.ruff]\nx = 1\n") == relevant(
        "pyproject.toml", "[project]\ndependencies = ['b']\n[tool.ruff]\nx = 2\n"
    )
    assert relevant("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-x'\n") != relevant(
        "pyproject.toml", "[tool.pytest.ini_options]\naddopts = '--collect-only'\n"
    )
    assert relevant("Cargo.toml", "[dependencies]\na = '1'\n") == relevant("Cargo.toml", "[dependencies]\na = '2'\n")
    assert relevant("Cargo.toml", "[lib]\ntest = true\n") != relevant("Cargo.toml", "[lib]\ntest = false\n")


def test_tests_that_are_gone_and_newly_skipped_are_counted() -> None:
    before = ["def test_one():\n    ...\ndef test_two():\n    ...\n", "it('adds', f)\n", "func TestSum(t *T) {}\n"]
    assert lost_tests(before, [*before, "def test_three(): ..."]) == 0
    assert lost_tests(before, ["def test_one():\n    ...\n", "it('adds', f)\n"]) == 2
    assert new_skips(["def test_one(): ..."], ["@pytest.mark.skip\ndef test_one(): ..."]) == 1
    assert new_skips(["@pytest.mark.skip\ndef test_one(): ..."], ["def test_one(): ..."]) == 0
