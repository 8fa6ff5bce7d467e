"""Where things are put that stood in the way: nothing is overwritten, and no link there is followed."""

from pathlib import Path

from ralph.tree.shelf import Shelf


def test_things_of_one_name_stand_beside_each_other(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "aside")
    for text in ("one", "two", "three"):
        (tmp_path / "file").write_text(text)
        shelf.put(tmp_path / "file", "deep/file")
    folder = tmp_path / "aside" / "1" / "deep"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "file": "one",
        "1.file": "two",
        "2.file": "three",
    }


def test_a_link_or_file_that_was_put_there_is_no_folder_to_put_things_in(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "plain").write_text("plain")
    shelf = Shelf(tmp_path / "aside")
    shelf.put(tmp_path / "link", "link")
    shelf.put(tmp_path / "plain", "plain")
    for name in ("link/a", "plain/b"):
        (tmp_path / "file").write_text(name)
        shelf.put(tmp_path / "file", name)
    assert list((tmp_path / "outside").iterdir()) == []
    folder = tmp_path / "aside" / "1"
    assert {path.name for path in folder.iterdir()} == {"link", "plain", "a", "b"}


def test_every_time_things_are_put_aside_has_its_own_folder(tmp_path: Path) -> None:
    for _ in range(2):
        (tmp_path / "file").touch()
        Shelf(tmp_path / "aside").put(tmp_path / "file", "file")
    assert {path.name for path in (tmp_path / "aside").iterdir()} == {"1", "2"}
