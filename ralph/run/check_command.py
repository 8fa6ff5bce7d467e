"""`ralph check`: run the setup script, then the check. Nothing is committed, locked or kept."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ralph.config import paths, settings
from ralph.config.environment import Beginning, agent_environment, passed_over, stands
from ralph.config.trust import refuse_sessions
from ralph.core import ndjson
from ralph.core.errors import ExitCode, UsageError
from ralph.core.text import format_duration
from ralph.git.repo import Repo, open_repo
from ralph.proof.check import Check, CheckReport, find_check, find_setup, require_program, run_check
from ralph.run.agent import AgentHost, refusing_a_bad_disk
from ralph.state import project
from ralph.system import environ
from ralph.ui.output import Output
from ralph.ui.terminal import visible


def carry_out(command: str | None, written: Mapping[str, object], *, trusting: bool, as_json: bool) -> int:
    """Run setup and check; return the exit code."""
    env = environ.without_redirections()
    if trusting:
        refuse_sessions(env)
    repo = open_repo(Path.cwd())
    project.require_plain_directory(repo.root)
    chosen = settings.load(
        env=env, root=repo.root, flags={**written, **({} if command is None else {"check": command})}
    )
    # A .envrc may put the check's program on PATH, so the program is looked up later.
    path = None if (repo.root / ".envrc").is_file() else env.get("PATH", "")
    check = find_check(repo.root, chosen.check, timeout=chosen.check_timeout, path=path)
    if check is None:
        raise UsageError(
            "this repository has no check", "let ralph propose one: ralph init; or pass a command: --check 'make test'"
        )
    setup = find_setup(repo.root, timeout=chosen.check_timeout)
    host = AgentHost(repo.root)
    sandbox = host.open_sandbox(chosen, env, paths.ralph_dir(env))
    if sandbox.missing is not None:
        print(visible(next(sandbox.notes({}, ""))), file=sys.stderr)
    with host.guardian, host.signals.watched():
        around = check_environment(repo, host, env, timeout=chosen.envrc_timeout, trusting=trusting)
        require_program(check, repo.root, around.get("PATH", ""))
        show = None if as_json else _screen(host)
        if setup is not None and (report := _run(setup, host, around, show)).exit_code != 0:
            return _tell("setup", setup, report, as_json=as_json)
        return _tell("check", check, _run(check, host, around, show), as_json=as_json)


def check_environment(
    repo: Repo, host: AgentHost, env: Mapping[str, str], *, timeout: float, trusting: bool = False
) -> Mapping[str, str]:
    """Return the environment of setup and check; print notes about it to stderr."""
    envrc = stands(repo.root, env)
    with refusing_a_bad_disk():
        around = agent_environment(
            envrc,
            env,
            guardian=host.guardian,
            sandbox=host.sandbox,
            signals=host.signals,
            ralph_dir=paths.ralph_dir(env),
            timeout=timeout,
            beginning=Beginning(None),
            trusting=trusting,
            by_agent=trusting and repo.last_changed_by_ralph(envrc.files),
            in_passing=True,
        )
    said = [*passed_over(repo.root, env), *([f".envrc: {around.header}"] if around.header else [])]
    for line in said:
        print(visible(line), file=sys.stderr)
    return around.env


def _screen(host: AgentHost) -> Callable[[bytes], None]:
    output = Output(sys.stdout, in_haste=lambda: host.signals.count > 0)
    return lambda printed: output.write(visible(printed.decode("utf-8", "replace")))


def _run(check: Check, host: AgentHost, env: Mapping[str, str], show: Callable[[bytes], None] | None) -> CheckReport:
    report = run_check(
        check,
        guardian=host.guardian,
        sandbox=host.sandbox,
        root=host.root,
        environment=env,
        log=Path(os.devnull),
        stop_requests=lambda: host.signals.count,
        show=show,
    )
    host.leave_if_interrupted()
    return report


def _tell(name: str, check: Check, report: CheckReport, *, as_json: bool) -> int:
    """Report the result: to programs on stdout, to people on stderr (they saw the output)."""
    if as_json:
        document = {
            "exit_code": report.exit_code,
            "seconds": round(report.seconds, 3),
            "stage": name,
            "output": report.output,
        }
        sys.stdout.write(ndjson.encode(document) + "\n")
    else:
        ended = "ran out of time" if report.exit_code is None else f"exit {report.exit_code}"
        print(visible(f"{check.label}: {ended} after {format_duration(report.seconds)}"), file=sys.stderr)
    return ExitCode.DONE if report.exit_code == 0 else ExitCode.FAILED
