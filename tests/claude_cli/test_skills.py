"""Skills and commands, and the tool that fetches them. Measured on Claude Code 2.1.325."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.claude_cli.desk import Access, Desk
from ralph.claude_cli.instructions import available, find_skill, listing
from tests.claude_cli.conftest import Use

ALPHA = "---\nname: alpha\ndescription: does alpha\n---\nALPHA body $ARGUMENTS and $1 ${CLAUDE_SKILL_DIR}\n"


@pytest.fixture
def home(world: Path) -> Path:
    return world / "home"


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / ".claude" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def laid(here: Path, home: Path, desk: Desk) -> Path:
    """A working directory and a home with skills and commands, and the desk that knows them."""
    lay(
        here,
        {
            "skills/alpha/SKILL.md": ALPHA,
            "skills/beta/SKILL.md": "---\nname: other-name\ndescription: |\n  multi\n  line\n"
            "allowed-tools: Bash(make:*), Read\n---\nBETA\n",
            "skills/gamma/SKILL.md": "no front matter\nsecond\n",
            "skills/hid/SKILL.md": "---\nname: hid\ndescription: hidden\ndisable-model-invocation: true\n---\nHID\n",
            "commands/cmdx.md": "---\ndescription: a command: with a colon\nargument-hint: [x]\n---\n"
            "CMD $ARGUMENTS|$1|$2|$0|$ARGUMENTS[1]\n!`echo shell`\n",
            "commands/ns/deep.md": "DEEP\n",
        },
    )
    lay(here.parent, {"skills/above/SKILL.md": "ABOVE\n", "skills/alpha/SKILL.md": "not this\n"})
    lay(home, {"skills/usk/SKILL.md": "---\ndescription: 'user skill'\n---\nUSER\n", "commands/ucmd.md": "UCMD\n"})
    desk.skills = available(here, home)
    return here


@pytest.mark.spec("1.7.2-cd")
def test_skills_are_found_at_home_here_and_above(laid: Path, home: Path) -> None:
    skills = available(laid, home)
    assert list(skills) == ["usk", "alpha", "beta", "gamma", "hid", "above", "cmdx", "ns:deep", "ucmd"]
    assert listing(skills.values()) == (
        "The following skills are available for use with the Skill tool:\n\n"
        "- usk: user skill\n- alpha: does alpha\n- beta (other-name): multi line\n- gamma: no front matter\n"
        "- above: ABOVE\n- cmdx: a command: with a colon\n- ns:deep: DEEP\n- ucmd: UCMD"
    )
    assert list(available(laid, home, ["user"])) == ["usk", "ucmd"]
    assert "usk" not in available(laid, home, ["project"])
    assert listing([]) == ""


def test_a_skill_is_launched_and_its_text_follows(laid: Path, use: Use) -> None:
    launched = use("Skill", skill="alpha", args="x y")
    assert (launched.content, launched.is_error) == ("Launching skill: alpha", False)
    assert launched.detail == {"success": True, "commandName": "alpha"}
    base = laid / ".claude" / "skills" / "alpha"
    assert launched.follow_up == f"Base directory for this skill: {base}\n\nALPHA body x y and y {base}\n"


def test_arguments_go_where_they_are_wanted(laid: Path, use: Use) -> None:
    told = use("Skill", skill="/cmdx", args="one 'two three'").follow_up
    assert told == "CMD one 'two three'|two three|$2|one|two three\n!`echo shell`\n"
    assert use("Skill", skill="alpha").follow_up.partition("\n\n")[2].startswith("ALPHA body  and $1 ")
    assert use("Skill", skill="ns:deep", args="more").follow_up == "DEEP\n\n\nARGUMENTS: more"
    assert use("Skill", skill="ucmd", args="it's").follow_up == "UCMD\n\n\nARGUMENTS: it's"


def test_a_skill_goes_by_its_folders_name_and_its_own(laid: Path, use: Use) -> None:
    assert use("Skill", skill="beta").detail == {
        "success": True,
        "commandName": "beta",
        "allowedTools": ["Bash(make:*)", "Read"],
    }
    again = use("Skill", skill="other-name")
    assert again.content == "Launching skill: other-name"
    assert again.follow_up == "Skill /other-name is already loaded above; instructions unchanged."


def test_a_second_call_says_that_it_is_one(laid: Path, use: Use) -> None:
    use("Skill", skill="alpha")
    again = use("Skill", skill="alpha", args="new").follow_up
    assert again.startswith("(Re-invocation of /alpha — the skill instructions were previously loaded; ")
    assert "ALPHA body new" in again


def test_what_cannot_be_launched(laid: Path, use: Use) -> None:
    assert use("Skill", skill="nosuch").content == "<tool_use_error>Unknown skill: nosuch</tool_use_error>"
    assert (
        use("Skill", skill="alpa").content
        == "<tool_use_error>Unknown skill: alpa. Did you mean alpha?</tool_use_error>"
    )
    assert use("Skill", skill="").content == "<tool_use_error>Invalid skill format: </tool_use_error>"
    hidden = use("Skill", skill="hid").content
    assert hidden.startswith(
        "<tool_use_error>Skill hid cannot be used with Skill tool due to disable-model-invocation. "
    )


def test_a_skills_folder_may_be_read_but_not_written(laid: Path, home: Path, desk: Desk) -> None:
    folder = home / ".claude" / "skills" / "usk"
    fresh = Desk(laid, environment={}, scratch=laid.parent / "scratch", skills=available(laid, home))
    assert fresh.refusal(folder / "notes.md", Access.READ) is None
    assert fresh.refusal(folder / "notes.md", Access.WRITE) is not None
    assert desk.refusal(folder / "notes.md", Access.READ) is not None


def test_broken_skills_do_no_harm(here: Path, home: Path) -> None:
    lay(
        here, {"skills/a/SKILL.md": "---\nname: [\n", "skills/b/SKILL.md": "", "commands/c.md": "---\n: :\n  x\n---\nC"}
    )
    (here / ".claude" / "skills" / "d").mkdir()
    (here / ".claude" / "skills" / "d" / "SKILL.md").write_bytes(b"\xff\0")
    skills = available(here, home)
    assert list(skills) == ["a", "b", "d", "c"]
    assert find_skill(skills, "zzz") is None


def test_a_skill_that_a_link_leads_out_of_its_project_is_none(here: Path, home: Path) -> None:
    (home / "keys").mkdir()
    for name in ("id_rsa", "SKILL.md"):
        (home / "keys" / name).write_text("secret\n")
    lay(here, {"skills/in/SKILL.md": "IN\n", "skills/file/x": "", "commands/in2.md": "IN\n", "kept/SKILL.md": "KEPT\n"})
    claude = here / ".claude"
    (claude / "skills" / "file" / "SKILL.md").symlink_to(home / "keys" / "id_rsa")
    (claude / "skills" / "folder").symlink_to(home / "keys")
    (claude / "skills" / "loop").symlink_to("loop")
    (claude / "skills" / "kept").symlink_to("../kept")
    (claude / "commands" / "file2.md").symlink_to(home / "keys" / "id_rsa")
    (claude / "commands" / "loop2.md").symlink_to("loop2.md")
    known = available(here, home)
    assert list(known) == ["in", "kept", "in2"]
    desk = Desk(here, environment={}, scratch=here.parent / "scratch", skills=known)
    assert desk.refusal(home / "keys" / "id_rsa", Access.READ) is not None


def test_a_linked_folder_of_skills_is_not_followed_out_of_the_project(here: Path, home: Path) -> None:
    lay(home / "other", {"skills/s/SKILL.md": "secret\n", "commands/c.md": "secret\n"})
    (here / ".claude").mkdir()
    for name in ("skills", "commands"):
        (here / ".claude" / name).symlink_to(home / "other" / ".claude" / name)
    assert list(available(here, home)) == []


def test_the_users_own_links_lead_where_the_user_wants(here: Path, home: Path) -> None:
    lay(home / "dots", {"skills/mine/SKILL.md": "MINE\n"})
    (home / "dots" / ".claude" / "skills" / "out").symlink_to(here)
    (here / "SKILL.md").write_text("OUT\n")
    (home / ".claude").symlink_to(home / "dots" / ".claude")
    assert list(available(here, home)) == ["mine", "out"]
