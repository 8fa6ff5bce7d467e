"""Ports for servers that are started later, or never."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of loopback that nobody has, and that the kernel gives nobody by itself.

    One that `bind` to port 0 was given may, a moment later, be the near end of somebody's connection; and who connects
    to such a one where nobody listens may be given it himself, and reach himself.
    """
    lowest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    while True:
        port = random.SystemRandom().randrange(min(15000, lowest - 1000), lowest)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
