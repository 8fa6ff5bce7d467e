"""What files take, and what is free when they are gone: by their blocks, each file once, with the last of its names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ralph.queue.gc import freed, taken, weigh

SIZE = 100_000


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """Two directories with one file, by three names; the second has a link to everything."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "file").write_bytes(os.urandom(SIZE))
    (one / "again").hardlink_to(one / "file")
    (two / "file").hardlink_to(one / "file")
    (two / "link").symlink_to("/")
    return [one, two]


def test_a_file_is_freed_with_the_last_of_its_names(places: list[Path]) -> None:
    first, second = freed(map(weigh, places))
    assert first < SIZE // 2
    assert SIZE <= second < SIZE * 3 // 2


def test_a_file_with_a_name_outside_is_not_freed(places: list[Path], tmp_path: Path) -> None:
    (tmp_path / "outside").hardlink_to(places[0] / "file")
    assert max(freed(map(weigh, places))) < SIZE // 2
    assert max(freed([weigh(places[1])])) < SIZE // 2


def test_what_is_taken_is_counted_once(places: list[Path]) -> None:
    first, second = taken(map(weigh, places))
    assert SIZE <= first < SIZE * 3 // 2
    assert second < SIZE // 2


def test_a_file_a_link_and_nothing_can_be_weighed(places: list[Path], tmp_path: Path) -> None:
    (tmp_path / "alone").write_bytes(os.urandom(SIZE))
    assert SIZE <= weigh(tmp_path / "alone").own < SIZE * 3 // 2
    assert weigh(places[1] / "link").own < SIZE // 2
    assert weigh(tmp_path / "none").own == 0
