"""What another process prints, in a nameless file: readable at any time, whoever still holds it open."""

from __future__ import annotations

import os
import tempfile
from typing import IO


class OutputFile:
    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()

    @property
    def text(self) -> str:
        """All that was written so far; read by position, for both processes share one offset."""
        size = os.fstat(self.file.fileno()).st_size
        return os.pread(self.file.fileno(), size, 0).decode(errors="replace")

    def close(self) -> None:
        self.file.close()
