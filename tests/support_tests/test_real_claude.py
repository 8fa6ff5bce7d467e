"""The real claude against the scripted model server; and the scripted agent held to what the real one prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import scripted_agent as steps
from tests.support import tools
from tests.support.api_replies import Fail, Say, text, thinking, tool, usage_limit_headers
from tests.support.conversation import CLAUDE_ARGS, Conversation
from tests.support.messages_api import Script, ServeMessages
from tests.support.real_claude import Auth, claude_env
from tests.support.scripted_agent import Session, scripted_agent
from tests.support.tokens import ONE_MESSAGE, Tokens
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long  # a real claude for each case; `tests/e2e/test_real_claude.py` has short sessions with it

Event = dict[str, Any]
Drive = Callable[[Conversation], None]
AUTO_APPROVE = ("--allowedTools", "Read,Write,Edit,Glob,Grep,Bash")


@pytest.fixture(scope="module")
def claude() -> Path:
    return tools.find("claude")


def spent(result: Event) -> Tokens:
    counts = result["modelUsage"].values()
    keys = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
    return sum((Tokens(*(count[key] for key in keys)) for count in counts), Tokens())


def one_turn(talk: Conversation) -> None:
    talk.say("go")
    talk.wait_for("result")


def two_turns(talk: Conversation) -> None:
    one_turn(talk)
    talk.say("You must use the StructuredOutput tool.")
    talk.wait_for("result", 2)


def interrupted_turn(talk: Conversation) -> None:
    talk.say("go")
    talk.wait_for("assistant")
    wait_until(lambda: Path(f"/proc/{talk.process.pid}/cwd/began").exists(), "the command")
    talk.interrupt()
    talk.wait_for("result")


def test_it_works_and_is_billed_for_what_was_served(
    claude: Path, messages_api: ServeMessages, repo: Path, tmp_path: Path
) -> None:
    api = messages_api(
        [
            Say(thinking("hm"), text("I write"), tool("Write", file_path=f"{repo}/hello.txt", content="hello\n")),
            Say(tool("StructuredOutput", summary="wrote hello"), usage=Tokens(5000, 7, 300, 1100)),
        ]
    )
    with Conversation([claude, *CLAUDE_ARGS, *AUTO_APPROVE], repo, claude_env(tmp_path / "home", api.url)) as talk:
        talk.say("Write hello.")
        result = talk.wait_for("result")
        assert talk.end() == 0

    assert (repo / "hello.txt").read_text() == "hello\n"
    assert (result["subtype"], result["is_error"]) == ("success", False)
    assert result["structured_output"] == {"summary": "wrote hello"}
    assert spent(result) == api.ledger.tokens
    assert api.ledger.tokens == Tokens(6234, 49, 310, 1120)
    assert [served.kind for served in api.ledger] == ["main", "main"]
    assert api.ledger.main[0].user_texts[-1] == "Write hello."


@pytest.mark.parametrize(
    ("auth", "reply", "kinds", "text"),
    [
        ("none", Say("unheard"), [], "Not logged in"),
        (
            "oauth",
            Fail(429, "rate_limit_error", "no", usage_limit_headers("rejected", 4_000_000_000)),
            ["main"],
            "limit",
        ),
    ],
)
def test_it_reports_the_login_and_the_usage_limit(
    claude: Path, messages_api: ServeMessages, repo: Path, tmp_path: Path, auth: Auth, reply: Any, kinds: Any, text: str
) -> None:
    api = messages_api(lambda _number, _request: reply)
    with Conversation([claude, *CLAUDE_ARGS], repo, claude_env(tmp_path / "home", api.url, auth)) as talk:
        one_turn(talk)
        assert talk.end() == 1
        result = talk.wait_for("result")
        limits = [event["rate_limit_info"] for event in talk.events if event["type"] == "rate_limit_event"]
    assert result["is_error"]
    assert text in result["result"]
    assert [served.kind for served in api.ledger] == kinds
    assert [(limit["status"], limit["resetsAt"]) for limit in limits] == (
        [("rejected", 4_000_000_000)] if auth == "oauth" else []
    )


def test_a_compaction_is_billed_but_takes_nothing_from_the_script(
    claude: Path, messages_api: ServeMessages, repo: Path, tmp_path: Path
) -> None:
    full = Say(tool("Bash", command="true", description="Wait"), usage=Tokens(400_000, 100))
    api = messages_api([full, full, Say(tool("StructuredOutput", summary="went on"))])
    env = claude_env(tmp_path / "home", api.url) | {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "20"}
    with Conversation([claude, *CLAUDE_ARGS, *AUTO_APPROVE], repo, env) as talk:
        one_turn(talk)
        result = talk.wait_for("result")
        assert talk.end() == 0
    assert result["structured_output"] == {"summary": "went on"}
    assert [served.kind for served in api.ledger] == ["main", "main", "compaction", "main"]
    assert spent(result) == api.ledger.tokens
    assert result["usage"]["input_tokens"] == api.ledger.tokens.input - ONE_MESSAGE.input


def test_its_home_holds_all_that_it_leaves(
    claude: Path, messages_api: ServeMessages, repo: Path, tmp_path: Path
) -> None:
    api = messages_api([Say(tool("StructuredOutput", summary="x"))])
    home = tmp_path / "home"
    with Conversation([claude, *CLAUDE_ARGS], repo, claude_env(home, api.url)) as talk:
        one_turn(talk)
        talk.end()
        socket = Path(talk.wait_for("init")["messaging_socket_path"])
    assert (home / ".claude.json").exists()
    assert home in socket.parents


# Told of a command once it has run for some seconds (2.1.325), so on a busy machine only.
OF_SLOW_COMMANDS = ("task_started", "task_notification")
LOOP = "touch began; for i in $(seq 600); do sleep 0.1; done"

SAME_STORY: dict[str, tuple[Script, Session, tuple[str, ...], Drive]] = {
    "work": (
        [
            Say(thinking("hm"), text("I write"), tool("Write", file_path="new.txt", content="x\n")),
            Say(tool("Bash", command="echo out; exit 3", description="Run a command")),
            Say(tool("Bash", command="true", description="Run a command")),
            Say(tool("StructuredOutput", summary="did")),
        ],
        [
            steps.think("hm"),
            steps.say("I write"),
            steps.write("new.txt", "x\n"),
            steps.run("echo out; exit 3"),
            steps.run("true"),
            steps.summary("did"),
        ],
        AUTO_APPROVE,
        one_turn,
    ),
    "words, then a correction": (
        [Say("no"), Say("no"), Say(tool("StructuredOutput", summary="ok"))],
        [[steps.answer("no")], [steps.summary("ok")]],
        (),
        two_turns,
    ),
    "denied": (
        [Say(tool("Write", file_path="new.txt", content="x")), Say(tool("StructuredOutput", summary="ok"))],
        [steps.deny("Write", {"file_path": "new.txt", "content": "x"}), steps.summary("ok")],
        (),
        one_turn,
    ),
    "refused by the API": (
        lambda _number, _request: Fail(403, "permission_error", "no"),
        [steps.api_error(403, "Failed to authenticate. API Error: 403 no", error="authentication_failed")],
        (),
        one_turn,
    ),
    "out of turns": (
        [Say(tool("Bash", command="echo hi", description="Run a command")), Say("unheard")],
        [steps.run("echo hi"), steps.result_subtype("error_max_turns", ["Reached maximum number of turns (1)"])],
        (*AUTO_APPROVE, "--max-turns", "1"),
        one_turn,
    ),
    "interrupted": (
        [Say(tool("Bash", command=LOOP, description="Run a command"))],
        [steps.run(LOOP)],
        AUTO_APPROVE,
        interrupted_turn,
    ),
}


@pytest.mark.spec("2.19-a")
@pytest.mark.parametrize("story", SAME_STORY)
def test_the_scripted_agent_prints_the_same_shapes(
    claude: Path, messages_api: ServeMessages, repo: Path, tmp_path: Path, story: str
) -> None:
    script, session, args, drive = SAME_STORY[story]
    env = claude_env(tmp_path / "home", messages_api(script).url)
    agent = scripted_agent(tmp_path / "bin", [session])
    told: list[tuple[int, list[Event]]] = []
    for program in (claude, agent.path):
        for leftover in ("new.txt", "began"):
            (repo / leftover).unlink(missing_ok=True)
        with Conversation([program, *CLAUDE_ARGS, *args], repo, env) as talk:
            drive(talk)
            told.append((talk.end(), [event for event in talk.events if event.get("subtype") not in OF_SLOW_COMMANDS]))
    (real_code, real), (scripted_code, scripted) = told
    assert [shape(event) for event in scripted] == [shape(event) for event in real]
    assert scripted_code == real_code
    assert [spent(event) for event in scripted if event["type"] == "result"] == [
        spent(event) for event in real if event["type"] == "result"
    ]


def shape(event: Event) -> dict[str, object]:
    """What a reader of the stream can rely on: names and kinds, and the values that are the same in every run."""
    facts: dict[str, object] = {"keys": sorted(event)}
    for key in (
        "type",
        "subtype",
        "is_error",
        "api_error_status",
        "num_turns",
        "stop_reason",
        "terminal_reason",
        "error",
    ):
        facts[key] = event.get(key)
    if message := event.get("message"):
        facts["message"] = sorted(message) if isinstance(message, dict) else type(message)
    if isinstance(message, dict):
        facts["blocks"] = [{key: type(value) for key, value in block.items()} for block in message["content"]]
        facts["block types"] = [block["type"] for block in message["content"]]
        facts["message usage"] = sorted(message.get("usage", {}))
    facts["tool_use_result"] = type(event.get("tool_use_result"))
    if event["type"] == "result":
        facts["usage"] = sorted(event["usage"])
        facts["modelUsage"] = {model: sorted(usage) for model, usage in event["modelUsage"].items()}
        facts["result text"] = event.get("result")
        facts["structured_output"] = event.get("structured_output")
        facts["denials"] = [sorted(denial) for denial in event["permission_denials"]]
    return facts
