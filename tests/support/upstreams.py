"""Upstream repositories for tests, the mirrors of them, and agents that work in clones of those."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ralph.queue.repos.mirror import Mirror, open_mirror
from tests.support.git_repos import NAME, commit_all, git, make_repo
from tests.support.ports import free_port
from tests.support.waiting import wait_until

CHECK = "#!/bin/sh\n! grep -rq broken --include=*.txt .\n"


def make_upstream(path: Path, files: Mapping[str, str] | None = None, *, check: str = CHECK) -> Path:
    """Make a bare repository with a check and these files on `main`."""
    seed = make_repo(path.with_name(f"{path.name}-seed"), {"README.md": "# Example\n", **(files or {})}, commit=False)
    (seed / ".ralph").mkdir()
    (seed / ".ralph" / "check").write_text(check)
    (seed / ".ralph" / "check").chmod(0o755)
    commit_all(seed, "start")
    git(path.parent, "clone", "--quiet", "--bare", str(seed), str(path))
    return path


def refreshed(world: Path, upstream: Path | str) -> Mirror:
    """The mirror of a repository, as it is now."""
    mirror = open_mirror(world / "ralph", str(upstream))
    mirror.refresh()
    return mirror


def work(clone: Path, files: Mapping[str, str | None], message: str = "work") -> str:
    """Do an agent's work in a clone: write these files (None: delete), and commit everything."""
    for name, text in files.items():
        if text is None:
            (clone / name).unlink()
        else:
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_text(text)
    return commit_all(clone, message)


def outsider(upstream: Path, files: Mapping[str, str | None], message: str = "theirs", branch: str = "main") -> str:
    """Push a commit to the upstream repository, as somebody else would."""
    clone = upstream.with_name(f"{upstream.name}-outsider")
    if not clone.exists():
        git(upstream.parent, "clone", "--quiet", str(upstream), str(clone))
    git(clone, "fetch", "--quiet", "origin")
    git(clone, "checkout", "--quiet", "-B", branch, f"origin/{branch}")
    sha = work(clone, files, message)
    git(clone, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
    return sha


class Brake:
    """A way to a server on loopback that lets through little at a time, or nothing, until it is told to let go."""

    def __init__(self, port: int, most: int) -> None:
        """`most`: bytes of the server's that come through each tenth of a second."""
        self._server, self._most = port, most
        self._released, self._closed = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def url(self, name: str) -> str:
        return f"git://127.0.0.1:{self.port}/{name}"

    def release(self) -> None:
        """Let all through from now on."""
        self._released.set()

    def close(self) -> None:
        self._closed.set()
        self.release()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                ours, _ = self._listener.accept()
                theirs = socket.create_connection(("127.0.0.1", self._server))
                self._threads.append(threading.Thread(target=self._pass_on, args=(ours, theirs)))
                self._threads[-1].start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError):
            while not self._closed.is_set():
                ready = select.select([client, server], [], [], 0.05)[0]
                if client in ready:
                    if not (data := client.recv(65536)):
                        return
                    server.sendall(data)
                if server in ready:
                    if self._most or self._released.wait(0.1):
                        if not (data := server.recv(65536 if self._released.is_set() else self._most)):
                            return
                        client.sendall(data)
                    self._released.wait(0.1)


@contextmanager
def brake(port: int, most: int = 0) -> Iterator[Brake]:
    """Put a brake before a server."""
    slow = Brake(port, most)
    try:
        yield slow
    finally:
        slow.close()


class Daemon:
    """A git daemon on loopback that can go away and come back."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, name: str) -> str:
        return f"git://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        # The program itself, not `git daemon`, which would be its parent.
        program = subprocess.run(["git", "--exec-path"], capture_output=True, text=True).stdout.strip() + "/git-daemon"
        options = ["--export-all", "--enable=receive-pack", "--reuseaddr", "--listen=127.0.0.1", f"--port={self.port}"]
        argv = [program, *options, f"--base-path={self._base}", str(self._base)]
        self._process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, env=os.environ | {"GIT_AUTHOR_NAME": NAME})
        wait_until(self._answers, "the git daemon listens")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def git_daemon(base: Path) -> Iterator[Daemon]:
    """Serve the repositories in a directory."""
    daemon = Daemon(base)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()
