"""Where prompts go: each provider at a scripted endpoint of its own, and nothing at any other.

The table holds what Claude Code 2.1.325 does; `make long` plays it with both programs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.api_replies import Cut, Fail, Reply, Say, tool
from tests.support.chat_api import ChatApi
from tests.support.cloud_api import CloudApi
from tests.support.messages_api import MessagesApi
from tests.support.real_claude import claude_env
from tests.support.scripted_api import ScriptedApi

OURS = Path(sys.executable).with_name("ralph-claude")
ARGS = ("-p", "--tools", "Read", "--verbose", "--output-format", "stream-json", "--no-session-persistence")
TOKEN = {"ANTHROPIC_AUTH_TOKEN": "dummy"}
BEDROCK = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}
AWS = {"AWS_ACCESS_KEY_ID": "AKIDUMMY", "AWS_SECRET_ACCESS_KEY": "dummy"}
VERTEX = {"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_PROJECT_ID": "proj", "CLOUD_ML_REGION": "us-east5"}
NO_LOGIN = {"CLAUDE_CODE_SKIP_VERTEX_AUTH": "1"}
FOUNDRY = {"CLAUDE_CODE_USE_FOUNDRY": "1"}
KEY = {"ANTHROPIC_FOUNDRY_API_KEY": "fk"}
_URLS = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "bedrock": "ANTHROPIC_BEDROCK_BASE_URL",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL",
    "foundry": "ANTHROPIC_FOUNDRY_BASE_URL",
    "chat": "OPENAI_BASE_URL",
}
# Else the libraries ask the cloud's own machines for credentials.
_AT_HOME = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_GCE_CHECK": "true",
    "METADATA_SERVER_DETECTION": "none",
    "GCE_METADATA_HOST": "127.0.0.1:1",
}


class Endpoints:
    """One server for each provider, all told to every program."""

    def __init__(self, servers: ExitStack, script: list[Reply]) -> None:
        apis: dict[str, ScriptedApi] = {
            "anthropic": MessagesApi(script),
            **{name: CloudApi(name, script) for name in ("bedrock", "vertex", "foundry")},
            "chat": ChatApi(script),
        }
        self.apis = {name: servers.enter_context(api) for name, api in apis.items()}

    @property
    def asked(self) -> dict[str, int]:
        """How many prompts each one got."""
        prompts = {name: len(api.ledger) - len(api.ledger.of("other")) for name, api in self.apis.items()}
        return {name: number for name, number in prompts.items() if number}

    def environment(self, home: Path, more: Mapping[str, str]) -> dict[str, str]:
        env = claude_env(home, self.apis["anthropic"].url, sandbox=True) | _AT_HOME
        env |= {name: self.apis[api].url for api, name in _URLS.items()}
        env["OPENAI_BASE_URL"] += "/v1"
        return {name: value for name, value in (env | dict(more)).items() if value != "-"}


@dataclass
class Heard:
    exit_code: int
    stdout: str
    stderr: str
    events: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.events = [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def facts(self) -> dict[str, object]:
        """What a reader of the stream learns about the provider and its answer."""
        init = next(event for event in self.events if event.get("subtype") == "init")
        result = self.events[-1]
        names = ("is_error", "result", "api_error_status", "terminal_reason", "api_error")
        errors = [event["error"] for event in self.events if event["type"] == "assistant" and "error" in event]
        usage = {name: each["provider"] for name, each in result["modelUsage"].items()}
        costs = {name: round(each.get("costUSD", 0.0), 9) for name, each in result["modelUsage"].items()}
        return {
            "model": init["model"],
            "key": init["apiKeySource"],
            "errors": errors,
            "usage": usage,
            "costs": costs,
            "exit code": self.exit_code,
            **{name: result.get(name) for name in names},
        }


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as servers:
        yield servers


def play(program: Path, endpoints: Endpoints, folder: Path, env: Mapping[str, str], model: str = "sonnet") -> Heard:
    home = folder / f"{program.name}-home"
    environment = endpoints.environment(home, env)
    argv = [program, *ARGS, *(("--model", model) if model else ()), "--", "hi"]
    done = subprocess.run(
        argv, cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    return Heard(done.returncode, done.stdout, done.stderr)


FIRST = ("anthropic", "foundry", "openai")
"""What `make test` plays."""

CHOSEN: dict[str, tuple[dict[str, str], str, str]] = {
    "anthropic": ({}, "sonnet", "anthropic"),
    "bedrock said off": ({"CLAUDE_CODE_USE_BEDROCK": "0"}, "sonnet", "anthropic"),
    "bedrock": (BEDROCK | AWS, "sonnet", "bedrock"),
    "bedrock, by a bearer token": (BEDROCK | {"AWS_BEARER_TOKEN_BEDROCK": "tok"}, "haiku", "bedrock"),
    "bedrock, behind a gateway": (BEDROCK | {"CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1"}, "opus", "bedrock"),
    "bedrock, in another region": (BEDROCK | AWS | {"AWS_REGION": "ap-northeast-1"}, "sonnet", "bedrock"),
    "bedrock, in a region of no geography": (BEDROCK | AWS | {"AWS_REGION": "sa-east-1"}, "sonnet", "bedrock"),
    "bedrock, the user's model": (BEDROCK | AWS | {"ANTHROPIC_DEFAULT_SONNET_MODEL": "mine"}, "sonnet", "bedrock"),
    "vertex": (VERTEX | NO_LOGIN, "sonnet", "vertex"),
    "vertex, its default": (VERTEX | NO_LOGIN, "", "vertex"),
    "vertex, a model in another region": (
        VERTEX | NO_LOGIN | {"VERTEX_REGION_CLAUDE_4_5_SONNET": "europe-west1"},
        "sonnet",
        "vertex",
    ),
    "foundry": (FOUNDRY | KEY, "sonnet", "foundry"),
    "foundry, its default": (FOUNDRY | KEY, "", "foundry"),
    "foundry, by a token": (FOUNDRY | {"ANTHROPIC_FOUNDRY_AUTH_TOKEN": "ft"}, "opus", "foundry"),
    "bedrock before vertex": (BEDROCK | AWS | VERTEX | NO_LOGIN, "sonnet", "bedrock"),
    "bedrock before foundry": (BEDROCK | AWS | FOUNDRY | KEY, "sonnet", "bedrock"),
    "foundry before vertex": (VERTEX | NO_LOGIN | FOUNDRY | KEY, "sonnet", "foundry"),
}
ONLY_OURS: dict[str, tuple[dict[str, str], str, str]] = {
    "openai": ({"OPENAI_API_KEY": "ok"}, "openai:gpt-9", "chat"),
    "openai, by a variable": ({"OPENAI_API_KEY": "ok", "ANTHROPIC_MODEL": "openai:gpt-9"}, "", "chat"),
    "openai, without a key": ({}, "openai:local", "chat"),
    "openai before a cloud": (BEDROCK | AWS | {"OPENAI_API_KEY": "ok"}, "openai:gpt-9", "chat"),
}


def marked(cases: Mapping[str, object]) -> pytest.MarkDecorator:
    names = [pytest.param(name, marks=() if name in FIRST else (pytest.mark.long,)) for name in cases]
    return pytest.mark.parametrize("name", names)


@pytest.mark.spec("4.5-d", case="bedrock")
@pytest.mark.spec("4.5-e", case="vertex")
@pytest.mark.spec("4.5-f", case="foundry")
@marked(CHOSEN | ONLY_OURS)
def test_a_prompt_goes_to_the_chosen_endpoint_and_to_no_other(name: str, servers: ExitStack, tmp_path: Path) -> None:
    env, model, chosen = (CHOSEN | ONLY_OURS)[name]
    endpoints = Endpoints(servers, [Say("hello")])
    heard = play(OURS, endpoints, tmp_path, env, model)
    assert (heard.exit_code, heard.events[-1]["result"]) == (0, "hello"), heard.stderr
    assert endpoints.asked == {chosen: 1}
    assert [len(api.ledger) for name, api in endpoints.apis.items() if name != chosen] == [0] * 4


FAILING: dict[str, tuple[dict[str, str], list[Reply]]] = {
    "bedrock, forbidden": (BEDROCK | {"CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1"}, [Fail(403, "", "no")] * 9),
    "vertex, forbidden": (VERTEX | NO_LOGIN, [Fail(403, "permission_error", "no")] * 9),
    "foundry, forbidden": (FOUNDRY | KEY, [Fail(403, "permission_error", "no")] * 9),
    "bedrock, no credentials": (BEDROCK, []),
    "bedrock, no such profile": (BEDROCK | {"AWS_PROFILE": "nosuch"}, []),
    "vertex, no credentials": (VERTEX, []),
    "vertex, no project": (VERTEX | NO_LOGIN | {"ANTHROPIC_VERTEX_PROJECT_ID": "-"}, []),
    "foundry, no resource": (FOUNDRY | KEY | {"ANTHROPIC_FOUNDRY_BASE_URL": "-"}, []),
    "foundry, two resources": (FOUNDRY | KEY | {"ANTHROPIC_FOUNDRY_RESOURCE": "res"}, []),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CHOSEN)
def test_the_same_provider_and_model_as_claude(name: str, servers: ExitStack, tmp_path: Path) -> None:
    env, model, chosen = CHOSEN[name]
    both: list[Heard] = []
    for program in (tools.find("claude"), OURS):
        endpoints = Endpoints(servers, [Say("hello")])
        both.append(play(program, endpoints, tmp_path, env, model))
        assert set(endpoints.asked) == {chosen}
    real, ours = (heard.facts for heard in both)
    if "the user's model" in name:  # 2.1.325 guesses its price
        del real["costs"], ours["costs"]
    assert ours == real


@pytest.mark.spec("4.5-g")
@pytest.mark.long
@pytest.mark.parametrize("name", FAILING)
def test_the_same_error_as_claude(name: str, servers: ExitStack, tmp_path: Path) -> None:
    env, script = FAILING[name]
    real, ours = (play(program, Endpoints(servers, script), tmp_path, env) for program in (tools.find("claude"), OURS))
    assert real.exit_code == 1
    assert ours.facts == real.facts


def test_without_a_credential_for_foundry_the_error_says_what_to_set(servers: ExitStack, tmp_path: Path) -> None:
    """2.1.325 asks Azure's own programs and machines for one; here the user names it."""
    endpoints = Endpoints(servers, [Say("hello")])
    heard = play(OURS, endpoints, tmp_path, FOUNDRY)
    assert (heard.exit_code, endpoints.asked) == (1, {})
    assert heard.events[-1]["result"].startswith("API Error: Could not load Azure credentials · Set ANTHROPIC_FOUNDRY")


