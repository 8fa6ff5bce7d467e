"""How a repository is tested: reads its files, runs nothing, and proposes a check and a setup, with reasons."""

import contextlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core import ndjson

_CHECK_HEAD = """#!/bin/sh
# ralph runs this when the agent says DONE: exit 0 proves it. Make it what you would run before you merge.
set -eu
"""
_SETUP_HEAD = """#!/bin/sh
# What a clean checkout needs before .ralph/check can run: `ralph check` and every merge of ralph-runs run it first.
set -eu
"""
_LARGEST = 1 << 20
"""Bytes of a file that are read: what names a toolchain stands near the beginning."""
_MOST_TESTS = 200
"""Test files that are opened to see how they are written."""

LOOKED_FOR = (
    "Makefile", "justfile", "pyproject.toml", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "CMakeLists.txt",
    "Gemfile", "pom.xml",
)  # fmt: skip
"""What a toolchain is known by, for a repository in which none of it is found."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One way in which a repository is tested, as far as its files tell."""

    file: str
    """The file that names it."""
    says: str
    """What that file says."""
    check: tuple[str, ...] = ()
    """Shell lines that test; none: there is nothing to test with."""
    setup: tuple[str, ...] = ()
    """Shell lines that a clean checkout needs first."""
    programs: tuple[str, ...] = ()
    """What has to be on PATH."""
    words: tuple[str, ...] = ()
    """Words by which a Makefile would call it."""


@dataclass(frozen=True, slots=True)
class ProposedScripts:
    """A check and a setup; an empty one is not needed, or cannot be written."""

    check: str
    setup: str
    reasons: tuple[str, ...]
    """The reasons, one line for each file that was used."""
    programs: tuple[str, ...]


