"""Every test in a world of its own, left as it was found; and the fixtures that put ralph and an agent into it."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support import tools  # looks at the real environment when it is imported: before the guard
from tests.support.batches import Batch
from tests.support.chat_api import ServeChat
from tests.support.fork_server import Forks
from tests.support.git_repos import make_repo
from tests.support.messages_api import ServeMessages
from tests.support.outside import Bounds, watching_files
from tests.support.postgres import Postgres
from tests.support.ralph_process import Ralph
from tests.support.responses_api import ServeResponses
from tests.support.scripted_agent import ClaudeScript
from tests.support.waiting import kill_tree

AGENTS = ("claude", "codex", "ralph-claude")
KEPT = ("PATH", "LD_LIBRARY_PATH", "WRITE_GOLDEN", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_", "COV")
"""How the names begin that a test sees of the user's environment; coverage needs the last to measure processes."""
ROOT = Path(__file__).parent.parent
HOME = Path.home()
USER_FILES = tuple(HOME / name for name in (".gitconfig", ".config/git", ".config/ralph", ".config/ralph/config.toml"))
"""What a child process that lost HOME would write to. Not ralph's runs: they change if ralph runs these tests."""
ME = psutil.Process()
PR_SET_CHILD_SUBREAPER = 36

# How long an example takes is the machine's affair: passed over for 0.2 s, it would fail the test (DeadlineExceeded).
hypothesis_settings.register_profile(
    "busy",
    hypothesis_settings(),
    deadline=None,
    suppress_health_check=[*hypothesis_settings().suppress_health_check, HealthCheck.too_slow],
)
hypothesis_settings.load_profile("busy")


def pytest_xdist_auto_num_workers() -> int:
    """Two for each core: tests wait for processes, disks and clocks for more than half of their time."""
    return 2 * (os.cpu_count() or 2)


@pytest.fixture(scope="session", autouse=True)
def usual_process() -> None:
    """Replace what the tests and their children inherit from the shell that started them."""
    # A shell has a process in the background ignore these two.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.umask(0o022)
    os.environ["TZ"] = "UTC"
    time.tzset()


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Numbered directories, one for each test; the session inherits what its tests orphan."""
    if sys.platform == "linux":
        # A daemon that forked twice becomes a child of the test session, so no leftover escapes the guard.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    base = tmp_path_factory.mktemp("worlds")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(scope="session")
def known_children() -> set[psutil.Process]:
    """Processes that were there before the first test."""
    return set(ME.children())


@pytest.fixture(scope="session")
def open_directory() -> Iterator[Path]:
    """A directory for programs that run as another account, which may not enter those of pytest."""
    with tempfile.TemporaryDirectory(prefix="ralph-tests-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def bounds(tmp_path_factory: pytest.TempPathFactory, open_directory: Path) -> Bounds:
    """The directories that tests may write to, and the user's own that they may not even read."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    golden = [ROOT / "tests"] if "WRITE_GOLDEN" in os.environ else []
    return Bounds(
        own=(shared, open_directory, ROOT / ".hypothesis", ROOT / ".pytest_cache", *golden),
        private=(HOME, Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/etc/gitconfig")),
        public=(ROOT, tools.CACHE, *map(Path, (sys.prefix, sys.base_prefix, *sys.path))),
    )


@pytest.fixture(autouse=True)
def world(worlds: Iterator[Path], known_children: set[psutil.Process], bounds: Bounds) -> Iterator[Path]:
    """Give the test a home directory and an environment; fail it if it leaves anything behind or goes outside."""
    directory = next(worlds)
    directory.mkdir()
    threads = set(threading.enumerate())
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if not name.startswith(KEPT)]:
            patch.delenv(name)
        for name, value in world_env(directory).items():
            patch.setenv(name, value)
        patch.setattr(tempfile, "tempdir", os.environ["TMPDIR"])  # tempfile looks at the variable only once
        environment = _environment()
        user_files = _stamps(USER_FILES)
        with watching_files(bounds) as outside:
            yield directory
        outside += [f"changed {path}" for path, _ in sorted(user_files ^ _stamps(USER_FILES))]
        left = [
            *_changed(environment, _environment()),
            *_left_threads(threads),
            *_left_processes(known_children),
        ]
        os.environ.update(environment)
    if left:
        pytest.fail("the test left behind: " + "; ".join(left))
    if outside:
        pytest.fail("the test went outside its directories: " + "; ".join(dict.fromkeys(outside)))


def world_env(directory: Path) -> dict[str, str]:
    """The variables that keep a program's files in the directory and give it a usual language and time zone."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    (home / "gitconfig").touch()
    scratch = directory / "tmp"
    scratch.mkdir(exist_ok=True)
    return {
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_DATA_HOME": str(home / "data"),
        "RALPH_DIR": str(directory / "ralph"),
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(directory.parent.parent),
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_PROCESS")},
    }


@pytest.fixture
def bin_dir(world: Path) -> Path:
    """The first directory on the PATH of the fixture `ralph`."""
    directory = world / "bin"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit, which holds a README.md."""
    return make_repo(tmp_path / "repo", {"README.md": "# Example\n"})


