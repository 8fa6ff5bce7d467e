"""Which paths a rule covers, measured on Claude Code 2.1.325; and that no pattern takes for ever."""

from __future__ import annotations

import fnmatch
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.claude_cli.permissions.rules import Behaviour, PermissionRule

BASE = Path("/base")
HOME = Path("/home/me")


def covers(pattern: str, path: str, behaviour: Behaviour = "deny") -> bool:
    return PermissionRule(behaviour, "Read", pattern, BASE).covers_path(BASE / path, HOME)


@pytest.mark.parametrize(
    ("pattern", "covered", "free"),
    [
        ("Deny/**", ["Deny", "Deny/x", "deny/x", "DENY/a/b"], ["b/Deny/x", "Denyx"]),
        ("*.KEY", ["A.key", "b/c.key"], ["key"]),
        ("**/lock*", ["lockfile", "b/LOCKED"], ["unlock"]),
        ("deep/*/x.txt", ["deep/1/x.txt"], ["deep/1/2/x.txt", "deep/x.txt"]),
        ("/root.txt", ["root.txt"], ["b/root.txt"]),
        ("z/", ["z", "z/a", "b/z/a"], ["zz"]),
        ("{p,q}.txt", ["{p,q}.txt"], ["p.txt"]),
        ("!x", ["y"], []),  # what cannot be understood opens nothing
        ("[z-a]", ["y"], []),
        ("//etc/**", ["/etc", "/etc/passwd"], ["etc/passwd"]),
        ("~/.ssh/**", ["/home/me/.ssh", "/home/me/.ssh/id"], [".ssh/id"]),
        (".env", [".env", "b/.env"], [".envrc"]),
        ("./dot.txt", ["dot.txt", "b/dot.txt"], ["dot.text"]),
        ("a\\*b", ["a*b"], ["axb"]),
    ],
)
def test_a_rule_covers_what_claude_says_it_covers(pattern: str, covered: list[str], free: list[str]) -> None:
    assert [path for path in covered if not covers(pattern, path)] == []
    assert [path for path in free if covers(pattern, path)] == []


@pytest.mark.parametrize("pattern", ["!x", "[z-a]", "a[", "\\", "#x"])
def test_a_pattern_that_is_none_opens_nothing(pattern: str) -> None:
    for path in ("x", "a", pattern.strip("!")):
        assert not covers(pattern, path, "allow")


def test_what_is_allowed_by_a_path_from_here_is_not_allowed_deeper_down() -> None:
    assert covers("./dot.txt", "dot.txt", "allow")
    assert not covers("./dot.txt", "b/dot.txt", "allow")


@given(st.text("ab*?", min_size=1, max_size=8).filter(lambda text: "**" not in text), st.text("ab", max_size=10))
def test_within_a_name_a_pattern_is_what_the_shell_takes_it_for(pattern: str, name: str) -> None:
    if name:
        assert covers(pattern, name) == fnmatch.fnmatchcase(name, pattern)


@pytest.mark.parametrize("pattern", ["*a" * 12 + "*b", "*?" * 12 + "*b", "*[!c]" * 12 + "*b", "*[ac]" * 12 + "*b"])
def test_many_stars_do_not_take_for_ever(pattern: str) -> None:
    """In a process of its own: the search holds the interpreter, so that nothing else could end it."""
    search = multiprocessing.get_context("fork").Process(target=covers, args=[pattern, "a" * 250])
    search.start()
    search.join(20)
    ended = search.exitcode
    search.kill()
    search.join()
    assert ended == 0
