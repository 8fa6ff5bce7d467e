"""Requests on hosts: the command for each, and what becomes of its answer, with a stand-in for the host's program."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ralph.queue.repos.push import Proposal, command, propose

PROPOSAL = Proposal("https://me:sesame@github.com/owner/repo.git", "ralph/speed", "main", "-fast; $(id)", "It is fast.")


@pytest.fixture
def gh(bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `gh` that writes its arguments down, and says what its file `says` has to say."""
    monkeypatch.setenv("PATH", f"{bin_dir}{os.pathsep}{os.environ['PATH']}")
    (bin_dir / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {bin_dir}/told\n. {bin_dir}/says\n')
    (bin_dir / "gh").chmod(0o755)
    return bin_dir


def test_the_address_of_the_request_is_told(gh: Path, tmp_path: Path) -> None:
    (gh / "says").write_text("echo https://github.com/owner/repo/pull/7\n")
    assert propose(PROPOSAL, tmp_path) == "pull request https://github.com/owner/repo/pull/7"
    assert (gh / "told").read_text().splitlines() == [
        "pr", "create", "--repo=github.com/owner/repo", "--head=ralph/speed", "--base=main", "--title=-fast; $(id)",
        "--body=It is fast.",
    ]  # fmt: skip


def test_a_request_that_is_open_already_is_as_good(gh: Path, tmp_path: Path) -> None:
    (gh / "says").write_text("echo 'already exists:\nhttps://github.com/owner/repo/pull/7' >&2; exit 1\n")
    assert propose(PROPOSAL, tmp_path) == "pull request https://github.com/owner/repo/pull/7"


def test_a_failure_is_told_with_the_command_to_type(gh: Path, tmp_path: Path) -> None:
    (gh / "says").write_text("echo please log in >&2; exit 4\n")
    told = propose(PROPOSAL, tmp_path)
    assert told.startswith(
        "gh could not open a pull request (please log in); do it with: gh pr create --repo=github.com/owner"
    )
    assert "sesame" not in told
    assert "'--title=-fast; $(id)'" in told


def test_without_the_program_the_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = propose(replace(PROPOSAL, url="git@gitlab.example.org:group/sub/repo.git"), tmp_path)
    assert told.startswith("open a pull request with: glab mr create --repo=https://gitlab.example.org/group/sub/repo ")


@pytest.mark.parametrize("url", ["/srv/repo.git", "https://code.example.org/repo", "relative/path"])
def test_other_hosts_have_no_command(url: str) -> None:
    assert command(replace(PROPOSAL, url=url)) is None