@pytest.fixture
def ralph(repo: Path, world: Path, bin_dir: Path, tmp_path: Path, forks: Forks) -> Ralph:
    """Run ralph in `repo`; of the machine's environment it sees only a PATH without any agent.

    The test's own directories are shown in the sandbox: its agents keep notes for the test there, and /tmp, in which
    they lie, is hidden.
    """
    elsewhere = [path for path in os.environ["PATH"].split(os.pathsep) if not _holds_agent(Path(path))]
    path = os.pathsep.join([str(bin_dir), *elsewhere])
    return Ralph(repo, {"PATH": path, **world_env(world), "RALPH_SANDBOX_BIND": f"{world}:{tmp_path}"}, forks=forks)


@pytest.fixture(scope="session")
def forks(known_children: set[psutil.Process], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """A process that has ralph loaded and forks, for all tests."""
    elsewhere = world_env(tmp_path_factory.mktemp("forks"))
    started = Forks(
        {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **elsewhere},
        lambda pid: known_children.add(psutil.Process(pid)),
    )
    yield started
    started.close()


@pytest.fixture
def ralph_runs(ralph: Ralph, forks: Forks) -> Ralph:
    """Run ralph-runs in `repo`, in the same environment; proven work goes to main unless a test says otherwise."""
    config = Path(ralph.env["XDG_CONFIG_HOME"]) / "ralph" / "config.toml"
    if not config.exists():  # else it is a recorded one
        config.parent.mkdir(parents=True)
        config.write_text('merge = "direct"\n')
    return Ralph(ralph.repo, ralph.env, "ralph.cli.runs", forks)


@pytest.fixture
def claude_script(bin_dir: Path) -> ClaudeScript:
    """Put a scripted `claude` on ralph's PATH: `claude_script([summary("one")], [summary("DONE")])`."""
    return ClaudeScript(bin_dir)


@pytest.fixture(scope="session")
def postgres_server(open_directory: Path) -> Iterator[Postgres]:
    server = Postgres(open_directory / "postgres")
    yield server
    server.stop()


@pytest.fixture
def postgres(postgres_server: Postgres, known_children: set[psutil.Process]) -> Postgres:
    """A PostgreSQL server, one for all tests that ask for one; each makes a database of its own in it."""
    if not postgres_server.is_running:  # not yet; or a guardian in the test process has swept it away
        postgres_server.start()
        known_children.add(psutil.Process(postgres_server.pid))
    return postgres_server


@pytest.fixture
def chat_api() -> Iterator[ServeChat]:
    """Start servers that speak OpenAI's Chat Completions API."""
    with ExitStack() as servers:
        yield ServeChat(servers)


@pytest.fixture
def messages_api() -> Iterator[ServeMessages]:
    """Start scripted model servers that close when the test ends."""
    with ExitStack() as servers:
        yield ServeMessages(servers)


@pytest.fixture
def responses_api() -> Iterator[ServeResponses]:
    """Start scripted model servers of OpenAI's kind that close when the test ends."""
    with ExitStack() as servers:
        yield ServeResponses(servers)


def _holds_agent(directory: Path) -> bool:
    return any((directory / agent).exists() for agent in AGENTS)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    names = {name for name, _ in before.items() ^ after.items()}
    for name in after.keys() - before.keys():
        del os.environ[name]
    return [f"changed variable {name}" for name in sorted(names)]


def _stamps(files: Iterable[Path]) -> set[tuple[Path, int]]:
    return {(file, file.stat().st_mtime_ns) for file in files if file.exists()}


def _left_threads(before: set[threading.Thread]) -> list[str]:
    new = set(threading.enumerate()) - before
    for thread in new:
        thread.join(timeout=5)
    return [f"thread {thread.name}" for thread in new if thread.is_alive()]


def _left_processes(known: set[psutil.Process]) -> list[str]:
    try:
        # One call where there is no child at all; psutil reads the whole of /proc, half of what a small test costs.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    new = set(ME.children()) - known
    if not new:
        return []
    # What is just ending may take its moment; this also buries what was orphaned.
    _, alive = psutil.wait_procs(new, timeout=5)
    complaints = [
        f"process {process.pid} {_command(process)}" for process in sorted(alive, key=lambda process: process.pid)
    ]
    for process in alive:
        kill_tree(process.pid)
    psutil.wait_procs(alive, timeout=5)
    return complaints


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it ended between the two questions
        return ""


@pytest.fixture
def batch(ralph_runs: Ralph, tmp_path: Path) -> Batch:
    """A place for upstream repositories, goals and a queue."""
    root = tmp_path / "batch"
    root.mkdir()
    return Batch(ralph_runs, root)
