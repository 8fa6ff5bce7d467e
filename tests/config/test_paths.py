"""The directory that ralph keeps its files in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.config.paths import ralph_dir
from ralph.core.errors import UsageError
from tests.support.goals import write_goal
from tests.support.ralph_process import Ralph


def test_a_directory_that_everyone_can_write_to_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "it's here"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(UsageError, match="everyone on this machine can write to it") as caught:
        ralph_dir({"RALPH_DIR": str(place)})
    assert caught.value.hint.endswith("chmod o-w '" + str(place).replace("'", "'\"'\"'") + "'")
    place.chmod(0o775)
    assert ralph_dir({"RALPH_DIR": str(place)}) == place


def test_nothing_is_written_there(ralph: Ralph, repo: Path) -> None:
    write_goal(repo)
    place = Path(ralph.env["RALPH_DIR"])
    place.mkdir()
    place.chmod(0o1777)
    for command in (["run", "goal.md"], ["status"]):
        done = ralph(*command)
        assert done.exit_code == 2, done
        assert f"chmod o-w {place}" in done.stderr
    assert "chmod" in ralph("doctor").stdout
    assert list(place.iterdir()) == []
