"""The real bash, zsh and fish, as a person has them in a terminal, with ralph's programs on their PATH."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import tools
from tests.support.terminal import InTerminal
from tests.support.waiting import wait_until
from tools import fetch

PROMPT = "ready> "
_FORGET_LINE = "\x15"
_PROGRAMS = {"ralph": "ralph", "ralph-runs": "ralph.cli.runs"}
_FUNCTIONS = ("", "Base", "Zsh", "Unix")
"""The folders of zsh's functions that complete a word: with all of them `compinit` takes seconds."""


@dataclass(frozen=True)
class Shell:
    """A shell, and what it needs of its environment."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]

    def opened(self, cwd: Path) -> ShellInTerminal:
        return ShellInTerminal([*self.argv], cwd, self.env, 120, 50)


class ShellInTerminal(InTerminal):
    """A shell that waits for a command; its screen is empty but for a count of what it has done."""

    def does(self, command: str) -> None:
        """Type a command, and wait for its end."""
        self.press(f"{command}\r")
        self._clear()

    def completes(self, line: str, *words: str) -> list[str]:
        """Type a line that is not done, press TAB, and return the screen once it shows these words."""
        self._clear()
        self.press(f"{line}\t")
        for word in words:
            self.shows(word)
        rows = self.rows
        self.press(_FORGET_LINE)
        return rows

    def _clear(self) -> None:
        self._steps = getattr(self, "_steps", 0) + 1
        self.press(f"clear; echo 'step '{self._steps}\r")
        expected = [f"step {self._steps}", PROMPT.strip()]
        wait_until(lambda: [row.strip() for row in self.rows] == expected, "the prompt of the shell")


def shell(name: str, env: Mapping[str, str], bin_dir: Path) -> Shell:
    """A shell with a home of its own, in which nothing is set up but a plain prompt."""
    for program, module in _PROGRAMS.items():
        (bin_dir / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m {module} "$@"\n')
        (bin_dir / program).chmod(0o755)
    home = Path(env["HOME"])
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[name](home, env)


def _bash(home: Path, env: Mapping[str, str]) -> Shell:
    (home / ".bashrc").write_text(f"PS1='{PROMPT}'\n")
    (home / ".inputrc").write_text("set show-all-if-ambiguous on\nset bell-style none\nset page-completions off\n")
    return Shell("bash", (shutil.which("bash") or "", "-i"), env)


def _zsh(home: Path, env: Mapping[str, str]) -> Shell:
    program = tools.debian("zsh")
    beside = program.parent
    (home / ".zshrc").write_text(f"PS1='{PROMPT}'\nunsetopt beep prompt_sp\n")
    if not (beside / "modules").exists():  # it is installed, and knows where its own files are
        return Shell("zsh", (str(program), "-i"), env)
    (home / ".zshenv").write_text(f"module_path=({beside / 'modules'})\n")
    path = os.pathsep.join(str(beside / "functions" / folder).rstrip("/") for folder in _FUNCTIONS)
    return Shell("zsh", (str(program), "-i"), {**env, "FPATH": path})


def _fish(home: Path, env: Mapping[str, str]) -> Shell:
    program = tools.debian("fish")
    folder = home / ".config" / "fish"
    folder.mkdir(parents=True)
    env = {name: value for name, value in env.items() if name != "XDG_CONFIG_HOME"}  # typer 0.28 ignores it
    (folder / "config.fish").write_text(f"set fish_greeting\nfunction fish_prompt; echo -n '{PROMPT}'; end\n")
    if not (program.parent / "bin").exists():
        return Shell("fish", (str(program), "-i"), env)
    libraries = {"LD_LIBRARY_PATH": str(program.parent / fetch.LIBRARIES)}
    return Shell("fish", (str(program.parent / "bin" / "fish"), "-i"), {**env, **libraries})
