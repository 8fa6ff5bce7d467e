"""The environment of a run's agent and check: ralph's own, plus the variables of a trusted `.envrc`.

Decided once per start, under the lock, before the first session; ralph itself and its git keep their own environment.
"""

import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ralph.config import envrc_files
from ralph.config.envrc import Failure, Variables, export, let_through, read, word_on
from ralph.config.envrc_files import MISSING, NAME, Envrc
from ralph.config.paths import repo_key
from ralph.config.trust import DIRENV, NOBODY, Doubt, TrustStore, flag_counts, judge
from ralph.core.errors import Interrupted, RalphError
from ralph.core.text import few, plural, timestamp
from ralph.sandbox.sandbox import Sandbox
from ralph.system import programs
from ralph.system.files import named_in_faults, replace_file
from ralph.system.guardian import Guardian
from ralph.system.signals import Signals


@dataclass(frozen=True, slots=True)
class AgentEnvironment:
    """An environment, and what to report about it."""

    env: Mapping[str, str]
    header: str = ""
    """A line for people; empty if there is nothing to say."""
    note: str = ""
    """Why `.envrc` is not used, for readers without a header."""
    used: bool | None = None
    """Whether `.envrc` was used; None if there is none."""
    why: str = ""
    """Why it was not used."""
    sandbox: Sandbox = field(default_factory=Sandbox)
    """What contains the programs that get the environment."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The version of `.envrc` at the start of a run, kept in its directory.

    None: the run starts now. Empty: it started earlier, and its directory does not say with which version.
    """

    digest: str | None

    @classmethod
    def of(cls, directory: Path) -> "Beginning":
        """The recorded start of a run that continues."""
        file = directory / "envrc"
        with named_in_faults(file):
            return cls(file.read_text("utf-8", "replace").strip() if file.is_file() else "")

    def keep(self, envrc: Envrc, directory: Path) -> None:
        """Record the current version for later starts; an existing record stays."""
        if self.digest is None:
            replace_file(directory / "envrc", f"{envrc.digest}\n")


@dataclass(frozen=True, slots=True)
class _Evaluated:
    variables: Variables
    how: str
    uncovered: tuple[str, ...] = ()


def stands(root: Path, env: Mapping[str, str]) -> Envrc:
    """Read the `.envrc` of a repository; nothing is executed."""
    return envrc_files.look(root, Path(env.get("HOME") or Path.home()), _searched(root, env))


def passed_over(root: Path, env: Mapping[str, str]) -> list[str]:
    """Report programs inside the repository that PATH leads to and that ralph does not run."""
    found = programs.passed_over(("git", "direnv"), env.get("PATH", ""), root)
    return [
        f"ralph skips {place}, because it is inside the repository, and uses the next one on PATH" for place in found
    ]


def _searched(root: Path, env: Mapping[str, str]) -> str:
    return programs.outside(env.get("PATH", ""), root)


def agent_environment(
    envrc: Envrc,
    env: Mapping[str, str],
    *,
    guardian: Guardian,
    sandbox: Sandbox,
    signals: Signals,
    ralph_dir: Path,
    timeout: float,
    beginning: Beginning,
    trusting: bool = False,
    by_agent: bool = False,
    in_passing: bool = False,
) -> AgentEnvironment:
    """Decide the environment; `trusting`: the user trusts the version before any agent; `by_agent`: this one is later.

    `in_passing`: no agent will run here, so nothing is recorded about the version before one.
    """
    around = AgentEnvironment(env, sandbox=sandbox)
    store = TrustStore(ralph_dir, in_passing=in_passing)
    try:
        doubt = _doubt(envrc, env, store, beginning, trusting=trusting, by_agent=by_agent)
    except RalphError as error:  # its record is unreadable or cannot be written
        doubt = Doubt(f"{error.message} ({error.hint})")
    if not envrc.exists:
        return replace(around, header=f"there is no {NAME} here to trust" if trusting else "")
    if doubt is not None:
        trust = f"review it, then: ralph trust {shlex.quote(str(envrc.root))}"
        return _without(
            envrc, around, doubt.why, "replace it with a small regular file, or remove it" if envrc.obstacle else trust
        )
    folder = ralph_dir / "direnv" / repo_key(envrc.root)
    used = _evaluated(envrc, env, timeout, folder, guardian, sandbox, signals)
    if isinstance(used, Failure):
        return _without(envrc, around, used.why, used.hint)
    return replace(around, env=used.variables.over(env), header=_told(used), used=True)


