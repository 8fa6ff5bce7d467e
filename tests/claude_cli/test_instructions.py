"""CLAUDE.md, its imports, and AGENTS.md. Measured on Claude Code 2.1.325."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.claude_cli.instructions import instructions
from ralph.system.instruction_files import imports_in, read_memory
from tests.support.rows import rows


@pytest.fixture
def home(world: Path) -> Path:
    (world / "home" / ".claude").mkdir()
    return world / "home"


def lay(folder: Path, **files: str) -> None:
    """Write files; `__` in a name is a slash, and every name ends in .md."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def texts(here: Path, home: Path) -> list[str]:
    return [memory.text for memory in read_memory(here, home, top=here.parent)]


def test_no_folder_above_the_top_is_read(here: Path, home: Path) -> None:
    lay(here.parent, CLAUDE="above\n")
    lay(here, CLAUDE="project\n")
    assert [memory.text for memory in read_memory(here, home, top=here)] == ["project"]


def test_the_general_comes_before_the_particular(here: Path, home: Path) -> None:
    lay(home / ".claude", CLAUDE="user @inc.md\n", inc="user's import\n", rules__u="user's rule\n")
    lay(here.parent, CLAUDE="parent\n")
    lay(here, CLAUDE="project\n", CLAUDE__local="x", AGENTS="agents\n", sub__CLAUDE="below\n")
    (here / "CLAUDE.local.md").write_text("local\n")
    lay(here / ".claude", CLAUDE="dot\n", rules__deep__r="rule\n", rules__some="---\npaths: src/**\n---\nnot always\n")
    found = read_memory(here, home, top=here.parent)
    expected = ["user @inc.md", "user's import", "user's rule", "parent", "project", "dot", "rule", "local"]
    assert [memory.text for memory in found] == expected
    assert [memory.kind for memory in found] == ["user"] * 3 + ["project"] * 4 + ["local"]


@pytest.mark.spec("1.7.1-c")
def test_it_is_told_with_path_and_kind(here: Path, home: Path) -> None:
    assert instructions(here, home, top=here.parent) == []
    lay(here, CLAUDE="# Proj\n@one.md\n", one="ONE\n")
    (here / "CLAUDE.local.md").write_text("LOCAL\n")
    assert instructions(here, home, top=here.parent) == [
        "Codebase and user instructions are shown below. Be sure to adhere to these instructions. IMPORTANT: These "
        "instructions OVERRIDE any default behavior and you MUST follow them exactly as written.\n\n"
        f"Contents of {here}/CLAUDE.md (project instructions, checked into the codebase):\n\n# Proj\n@one.md\n\n"
        f"Contents of {here}/one.md (project instructions, checked into the codebase):\n\nONE\n\n"
        f"Contents of {here}/CLAUDE.local.md (user's private project instructions, not checked in):\n\nLOCAL"
    ]


@pytest.mark.parametrize("instead", ["CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", "../CLAUDE.md"])
def test_agents_md_is_read_only_where_there_is_nothing_else(here: Path, home: Path, instead: str) -> None:
    lay(home / ".claude", CLAUDE="user\n")
    lay(here.parent, AGENTS="parent's\n")
    lay(here, AGENTS="agents @x.md\n", x="imported\n")
    assert texts(here, home) == ["user", "parent's", "agents @x.md", "imported"]
    (here / instead).parent.mkdir(exist_ok=True)
    (here / instead).write_text("claude\n")
    assert texts(here, home) == ["user", "claude"]


def test_imports_go_five_files_deep_and_never_round(here: Path, home: Path) -> None:
    lay(here, CLAUDE="@d1.md", **{f"d{n}": f"D{n} @d{n + 1}.md @CLAUDE.md" for n in range(1, 9)})
    assert [text.partition(" ")[0] for text in texts(here, home)] == ["@d1.md", "D1", "D2", "D3", "D4"]


@rows(
    ("text", "paths"),
    [
        ("@a.md and @b.md", ["a.md", "b.md"]),
        ("- @a.md\n**@b.md**\n@c\\ d.md\n@e.md#part", ["a.md", "b.md", "c d.md", "e.md"]),
        ("(@a.md) me@example.org", []),
        ("`@a.md` <!-- @b.md -->", []),
        ("```\n@a.md\n```\n@b.md", ["b.md"]),
        ("~~~~ md\n@a.md\n~~~\n@b.md\n~~~~\n@c.md", ["c.md"]),
        ("````\n```\n@a.md\n```\n````", []),
        ("    @a.md\n\t@b.md", []),
        ("```\n@never.md", []),
        ("@", []),
    ],
)
def test_what_is_an_import(text: str, paths: list[str]) -> None:
    assert imports_in(text) == paths


