"""Globs: what they match, and that no pattern takes for ever."""

from __future__ import annotations

import fnmatch
import multiprocessing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.claude_cli.permissions.rules import compile_glob


@given(st.text("ab*?", min_size=1, max_size=8).filter(lambda text: "**" not in text), st.text("ab", max_size=10))
def test_within_a_name_a_glob_is_what_the_shell_takes_it_for(pattern: str, name: str) -> None:
    assert compile_glob(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern)


@pytest.mark.parametrize("pattern", ["*a" * 12 + "*b", "*?" * 12 + "*b", "*[!c]" * 12 + "*b", "*[ac]" * 12 + "*b"])
def test_many_stars_do_not_take_for_ever(pattern: str) -> None:
    """In a process of its own: the search holds the interpreter, so that nothing else could end it."""
    search = multiprocessing.get_context("fork").Process(target=compile_glob(pattern).matches, args=["a" * 250])
    search.start()
    search.join(20)
    ended = search.exitcode
    search.kill()
    search.join()
    assert ended == 0