def _doubt(
    envrc: Envrc, env: Mapping[str, str], store: TrustStore, beginning: Beginning, *, trusting: bool, by_agent: bool
) -> Doubt | None:
    at, began = timestamp(time.time()), beginning.digest
    record, word = store.recorded(envrc.root), word_on(envrc, env)
    if record is None:
        record = store.first_seen(envrc, at, as_it_began=began in (None, envrc.digest))
    if spoken := trusting and not by_agent and flag_counts(envrc, record):
        record = store.record(envrc, "--trust-envrc", at)
    doubt = judge(envrc, record, allows=word.allows, denies=word.denies, began=began)
    if doubt is None and (record.by == NOBODY or record.files != envrc.files):
        store.record(envrc, DIRENV, at)
    if doubt is None or spoken or not trusting or envrc.obstacle or word.denies:
        return doubt
    return Doubt(f"{doubt.why}, and --trust-envrc does not cover a file that an agent may have changed")


def _evaluated(
    envrc: Envrc,
    env: Mapping[str, str],
    timeout: float,
    folder: Path,
    guardian: Guardian,
    sandbox: Sandbox,
    signals: Signals,
) -> _Evaluated | Failure:
    path = _searched(envrc.root, env)
    program = shutil.which("direnv", path=path)
    if program is None:
        plain = read(envrc.text.decode("utf-8", "replace"))
        omitted = f"; skipped without direnv: {plain.omissions}" if plain.omissions else ""
        return _Evaluated(let_through(plain.values), f"read as text{omitted}")
    changes = export(
        program,
        envrc,
        {**env, "PATH": path, **programs.loading_outside(env, envrc.root)},
        folder,
        guardian=guardian,
        sandbox=sandbox,
        timeout=timeout,
        stop_requests=lambda: signals.count,
    )
    if signals.first is not None:
        raise Interrupted(signals.first)
    if isinstance(changes, Failure):
        return changes
    after = stands(envrc.root, env)
    if any(envrc.files.get(name, MISSING) != MISSING for name in after.changed_since(envrc.files)):
        return Failure("it changed while it was evaluated", "review it, then run this again")
    if added := changes.get("PATH"):
        changes = {**changes, "PATH": programs.rejoined(added, path, env.get("PATH", ""))}
    return _Evaluated(let_through(changes), "by direnv", envrc.unfollowed)


def _without(envrc: Envrc, around: AgentEnvironment, why: str, following: str) -> AgentEnvironment:
    loaded = around.env.get("DIRENV_FILE") == str(envrc.path)
    said = f"not used: {why}; {following}" + (" (variables that your shell already loaded stay)" if loaded else "")
    return replace(around, header=said, note=f"{envrc.path} is {said}", used=False, why=why)


def _told(used: _Evaluated) -> str:
    """List the variables by name; their values may be secrets."""
    variables = used.variables
    count = len(variables.values)
    said = [f"{plural(count, 'variable')} {used.how}{_listed(': ', sorted(variables.values))}"]
    said += [
        _listed("unset: ", sorted(variables.unset)),
        _listed("dropped: ", sorted(variables.dropped)),
        _listed("skipped (not UTF-8): ", sorted(variables.garbled)),
        _listed("not covered by trust: ", used.uncovered),
    ]
    return " · ".join(filter(None, said))


def _listed(label: str, names: tuple[str, ...] | list[str]) -> str:
    shown = few(names, 12)
    return label + shown if names else ""
