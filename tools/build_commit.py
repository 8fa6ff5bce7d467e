"""Hatch's build hook: writes the commit into wheels and sdists, for `ralph --version` has no git to ask there."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"
    _file: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        package = Path(self.root) / "ralph"
        if version == "editable" or (package / "_commit").exists():  # the latter is in an sdist
            return
        commit: str = runpy.run_path(str(package / "__init__.py"))["built_from"]()
        if commit:
            with tempfile.NamedTemporaryFile("w", prefix="ralph-commit-", delete=False) as file:
                file.write(f"{commit}\n")
            self._file = Path(file.name)
            self._file.chmod(0o644)
            build_data["force_include"][file.name] = "ralph/_commit"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - theirs
        if self._file is not None:
            self._file.unlink()
