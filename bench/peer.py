"""The peer: claude-agent-sdk, in an environment of its own outside the checkout."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.arena import Unmeasurable

VERSION = "0.2.182"


@dataclass(frozen=True, slots=True)
class Peer:
    """Where the peer's interpreter is."""

    python: Path

    @property
    def reader(self) -> list[str]:
        """A program that reads a session with the SDK; the agent's path follows."""
        return [str(self.python), str(Path(__file__).with_name("sdk_reader.py"))]


def find_peer() -> Peer | Unmeasurable:
    """Install the peer unless it is there; a machine that cannot have it gets the reason."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ralph-bench"
    place = cache / f"claude-agent-sdk-{VERSION}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"claude-agent-sdk=={VERSION}"]
        for argv in ([sys.executable, "-m", "venv", place], pip):
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
            if done.returncode:
                why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                return Unmeasurable(f"claude-agent-sdk {VERSION} cannot be installed: {why}")
        (place / "complete").touch()
    return Peer(python)
