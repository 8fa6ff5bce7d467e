"""Where everything is measured: a scratch directory with the stand-in agent, small repositories, and what runs in them.

Leaving the arena removes all of it; what is still running there has been ended before.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_GOAL = "# Measure\n\n## Objective\nThere is no end to this.\n"
_PROMPT = b'{"type":"user","message":{"role":"user","content":[{"type":"text","text":"Work."}]}}\n'
_END_GRACE = 20.0
_FOREVER = 1800.0


class Unmeasurable(Exception):
    """Something that the benchmarks need is not there, or what they ran went wrong; the message says what."""


@dataclass(frozen=True, slots=True)
class Arena:
    """The scratch directory, and the ralph that is measured."""

    root: Path
    ralph: Path

    @property
    def agent(self) -> Path:
        return self.root / "bin" / "claude"

    @property
    def prompt(self) -> Path:
        """One message, as ralph would say it."""
        return self.root / "prompt.ndjson"

    @property
    def started(self) -> Path:
        """Where the agent notes when the message reached it."""
        return self.root / "started"

    @contextlib.contextmanager
    def repository(self) -> Generator[Path]:
        """A small repository of its own, with a goal beside it."""
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

    def environment(self, agent: Mapping[str, str | int]) -> dict[str, str]:
        """What everything measured runs with; `agent` says what the stand-in agent is to do, without its prefix."""
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()}
        return {
            "PATH": f"{self.agent.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.root),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
            "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
            "BENCH_STARTED": str(self.started),
            **who,
            **{f"BENCH_{name}": str(value) for name, value in agent.items()},
        }

    def run_argv(self, *, iterations: int) -> list[str]:
        """The ralph that is measured, with everything on."""
        argv = [str(self.ralph), "run", "--json", "--no-check"]
        return [*argv, f"--max-iterations={iterations}", "../goal.md"]

    @contextlib.contextmanager
    def running(
        self,
        argv: Sequence[str | Path],
        cwd: Path,
        agent: Mapping[str, str | int],
        *,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        extra: Mapping[str, str] | None = None,
    ) -> Generator[subprocess.Popen[bytes]]:
        """Start something; it is gone when this is left, softly at first, so that it can end what it started."""
        environment = self.environment(agent) | {"RALPH_DIR": str(cwd.parent / "state")} | dict(extra or {})
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
        """Wait for a process; return when it was gone, on the monotonic clock, in nanoseconds."""
        code = process.wait(_FOREVER)
        at = time.monotonic_ns()
        if code not in (allowed or (0,)):
            said = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
            raise Unmeasurable(f"{process.args} ended with {code}: {said[-500:]}")
        return at

    def message_came_at(self) -> int:
        """When the agent that ran last got its message, in nanoseconds."""
        return int(self.started.read_text())


LIMIT_REACHED = 4
"""How ralph ends when the iterations that were asked for are done."""

_IDENTITY = {"NAME": "bench", "EMAIL": "bench@localhost"}


@contextlib.contextmanager
def arena(ralph: Path) -> Generator[Arena]:
    """Build the arena, and remove it whatever happens."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", ignore_cleanup_errors=True) as name:
        built = Arena(Path(name).resolve(), ralph)
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
