"""Glob and Grep on real trees; Grep with ripgrep and without. The wordings were measured on Claude Code 2.1.325."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from ralph.agent.tools import Desk
from tests.agent.conftest import Use
from tests.support import tools
from tests.support.rows import rows

FILES = {
    ".gitignore": "ignored/\n*.log\n!kept.log\n/top.txt\n",
    ".hidden/h.txt": "foo\n",
    "README.md": "# Foo\nfoo bar\nlast\n",
    "bin": "foo\0foo\n",
    "ignored/i.txt": "foo\n",
    "kept.log": "foo\n",
    "lost.log": "foo\n",
    "src/m0.py": "import os\n# foo 0\nclass A:\n    pass\n",
    "src/m1.py": "import os\n# foo 1\nclass A:\n    pass\n",
    "src/top.txt": "foo\n",
    "sub/.ignore": "never.txt\n",
    "sub/deep/never.txt": "foo\n",
    "sub/deep/x.txt": "foo\n\nFOO\nfoo foo\n",
    "top.txt": "foo\n",
    "wide.txt": "foo" + "x" * 1000 + "\n",
}


@pytest.fixture
def tree(here: Path) -> Path:
    """A repository whose files changed one after the other, in the order of their names."""
    subprocess.run(["git", "init", "-q"], cwd=here, check=True)
    for number, (name, content) in enumerate(FILES.items()):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(content)
        os.utime(here / name, (1700000000 + number, 1700000000 + number))
    return here


@pytest.fixture(params=["python", "ripgrep"])
def engine(request: pytest.FixtureRequest, desk: Desk, bin_dir: Path) -> str:
    """Let Grep search by itself, or with the ripgrep that claude carries."""
    path = "/nowhere"
    if request.param == "ripgrep":
        rg = bin_dir / "rg"
        rg.write_text(f'#!/bin/bash\nexec -a rg {tools.find("claude")} "$@"\n')
        rg.chmod(0o755)
        path = f"{bin_dir}:/usr/bin:/bin"
    desk.environment = {**desk.environment, "PATH": path}
    return str(request.param)


@rows(
    ("pattern", "names"),
    [
        ("**/*.py", ["src/m0.py", "src/m1.py"]),
        ("*.md", ["README.md"]),
        ("h.*", [".hidden/h.txt"]),
        ("src/*.{py,js}", ["src/m0.py", "src/m1.py"]),
        ("src/**", ["src/m0.py", "src/m1.py", "src/top.txt"]),
        ("m[0-9].py", ["src/m0.py", "src/m1.py"]),
        ("m[!0].py", ["src/m1.py"]),
        ("ignored/*", ["ignored/i.txt"]),
        ("/top.txt", []),
        ("src", []),
        ("../*", []),
        ("*.nope", []),
        ("?.txt", [".hidden/h.txt", "ignored/i.txt", "sub/deep/x.txt"]),
    ],
)
def test_glob_finds_by_name_oldest_first(use: Use, tree: Path, pattern: str, names: list[str]) -> None:
    pattern = str(tree / "nope" / "*") if pattern == "/top.txt" else pattern
    found = use("Glob", pattern=pattern)
    if "nope/" in pattern:
        assert found.content.startswith("Directory does not exist: ")
        return
    assert found.content == ("\n".join(names) or "No files found")
    assert isinstance(found.detail, dict)
    assert found.detail.pop("durationMs") >= 0
    count = {"numFiles": len(names), "truncated": False, "totalMatches": len(names), "countIsComplete": True}
    assert found.detail == {"filenames": names, **count}


def test_glob_in_a_folder_and_with_an_absolute_pattern(use: Use, tree: Path) -> None:
    both = "src/m0.py\nsrc/m1.py"
    assert use("Glob", pattern="*.py", path="src").content == both
    assert use("Glob", pattern=f"{tree}/src/*.py").content == both
    assert use("Glob", pattern=f"{tree}/src/m0.py").content == "src/m0.py"


def test_glob_refuses(use: Use, tree: Path) -> None:
    nope = tree / "nope"
    said = f"Directory does not exist: {nope}. Note: your current working directory is {tree}."
    assert use("Glob", pattern="*", path="nope").content == said
    assert use("Glob", pattern="*", path="README.md").content == f"Path is not a directory: {tree}/README.md"
    assert use("Glob", pattern="*.[p").content == (
        "Search failed — ripgrep rejected the pattern, glob, or file type without searching:\n"
        "rg: error parsing glob '*.[p': unclosed character class; missing ']'"
    )
    for arguments in ({"pattern": "*", "path": "/etc"}, {"pattern": "/etc/host*"}):
        refused = use("Glob", **arguments)
        assert refused.content == "Claude requested permissions to read from /etc, but you haven't granted it yet."


def test_glob_shows_a_hundred(use: Use, here: Path) -> None:
    for number in range(130):
        (here / f"f{number}.xx").touch()
        os.utime(here / f"f{number}.xx", (number, number))
    found = use("Glob", pattern="*.xx")
    lines = found.content.splitlines()
    assert lines[:2] == ["f0.xx", "f1.xx"]
    assert lines[99:] == [
        "f99.xx",
        "(Showing 100 of 130 matching files; 30 more are not listed. Narrow the pattern or path to see the rest.)",
    ]


FOUND = [
    ".hidden/h.txt",
    "README.md",
    "kept.log",
    "src/m0.py",
    "src/m1.py",
    "src/top.txt",
    "sub/deep/x.txt",
    "wide.txt",
]


def test_grep_lists_files_last_changed_first(use: Use, tree: Path, engine: str) -> None:
    found = use("Grep", pattern="foo")
    assert found.content == "\n".join(["Found 8 files", *reversed(FOUND)])
    assert found.detail == {
        "mode": "files_with_matches",
        "filenames": FOUND[::-1],
        "numFiles": 8,
        "totalFiles": 8,
    }
    part = use("Grep", pattern="foo", head_limit=2, offset=1)
    assert part.content == "Found 2 files limit: 2, offset: 1\nsub/deep/x.txt\nsrc/top.txt"
    assert isinstance(part.detail, dict)
    assert (part.detail["appliedLimit"], part.detail["appliedOffset"], part.detail["totalFiles"]) == (2, 1, 8)
    assert use("Grep", pattern="nomatch").content == "No files found"
    beyond = use("Grep", pattern="foo", offset=20).content
    assert beyond == "No entries at this offset. [Showing results with pagination = offset: 20]"


@rows(
    ("arguments", "content"),
    [
        ({"pattern": "foo", "path": "README.md"}, "2:foo bar"),
        ({"pattern": "foo", "glob": "*.md *.log", "-n": False}, "README.md:foo bar\nkept.log:foo\nlost.log:foo"),
        ({"pattern": "foo", "glob": "*.md,*.log"}, "README.md:2:foo bar\nkept.log:1:foo\nlost.log:1:foo"),
        ({"pattern": "foo", "glob": "!*.{txt,log,py}"}, "README.md:2:foo bar"),
        ({"pattern": "foo", "glob": "src/*.txt"}, "src/top.txt:1:foo"),
        ({"pattern": "FOO", "-i": True, "glob": "*.md"}, "README.md:1:# Foo\nREADME.md:2:foo bar"),
        (
            {"pattern": "class", "type": "py", "-C": 1},
            "src/m0.py-2-# foo 0\nsrc/m0.py:3:class A:\nsrc/m0.py-4-    pass\n--\n"
            "src/m1.py-2-# foo 1\nsrc/m1.py:3:class A:\nsrc/m1.py-4-    pass",
        ),
        (
            {"pattern": "class", "type": "py", "-A": 1, "-B": 2, "head_limit": 5},
            "src/m0.py-1-import os\nsrc/m0.py-2-# foo 0\nsrc/m0.py:3:class A:\nsrc/m0.py-4-    pass\n--\n\n"
            "[Showing results with pagination = limit: 5]",
        ),
        (
            {"pattern": "fo+", "-o": True, "path": "sub"},
            "sub/deep/x.txt:1:foo\nsub/deep/x.txt:4:foo\nsub/deep/x.txt:4:foo",
        ),
        (
            {"pattern": "foo.*FOO", "multiline": True, "path": "sub"},
            "sub/deep/x.txt:1:foo\nsub/deep/x.txt:2:\nsub/deep/x.txt:3:FOO",
        ),
        ({"pattern": "foo", "path": "wide.txt"}, "1:[Omitted long matching line]"),
        ({"pattern": "foo", "path": "bin"}, 'binary file matches (found "\\0" byte around offset 3)'),
        ({"pattern": "^$", "path": "sub/deep/x.txt"}, "2:"),
        ({"pattern": "(?<a>[[:digit:]])\\b", "type": "py"}, "src/m0.py:2:# foo 0\nsrc/m1.py:2:# foo 1"),
        ({"pattern": "-foo"}, "No matches found"),
        ({"pattern": "foo", "path": "lost.log"}, "1:foo"),
        ({"pattern": "foo", "path": "ignored"}, "ignored/i.txt:1:foo"),
    ],
)
def test_grep_shows_lines(use: Use, tree: Path, engine: str, arguments: dict[str, object], content: str) -> None:
    assert use("Grep", output_mode="content", **arguments).content == content


def test_grep_counts(use: Use, tree: Path, engine: str) -> None:
    counted = use("Grep", pattern="foo", output_mode="count", glob="*.{md,txt}")
    # A glob asks for files expressly: also for those that are ignored, though not for those in an ignored folder.
    lines = [".hidden/h.txt:1", "README.md:1", "src/top.txt:1", "sub/deep/never.txt:1", "sub/deep/x.txt:2", "top.txt:1"]
    lines.append("wide.txt:1")
    assert counted.content == "\n".join([*lines, "", "Found 8 total occurrences across 7 files."])
    assert counted.detail == {
        "mode": "count",
        "numFiles": 7,
        "filenames": [],
        "content": "\n".join(lines),
        "numMatches": 8,
    }
    one = use("Grep", pattern="foo", output_mode="count", path="README.md").content
    assert one == "README.md:1\n\nFound 1 total occurrence across 1 file."
    none = use("Grep", pattern="nomatch", output_mode="count").content
    assert none == "No matches found\n\nFound 0 total occurrences across 0 files."
    cut = use("Grep", pattern="foo", output_mode="count", glob="*.py", head_limit=1).content
    assert cut == "src/m0.py:1\n\nFound 2 total occurrences across 2 files. with pagination = limit: 1"


def test_grep_refuses(use: Use, tree: Path, engine: str) -> None:
    head = "Search failed — ripgrep rejected the pattern, glob, or file type without searching:\nrg: "
    assert use("Grep", pattern="(").content.startswith(f"{head}regex parse error:\n    ")
    assert use("Grep", pattern="x", type="nosuch").content == f"{head}unrecognized file type: nosuch"
    said = f"Path does not exist: {tree}/nope. Note: your current working directory is {tree}."
    assert use("Grep", pattern="x", path="nope").content == said
    refused = use("Grep", pattern="root", path="/etc/passwd").content
    assert refused == "Claude requested permissions to read from /etc/passwd, but you haven't granted it yet."


def test_grep_shows_250_lines_and_keeps_long_output_in_a_file(use: Use, here: Path, desk: Desk, engine: str) -> None:
    (here / "many.txt").write_text("many\n" * 5000)
    usual = use("Grep", pattern="many", output_mode="content").content
    assert usual.count("\n") == 251
    assert usual.endswith("\nmany.txt:250:many\n\n[Showing results with pagination = limit: 250]")
    every = use("Grep", pattern="many", output_mode="content", head_limit=0).content
    assert every.startswith("<persisted-output>\nOutput too large (91.7KB). Full output saved to: ")
    (kept,) = desk.scratch.iterdir()
    assert kept.read_text().endswith("\nmany.txt:5000:many")


def test_grep_looks_where_the_shell_stands(use: Use, tree: Path, engine: str, desk: Desk) -> None:
    desk.cwd = tree / "sub"
    assert use("Grep", pattern="foo").content == "Found 1 file\ndeep/x.txt"
    shown = use("Grep", pattern="foo", path="../src", output_mode="content", type="py").content
    assert shown == f"{tree}/src/m0.py:2:# foo 0\n{tree}/src/m1.py:2:# foo 1"


@pytest.fixture
def endless(here: Path, desk: Desk) -> str:
    """A pattern that Python's expressions never finish: they hear nothing meanwhile, only a process can be stopped."""
    desk.environment = {**desk.environment, "PATH": "/nowhere"}
    (here / "a.txt").write_text("a" * 200 + "b\n")
    return "(a+)+$"