def test_a_repository_shows_nothing_from_outside_it(here: Path, home: Path) -> None:
    lay(here.parent, outside="secret\n", CLAUDE="parent @outside.md\n")
    lay(home, secret="secret\n")
    lay(here, CLAUDE="@../outside.md @~/secret.md @link.md @/etc/hostname @sub @bin.png @missing.md\n", sub__x="x")
    (here / "bin.png").write_text("x")
    (here / "link.md").symlink_to(here.parent / "outside.md")
    (here / "CLAUDE.local.md").symlink_to(here.parent / "outside.md")
    assert [text.partition(" ")[0] for text in texts(here, home)] == ["parent", "@../outside.md"]


def test_a_users_own_memory_may_import_from_anywhere(here: Path, home: Path) -> None:
    lay(here.parent, outside="mine\n")
    lay(home / ".claude", CLAUDE=f"@{here.parent}/outside.md")
    assert texts(here, home)[1:] == ["mine"]


def test_claude_md_may_be_a_link_to_agents_md(here: Path, home: Path) -> None:
    lay(here, AGENTS="agents\n")
    (here / "CLAUDE.md").symlink_to("AGENTS.md")
    assert texts(here, home) == ["agents"]


def test_only_the_sources_asked_for_are_read(here: Path, home: Path) -> None:
    lay(home / ".claude", CLAUDE="user\n")
    lay(here, CLAUDE="project\n")
    (here / "CLAUDE.local.md").write_text("local\n")
    assert [memory.text for memory in read_memory(here, home, ["user"], top=here.parent)] == ["user"]
    assert [memory.text for memory in read_memory(here, home, ["project", "local"], top=here.parent)] == [
        "project",
        "local",
    ]
    assert read_memory(here, home, [], top=here.parent) == []


def test_a_home_above_the_working_directory_is_read_once(world: Path) -> None:
    home = world / "home"
    lay(home / ".claude", CLAUDE="user\n")
    (home / "work").mkdir()
    assert [(memory.text, memory.kind) for memory in read_memory(home / "work", home, top=home.parent)] == [
        ("user", "user")
    ]


def test_broken_files_do_no_harm(here: Path, home: Path) -> None:
    (here / "CLAUDE.md").write_bytes(b"\xff\xfe caf\xe9\n")
    (here / "CLAUDE.local.md").mkdir()
    assert len(read_memory(here, home, top=here.parent)) == 1


def test_rules_that_a_link_leads_out_of_the_project_are_none(here: Path, home: Path) -> None:
    lay(home / "notes", secret="secret\n", deep__more="secret\n")
    lay(here / ".claude", other__r="ours\n")
    rules = here / ".claude" / "rules"
    rules.symlink_to(home / "notes")
    assert texts(here, home) == []
    rules.unlink()
    rules.mkdir()
    (rules / "a.md").symlink_to(home / "notes" / "secret.md")
    (rules / "loop.md").symlink_to("loop.md")
    (rules / "ours.md").symlink_to("../other/r.md")
    assert texts(here, home) == ["ours"]


def test_a_linked_dot_claude_shows_nothing_from_outside(here: Path, home: Path) -> None:
    lay(home / "notes", CLAUDE="secret\n", rules__r="secret\n")
    (here / ".claude").symlink_to(home / "notes")
    assert texts(here, home) == []


def test_rules_below_a_linked_working_directory_are_read(here: Path, home: Path) -> None:
    lay(here / ".claude", rules__r="rule\n")
    (here.parent / "alias").symlink_to(here)
    assert texts(here.parent / "alias", home) == ["rule"]


def test_rules_and_a_claude_md_of_comments_leave_agents_md_in_force(here: Path, home: Path) -> None:
    """As 2.1.325 does; a comment's import is none."""
    lay(here, AGENTS="agents\n", CLAUDE="<!-- @AGENTS.md -->\n")
    lay(here / ".claude", rules__r="rule\n")
    assert [memory.text for memory in read_memory(here, home, top=here)] == ["rule", "agents"]
