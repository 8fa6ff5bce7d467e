"""Ports for servers that are started later, or never."""

from __future__ import annotations

import random
import socket
import sys
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a port of loopback that nobody uses, that no other test gets, and that the kernel assigns to nobody.

    The kernel may assign a port that `bind` to port 0 returned to somebody's connection a moment later; and whoever
    connects to such a port where nobody listens may be assigned it too, and reach himself.
    """
    lowest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    while True:
        port = random.SystemRandom().randrange(min(15000, lowest - 1000), lowest)
        if reserve(port) and not _is_used(port):
            return port


def reserve(port: int) -> bool:
    """Keep the port from all other tests until this process ends; where that is impossible, trust in chance."""
    if sys.platform != "linux":
        return True
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0ralph-test-port-{port}")  # a name without a file, known to whoever shares the ports
    except OSError:
        mark.close()
        return False
    mark.detach()  # it stays open
    return True


def _is_used(port: int) -> bool:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            return True
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
