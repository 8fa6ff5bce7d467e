"""The place where everything is measured: a scratch directory with the stand-in agent and small repositories.

Leaving the arena stops what still runs there and removes the directory.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench import payload
from bench.figures import Unmeasurable
from bench.peers import Peers

AgentPlan = Mapping[str, str | int]
"""What the stand-in agent does: its variables, without the prefix `BENCH_` (see `agent.c`)."""

LIMIT_REACHED = 4
"""ralph's exit code when it has made as many iterations as it was asked for."""

_GOAL = "# Measure\n\n## Objective\nThere is no end to this.\n"
_PROMPT = b'{"type":"user","message":{"role":"user","content":[{"type":"text","text":"Work."}]}}\n'
_IDENTITY = {"NAME": "bench", "EMAIL": "bench@localhost"}
_END_GRACE = 20.0
_FOREVER = 1800.0


@dataclass(frozen=True, slots=True)
class Arena:
    """The scratch directory, the measured ralph, and the peers it is compared with."""

    root: Path
    ralph: Path
    peers: Peers

    @property
    def agent(self) -> Path:
        return self.root / "bin" / "claude"

    @property
    def prompt(self) -> Path:
        """One message, as ralph would send it."""
        return self.root / "prompt.ndjson"

    @property
    def born(self) -> Path:
        """The file in which the agent notes the time of its first instruction."""
        return self.root / "born"

    @property
    def started(self) -> Path:
        """The file in which the agent notes the time of its message."""
        return self.root / "started"

    def text(self, size: int) -> str:
        """Return the path of a file with `size` bytes of payload, for the agent's `TEXT`."""
        file = self.root / f"text-{size}"
        if not file.exists():
            file.write_bytes(payload.text(size))
        return str(file)

    def session(self, steps: int) -> str:
        """Return the path of a file with the events of a session, for the agent's `TEXT` when it is to `play`."""
        file = self.root / f"session-{steps}"
        if not file.exists():
            file.write_bytes(payload.session(steps))
        return str(file)

    @contextlib.contextmanager
    def repository(self) -> Generator[Path]:
        """Make a small repository of its own, with a goal beside it."""
        place = Path(tempfile.mkdtemp(prefix="run-", dir=self.root))
        tree = place / "tree"
        for number in range(40):
            file = tree / f"part{number % 5}" / f"module{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"value = {number}\n" * 40)
        (place / "goal.md").write_text(_GOAL)
        for words in ("init --quiet", "add --all", "commit --quiet --message=Begin"):
            subprocess.run(["git", *words.split()], cwd=tree, env=self.environment({}), check=True)
        try:
            yield tree
        finally:
            shutil.rmtree(place)

    def environment(self, agent: AgentPlan) -> dict[str, str]:
        """Return the environment of everything that is measured."""
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()}
        return {
            "PATH": f"{self.agent.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.root),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
            "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
            "BENCH_BORN": str(self.born),
            "BENCH_STARTED": str(self.started),
            **who,
            **{f"BENCH_{name}": str(value) for name, value in agent.items()},
        }

    def run_environment(self, tree: Path, agent: AgentPlan) -> dict[str, str]:
        """Return the environment of a run in `tree`, with ralph's state beside it."""
        return self.environment(agent) | {"RALPH_DIR": str(tree.parent / "state")}

    def run_argv(self, *flags: str, iterations: int = 1) -> list[str]:
        """Return the command of a run on the arena's goal."""
        return [str(self.ralph), "run", "--no-check", f"--max-iterations={iterations}", *flags, "../goal.md"]

    @contextlib.contextmanager
    def running(
        self,
        argv: Sequence[str | Path],
        cwd: Path,
        agent: AgentPlan,
        *,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | int = subprocess.DEVNULL,
        extra: Mapping[str, str] | None = None,
    ) -> Generator[subprocess.Popen[bytes]]:
        """Start a process; on leaving, stop it with SIGTERM first, so that it can stop its own children."""
        environment = self.run_environment(cwd, agent) | dict(extra or {})
        process = subprocess.Popen(
            argv, cwd=cwd, env=environment, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            yield process
        finally:
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
                if process.poll() is not None:
                    break
                os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0 if number is signal.SIGTERM else _END_GRACE)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def finish(self, process: subprocess.Popen[bytes], *allowed: int) -> int:
        """Wait for a process; return the time of its end on the monotonic clock, in nanoseconds."""
        if process.poll() is None:
            _wait_for_exit(process.pid, _FOREVER)
        at = time.monotonic_ns()
        code = process.wait(_END_GRACE)
        if code not in (allowed or (0,)):
            said = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
            raise Unmeasurable(f"{process.args} ended with {code}: {said[-500:]}")
        return at

    def message_came_at(self) -> int:
        """Return when the agent that ran last got its message, in nanoseconds."""
        return noted_time(self.started)


def _wait_for_exit(pid: int, limit: float) -> None:
    """Block until a child is gone; `Popen.wait` with a limit looks only every 50 ms."""
    descriptor = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(limit * 1000):
            raise Unmeasurable(f"process {pid} was still running after {limit:g} s")
    finally:
        os.close(descriptor)


def noted_time(file: Path) -> int:
    """Return the time in a file of the agent's, in nanoseconds; the agent may be writing it just now."""
    while not (text := file.read_text()).endswith("\n"):
        time.sleep(0.001)
    return int(text)


@contextlib.contextmanager
def arena(ralph: Path, peers: Peers) -> Generator[Arena]:
    """Build the arena, and remove it in any case."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", ignore_cleanup_errors=True) as name:
        built = Arena(Path(name).resolve(), ralph, peers)
        built.agent.parent.mkdir()
        built.prompt.write_bytes(_PROMPT)
        _compile(Path(__file__).with_name("agent.c"), built.agent)
        yield built


def _compile(source: Path, target: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Unmeasurable("no C compiler: an agent slower than a C program would hide what ralph costs")
    # Static where the machine can: the dynamic loader takes as long as all the rest of the agent.
    for extra in (["-static"], []):
        built = subprocess.run(
            [compiler, "-O2", *extra, "-o", target, source], check=False, capture_output=True, text=True
        )
        if built.returncode == 0:
            return
    raise Unmeasurable(f"the stand-in agent does not compile: {built.stderr.strip()[-500:]}")
