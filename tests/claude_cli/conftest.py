"""A desk in a folder of its own, and the tools on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.claude_cli.desk import Desk, ToolResult
from ralph.claude_cli.tools import default_tools

Use = Callable[..., ToolResult]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The session's working directory."""
    folder = tmp_path.resolve() / "repo"
    folder.mkdir()
    return folder


@pytest.fixture
def desk(here: Path, world: Path) -> Desk:
    return Desk(
        here, environment={"PATH": os.environ["PATH"], "HOME": str(world / "home")}, scratch=here.parent / "scratch"
    )


@pytest.fixture
def use(desk: Desk) -> Use:
    """Call a tool: `use("Read", file_path="a.txt")`."""

    def call(name: str, /, **arguments: object) -> ToolResult:
        return default_tools()[name].run(arguments, desk)

    return call