@pytest.mark.long
@pytest.mark.parametrize("name", ["bedrock", "vertex", "foundry", "openai", "anthropic"])
def test_a_redirect_takes_no_prompt_elsewhere(name: str, servers: ExitStack, tmp_path: Path) -> None:
    env, model, chosen = (CHOSEN | ONLY_OURS)[name]
    elsewhere = Endpoints(servers, [Say("stolen")])
    away = {"location": f"{elsewhere.apis['anthropic'].url}/v1/messages"}
    endpoints = Endpoints(servers, [Fail(307, "redirect", "go there", away)])
    heard = play(OURS, endpoints, tmp_path, env | {"CLAUDE_CODE_MAX_RETRIES": "0"}, model)
    assert heard.exit_code == 1
    assert (endpoints.asked, elsewhere.asked) == ({chosen: 1}, {})


@pytest.mark.long
@pytest.mark.parametrize("name", ["bedrock", "vertex", "foundry", "openai", "anthropic"])
def test_tools_retries_and_errors_are_the_same_everywhere(name: str, servers: ExitStack, tmp_path: Path) -> None:
    env, model, chosen = (CHOSEN | ONLY_OURS)[name]
    file = tmp_path / f"{OURS.name}-home" / "a.txt"
    file.parent.mkdir()
    file.write_text("forty-two\n")
    call = tool("Read", file_path=str(file))
    script: list[Reply] = [
        Fail(503, "api_error", "soon", {"retry-after": "0"}),
        Say("I read", call),
        Say("done"),
        Cut(),
    ]
    endpoints = Endpoints(servers, script)
    heard = play(OURS, endpoints, tmp_path, env, model)
    assert (heard.exit_code, heard.events[-1]["result"], heard.events[-1]["num_turns"]) == (0, "done", 2)
    assert [event["subtype"] for event in heard.events if event["type"] == "system"][1] == "api_retry"
    assert "forty-two" in json.dumps(endpoints.apis[chosen].ledger.main[-1].request)
    assert heard.events[-1]["usage"]["output_tokens"] == 2 * Say().usage.output
    endpoints = Endpoints(servers, [Fail(200, "overloaded_error", "too much")])
    heard = play(OURS, endpoints, tmp_path, env | {"CLAUDE_CODE_MAX_RETRIES": "0"}, model)
    assert (heard.exit_code, heard.events[-1]["is_error"]) == (1, True)
    endpoints = Endpoints(servers, [Cut()])
    heard = play(OURS, endpoints, tmp_path, env | {"CLAUDE_CODE_MAX_RETRIES": "0"}, model)
    assert (heard.exit_code, heard.events[-1]["terminal_reason"]) == (1, "api_error")
