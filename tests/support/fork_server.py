"""A Python that has ralph loaded, and forks: a command costs what it does, and not half a second to import.

What it starts is a process like any other, with arguments, environment, directory and streams of its own. Only what
a Python decides as it starts it does not decide again: whoever changes that needs `python -m` (`Forks.suits`).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

_LONGEST_ORDER = 1 << 17
"""Bytes; the arguments and the environment of one process, as JSON."""

_AT_START = ("PYTHON", "LC_", "LANG")
"""How names of variables begin that a Python reads as it starts."""


class Forks:
    """The tests' end of it: one process at a time.

    A test that has a guardian of ralph's in its own process ends every child of that process, this server too (see
    `sweep`). The next one that needs the server starts another.
    """

    def __init__(self, env: Mapping[str, str], started: Callable[[int], object]) -> None:
        """Give the server this environment; `started` hears the pid of each one."""
        self._env = dict(env)
        self._started = started
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def suits(self, env: Mapping[str, str]) -> bool:
        """Tell whether a Python started with this environment would begin as this one has."""
        return _read_at_start(env) == _read_at_start(self._env)

    def run(
        self, module: str, args: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[IO[bytes]]
    ) -> int:
        """Run `python -m module args…` on these streams; return the pid. Its exit code is to be waited for."""
        order = json.dumps({"module": module, "args": list(args), "cwd": str(cwd), "env": dict(env)}).encode()
        control = self._connected()
        control.settimeout(None)
        socket.send_fds(control, [order], [stream.fileno() for stream in streams])
        return int(control.recv(64))

    def wait(self, timeout: float) -> int:
        """Wait for the exit code of what was run last, as subprocess has it; TimeoutError if it does not come."""
        control = self._connected()
        control.settimeout(timeout)
        return int(control.recv(64))

    def close(self) -> None:
        """End the server."""
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            self._server.terminate()  # a guardian that was forked since may hold our end of the socket
            self._server.wait()

    def _connected(self) -> socket.socket:
        if self._control is None or self._server is None or self._server.poll() is not None:
            self.close()
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                argv = [sys.executable, "-P", __file__, str(theirs.fileno())]
                self._server = subprocess.Popen(argv, env=self._env, pass_fds=[theirs.fileno()])
            self._started(self._server.pid)
        return self._control


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START)}


def _serve(control: socket.socket) -> None:
    """Fork for each order, say which process it is, and then how it ended."""
    _load()
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, _LONGEST_ORDER, 3)
        if not order:
            return
        if (pid := os.fork()) == 0:
            control.close()
            _become(json.loads(order), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(BrokenPipeError):
            control.send(str(pid).encode())
            _, status = os.waitpid(pid, 0)
            control.send(str(os.waitstatus_to_exitcode(status)).encode())


def _load() -> None:
    import importlib
    import pkgutil
    import threading

    import dbos  # noqa: F401 - a second of CPU for each queue worker

    import ralph

    for module in pkgutil.walk_packages(ralph.__path__, "ralph."):
        if module.name.endswith("__main__") or module.name == "ralph.cli.runs":
            continue  # it is run as a program, and warns if it has been imported before
        if not module.name.startswith("ralph.claude_cli."):  # another program
            importlib.import_module(module.name)
    if threading.active_count() > 1:
        raise AssertionError("what has threads cannot fork safely")


def _become(order: dict[str, object], descriptors: Sequence[int]) -> NoReturn:
    import runpy
    import tempfile
    import time

    os.setsid()
    for stream, descriptor in enumerate(descriptors):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(dict(order["env"]))  # pyright: ignore[reportArgumentType, reportCallIssue]
    os.chdir(str(order["cwd"]))
    time.tzset()
    tempfile.tempdir = None
    sys.argv = ["", *order["args"]]  # pyright: ignore[reportGeneralTypeIssues]
    try:
        runpy.run_module(str(order["module"]), run_name="__main__", alter_sys=True)
    finally:
        os._exit(1)  # whatever it was, nothing of the server's goes on here


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        _serve(_control)
