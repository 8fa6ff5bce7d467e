"""The real codex against the scripted model server: the facts about 0.163.0 that ralph relies on."""

import json
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.api_replies import Cut, Fail, Reply, Say, Stall, thinking, tool, usage_limit
from tests.support.real_codex import MODEL, codex_args, codex_env
from tests.support.responses_api import ResponsesApi, Script, ServeResponses
from tests.support.tokens import ONE_MESSAGE, Tokens
from tests.support.waiting import is_alive, kill_tree, wait_until

pytestmark = pytest.mark.long  # a real codex for each case; `tests/e2e/test_real_codex.py` has short sessions with it

Event = dict[str, Any]

FREE = ("--sandbox", "danger-full-access")
BIG = Tokens(5000, 70, 300, 1100, 30)
UNKNOWN_MODEL = (
    f"Model metadata for `{MODEL}` not found. "
    "Defaulting to fallback metadata; this can degrade performance and cause issues."
)
REFUSED = Fail(400, "invalid_request_error", "bad")


@dataclass(frozen=True)
class Finished:
    code: int
    stdout: str
    stderr: str
    api: ResponsesApi
    home: Path

    @property
    def events(self) -> list[Event]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def thread(self) -> str:
        return self.events[0]["thread_id"]

    @property
    def usage(self) -> object:
        (completed,) = self.of("turn.completed")
        return completed["usage"]

    def items(self, kind: str) -> list[Event]:
        """The finished items of this kind, without their ids."""
        items = [event["item"] for event in self.of("item.completed") if event["item"]["type"] == kind]
        return [{key: value for key, value in item.items() if key not in ("id", "type")} for item in items]

    @property
    def tool_output(self) -> str:
        """What the model was told in its second request, after a tool was called."""
        return self.api.ledger.main[1].request["input"][-1]["output"]

    @property
    def sandbox(self) -> str:
        return json.loads(self.api.ledger.main[0].headers["x-codex-turn-metadata"])["sandbox_mode"]

    @property
    def rollout(self) -> list[Event]:
        """The file that codex keeps of the thread."""
        (file,) = (self.home / ".codex" / "sessions").glob("*/*/*/rollout-*.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]


@dataclass(frozen=True)
class Codex:
    """Hold one turn of `codex exec`; several with the same fixture share a home."""

    path: Path
    repo: Path
    home: Path
    serve: ServeResponses

    def __call__(
        self,
        script: Script,
        *args: str | Path,
        prompt: str = "go",
        plain: bool = False,
        merged: bool = False,
        logged_in: bool = True,
    ) -> Finished:
        api = self.serve(script)
        env = codex_env(self.home, api.url, "key" if logged_in else "none")
        done = subprocess.run(
            [self.path, "exec", *(() if plain else ("--json",)), *args, "-"],
            cwd=self.repo,
            env=env,
            input=prompt,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            text=True,
            timeout=60,
        )
        return Finished(done.returncode, done.stdout, done.stderr or "", api, self.home)


@pytest.fixture
def codex(repo: Path, tmp_path: Path, responses_api: ServeResponses) -> Codex:
    return Codex(tools.find("codex"), repo, tmp_path / "home", responses_api)


def run(command: str) -> dict[str, object]:
    return tool("exec_command", cmd=command)


def patch(changes: str) -> dict[str, object]:
    """A patch in the words of its own program, which codex does not run but plays itself."""
    return run(f"apply_patch <<'EOF'\n*** Begin Patch\n{changes}\n*** End Patch\nEOF")


# What a turn prints.


def test_a_turn_with_tools(codex: Codex, repo: Path) -> None:
    turn = codex(
        [
            Say(thinking("**Plan** look"), "I look.", run("echo hi")),
            Say(run("echo bad >&2; exit 3"), usage=BIG),
            Say("All done."),
        ],
        *FREE,
        prompt="Look around.\n",
    )
    assert (turn.code, turn.stderr) == (0, "")
    assert [(event["type"], event.get("item", {}).get("type")) for event in turn.events] == [
        ("thread.started", None),
        ("item.completed", "error"),
        ("turn.started", None),
        ("item.completed", "reasoning"),
        ("item.completed", "agent_message"),
        ("item.started", "command_execution"),
        ("item.completed", "command_execution"),
        ("item.started", "command_execution"),
        ("item.completed", "command_execution"),
        ("item.completed", "agent_message"),
        ("turn.completed", None),
    ]
    assert turn.items("error") == [{"message": UNKNOWN_MODEL}], "a mere warning"
    assert turn.items("reasoning") == [{"text": "**Plan** look"}]
    assert turn.items("agent_message") == [{"text": "I look."}, {"text": "All done."}]
    assert turn.items("command_execution") == [
        {
            "command": "/bin/bash -lc 'echo hi'",
            "aggregated_output": "hi\n",
            "exit_code": 0,
            "status": "completed",
        },
        {
            "command": "/bin/bash -lc 'echo bad >&2; exit 3'",
            "aggregated_output": "bad\n",
            "exit_code": 3,
            "status": "failed",
        },
    ]
    assert turn.usage == turn.api.ledger.tokens.in_codex
    assert turn.api.ledger.main[0].user_texts[-1] == "Look around.\n", "stdin is the prompt, to the letter"


def test_the_settings_can_come_as_arguments(codex: Codex, responses_api: ServeResponses) -> None:
    elsewhere = responses_api([Say("hello")])
    turn = codex([], *FREE, "--ignore-user-config", *codex_args(elsewhere.url))
    assert turn.items("agent_message") == [{"text": "hello"}]
    assert (len(turn.api.ledger), len(elsewhere.ledger)) == (0, 1)


def test_a_patch_is_a_file_change(codex: Codex, repo: Path) -> None:
    turn = codex(
        [Say(patch("*** Add File: new.txt\n+new\n*** Update File: README.md\n@@\n-# Example\n+# Other"))], *FREE
    )
    (change,) = turn.items("file_change")
    assert (repo / "new.txt").read_text() == "new\n"
    assert change["status"] == "completed"
    assert {(Path(each["path"]).name, each["kind"]) for each in change["changes"]} == {
        ("new.txt", "add"),
        ("README.md", "update"),
    }
    assert not turn.items("command_execution")


def test_a_plan_is_a_list_of_todos_where_the_tool_is_switched_on(codex: Codex) -> None:
    plan = [{"step": "one", "status": "completed"}, {"step": "two", "status": "in_progress"}]
    script = [Say(tool("update_plan", plan=plan)), Say("done")]
    turn = codex(script, *FREE, "-c", "tools.update_plan.enabled=true")
    todos = {"items": [{"text": "one", "completed": True}, {"text": "two", "completed": False}]}
    assert turn.items("todo_list") == [todos]
    assert turn.events[-2]["item"]["type"] == "todo_list", "it is finished only when the turn ends"
    assert codex(script, *FREE).tool_output == "unsupported call: update_plan"


def test_a_command_that_is_refused_leaves_no_event(codex: Codex) -> None:
    turn = codex([Say(run("rm -f README.md")), Say("done")], *FREE)
    assert turn.code == 0
    assert "rm -f style commands are not permitted" in turn.tool_output
    assert not turn.items("command_execution")
    assert "exec_command failed" in turn.stderr


def test_a_compaction_is_billed_and_told_as_a_warning(codex: Codex) -> None:
    full = Say(run("true"), usage=Tokens(400_000, 100))
    turn = codex([full, Say("went on")], *FREE, "-c", "model_auto_compact_token_limit=100000")
    assert [served.kind for served in turn.api.ledger] == ["main", "compaction", "main"]
    assert turn.usage == turn.api.ledger.tokens.in_codex
    assert turn.items("error")[-1]["message"].startswith("Heads up: Long threads and multiple compactions")


# Plain output.


def transcript(text: str) -> str:
    """A transcript from its prompt on: what comes before names the machine. How long a command took is no matter."""
    return re.sub(r" in \d+ms:", " in 0ms:", text[text.index("user\ngo\n") :])


@pytest.mark.parametrize("merged", [True, False])
def test_plain_output_ends_with_the_last_message_once_more(codex: Codex, repo: Path, merged: bool) -> None:
    script = [Say(thinking("**Plan** look"), "I look.", run("echo hi; exit 3")), Say("All\ndone.", usage=BIG)]
    turn = codex(script, *FREE, plain=True, merged=merged)
    said = (
        f"user\ngo\nwarning: {UNKNOWN_MODEL}\n**Plan** look\ncodex\nI look.\n"
        f"exec\n/bin/bash -lc 'echo hi; exit 3' in {repo}\n exited 3 in 0ms:\nhi\n\n"
        "codex\nAll\ndone.\ntokens used\n6,656\n"
    )
    last = "All\ndone.\n"
    if merged:
        assert transcript(turn.stdout) == said + last
    else:
        assert (transcript(turn.stderr), turn.stdout) == (said, last)
    used = turn.api.ledger.tokens
    assert used.total - used.cache_read == 6656, "what was read from the cache is not in 'tokens used'"


def test_plain_output_says_what_was_used_even_when_the_turn_fails(codex: Codex) -> None:
    turn = codex([Say("I look.", run("true")), REFUSED], *FREE, plain=True, merged=True)
    body = '{"error": {"message": "bad", "type": "invalid_request_error", "code": null}}'
    assert turn.code == 1
    assert turn.stdout.endswith(f"\nERROR: {body}\nERROR: {body}\ntokens used\n1,286\n")


# What a thread keeps.


def test_a_resumed_thread_goes_on_and_its_usage_is_cumulative(codex: Codex) -> None:
    first = codex([Say("one")], *FREE, prompt="first")
    second = codex([Say("two", usage=BIG)], *FREE, "resume", first.thread, prompt="second")
    assert second.thread == first.thread
    texts = second.api.ledger.main[0].user_texts
    assert (texts.index("first") < texts.index("second"), texts[-1]) == (True, "second")
    assert first.usage == ONE_MESSAGE.in_codex
    assert second.usage == (ONE_MESSAGE + BIG).in_codex

    third = codex([Say(run("true")), REFUSED], *FREE, "resume", first.thread)
    fourth = codex([Say("four")], *FREE, "resume", first.thread)
    assert third.code == 1
    assert fourth.usage == (ONE_MESSAGE + BIG + ONE_MESSAGE + ONE_MESSAGE).in_codex, (
        "also for what the failed turn used"
    )


def test_a_resumed_thread_has_the_sandbox_of_its_own_arguments(codex: Codex) -> None:
    first = codex([Say("one")], *FREE)
    assert first.sandbox == "danger-full-access"
    assert codex([Say("two")], "resume", first.thread).sandbox == "read-only"
    assert codex([Say("two")], "--sandbox", "workspace-write", "resume", first.thread).sandbox == "workspace-write"
    refused = codex([Say("two")], "resume", first.thread, *FREE)
    assert refused.code == 2
    assert "unexpected argument '--sandbox'" in refused.stderr, "it is an option of exec, not of resume"


def test_a_directory_it_may_write_to_becomes_a_trusted_one(codex: Codex) -> None:
    codex([], "--sandbox", "workspace-write")
    config = (codex.home / ".codex" / "config.toml").read_text()
    assert f'[projects."{codex.repo}"]\ntrust_level = "trusted"' in config


@pytest.mark.parametrize("ephemeral", [True, False])
def test_a_thread_that_was_not_kept_cannot_be_resumed(codex: Codex, ephemeral: bool) -> None:
    thread = codex([], *FREE, "--ephemeral").thread if ephemeral else "01a1e3a9-2204-73a1-8da4-bbda41c5c616"
    turn = codex([], *FREE, "resume", thread)
    assert (turn.code, turn.stdout) == (1, "")
    assert f"no rollout found for thread id {thread}" in turn.stderr


def test_only_the_rollout_tells_what_a_failed_turn_used(codex: Codex) -> None:
    turn = codex([Say(run("true")), Say(run("true"), usage=BIG), REFUSED], *FREE)
    assert turn.code == 1
    assert not [event for event in turn.events if "usage" in event]
    assert turn.stderr == ""

    used = turn.api.ledger.tokens
    records = [line["payload"] for line in turn.rollout if line["type"] == "token_usage_record"]
    whole = used.in_codex | {"total_tokens": used.total}
    assert [record["usage"]["total_tokens"] for record in records] == [ONE_MESSAGE.total, BIG.total]
    assert (records[-1]["turn_token_usage"], records[-1]["thread_token_usage"]) == (whole, whole)

    counts = [line["payload"]["info"] for line in turn.rollout if line["payload"].get("type") == "token_count"]
    assert counts[-1]["total_token_usage"] == whole
    assert counts[-1]["last_token_usage"] == BIG.in_codex | {"total_tokens": BIG.total}
    assert counts[-1]["model_context_window"] == 258_400


def test_the_shape_of_the_answer_is_asked_for_but_not_checked(codex: Codex, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]}
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    turn = codex([Say("not json at all")], *FREE, "--output-schema", file)
    assert turn.code == 0
    assert turn.api.ledger.main[0].request["text"]["format"] == {
        "type": "json_schema",
        "strict": True,
        "schema": schema,
        "name": "codex_output_schema",
    }
    again = codex([Say("{}")], *FREE, "--output-schema", file, "resume", turn.thread)
    assert again.api.ledger.main[0].request["text"]["format"]["schema"] == schema


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "no such effort"])
def test_the_effort_reaches_the_model_unchecked(codex: Codex, effort: str) -> None:
    turn = codex([Say("done")], *FREE, "-c", f'model_reasoning_effort="{effort}"')
    assert turn.code == 0
    assert turn.api.ledger.main[0].request["reasoning"]["effort"] == effort


