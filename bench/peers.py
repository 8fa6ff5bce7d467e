"""The peers: claude-agent-sdk in its own environment, and the Ruby original where `RALPH_RUBY` names a checkout."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Unmeasurable

SDK_VERSION = "0.2.182"
_RUBY_PROGRAM = Path("scripts", "ralph", "run")


@dataclass(frozen=True, slots=True)
class Sdk:
    """claude-agent-sdk, by the interpreter that has it installed."""

    python: Path

    @property
    def reader(self) -> list[str]:
        """The command that reads one session; the agent's path follows."""
        return [str(self.python), str(Path(__file__).with_name("sdk_reader.py"))]


@dataclass(frozen=True, slots=True)
class Ruby:
    """The Ruby original, by its program."""

    program: Path

    @property
    def loop(self) -> list[str]:
        """The command that works on the arena's goal until the agent says DONE: it has no limit on iterations."""
        return [str(self.program), "--goal=../goal.md", "--log-mode"]


class Peers:
    """Each peer, or the reason why it can't be measured; looked for, and the SDK installed, when first asked for."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    @functools.cached_property
    def sdk(self) -> Sdk | Unmeasurable:
        return _install_sdk(self._environment)

    @functools.cached_property
    def ruby(self) -> Ruby | Unmeasurable:
        return _find_ruby(self._environment)


def _find_ruby(environment: Mapping[str, str]) -> Ruby | Unmeasurable:
    checkout = environment.get("RALPH_RUBY", "")
    program = Path(checkout).absolute() / _RUBY_PROGRAM
    if not checkout or not program.is_file():
        return Unmeasurable("RALPH_RUBY names no checkout")
    if not os.access(program, os.X_OK):
        return Unmeasurable(f"{program} is not executable")
    return Ruby(program)


def _install_sdk(environment: Mapping[str, str]) -> Sdk | Unmeasurable:
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ralph-bench"
    place = cache / f"claude-agent-sdk-{SDK_VERSION}"
    python = place / "bin" / "python"
    package = f"claude-agent-sdk=={SDK_VERSION}"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
        for argv in ([sys.executable, "-m", "venv", place], pip):
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
            if done.returncode:
                why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                return Unmeasurable(f"claude-agent-sdk {SDK_VERSION} can't be installed: {why}")
        (place / "complete").touch()
    return Sdk(python)
