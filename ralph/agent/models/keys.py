"""Which key opens the Anthropic API: the environment's, else the login that Claude Code has stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ralph.core import ndjson


@dataclass(frozen=True, slots=True)
class Key:
    """A credential; a subscription's token is sent like a bearer token, and is told of its quota."""

    kind: Literal["none", "bearer", "api-key", "subscription"]
    secret: str = ""

    @property
    def source(self) -> str:
        """In the words of `init.apiKeySource`."""
        return "ANTHROPIC_API_KEY" if self.kind == "api-key" else "none"


def find_key(environment: Mapping[str, str]) -> Key:
    """Take the first that is there; an empty ANTHROPIC_API_KEY is none, and asks for the stored login."""
    if token := environment.get("ANTHROPIC_AUTH_TOKEN"):
        return Key("bearer", token)
    if secret := environment.get("ANTHROPIC_API_KEY"):
        return Key("api-key", secret)
    if token := environment.get("CLAUDE_CODE_OAUTH_TOKEN") or _stored_login(environment):
        return Key("subscription", token)
    return Key("none")


def _stored_login(environment: Mapping[str, str]) -> str:
    folder = environment.get("CLAUDE_CONFIG_DIR") or str(Path(environment.get("HOME", "/")) / ".claude")
    try:
        stored = ndjson.mapping(ndjson.decode((Path(folder) / ".credentials.json").read_text("utf-8")))
    except (OSError, ValueError):
        return ""
    return ndjson.text(ndjson.mapping(stored.get("claudeAiOauth")).get("accessToken"))