# What fails.

USAGE_LIMIT = (
    "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), "  # noqa: RUF001 - codex's own
    "visit https://chatgpt.com/settings/usage to purchase more credits or try again at Mar 17th, 2030 5:46 PM."
)
HIGH_DEMAND = "We’re currently experiencing high demand, which may cause temporary errors."  # noqa: RUF001

FAILURES: dict[str, tuple[Reply, str, int, bool]] = {  # reply, message, requests, whether it told of reconnecting
    "401": (
        Fail(401, "invalid_request_error", "Incorrect API key provided", more={"code": "invalid_api_key"}),
        "unexpected status 401 Unauthorized: Incorrect API key provided, url: {url}/v1/responses",
        2,
        True,
    ),
    "403": (
        Fail(403, "permission_error", "no"),
        "unexpected status 403 Forbidden: no, url: {url}/v1/responses",
        2,
        True,
    ),
    "unknown model": (
        Fail(404, "invalid_request_error", "The model does not exist", more={"code": "model_not_found"}),
        "unexpected status 404 Not Found: The model does not exist, url: {url}/v1/responses",
        2,
        True,
    ),
    "400": (
        REFUSED,
        '{{"error": {{"message": "bad", "type": "invalid_request_error", "code": null}}}}',
        1,
        False,
    ),
    "429": (
        Fail(429, "rate_limit_error", "Rate limit reached"),
        "exceeded retry limit, last status: 429 Too Many Requests",
        1,
        False,
    ),
    "429 that says how long": (
        Fail(429, "rate_limit_error", "Rate limit reached", {"retry-after": "1"}),
        "exceeded retry limit, last status: 429 Too Many Requests",
        2,
        True,
    ),
    "rate limit told late": (
        Fail(200, "rate_limit_exceeded", "Please try again in 0.1s."),
        "rate limit exceeded: Please try again in 0.1s.",
        2,
        True,
    ),
    "usage limit": (usage_limit(1_900_000_000), USAGE_LIMIT, 1, False),
    "usage limit of a team": (
        usage_limit(1_900_000_000, "team"),
        "You’ve hit your usage limit. To get more access now, send a request to your admin "  # noqa: RUF001
        "or try again at Mar 17th, 2030 5:46 PM.",
        1,
        False,
    ),
    "usage limit without a time": (
        Fail(429, "usage_limit_reached", "x"),
        "You’ve hit your usage limit. Try again later.",  # noqa: RUF001
        1,
        False,
    ),
    "no plan": (
        Fail(429, "usage_not_included", "x"),
        "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
        1,
        False,
    ),
    "no money": (
        Fail(429, "insufficient_quota", "x", more={"code": "insufficient_quota"}),
        "Quota exceeded. Check your plan and billing details.",
        1,
        False,
    ),
    "500": (Fail(500, "server_error", "boom"), HIGH_DEMAND, 4, True),
    "503": (
        Fail(503, "server_error", "busy"),
        "unexpected status 503 Service Unavailable: busy, url: {url}/v1/responses",
        4,
        True,
    ),
    "overloaded": (
        Fail(200, "server_is_overloaded", "x"),
        "Selected model is at capacity. Please try a different model.",
        1,
        False,
    ),
    "context overflow": (
        Fail(200, "context_length_exceeded", "x"),
        "Codex ran out of room in the model's context window. "
        "Start a new thread or clear earlier history before retrying.",
        1,
        False,
    ),
    "cut": (
        Cut(),
        "stream disconnected before completion: stream closed before response.completed",
        2,
        True,
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_told_in_words_only(codex: Codex, failure: str) -> None:
    reply, words, requests, reconnects = FAILURES[failure]
    turn = codex(lambda _number, _request: reply, *FREE)
    message = words.format(url=turn.api.url)
    told = [event["message"] for event in turn.of("error")]
    assert turn.code == 1
    assert turn.events[-1] == {"type": "turn.failed", "error": {"message": message}}
    assert told == [*([f"Reconnecting... 1/1 ({message})"] if reconnects else []), message]
    assert len(turn.api.ledger.main) == requests


@pytest.mark.parametrize("bad", [Cut(), Stall("mid_stream")])
def test_an_error_may_be_followed_by_success(codex: Codex, bad: Reply) -> None:
    turn = codex([bad, Say("recovered")], *FREE, "-c", "model_providers.scripted.stream_idle_timeout_ms=300")
    assert turn.code == 0
    assert [event["message"].startswith("Reconnecting... 1/1 (stream disconnected") for event in turn.of("error")] == [
        True
    ]
    assert turn.usage == ONE_MESSAGE.in_codex, "what was cut is not counted"


def test_without_a_login_it_asks_without_one_and_says_what_the_api_says(codex: Codex) -> None:
    missing = Fail(401, "invalid_request_error", "Missing bearer or basic authentication in header")
    turn = codex(lambda _number, _request: missing, *FREE, logged_in=False)
    assert turn.code == 1
    assert "401 Unauthorized: Missing bearer or basic authentication" in turn.events[-1]["error"]["message"]
    assert "authorization" not in turn.api.ledger.main[0].headers
    assert codex([], *FREE).api.ledger.main[0].headers["authorization"] == "Bearer dummy"


@pytest.mark.parametrize("key", [{}, {"CODEX_API_KEY": "dummy"}])
def test_its_login_status_knows_nothing_of_a_key(codex: Codex, key: dict[str, str]) -> None:
    env = codex_env(codex.home, "http://127.0.0.1:1", "none") | key
    asked = subprocess.run([codex.path, "login", "status"], env=env, capture_output=True, text=True)
    assert (asked.returncode, asked.stdout, asked.stderr) == (1, "", "Not logged in\n")


def test_outside_a_repository_it_refuses_to_start(codex: Codex, tmp_path: Path) -> None:
    refused = codex([], *FREE, "--cd", tmp_path)
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == "Not inside a trusted directory and --skip-git-repo-check was not specified.\n"


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_it_refuses_an_empty_prompt(codex: Codex, prompt: str) -> None:
    refused = codex([], *FREE, prompt=prompt)
    assert (refused.code, refused.stdout, refused.stderr) == (1, "", "No prompt provided via stdin.\n")


# Running processes.


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def events(self) -> list[Event]:
        return [json.loads(line) for line in self.output.read_text().split("\n")[:-1]]


def start(codex: Codex, api_url: str, *args: str) -> Running:
    output = codex.home.parent / "stdout"
    env = codex_env(codex.home, api_url)
    with output.open("wb") as stdout:
        process = subprocess.Popen(
            [codex.path, "exec", "--json", *args, "-"],
            cwd=codex.repo,
            env=env,
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    assert process.stdin
    process.stdin.write(b"go")
    process.stdin.close()
    return Running(process, output)


def test_without_a_network_it_waits_for_one(codex: Codex) -> None:
    with ResponsesApi([]) as gone:
        pass
    running = start(codex, gone.url, *FREE)
    try:
        wait_until(lambda: any(event["type"] == "error" for event in running.events), "the first complaint")
        # Seen to go on for 40 s and more with one retry each of a request and a stream, complaining every 10 s or so.
        assert running.process.poll() is None
    finally:
        kill_tree(running.process.pid)
        running.process.wait(90)
    told = [event["message"] for event in running.events if event["type"] == "error"]
    assert set(told) == {"Reconnecting... waiting for network (Connection failed: error sending request)"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_a_signal_ends_it_with_its_command_and_no_event_tells(
    codex: Codex, responses_api: ServeResponses, number: signal.Signals, code: int
) -> None:
    api = responses_api([Say(run("echo $$ > pid; exec sleep 60"))])
    running = start(codex, api.url, *FREE)
    pid = codex.repo / "pid"
    try:
        wait_until(lambda: pid.exists() and pid.read_text().strip(), "the command")
        wait_until(lambda: running.events[-1]["type"] == "item.started", "the event of its start")
        command = int(pid.read_text())
        running.process.send_signal(number)
        assert running.process.wait(90) == code
        wait_until(lambda: not is_alive(command), "the end of the command")
    finally:
        kill_tree(running.process.pid)
        running.process.wait(90)
    assert running.events[-1]["type"] == "item.started"


# The sandbox.


@pytest.fixture
def sandboxed(codex: Codex) -> Codex:
    """A codex on a machine that lets it make its sandbox, which on Linux needs user namespaces."""
    bwrap = codex.path.parent / "codex-resources" / "bwrap"
    if bwrap.exists() and subprocess.run([bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"]).returncode != 0:
        tools.lacking("bubblewrap may not make a sandbox here")
    return codex


@pytest.mark.parametrize(
    ("mode", "written"),
    [
        ("read-only", []),
        ("workspace-write", ["inside"]),
        ("danger-full-access", ["inside", "outside", "git"]),
    ],
)
def test_the_sandbox_bounds_what_a_command_can_write(
    sandboxed: Codex, tmp_path: Path, mode: str, written: list[str]
) -> None:
    places = {"inside": "a", "outside": str(tmp_path / "a"), "git": ".git/a"}
    look = "; ".join(f"echo x > {place} && echo {name}" for name, place in places.items())
    # Without the setting all of /tmp can be written to, where tests may live.
    own = ("-c", "sandbox_workspace_write.exclude_slash_tmp=true")
    turn = sandboxed([Say(run(f"{look}; exit 0")), Say("done")], "--sandbox", mode, *own)
    (command,) = turn.items("command_execution")
    assert turn.sandbox == mode
    assert [line for line in command["aggregated_output"].splitlines() if line in places] == written
    assert command["aggregated_output"].count("Read-only file system") == len(places) - len(written)


def test_a_commit_fails_in_the_sandbox(sandboxed: Codex) -> None:
    # No look at the events: a command that the sandbox stops at once leaves none (16 of 16 tries), one that had run for
    # 0.3 s leaves the usual two (8 of 8).
    turn = sandboxed([Say(run("git commit --allow-empty -m x")), Say("done")], "--sandbox", "workspace-write")
    assert "Process exited with code 128" in turn.tool_output
    assert "Read-only file system" in turn.tool_output


def test_a_patch_is_refused_where_nothing_may_be_written(codex: Codex) -> None:
    turn = codex([Say(patch("*** Add File: new.txt\n+new"))], "--sandbox", "read-only")
    assert not (codex.repo / "new.txt").exists()
    assert turn.tool_output.startswith("patch rejected: writing is blocked by read-only sandbox")
    assert not turn.items("file_change")
