"""Independent places to run ralph in, for tests that need several: a repository with a goal, and an agent, each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.git_repos import make_repo
from tests.support.goals import write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ScriptedAgent, Session, scripted_agent


@dataclass(frozen=True)
class Stage:
    """A directory that holds a repository, the agent's program and ralph's state."""

    directory: Path
    ralph: Ralph

    @property
    def repo(self) -> Path:
        return self.ralph.repo

    def play(self, sessions: Sequence[Session]) -> ScriptedAgent:
        """Put a scripted agent on the PATH of this stage's ralph."""
        return scripted_agent(self.directory / "bin", sessions)


def make_stage(directory: Path, ralph: Ralph) -> Stage:
    """Make a stage for a ralph that otherwise has the environment of the fixture `ralph`."""
    path = os.pathsep.join([str(directory / "bin"), *ralph.env["PATH"].split(os.pathsep)[1:]])
    repo = make_repo(directory / "repo", {"README.md": "# Example\n"})
    write_goal(repo)
    return Stage(directory, Ralph(repo, {**ralph.env, "PATH": path, "RALPH_DIR": str(directory / "ralph")}))
