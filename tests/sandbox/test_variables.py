"""Which variables reach the agent."""

import pytest

from ralph.sandbox.variables import filtered, held_back, looks_secret, needed_by


@pytest.mark.parametrize(
    "name",
    [
        "GH_TOKEN", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN",
        "ANTHROPIC_API_KEY", "PGPASSWORD", "MYSQL_PWD", "NPM_TOKEN", "npm_config__authToken", "SECRET_KEY_BASE",
        "DJANGO_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "STRIPE_KEY", "DB_PASS", "AZURE_DEVOPS_EXT_PAT", "RALPH_DB",
        "OP_SERVICE_ACCOUNT_TOKEN", "KUBECONFIG", "DOCKER_AUTH_CONFIG",
    ],
)  # fmt: skip
def test_names_that_look_like_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "PWD", "OLDPWD", "LANG", "MAX_THINKING_TOKENS", "RALPH_MAX_TOKENS", "TOKENIZERS_PARALLELISM",
        "GIT_CONFIG_KEY_0", "KEYBOARD", "XDG_SESSION_ID", "AWS_REGION", "CARGO_HOME", "SSH_ASKPASS", "MONKEY_PATCH",
        "GIT_AUTHOR_NAME", "PATTERN", "COMPASS", "KEYMAP",
    ],
)  # fmt: skip
def test_names_that_do_not(name: str) -> None:
    assert not looks_secret(name)


def test_the_agent_keeps_what_its_provider_needs_and_no_other_does() -> None:
    env = {"ANTHROPIC_AUTH_TOKEN": "a", "OPENAI_API_KEY": "o", "GH_TOKEN": "g", "LANG": "C"}
    assert held_back(env, needed_by("claude", env)) == ["GH_TOKEN", "OPENAI_API_KEY"]
    assert held_back(env, needed_by("codex", env)) == ["ANTHROPIC_AUTH_TOKEN", "GH_TOKEN"]
    assert held_back(env, needed_by("custom", env)) == ["GH_TOKEN"]
    assert held_back(env, needed_by("demo", env)) == ["ANTHROPIC_AUTH_TOKEN", "GH_TOKEN", "OPENAI_API_KEY"]
    assert filtered(env, needed_by("", env)) == {"LANG": "C"}


def test_a_cloud_that_is_chosen_needs_its_own() -> None:
    env = {"AWS_SECRET_ACCESS_KEY": "a", "CLAUDE_CODE_USE_BEDROCK": "1"}
    assert held_back(env, needed_by("claude", env)) == []
    assert held_back(env, needed_by("", env)) == ["AWS_SECRET_ACCESS_KEY"]


def test_the_user_names_more_also_by_pattern() -> None:
    env = {"STRIPE_KEY": "s", "DB_PASSWORD": "d", "DB_TOKEN": "t"}
    assert held_back(env, ("STRIPE_KEY", "DB_*")) == []
