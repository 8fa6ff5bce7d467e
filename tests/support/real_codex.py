"""The environment and the settings with which the real `codex` talks to nobody but a scripted server.

Measured on 0.163.0: with these it makes no connection that leaves the machine. A model whose name it does not know gets
the tools `exec_command` and `write_stdin`; the default one would write JavaScript for a host that is not fetched.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import tomli_w

Auth = Literal["key", "none"]

MODEL = "fake-model"


def codex_env(home: Path, api_url: str, auth: Auth = "key") -> dict[str, str]:
    """The whole environment for one start of codex, whose settings are written into its home."""
    config = home / ".codex" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(tomli_w.dumps(_settings(api_url)))
    # A directory of its own for two reasons: where codex's home is below the one for temporary files, as that of a test
    # mostly is, it warns and makes none of its helper programs; and it leaves lock files in there.
    scratch = home / "tmp"
    scratch.mkdir(exist_ok=True)
    # TZ: it tells the end of a usage limit in local time, without saying so.
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(scratch), "LANG": "C.UTF-8", "TZ": "UTC"}
    return env | {"CODEX_API_KEY": "dummy"} if auth == "key" else env


def codex_args(api_url: str) -> list[str]:
    """The same settings as arguments of `codex exec`, for a start with --ignore-user-config."""
    pairs = _flat(_settings(api_url))
    # JSON's strings, numbers and truths are TOML's as well.
    return [word for key, value in pairs.items() for word in ("-c", f"{key}={json.dumps(value)}")]


def _settings(api_url: str) -> dict[str, object]:
    provider = {
        "name": "scripted",
        "base_url": f"{api_url}/v1",
        "wire_api": "responses",
        "requires_openai_auth": True,  # the login or the key that the built-in provider would use
        "request_max_retries": 1,
        "stream_max_retries": 1,
        "stream_idle_timeout_ms": 5000,
    }
    return {
        "model": MODEL,
        "model_provider": "scripted",
        "model_providers": {"scripted": provider},
        # The daemon would have its directory in the machine's /tmp, whatever TMPDIR says.
        "features": {"plugins": False, "apps": False, "daemon_auto_start": False},
        "analytics": {"enabled": False},
        "check_for_update_on_startup": False,
    }


def _flat(settings: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
