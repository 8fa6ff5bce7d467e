"""Files as they were: what cannot be read is left out, what cannot be written is a fault."""

import os
from pathlib import Path

import pytest

from ralph import jsonline
from ralph.tree.keptfiles import KeptFiles
from ralph.tree.shelf import Shelf

pytestmark = pytest.mark.long


def test_what_was_recorded_is_recalled(tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "deep").mkdir(parents=True)
    (base / "deep" / os.fsdecode(b"\xff")).write_bytes(b"\0\xff")
    (base / "link").symlink_to("./nowhere/")
    kept = KeptFiles(base, tmp_path / "copies")
    kept.keep(["deep/" + os.fsdecode(b"\xff"), "link"], ["deep"])
    other = KeptFiles(base, tmp_path / "copies")
    other.recall(jsonline.decode(jsonline.encode(kept.recorded())))
    assert other == kept


@pytest.mark.parametrize("damage", [None, [], {}, {"files": {}}])
def test_what_is_damaged_is_not_recalled(tmp_path: Path, damage: object) -> None:
    with pytest.raises((ValueError, KeyError)):
        KeptFiles(tmp_path, tmp_path / "copies").recall(damage)


def test_what_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine\n")
    (tmp_path / "copies" / "file").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        KeptFiles(tmp_path, tmp_path / "copies").keep(["file"])


def test_a_file_that_is_written_to_meanwhile_is_kept_as_it_was_copied(tmp_path: Path) -> None:
    """Of `/proc/self/status` lstat says that it is empty, as of a file that grew since."""
    kept = KeptFiles(Path("/proc/self"), tmp_path / "copies")
    kept.keep(["status"])
    assert kept.files["status"].size == (tmp_path / "copies" / "status").stat().st_size > 0


def test_a_file_that_fails_when_it_is_read_is_left_out_and_left_alone(tmp_path: Path) -> None:
    kept = KeptFiles(Path("/proc/self"), tmp_path / "copies", ("mem", "status"))
    kept.keep(kept.found())  # of `mem`, nothing is at address 0
    assert kept.unread == {"mem"}
    assert list(kept.files) == ["status"]
    assert not (tmp_path / "copies" / "mem").exists()
    assert kept.added() == []


def test_one_that_is_kept_comes_back(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "file").write_text("mine\n")
    kept = KeptFiles(base, tmp_path / "copies")
    kept.keep(["file", "not there"])
    (base / "file").write_text("theirs\n")
    assert kept.restore(Shelf(tmp_path / "aside")) == [("file", "changed")]
    assert (base / "file").read_text() == "mine\n"
    assert (tmp_path / "aside" / "1" / "file").read_text() == "theirs\n"
