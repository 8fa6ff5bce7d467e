"""One start's sandbox: what was wanted, what is in force, and how a command is started in it.

Everything that an agent can influence is started through `Sandbox.contain`: agents, checks, set-up scripts, `.envrc`.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ralph.core.errors import BlockedError
from ralph.core.text import few
from ralph.sandbox import places, variables
from ralph.sandbox.bubblewrap import NoBubblewrap, find_bubblewrap
from ralph.sandbox.policy import (
    Bubblewrap,
    Mount,
    MountKind,
    Network,
    SandboxMode,
    SandboxOptions,
    SandboxPolicy,
    bubblewrap_command,
)

COMMAND = "{cmd}"
"""Where the command goes in a sandbox of the user's."""


@dataclass(frozen=True, slots=True)
class Contained:
    """What to start in place of a command."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox of one start of ralph; in the mode `none`, it only filters variables."""

    options: SandboxOptions = field(default_factory=SandboxOptions)
    bubblewrap: Bubblewrap | None = None
    own: tuple[Path, ...] = ()
    """Folders of ralph's that nothing inside sees."""
    missing: NoBubblewrap | None = None
    """Why the sandbox that was wanted is not in force."""

    @property
    def mode(self) -> SandboxMode:
        """Return the mode in force."""
        wanted = self.options.mode
        bubblewraps = wanted in (SandboxMode.AUTO, SandboxMode.STRICT)
        return SandboxMode.NONE if bubblewraps and self.bubblewrap is None else wanted

    @property
    def label(self) -> str:
        """Describe it in a line for people."""
        if self.mode is SandboxMode.NONE:
            return "none"
        if self.mode is SandboxMode.COMMAND:
            return f"your command, {shlex.split(self.options.command)[0]}"
        parts = [f"{self.mode} (bubblewrap)"]
        if self.bubblewrap is not None and not self.bubblewrap.overlays and self.mode is SandboxMode.AUTO:
            parts.append("HOME and caches read-only: no overlays, which need bubblewrap 0.11")
        if self.options.network is Network.NONE:
            parts.append("no network")
        return " · ".join(parts)

    def notes(self, env: Mapping[str, str], agent: str) -> Iterator[str]:
        """Yield what people should know: why there is no sandbox, and which variables the agent does not get."""
        if self.missing is not None:
            yield f"no sandbox: {self.missing.why}; {self.missing.hint}"
        if held := variables.held_back(env, self.passed(env, agent)):
            yield f"held back, as their names look like secrets: {few(held, 8)} (to pass some on: sandbox.env)"

    def passed(self, env: Mapping[str, str], agent: str) -> tuple[str, ...]:
        """Return the patterns of secret-looking names that reach a program all the same."""
        return (*variables.needed_by(agent, env), *self.options.env)

    def contain(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        root: Path,
        *,
        cwd: Path | None = None,
        agent: str = "",
        show: Sequence[Path] = (),
        mounts: Sequence[Mount] = (),
    ) -> Contained:
        """Return how to start a command that works in the tree `root`, or in `cwd`, a folder of it.

        With an `agent`, its configuration, login and variables are there. `show`: files that it reads, wherever they
        are; `mounts`: what else stands where, such as a git directory of its own.
        """
        env = variables.filtered(environment, self.passed(environment, agent))
        if self.mode is SandboxMode.COMMAND:
            words = shlex.split(self.options.command)
            filled = [each for word in words for each in (argv if word == COMMAND else (word,))]
            return Contained(tuple(filled if COMMAND in words else [*words, *argv]), env)
        if self.bubblewrap is None or self.mode is SandboxMode.NONE:
            return Contained(tuple(argv), env)
        around = places.Surroundings(environment, self.own, agent, strict=self.mode is SandboxMode.STRICT)
        places.prepare_login(around)
        files = [Mount(os.path.realpath(file), MountKind.READ) for file in show if file.exists()]
        more = [*files, *mounts, *places.shown(self.options.bind, environment)]
        policy = SandboxPolicy(
            (*places.mounts_of(around, root, argv, more), *places.hidden(self.options.hide, environment)),
            os.path.realpath(cwd or root),
            self.options.network,
            self.options.limits,
        )
        return Contained(bubblewrap_command(self.bubblewrap, policy, argv), env)


def open_sandbox(options: SandboxOptions, env: Mapping[str, str], root: Path, own: Sequence[Path]) -> Sandbox:
    """Find what the options ask for; refuse to go on without one that is required."""
    wanted = options.mode
    if wanted in (SandboxMode.NONE, SandboxMode.COMMAND):
        if options.required and wanted is SandboxMode.NONE:
            raise BlockedError("a sandbox is required, but sandbox.mode is none", "leave one of the two out")
        return Sandbox(options, own=tuple(own))
    home = places.Surroundings(env, ()).home if wanted is SandboxMode.AUTO else None
    found = find_bubblewrap(env, root, home)
    if isinstance(found, Bubblewrap):
        return Sandbox(options, found, tuple(own))
    if options.required or wanted is SandboxMode.STRICT:
        raise BlockedError(f"cannot start the sandbox: {found.why}", found.hint)
    return Sandbox(options, own=tuple(own), missing=found)