@pytest.mark.long  # it keeps a core busy for the 20 seconds
def test_a_pattern_that_takes_for_ever_is_ended(use: Use, desk: Desk, endless: str) -> None:
    assert use("Grep", pattern=endless).content == "Ripgrep search timed out after 20 seconds"
    assert not list(desk.scratch.iterdir())


def test_a_search_that_takes_for_ever_ends_with_the_session(use: Use, desk: Desk, endless: str) -> None:
    threading.Timer(1.0, desk.stop.set).start()
    assert use("Grep", pattern=endless).is_error
    assert not list(desk.scratch.iterdir())


def test_a_search_without_ripgrep_shows_no_hidden_file(use: Use, tree: Path, desk: Desk) -> None:
    desk.hides = lambda path: path.name == "m0.py"
    shown = use("Grep", pattern="class", type="py", output_mode="content", **{"-A": 1}).content
    assert shown == "src/m1.py:3:class A:\nsrc/m1.py-4-    pass"
    assert use("Grep", pattern="foo", path="src/m0.py", output_mode="content").content == "No matches found"


def test_a_range_the_wrong_way_round_is_no_glob(use: Use, tree: Path, desk: Desk) -> None:
    desk.environment = {**desk.environment, "PATH": "/nowhere"}
    head = (
        "Search failed — ripgrep rejected the pattern, glob, or file type without searching:\nrg: error parsing glob "
    )
    assert use("Glob", pattern="[z-a]").content.startswith(f"{head}'[z-a]': ")
    assert use("Grep", pattern="foo", glob="[z-a]").content.startswith(f"{head}'[z-a]': ")
    (tree / "sub" / ".ignore").write_text("[z-a]\nnever.txt\n")
    assert use("Grep", pattern="foo", path="sub").content == "Found 1 file\nsub/deep/x.txt"
