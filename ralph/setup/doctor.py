"""`ralph doctor`: what ralph needs on this machine and in this repository, one finding each; nothing is changed."""

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from ralph import version_and_commit
from ralph.agents import registry
from ralph.agents.base import AgentOptions
from ralph.agents.login import KEYS, Login, probe_for
from ralph.config import paths, settings
from ralph.config.settings import Settings
from ralph.core.errors import ExitCode, RalphError, UsageError
from ralph.core.text import format_size
from ralph.git.command import run_git
from ralph.git.repo import open_repo
from ralph.proof.check import find_check, find_setup
from ralph.run.agent import PATIENT_ANSWER, login_of, program_version
from ralph.sandbox.policy import SandboxMode, SandboxOptions
from ralph.sandbox.sandbox import open_sandbox
from ralph.system import environ
from ralph.ui import page
from ralph.ui.page import Part
from ralph.ui.progress import ProgressScreen
from ralph.ui.theme import Look

_PYTHON, _GIT, _GIT_FOR_QUEUES = (3, 11), (2, 36), (2, 38)
_AGENTS = ("claude", "codex", "ralph-claude")
_LEAST_SPACE = 1 << 30
"""Bytes: clones, logs and whatever a build makes have to fit."""
_MARK, _NAME = 7, 16
"""Cells of the first two columns."""
_INSTALL_GIT = "sudo apt-get install git  # or by your distribution's own package manager"


