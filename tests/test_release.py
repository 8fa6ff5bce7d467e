"""What `make release-check` lets through, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release import EXCEPTIONS, Fault, checklist, unsuitable, version_is_new


@pytest.mark.long  # builds and installs everything
def test_what_is_here_can_be_built_installed_and_used(tmp_path: Path) -> None:
    looks = dict(checklist(tmp_path))
    for what in list(looks)[2:]:  # whether it is committed, and what its version is, only matters for a release
        looks[what]()


def test_the_changelog_must_begin_with_a_version_that_has_no_tag() -> None:
    changelog = "# Changelog\n\n## 0.2.0\n\n- new\n\n## 0.1.0\n"
    assert version_is_new(changelog, ["v0.1.0"], "0.2.0") == "0.2.0"
    with pytest.raises(Fault, match=r"begins with 0\.2\.0"):
        version_is_new(changelog, [], "0.1.0")
    with pytest.raises(Fault, match="released already"):
        version_is_new(changelog, ["v0.1.0", "v0.2.0"], "0.2.0")
    with pytest.raises(Fault, match="begins with nothing"):
        version_is_new("", [], "0.2.0")


def test_a_licence_that_is_closed_or_unknown_is_refused() -> None:
    found = {
        "a": "MIT",
        "b": "BSD-3-Clause",
        "c": "",
        "d": "GPL-3.0-only",
        "e": "LIMITED",
        next(iter(EXCEPTIONS)): "LGPL-3.0",
    }
    assert unsuitable(found) == ["c: no licence named", "d: GPL-3.0-only", "e: LIMITED"]
