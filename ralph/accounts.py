"""What an agent itself keeps of a session: read where its stream did not tell what was used, and logged with it."""

import glob
import re
from pathlib import Path

from ralph.agents.base import Account
from ralph.system.files import append_line, open_to_append

_SESSION_ID = re.compile(r"[A-Za-z0-9-]{8,64}")


def recall(account: Account | None, session_id: str, log: Path) -> list[bytes]:
    """The last line that tells the session's use, if there is one; it is in the raw log before anyone parses it."""
    line = b"" if account is None else _last_line(account, session_id)
    if not line:
        return []
    with open_to_append(log) as file:
        append_line(file, line + b"\n")
    return [line]


def _last_line(account: Account, session_id: str) -> bytes:
    if not _SESSION_ID.fullmatch(session_id):  # it came from the agent, and becomes part of a path
        return b""
    pattern = account.pattern.format(session_id=glob.escape(session_id))
    last = b""
    try:
        for path in account.folder.glob(pattern):
            with path.open("rb") as file:
                for line in file:
                    if account.telling.match(line) and line.endswith(b"\n"):
                        last = line.rstrip(b"\n")
    except OSError:  # it is the agent's own file: without it nothing is known, and nothing guessed
        return b""
    return last
