"""Trying scripts on a throwaway copy of a repository: nothing that they do reaches the repository itself."""

import contextlib
import os
import shutil
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ralph.config.settings import Settings
from ralph.git.command import run_git
from ralph.git.repo import Repo
from ralph.proof.check import Check, CheckReport, find_check, find_setup, run_check
from ralph.run.agent import AgentHost, refusing_a_bad_disk
from ralph.run.check_command import check_environment
from ralph.run.throwaway import ThrowawayClone
from ralph.system import environ
from ralph.system.files import write_new
from ralph.ui.progress import ProgressScreen

CHECK, SETUP = ".ralph/check", ".ralph/setup"
_TRIAL = ".init"
"""Where the copy is made, beside the runs of the repository."""
_CANNOT_RUN = (126, 127)
"""What a shell exits with where a program is missing, or cannot be started."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What the scripts did, by their paths; a check is not tried when its setup failed."""

    reports: Mapping[str, CheckReport] = field(default_factory=dict[str, CheckReport])
    left_behind: tuple[str, ...] = ()
    """New files and folders that git does not ignore: they would make the tree dirty."""
    missing: tuple[str, ...] = ()
    """Programs that are not on PATH: without them nothing is tried."""

    @property
    def runs(self) -> bool:
        """Tell whether the check can do its work, be it green or red."""
        check = self.reports.get(CHECK)
        return check is not None and check.exit_code is not None and check.exit_code not in _CANNOT_RUN

    @property
    def is_red(self) -> bool:
        return self.runs and self.reports[CHECK].exit_code != 0


def try_scripts(
    repo: Repo,
    scripts: Mapping[str, str],
    programs: Collection[str],
    *,
    directory: Path,
    env: Mapping[str, str],
    chosen: Settings,
    ralph_dir: Path,
) -> Trial:
    """Run setup and check in a copy of the repository that has these scripts as well, and remove the copy.

    `directory` holds the repository's runs; the caller holds the lock of the repository.
    """
    clone = ThrowawayClone(repo, directory / _TRIAL)
    host = AgentHost(clone.path)
    with contextlib.ExitStack() as held:
        held.enter_context(host.guardian)
        held.enter_context(host.signals.watched())
        held.callback(clone.remove)
        host.open_sandbox(chosen, env, ralph_dir)
        around = check_environment(repo, host, env, timeout=chosen.envrc_timeout)
        timeout = chosen.check_timeout
        path = around.get("PATH", "")
        if missing := tuple(name for name in programs if shutil.which(name, path=path) is None):
            return Trial(missing=missing)
        tasks = ProgressScreen(sys.stderr, environ.inherited(), look=host.leave_if_interrupted)
        with refusing_a_bad_disk(), tasks.shown(f"copying {repo.root.name}") as report:
            clone.make(report)
            (clone.path / ".ralph").mkdir(exist_ok=True)
            for name, text in scripts.items():
                write_new(clone.path / name, text, 0o755)
        before = _untracked(clone.path)
        found = (find_setup(clone.path, timeout=timeout), find_check(clone.path, None, timeout=timeout, path=None))
        around = {name: value for name, value in around.items() if name != "OLDPWD"} | {"PWD": str(clone.path)}
        reports: dict[str, CheckReport] = {}
        for script in (script for script in found if script is not None):
            with tasks.shown(f"trying {script.label} on a copy of this repository"):
                reported = _run(script, host, around)
            output = reported.output.replace(str(clone.path), str(repo.root))
            reports[script.label] = replace(reported, output=output)
            if reported.exit_code != 0:
                break
        return Trial(reports, tuple(sorted(_untracked(clone.path) - before)))


def _run(script: Check, host: AgentHost, env: Mapping[str, str]) -> CheckReport:
    report = run_check(
        script,
        guardian=host.guardian,
        sandbox=host.sandbox,
        root=host.root,
        environment=env,
        log=Path(os.devnull),
        stop_requests=lambda: host.signals.count,
    )
    host.leave_if_interrupted()
    return report


def _untracked(root: Path) -> set[str]:
    asked = ("ls-files", "-z", "--others", "--exclude-standard", "--directory", "--no-empty-directory")
    _, out, _ = run_git(root, *asked)
    return {path for path in out.split("\0") if path and not path.startswith(".ralph")}
