"""What a sandbox shows and allows, and the bubblewrap command that makes one. Pure.

`sandbox/places` looks up what is on this machine; nothing here touches the disk.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath


class SandboxMode(StrEnum):
    """How what the agent starts is contained; from the strictest to the loosest."""

    STRICT = "strict"
    AUTO = "auto"
    COMMAND = "command"
    NONE = "none"


class Network(StrEnum):
    """What a sandbox can reach. A list of allowed hosts will be a third word."""

    HOST = "host"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits for each process in the sandbox; None: the system's."""

    processes: int | None = None
    memory: int | None = None
    """Bytes of address space."""
    file_size: int | None = None

    @property
    def any(self) -> bool:
        return (self.processes, self.memory, self.file_size) != (None, None, None)


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The sandbox that the user wants."""

    mode: SandboxMode = SandboxMode.NONE
    required: bool = False
    command: str = ""
    """The user's own sandbox, for the mode `command`."""
    network: Network = Network.HOST
    bind: tuple[str, ...] = ()
    """Paths to show as they are; writable, unless they end in `:ro`."""
    hide: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """Variables that reach the agent although their names look like secrets."""
    processes: int | None = None
    memory: int | None = None
    file_size: int | None = None

    @property
    def limits(self) -> SandboxLimits:
        return SandboxLimits(self.processes, self.memory, self.file_size)


class MountKind(StrEnum):
    """What a path is inside."""

    READ = "read"
    WRITE = "write"
    SCRATCH = "scratch"
    """A folder as it is; what is written there is thrown away."""
    DISPOSABLE = "disposable"
    """The same; where no layer can be laid over it, the folder itself, as programs would fail without it."""
    EMPTY = "empty"
    """A folder of its own, thrown away."""
    BLANK = "blank"
    """A file without content."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A path inside, without links, and what stands there: the same path outside, or `source`."""

    path: str
    kind: MountKind
    source: str = ""

    @property
    def depth(self) -> int:
        return len(PurePath(self.path).parts)


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """All that a sandbox shows. What no mount names is the system's, read-only."""

    mounts: tuple[Mount, ...]
    cwd: str
    network: Network = Network.HOST
    limits: SandboxLimits = field(default_factory=SandboxLimits)

    def with_mounts(self, *mounts: Mount) -> "SandboxPolicy":
        """Return a policy with more mounts, which win over earlier ones at the same path."""
        return SandboxPolicy((*self.mounts, *mounts), self.cwd, self.network, self.limits)


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that works here."""

    path: str
    overlays: bool
    """It can lay a throw-away layer over a folder (0.11, and the kernel's overlayfs)."""
    own_users: bool = False
    """It needs a user namespace, as it does for everyone but a root that may mount."""
    as_root: bool = False


_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/fs", "/proc/acpi", "/proc/scsi")
"""Settings of the kernel that root may write; bubblewrap (0.11.0) leaves those whose folder looks read-only."""
_SIGNALS = "HUP,INT,TERM"
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_ROOT_KEEPS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE")
"""What root may do inside, as in a container: no mounts, no devices, no modules, no reading around permissions.

Without them, root could not work in a tree that belongs to somebody else, as mounted ones in containers do.
"""
EVERYONES = ("/tmp", "/var/tmp")  # noqa: S108 - each sandbox has its own
_ENV = "/usr/bin/env"
_PRLIMIT = "/usr/bin/prlimit"


def in_order(mounts: Iterable[Mount]) -> list[Mount]:
    """Return the mounts from the shallowest to the deepest; the last one for a path counts.

    So the most specific rule wins: a hidden folder in a shown one is hidden, a shown one in it is shown.
    """
    last = {mount.path: mount for mount in mounts}
    return sorted(last.values(), key=lambda mount: (mount.depth, mount.path))


def bubblewrap_command(bubblewrap: Bubblewrap, policy: SandboxPolicy, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs `argv` under a policy.

    bubblewrap (0.11.0) does not pass signals on; one that is meant for its child would end it, and with it the child at
    once. So it ignores them, and the child, which is in the same process group, hears them as usual.
    """
    command = [_ENV, f"--ignore-signal={_SIGNALS}", bubblewrap.path, *_NAMESPACES, "--die-with-parent"]
    if bubblewrap.own_users:
        command.append("--unshare-user")
    if bubblewrap.as_root:
        command += ["--cap-drop", "ALL"]
    if bubblewrap.as_root and not bubblewrap.own_users:
        command += [word for capability in _ROOT_KEEPS for word in ("--cap-add", f"CAP_{capability}")]
    if policy.network is Network.NONE:
        command.append("--unshare-net")
    command += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if bubblewrap.as_root:
        command += [word for path in _KERNEL for word in ("--ro-bind-try", path, path)]
    for mount in in_order(policy.mounts):
        command += _mounted(mount, overlays=bubblewrap.overlays)
    return (*command, "--chdir", policy.cwd, "--", *_inside(policy.limits, argv))


def _mounted(mount: Mount, *, overlays: bool) -> tuple[str, ...]:
    source = mount.source or mount.path
    match mount.kind:
        case MountKind.READ:
            return "--ro-bind", source, mount.path
        case MountKind.WRITE:
            return "--dev-bind" if mount.path.startswith("/dev/") else "--bind", source, mount.path
        case MountKind.SCRATCH | MountKind.DISPOSABLE if overlays:
            return "--overlay-src", source, "--tmp-overlay", mount.path
        case MountKind.SCRATCH:
            return "--ro-bind", source, mount.path
        case MountKind.DISPOSABLE:
            return "--bind", source, mount.path
        case MountKind.EMPTY:
            return "--perms", "1777" if mount.path in EVERYONES else "0700", "--tmpfs", mount.path
        case MountKind.BLANK:
            return "--ro-bind", "/dev/null", mount.path


def _inside(limits: SandboxLimits, argv: Sequence[str]) -> tuple[str, ...]:
    """Return what bubblewrap starts: the command, with the signals that everyone else ignores, and its limits."""
    prefix = [_ENV, f"--default-signal={_SIGNALS}"]
    if limits.any:
        named = (("nproc", limits.processes), ("as", limits.memory), ("fsize", limits.file_size))
        prefix += [_PRLIMIT, *(f"--{name}={limit}" for name, limit in named if limit is not None), "--"]
    elif "=" in argv[0]:  # env would take it for a variable
        prefix += ["/bin/sh", "-c", 'exec "$0" "$@"']
    return (*prefix, *argv)