class _Tree:
    """The files of a repository that git does not ignore."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.root = root
        self.files = sorted(files)
        self._known = frozenset(self.files)

    def first(self, *names: str) -> str:
        """The first of these files that is there; empty if none is."""
        return next((name for name in names if name in self._known), "")

    def has(self, name: str) -> bool:
        return name in self._known

    def has_folder(self, name: str) -> bool:
        return any(file.startswith(f"{name}/") for file in self.files)

    def text(self, name: str) -> str:
        """What a file holds; nothing if it is not there or cannot be read."""
        with contextlib.suppress(OSError), (self.root / name).open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
        return ""


def propose(root: Path, files: Iterable[str]) -> ProposedScripts:
    """Propose a check and a setup for a repository with these files."""
    tree = _Tree(root, files)
    found = [each for look in _ECOSYSTEMS if (each := look(tree)) is not None]
    wrapper = _make(tree) or _just(tree)
    chosen, reasons = [*([wrapper] if wrapper else [])], [*([f"{wrapper.file}: {wrapper.says}"] if wrapper else [])]
    for each in found:
        if not each.check:
            reasons.append(f"{each.file}: {each.says}")
            continue
        called = next((word for word in each.words if wrapper and _mentions(tree.text(wrapper.file), word)), "")
        if called and wrapper:
            # Its dependencies are still needed: the Makefile's author has them installed.
            chosen.append(replace(each, check=(), programs=each.programs if each.setup else ()))
            reasons.append(f"{each.file}: {each.says}; left to {wrapper.check[-1]}, which runs {called}")
        else:
            chosen.append(each)
            alone = f", because the {wrapper.file} does not run it" if wrapper else ""
            reasons.append(f"{each.file}: {each.says}{alone}")
    has_check = any(each.check for each in chosen)
    setup = [line for each in chosen for line in each.setup]
    return ProposedScripts(
        _script(_CHECK_HEAD, [*_environment(setup), *(line for each in chosen for line in each.check)]),
        _script(_SETUP_HEAD, setup) if has_check else "",
        tuple(reasons),
        tuple(dict.fromkeys(program for each in chosen for program in each.programs)) if has_check else (),
    )


def _environment(setup: Sequence[str]) -> list[str]:
    """The line that has the check use the virtual environment which the setup makes."""
    if not any(".venv" in line or line.startswith("uv ") for line in setup):
        return []
    return ['if [ -d .venv/bin ]; then PATH="$PWD/.venv/bin:$PATH"; fi']


def _script(head: str, lines: Sequence[str]) -> str:
    return head + "".join(f"{line}\n" for line in lines) if lines else ""


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def _make(tree: _Tree) -> Toolchain | None:
    file = tree.first("GNUmakefile", "makefile", "Makefile")
    text = tree.text(file) if file else ""
    if not text or text.startswith("# CMAKE generated file"):
        return None
    rules = _rules(text)
    return _wrapper(file, "make", {name: rules[name] for name in ("check", "test") if name in rules}, "target")


def _rules(text: str) -> dict[str, str]:
    """The rules of a Makefile by their targets: prerequisites and recipe."""
    found: dict[str, str] = {}
    lines = text.replace("\\\n", " ").splitlines()
    targets: list[str] = []
    for line in lines:
        if line.startswith("\t"):
            found |= {target: f"{found[target]}\n{line}" for target in targets}
        elif rule := re.match(r"([\w./ -]+?)\s*::?(?!=)(.*)", line):
            targets = rule[1].split()
            found |= {target: f"{found.get(target, '')}\n{rule[2]}" for target in targets}
        elif line.strip() and not line.startswith("#"):
            targets = []
    return found


def _just(tree: _Tree) -> Toolchain | None:
    file = tree.first("justfile", "Justfile", ".justfile")
    names = re.findall(
        r"^@?([A-Za-z_][\w-]*)(?=[^:=\n]*:(?!=))([^\n]*(?:\n[ \t]+[^\n]*)*)", tree.text(file), re.MULTILINE
    )
    recipes = dict(names) if file else {}
    return _wrapper(file, "just", {name: recipes[name] for name in ("check", "test") if name in recipes}, "recipe")


def _wrapper(file: str, program: str, rules: Mapping[str, str], noun: str) -> Toolchain | None:
    """Use `test`, `check` or both: one alone where it runs the other."""
    if not rules:
        return None
    wanted = list(rules)
    says = f"it has the {noun} {wanted[0]}"
    if len(rules) == 2:
        says = f"it has the {noun}s check and test, and neither runs the other"
        for whole, part in (("check", "test"), ("test", "check")):
            if _mentions(rules[whole], part):
                wanted, says = [whole], f"its {noun} {whole} runs {part}"
                break
    lines = (f"{program} {' '.join(wanted)}",) if program == "make" else tuple(f"{program} {name}" for name in wanted)
    return Toolchain(file, says, lines, programs=(program,))


_PYTHON = ("pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini", "requirements.txt")
_REQUIREMENTS = (
    "requirements.txt", "requirements-dev.txt", "requirements_dev.txt", "requirements-test.txt", "dev-requirements.txt",
    "test-requirements.txt", "requirements/dev.txt", "requirements/test.txt",
)  # fmt: skip
_EXTRAS = ("dev", "test", "tests", "testing")
_TEST_FILE = re.compile(r"(?:.*/)?(?:test[^/]*|[^/]*_test)\.py")


def _python(tree: _Tree) -> Toolchain | None:
    file = tree.first(*_PYTHON)
    tests = [name for name in tree.files if _TEST_FILE.fullmatch(name)]
    why = _why_pytest(tree, tests)
    if not file and not tests and not why:
        return None
    words = ("pytest", "unittest", "tox", "nox", "uv", "poetry", "python", "python3")
    if why:
        found = Toolchain(*why, ("python3 -m pytest -q",), programs=("python3",), words=words)
    elif tests:
        found = Toolchain(tests[0], "tests for unittest", (_unittest(tree, tests),), programs=("python3",), words=words)
    else:
        return Toolchain(file, "a Python project, without tests that pytest or unittest would find")
    return _with_dependencies(tree, found, uses_pytest=bool(why))


def _why_pytest(tree: _Tree, tests: Sequence[str]) -> tuple[str, str] | None:
    """The file that asks for pytest, and what it says; None: nothing does."""
    settings = (("pyproject.toml", "[tool.pytest"), ("setup.cfg", "[tool:pytest]"), ("tox.ini", "[pytest]"))
    for file, section in (*settings, ("pytest.ini", ""), (".pytest.ini", "")):
        if tree.has(file) and section in tree.text(file):
            return file, "it configures pytest"
    for file in ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", *_REQUIREMENTS):
        if tree.has(file) and _mentions(tree.text(file), "pytest"):
            return file, "it names pytest"
    if conftest := next((name for name in tree.files if name.rpartition("/")[2] == "conftest.py"), ""):
        return conftest, "pytest reads it"
    for name in tests[:_MOST_TESTS]:
        text = tree.text(name)
        if re.search(r"^(?:import|from) pytest\b", text, re.MULTILINE):
            return name, "it imports pytest"
        if re.search(r"^(?:async )?def test", text, re.MULTILINE) and not _mentions(text, "unittest"):
            return name, "its tests are plain functions, as pytest has them"
    return None


def _unittest(tree: _Tree, tests: Sequence[str]) -> str:
    """The command that finds the tests: those of a folder which is not a package are found only from there."""
    folders = {name.rpartition("/")[0].partition("/")[0] for name in tests}
    loose = [folder for folder in folders if folder and not tree.has(f"{folder}/__init__.py")]
    pattern = " -p '*_test.py'" if not any(name.rpartition("/")[2].startswith("test") for name in tests) else ""
    if len(folders) == 1 and loose:
        return f"python3 -m unittest discover -s {shlex.quote(loose[0])}{pattern}"
    return f"python3 -m unittest discover{pattern}" if pattern else "python3 -m unittest"


def _with_dependencies(tree: _Tree, found: Toolchain, *, uses_pytest: bool) -> Toolchain:
    """The same with what installs its dependencies, if any are declared."""
    project = _project(tree)
    extras = [name for name in ndjson.mapping(project.get("optional-dependencies")) if name in _EXTRAS]
    if tree.has("uv.lock"):
        chosen = "".join(f" --extra {name}" for name in extras)
        return replace(found, setup=(f"uv sync --quiet{chosen}",), programs=(*found.programs, "uv"))
    if tree.has("poetry.lock"):
        check = tuple(f"poetry run {line.replace('python3', 'python', 1)}" for line in found.check)
        return replace(found, check=check, setup=("poetry install --quiet",), programs=(*found.programs, "poetry"))
    files = [name for name in _REQUIREMENTS if tree.has(name) and tree.text(name).strip()]
    groups = ndjson.mapping(_toml(tree, "pyproject.toml").get("dependency-groups"))
    named = [each for name in _EXTRAS for each in ndjson.sequence(groups.get(name)) if isinstance(each, str)]
    wanted = [f"--requirement {name}" for name in files] + [shlex.quote(each) for each in named]
    old = tree.has("setup.py") or re.search(r"^install_requires", tree.text("setup.cfg"), re.MULTILINE)
    if extras or ndjson.sequence(project.get("dependencies")) or old or (project and tree.has_folder("src")):
        wanted.append(f"--editable {shlex.quote('.[' + ','.join(extras) + ']') if extras else '.'}")
    if not wanted:
        return found
    declared = any(_mentions(tree.text(name), "pytest") for name in (*files, "pyproject.toml", "setup.cfg", "setup.py"))
    if uses_pytest and not declared:
        wanted.append("pytest")
    install = f".venv/bin/python -m pip install --quiet --disable-pip-version-check {' '.join(wanted)}"
    return replace(found, setup=("python3 -m venv .venv", install))


def _project(tree: _Tree) -> Mapping[str, object]:
    return ndjson.mapping(_toml(tree, "pyproject.toml").get("project"))


def _toml(tree: _Tree, name: str) -> Mapping[str, object]:
    with contextlib.suppress(ValueError):
        return tomllib.loads(tree.text(name))
    return {}


_NO_TEST = "no test specified"
"""What `npm init` writes where there are no tests."""
_LOCKS = {
    "pnpm-lock.yaml": ("pnpm", "pnpm install --frozen-lockfile --silent"),
    "yarn.lock": ("yarn", "yarn install --frozen-lockfile --silent"),
    "bun.lock": ("bun", "bun install --frozen-lockfile --silent"),
    "package-lock.json": ("npm", "npm ci --silent --no-audit --no-fund"),
    "npm-shrinkwrap.json": ("npm", "npm ci --silent --no-audit --no-fund"),
}


def _node(tree: _Tree) -> Toolchain | None:
    file = "package.json"
    if not tree.has(file):
        return None
    try:
        package = ndjson.mapping(json.loads(tree.text(file)))
    except ValueError:
        return Toolchain(file, "left out, because it is not valid JSON")
    script = ndjson.text(ndjson.mapping(package.get("scripts")).get("test"))
    if not script or _NO_TEST in script:
        return Toolchain(file, "it has no test script")
    # Without a lock file, npm would write one, and with it the next run would find changes that nobody made.
    unlocked = ("npm", "npm install --silent --no-audit --no-fund --no-package-lock")
    program, install = next((_LOCKS[name] for name in _LOCKS if tree.has(name)), unlocked)
    needs = any(ndjson.mapping(package.get(key)) for key in ("dependencies", "devDependencies", "optionalDependencies"))
    test = "bun run test" if program == "bun" else f"{program} --silent test"
    return Toolchain(
        file,
        "it has a test script",
        (f"CI=true {test}",),  # CI: test runners that would watch for changes run once
        (install,) if needs else (),
        (program,),
        ("npm", "npx", "pnpm", "yarn", "bun", "node"),
    )


def _cargo(tree: _Tree) -> Toolchain | None:
    if not tree.has("Cargo.toml"):
        return None
    everything = " --workspace" if "[workspace]" in tree.text("Cargo.toml") else ""
    return Toolchain(
        "Cargo.toml", "a Rust project", (f"cargo test --quiet{everything}",), programs=("cargo",), words=("cargo",)
    )


def _go(tree: _Tree) -> Toolchain | None:
    if not tree.has("go.mod"):
        return None
    return Toolchain("go.mod", "a Go module", ("go test ./...",), programs=("go",), words=("go",))


def _cmake(tree: _Tree) -> Toolchain | None:
    file = "CMakeLists.txt"
    if not tree.has(file):
        return None
    words = ("cmake", "ctest")
    build = ("cmake -S . -B build", "cmake --build build")
    if not re.search(
        r"^\s*(?:enable_testing\s*\(|include\s*\(\s*CTest\b)", tree.text(file), re.MULTILINE | re.IGNORECASE
    ):
        return Toolchain(file, "a CMake project without tests: the check only builds it", build, (), words[:1], words)
    test = "ctest --test-dir build --output-on-failure --no-tests=error"
    return Toolchain(file, "a CMake project with tests", (*build, test), programs=words, words=words)


def _ruby(tree: _Tree) -> Toolchain | None:
    if not tree.has("Gemfile"):
        return None
    words, bundle = ("bundle", "rake", "rspec"), ("bundle install --quiet",)
    if tree.has(".rspec") or tree.has_folder("spec"):
        return Toolchain("Gemfile", "specs for RSpec", ("bundle exec rspec",), bundle, ("bundle",), words)
    if tree.first("Rakefile", "rakefile", "Rakefile.rb"):
        return Toolchain("Gemfile", "a Rakefile", ("bundle exec rake test",), bundle, ("bundle",), words)
    return Toolchain("Gemfile", "a Ruby project, without specs or a Rakefile")


def _maven(tree: _Tree) -> Toolchain | None:
    if not tree.has("pom.xml"):
        return None
    words = ("mvn", "mvnw", "./mvnw")
    if tree.has("mvnw"):
        return Toolchain("pom.xml", "a Maven project with its own mvnw", ("./mvnw -q test",), words=words)
    return Toolchain("pom.xml", "a Maven project", ("mvn -q test",), programs=("mvn",), words=words)


_ECOSYSTEMS = (_python, _node, _cargo, _go, _cmake, _ruby, _maven)
