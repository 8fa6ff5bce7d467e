"""Which variables reach the agent, the check and set-up scripts: all whose names do not look like secrets. Pure.

With or without a sandbox. The chosen agent keeps what its own provider needs, and `sandbox.env` names more.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping

_SECRET = re.compile(
    # A word of the name, or how one ends (PGPASSWORD, authToken). Not TOKENS: those are counted.
    r"(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|PRIVKEY)(?:_|$)"
    r"|(?:^|_)(?:KEY|AUTH|PAT|PASS|COOKIE)(?:_|$)",
    re.IGNORECASE,
)
_NAMED = frozenset({
    "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "GNOME_KEYRING_CONTROL", "GPG_AGENT_INFO", "KUBECONFIG", "MYSQL_PWD",
    "PGPASSFILE", "RALPH_DB", "SSHPASS", "SSH_AGENT_PID",
})  # fmt: skip
"""Names that do not say that they lead to a secret, or to a service that acts for the user."""
_HARMLESS = re.compile(r"GIT_CONFIG_KEY_\d+|RALPH_.*TOKENS")

_CLAUDE = ("ANTHROPIC_*", "CLAUDE_CODE_*", "CLAUDE_CONFIG_DIR", "AWS_BEARER_TOKEN_BEDROCK")
_OPENAI = ("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*")
_AWS, _GOOGLE = ("AWS_*",), ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_KEY", "CLOUDSDK_*")
_ANY_PROVIDER = (
    *_CLAUDE, *_OPENAI, "AMP_API_KEY", "CEREBRAS_API_KEY", "COHERE_API_KEY", "CURSOR_API_KEY", "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "MOONSHOT_API_KEY",
    "OPENROUTER_API_KEY", "TOGETHER_API_KEY", "XAI_API_KEY", "ZAI_API_KEY",
)  # fmt: skip
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "claude": _CLAUDE,
    "codex": _OPENAI,
    "ralph-claude": (*_CLAUDE, *_OPENAI),
    "demo": (),
    "": (),
}
"""What each agent's provider needs, and nothing for what is no agent; another agent may have any provider."""


def needed_by(agent: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the patterns of what an agent's provider needs; with an environment that chooses a cloud, of that, too."""
    needed = _NEEDED.get(agent, _ANY_PROVIDER)
    if needed and env.get("CLAUDE_CODE_USE_BEDROCK"):
        needed += _AWS
    if needed and env.get("CLAUDE_CODE_USE_VERTEX"):
        needed += _GOOGLE
    return needed


def looks_secret(name: str) -> bool:
    """Tell whether a variable's name says that it holds a secret, or the way to one."""
    return name in _NAMED or (bool(_SECRET.search(name)) and not _HARMLESS.fullmatch(name))


def held_back(env: Mapping[str, str], passed: Iterable[str]) -> list[str]:
    """Return the names of the variables that do not reach the agent; `passed`: patterns of names that do."""
    patterns = tuple(passed)
    return sorted(
        name
        for name in env
        if looks_secret(name) and not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )


def filtered(env: Mapping[str, str], passed: Iterable[str]) -> dict[str, str]:
    """Return the environment without what is held back."""
    held = set(held_back(env, passed))
    return {name: value for name, value in env.items() if name not in held}
