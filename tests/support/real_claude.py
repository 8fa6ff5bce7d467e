"""The environment in which the real `claude` talks to nobody but a scripted server.

Measured on 2.1.197 and 2.1.325: with these variables it makes no connection that leaves the machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, assert_never

Auth = Literal["bearer", "oauth", "none"]


def claude_env(home: Path, api_url: str, auth: Auth = "bearer", *, sandbox: bool = False) -> dict[str, str]:
    """The whole environment for one start of claude; `sandbox` lets root bypass permissions."""
    home.mkdir(parents=True, exist_ok=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        # Without these two it leaves sockets and task directories in the machine's /tmp (2.1.325).
        "XDG_RUNTIME_DIR": str(home),
        "CLAUDE_CODE_TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": api_url,
        "ANTHROPIC_API_KEY": "",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "API_TIMEOUT_MS": "5000",
    }
    if sandbox:
        env["IS_SANDBOX"] = "1"
    match auth:
        case "bearer":
            return env | {"ANTHROPIC_AUTH_TOKEN": "dummy"}
        case "oauth":  # the only one for which claude reports usage limits as events
            return env | {"CLAUDE_CODE_OAUTH_TOKEN": "dummy"}
        case "none":
            return env
        case _:
            assert_never(auth)
