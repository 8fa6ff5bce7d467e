"""What the kernel knows about a process."""

import re
from pathlib import Path

import psutil

MIB = 1 << 20


def kernel_bytes(pid: int, file: str, field: str) -> int:
    """Return a size from a process's /proc entry; 0 once the process is gone."""
    try:
        match = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0


def processor_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process itself, without its children."""
    times = process.cpu_times()
    return times.user + times.system
