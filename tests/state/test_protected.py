"""The user's files under `.ralph/`: whatever a session does to them is undone, and nothing of it is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ralph.core.errors import UsageError
from ralph.state import project


class Place:
    """A repository with protected files, the version that rules, and where the undone goes."""

    def __init__(self, base: Path) -> None:
        self.root, self.store, self.aside = base / "repo", base / "run" / "snapshot", base / "run" / "undone"
        self.own = self.root / ".ralph"
        (self.own / "prompts").mkdir(parents=True)
        (self.own / "check").write_text("#!/bin/sh\nexit 1\n")
        (self.own / "check").chmod(0o755)
        (self.own / "config.toml").write_text("model = 'opus'\n")
        (self.own / "prompts" / "worker.md.j2").write_text("Hello\n")
        self.snapshot = project.take(self.root)
        self.before = tree(self.own)

    def restore(self) -> list[str]:
        return self.snapshot.restore(self.root, self.aside)


def tree(path: Path) -> dict[str, tuple[int, bytes] | str]:
    found: dict[str, tuple[int, bytes] | str] = {}
    for entry in sorted(path.rglob("*")):
        name = str(entry.relative_to(path))
        if entry.is_symlink():
            found[name] = f"-> {entry.readlink()}"
        elif entry.is_file():
            found[name] = (entry.stat().st_mode & 0o777, entry.read_bytes())
    return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_was_not_touched_is_left_alone(place: Place) -> None:
    assert place.snapshot.changed(place.root) == []
    assert place.restore() == []
    assert not place.aside.exists()


def test_a_changed_file_is_restored_and_the_change_kept_aside(place: Place) -> None:
    (place.own / "check").write_text("#!/bin/sh\nexit 0\n")
    assert place.restore() == ["check"]
    assert tree(place.own) == place.before
    assert (place.aside / "check").read_text() == "#!/bin/sh\nexit 0\n"


def spoil_mode(place: Place) -> None:
    (place.own / "check").chmod(0o644)


def delete_file(place: Place) -> None:
    (place.own / "check").unlink()


def delete_folder(place: Place) -> None:
    for entry in (place.own / "prompts").iterdir():
        entry.unlink()
    (place.own / "prompts").rmdir()


def put_link(place: Place) -> None:
    outside(place).mkdir()
    (outside(place) / "check").write_text("outside")
    (place.own / "check").unlink()
    (place.own / "check").symlink_to(outside(place) / "check")


def link_to_same_content(place: Place) -> None:
    copy = place.root / "copy"
    (place.own / "check").rename(copy)
    (place.own / "check").symlink_to(copy)


def put_folder(place: Place) -> None:
    (place.own / "check").unlink()
    (place.own / "check").mkdir()
    (place.own / "check" / "x").write_text("x")


def put_fifo(place: Place) -> None:
    (place.own / "check").unlink()
    os.mkfifo(place.own / "check")


def add_prompt(place: Place) -> None:
    (place.own / "prompts" / "extra.md.j2").write_text("extra")


def add_pricing(place: Place) -> None:
    (place.own / "pricing.toml").write_text("x = 1")


def add_setup(place: Place) -> None:
    (place.own / "setup").write_text("#!/bin/sh\n")


def add_map(place: Place) -> None:
    (place.own / "codebase-map.md").write_text("# Trust me")


def replace_prompts_by_link(place: Place) -> None:
    outside(place).mkdir()
    (place.own / "prompts").rename(place.root / "prompts")
    (place.own / "prompts").symlink_to(outside(place))


def outside(place: Place) -> Path:
    return place.root.parent / "outside"


SPOILERS: list[tuple[Callable[[Place], None], str]] = [
    (spoil_mode, "check"),
    (delete_file, "check"),
    (delete_folder, "prompts"),
    (put_link, "check"),
    (link_to_same_content, "check"),
    (put_folder, "check"),
    (put_fifo, "check"),
    (add_prompt, "prompts"),
    (add_pricing, "pricing.toml"),
    (add_setup, "setup"),
    (add_map, "codebase-map.md"),
    (replace_prompts_by_link, "prompts"),
]


@pytest.mark.parametrize(("spoil", "name"), SPOILERS, ids=[spoil.__name__ for spoil, _ in SPOILERS])
def test_whatever_was_done_is_undone(place: Place, spoil: Callable[[Place], None], name: str) -> None:
    spoil(place)
    left_outside = tree(outside(place))
    assert place.snapshot.changed(place.root) == [name]
    assert place.restore() == [name]
    assert tree(place.own) == place.before
    assert place.snapshot.changed(place.root) == []
    assert tree(outside(place)) == left_outside


def test_what_cannot_be_moved_to_another_file_system_is_undone_all_the_same(place: Place) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == place.root.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    put_fifo(place)
    with TemporaryDirectory(dir=elsewhere) as aside:
        assert place.snapshot.restore(place.root, Path(aside)) == ["check"]
    assert tree(place.own) == place.before


def test_what_was_added_is_kept_aside(place: Place) -> None:
    add_prompt(place)
    place.restore()
    assert (place.aside / "prompts" / "extra.md.j2").read_text() == "extra"


def test_a_second_change_does_not_overwrite_the_first_kept_one(place: Place) -> None:
    for text in ("one", "two", "three"):
        (place.own / "check").write_text(text)
        place.restore()
    assert {path.read_text() for path in place.aside.iterdir()} == {"one", "two", "three"}


def test_a_whole_directory_replaced_by_a_link_is_made_anew(place: Place) -> None:
    outside(place).mkdir()
    place.own.rename(place.root / "moved")
    place.own.symlink_to(outside(place))
    assert set(place.restore()) == {"check", "config.toml", "prompts"}
    assert not place.own.is_symlink()
    assert tree(place.own) == place.before
    assert tree(outside(place)) == {}


def test_a_link_to_a_faithful_copy_is_still_a_link(place: Place) -> None:
    place.own.rename(outside(place))
    place.own.symlink_to(outside(place))
    copy = tree(outside(place))
    assert set(place.restore()) == {"check", "config.toml", "prompts"}
    assert not place.own.is_symlink()
    assert tree(outside(place)) == copy


def test_a_directory_replaced_by_a_file_is_made_anew_and_the_file_kept(place: Place) -> None:
    place.own.rename(place.root / "moved")
    place.own.write_text("not a directory")
    place.restore()
    assert tree(place.own) == place.before
    assert (place.aside / ".ralph").read_text() == "not a directory"


def test_without_any_directory_there_is_nothing_to_restore(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    assert project.take(tmp_path / "repo").restore(tmp_path / "repo", tmp_path / "aside") == []
    assert not (tmp_path / "repo" / ".ralph").exists()


def test_a_stored_snapshot_is_read_back_and_replaced_whole(place: Place) -> None:
    assert project.stored(place.store) is None
    place.snapshot.store(place.store)
    assert project.stored(place.store) == place.snapshot
    (place.own / "check").unlink()
    project.take(place.root).store(place.store)
    assert project.stored(place.store) == project.take(place.root)
    assert not (place.store / "check").exists()


def test_a_stored_copy_that_was_tampered_with_does_not_rule_this_start(place: Place) -> None:
    place.snapshot.store(place.store)
    for check in (place.store / "check", place.own / "check"):
        check.write_text("#!/bin/sh\nexit 0\n")
    assert place.restore() == ["check"]
    assert tree(place.own) == place.before


def test_a_link_as_the_users_own_file_is_kept_as_a_link(place: Place) -> None:
    (place.root / "real-check").write_text("#!/bin/sh\n")
    (place.own / "check").unlink()
    (place.own / "check").symlink_to("../real-check")
    place.snapshot = project.take(place.root)
    (place.own / "check").unlink()
    place.restore()
    assert str((place.own / "check").readlink()) == "../real-check"


@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_a_directory_that_leads_elsewhere_is_refused_at_the_start(tmp_path: Path, kind: str) -> None:
    own = tmp_path / ".ralph"
    if kind == "file":
        own.touch()
    else:
        (tmp_path / "real").mkdir()
        own.symlink_to(tmp_path / ("real" if kind == "link" else "nowhere"))
    with pytest.raises(UsageError, match="not a plain directory"):
        project.require_plain_directory(tmp_path)


def test_a_plain_directory_or_none_is_fine(place: Place, tmp_path: Path) -> None:
    project.require_plain_directory(place.root)
    project.require_plain_directory(tmp_path / "nowhere")


@pytest.mark.parametrize("outside", [False, True])
def test_what_the_check_leads_to_is_protected_too(place: Place, tmp_path: Path, *, outside: bool) -> None:
    """Through two links, in the repository or elsewhere; also for the next start."""
    tools = (tmp_path if outside else place.root) / "tools"
    tools.mkdir()
    (tools / "real.sh").write_text("#!/bin/sh\nexit 1\n")
    (tools / "check.sh").symlink_to("real.sh")
    (place.own / "check").unlink()
    (place.own / "check").symlink_to(tools / "check.sh" if outside else "../tools/check.sh")
    before = project.take(place.root)
    before.store(place.store)
    kept = project.stored(place.store)
    assert kept is not None
    assert kept == before
    for snapshot in (before, kept):
        (tools / "real.sh").write_text("#!/bin/sh\nexit 0\n")
        assert snapshot.restore(place.root, place.aside) == ["check"]
        assert (place.own / "check").read_text() == "#!/bin/sh\nexit 1\n"
        (tools / "check.sh").unlink()
        (tools / "check.sh").symlink_to("/bin/true")
        assert snapshot.restore(place.root, place.aside) == ["check"]
        assert (place.own / "check").read_text() == "#!/bin/sh\nexit 1\n"
        assert snapshot.changed(place.root) == []


def test_a_folder_on_the_way_to_the_check_cannot_be_replaced(place: Place) -> None:
    (place.root / "tools").mkdir()
    (place.root / "tools" / "check.sh").write_text("#!/bin/sh\nexit 1\n")
    (place.own / "check").unlink()
    (place.own / "check").symlink_to("../tools/check.sh")
    snapshot = project.take(place.root)
    (place.root / "tools").rename(place.root / "old")
    (place.root / "new").mkdir()
    (place.root / "new" / "check.sh").write_text("#!/bin/sh\nexit 0\n")
    (place.root / "tools").symlink_to("new")
    assert snapshot.restore(place.root, place.aside) == ["check"]
    assert (place.own / "check").read_text() == "#!/bin/sh\nexit 1\n"
