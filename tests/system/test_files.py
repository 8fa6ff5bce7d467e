"""Removing for good: every kind of thing, what may not be written to, and never what a link leads to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ralph.queue.paths import queue_paths
from ralph.system.files import remove_tree


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Somebody's own files, which others may read."""
    place = tmp_path / "documents"
    (place / "shared").mkdir(parents=True)
    (place / "shared" / "letter.txt").write_text("dear")
    for folder in (place, place / "shared"):
        folder.chmod(0o755)
    return place


def untouched(documents: Path) -> bool:
    modes = {mode(documents), mode(documents / "shared")}
    return modes == {0o755} and (documents / "shared" / "letter.txt").read_text() == "dear"


def test_a_link_goes_and_what_it_leads_to_stays_as_it_is(tmp_path: Path, documents: Path) -> None:
    link = tmp_path / ".evil"
    link.symlink_to(documents)
    remove_tree(link)
    assert not os.path.lexists(link)
    assert untouched(documents)


def test_a_link_that_leads_nowhere_goes(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    remove_tree(link)
    assert not os.path.lexists(link)


def test_a_file_and_a_pipe_go_and_nothing_need_be_there(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    for name in (".DS_Store", "pipe", "none"):
        remove_tree(tmp_path / name)
        assert not os.path.lexists(tmp_path / name)


def test_what_is_read_only_goes_but_no_link_in_it_is_followed(tmp_path: Path, documents: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "built" / "deep").mkdir(parents=True)
    (tree / "built" / "deep" / "file").write_text("x")
    (tree / "built" / "to").symlink_to(documents)
    (tree / "hidden").mkdir()
    (tree / "hidden" / "file").write_text("x")
    (tree / "hidden").chmod(0)
    for folder in (tree / "built" / "deep", tree / "built", tree):
        folder.chmod(0o500)
    remove_tree(tree)
    assert not os.path.lexists(tree)
    assert untouched(documents)


def test_a_worker_that_begins_clears_its_place_with_the_same_care(tmp_path: Path, documents: Path) -> None:
    place = queue_paths(tmp_path, "queue")
    clones = place.root / "clones"
    (clones / ".g1-x.new" / "built").mkdir(parents=True)
    (clones / ".g1-x.new" / "built" / "file").write_text("x")
    (clones / ".g1-x.new" / "built").chmod(0o500)
    (clones / ".evil").symlink_to(documents)
    (clones / ".DS_Store").write_text("x")
    (clones / "g1-x").mkdir()
    place.checkouts.symlink_to(documents)
    place.clear()
    assert list(clones.iterdir()) == [clones / "g1-x"]
    assert untouched(documents)