class Health(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing, and no reason to fail: something optional is missing."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    health: Health
    says: str
    next: str = ""
    """The command that helps."""


def diagnose(*, as_json: bool) -> int:
    """Look at everything, print it, and return the exit code."""
    tasks = ProgressScreen(sys.stderr, environ.inherited(), quiet=as_json)
    with tasks.shown("asking programs for their versions and logins"):
        findings = list(_findings(environ.without_redirections()))
    if as_json:
        page.show_json([asdict(finding) for finding in findings])
    else:
        page.show(_shown(findings))
    return ExitCode.FAILED if any(finding.health is Health.WRONG for finding in findings) else ExitCode.DONE


def _shown(findings: Iterable[Finding]) -> list[Part]:
    looks = {Health.OK: Look.PLAIN, Health.NOTE: Look.QUIET, Health.WRONG: Look.BAD}
    shown: list[Part] = []
    for finding in findings:
        shown.append((f"{finding.health:<{_MARK}}{finding.name:<{_NAME}}{finding.says}", looks[finding.health]))
        shown += [(f"{' ' * (_MARK + _NAME)}{finding.next}", Look.ACCENT)] if finding.next else []
    return shown


def _findings(env: Mapping[str, str]) -> Iterator[Finding]:
    yield _system()
    yield Finding("ralph", Health.OK, version_and_commit())
    yield _python()
    git = _git()
    yield git
    root, repository = _repository(has_git=git.health is not Health.WRONG)
    chosen, fault = _settings(env, root)
    yield fault
    yield from _agents(chosen, env)
    yield _optional("direnv", env, "without it ralph reads only plain assignments from a trusted .envrc")
    yield _sandbox(chosen, env, root)
    yield from _state(env)
    yield repository
    if root is not None:
        yield from _scripts(root, chosen, env)


def _sandbox(chosen: Settings | None, env: Mapping[str, str], root: Path | None) -> Finding:
    wanted = SandboxOptions() if chosen is None else chosen.sandbox
    try:
        sandbox = open_sandbox(wanted, env, root or Path.cwd(), ())
    except RalphError as error:
        return Finding("sandbox", Health.WRONG, error.message, error.hint)
    if sandbox.missing is not None:
        says = f"none: {sandbox.missing.why}; the agent works with your permissions"
        return Finding("sandbox", Health.NOTE, says, sandbox.missing.hint)
    if sandbox.mode is SandboxMode.NONE:
        return Finding(
            "sandbox", Health.NOTE, "none: the agent works with your permissions", "ralph config set sandbox.mode auto"
        )
    program = "" if sandbox.bubblewrap is None else f", {sandbox.bubblewrap.path}"
    return Finding("sandbox", Health.OK, f"{sandbox.label}{program}")


def _system() -> Finding:
    return Finding("system", Health.OK, f"Linux {platform.release()}")


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info >= _PYTHON:
        return Finding("python", Health.OK, f"{version}, {sys.executable}")
    return Finding("python", Health.WRONG, f"{version}: ralph needs {_dotted(_PYTHON)} or newer", "uv python install")


def _git() -> Finding:
    try:
        status, output, _ = run_git(Path("/"), "--version")
    except UsageError as error:
        return Finding("git", Health.WRONG, error.message, _INSTALL_GIT)
    words = output.split()
    version = words[2] if status == 0 and len(words) > 2 else ""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _GIT:
        return Finding("git", Health.WRONG, f"{version or '?'}: ralph needs {_dotted(_GIT)} or newer", _INSTALL_GIT)
    if numbers < _GIT_FOR_QUEUES:
        says = f"{version}: fine for ralph, but ralph-runs needs {_dotted(_GIT_FOR_QUEUES)} or newer"
        return Finding("git", Health.NOTE, says, _INSTALL_GIT)
    return Finding("git", Health.OK, version)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _repository(*, has_git: bool) -> tuple[Path | None, Finding]:
    if not has_git:
        return None, Finding("repository", Health.NOTE, "not checked, because git is missing")
    try:
        root = open_repo(Path.cwd()).root
    except UsageError as error:
        return None, Finding("repository", Health.NOTE, error.message, "cd to your repository, or: git init")
    return root, Finding("repository", Health.OK, str(root))


def _settings(env: Mapping[str, str], root: Path | None) -> tuple[Settings | None, Finding]:
    """The settings in force; None where they cannot be read."""
    try:
        return settings.load(env=env, root=root), Finding("settings", Health.OK, "valid")
    except RalphError as error:
        says = "; ".join(line.strip() for line in error.message.splitlines())
        return None, Finding("settings", Health.WRONG, says.replace(":; ", ": ", 1), error.hint)


def _agents(chosen: Settings | None, env: Mapping[str, str]) -> Iterator[Finding]:
    """The agent that the settings name has to work; the others are only an offer."""
    named, options = (chosen.agent, chosen.agents) if chosen is not None else ("", AgentOptions())
    for name in filter(None, dict.fromkeys([named, *_AGENTS])):
        finding = _agent(name, options, env, is_chosen=name == named)
        yield replace(finding, says=f"your agent: {finding.says}") if name == named else finding


def _agent(name: str, options: AgentOptions, env: Mapping[str, str], *, is_chosen: bool) -> Finding:
    bad = Health.WRONG if is_chosen else Health.NOTE
    try:
        runner = registry.find_runner(name, options, env)
    except RalphError as error:
        return Finding(name, bad, error.message, error.hint.partition("\n")[0] if is_chosen else "")
    if name not in _AGENTS:
        return Finding(name, Health.OK, runner.path)
    if name == "ralph-claude":
        key = next((key for key in KEYS if env.get(key)), "")
        if key:
            return Finding(name, Health.OK, f"part of this ralph, with the key in {key}")
        # It can also use the login of Claude Code, which only its own program reads.
        return Finding(name, Health.NOTE, "part of this ralph; no key in the environment", "export ANTHROPIC_API_KEY=…")
    version = program_version(runner.path, env, PATIENT_ANSWER)
    if not version:
        return Finding(name, bad, f"{runner.path} does not print its version", f"{runner.path} --version")
    probe, login = probe_for(name, version), login_of(name, runner.path, version, options, env)
    if login is Login.LOGGED_OUT and probe is not None:
        hidden = name == "claude" and bool(env.get("ANTHROPIC_API_KEY")) and options.claude.auth != "api-key"
        use_key = "ralph config set agents.claude.auth api-key  # to use the ANTHROPIC_API_KEY that is set"
        return Finding(name, bad, f"{version}, {login}", use_key if hidden else probe.command)
    return Finding(name, Health.OK, f"{version}, {login}, {runner.path}")


def _optional(name: str, env: Mapping[str, str], without: str) -> Finding:
    if (found := shutil.which(name, path=env.get("PATH"))) is None:
        return Finding(name, Health.NOTE, f"not on PATH; {without}")
    return Finding(name, Health.OK, program_version(shlex.quote(found), env, PATIENT_ANSWER) or found)


def _state(env: Mapping[str, str]) -> Iterator[Finding]:
    """The state directory and the disk that it is on."""
    try:
        place = paths.state_place(env)
    except UsageError as error:
        yield Finding("state", Health.WRONG, error.message, "unset RALPH_DIR")
        return
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    is_full = free < _LEAST_SPACE
    says = f"{format_size(free)} free for {place}" + (f"; ralph wants {format_size(_LEAST_SPACE)}" if is_full else "")
    yield Finding("disk", Health.WRONG if is_full else Health.OK, says, "ralph-runs gc --delete" if is_full else "")
    yield _modes(place, there)


def _modes(place: Path, there: Path) -> Finding:
    quoted = shlex.quote(str(place))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding("state", Health.WRONG, f"cannot write to {there}", f"ls -ld {shlex.quote(str(there))}")
    if there != place:
        return Finding("state", Health.OK, f"{place} (ralph creates it when needed)")
    open_to_others = [folder for folder in (place, place / "runs") if folder.is_dir() and folder.stat().st_mode & 0o077]
    if open_to_others:
        named = shlex.join(map(str, open_to_others))
        return Finding(
            "state", Health.WRONG, f"other users can read {place}, which holds prompts and logs", f"chmod 700 {named}"
        )
    return Finding("state", Health.OK, f"{quoted}, mode {place.stat().st_mode & 0o777:o}")


def _scripts(root: Path, chosen: Settings | None, env: Mapping[str, str]) -> Iterator[Finding]:
    """The check and the setup of the repository, as a run would find them; neither is run."""
    path = None if (root / ".envrc").is_file() else env.get("PATH", "")
    command = chosen.check if chosen is not None else None
    try:
        check = find_check(root, command, timeout=0, path=path)
    except RalphError as error:
        yield Finding("check", Health.WRONG, error.message, error.hint)
    else:
        if check is None:
            yield Finding("check", Health.NOTE, "none: ralph cannot verify DONE in this repository", "ralph init")
        else:
            yield Finding("check", Health.OK, f"{check.label}; to try it: ralph check")
    try:
        setup = find_setup(root, timeout=0)
    except RalphError as error:
        yield Finding("setup", Health.WRONG, error.message, error.hint)
    else:
        yield Finding(
            "setup", Health.OK, "none: a clean checkout needs no preparation" if setup is None else setup.label
        )
