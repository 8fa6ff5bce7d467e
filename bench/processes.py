"""What the kernel tells of a process."""

import re
from pathlib import Path

MIB = 1 << 20


def kernel_bytes(pid: int, file: str, field: str) -> int:
    """A size that the kernel tells; 0 once the process is gone."""
    try:
        match = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0
