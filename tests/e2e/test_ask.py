"""`ralph ask` and `ralph.provider`, with the real Claude Code against a scripted model, and with faulty ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ralph.config.paths import user_config
from tests.support import tools
from tests.support.api_replies import Fail, Say, text, tool
from tests.support.messages_api import MessagesApi, ServeMessages
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.waiting import PATIENCE, is_alive, pid_in

DOCS = Path(__file__).parents[2] / "docs"
LEFT_BEHIND = "(while :; do read -t 1 x; done) & echo $! > {}; while :; do read -t 1 x; done"
KEYS = ["text", "model", "processing_time_ms", "num_turns", "cost_usd", "session_id", "partial"]

Ask = Callable[..., Finished]


@pytest.fixture
def real_env(ralph: Ralph, bin_dir: Path, world: Path) -> Callable[[MessagesApi], Mapping[str, str]]:
    """The environment in which `claude` on PATH is the real one, and talks to this server."""
    (bin_dir / "claude").symlink_to(tools.find("claude"))
    return lambda api: claude_env(world / "home", api.url) | {"PATH": ralph.env["PATH"], "CLAUDECODE": "1"}


@pytest.fixture
def ask(ralph: Ralph, real_env: Callable[[MessagesApi], Mapping[str, str]]) -> Ask:
    """Ask the real claude."""

    def run(api: MessagesApi, *args: str | Path, input: str | None = None) -> Finished:  # noqa: A002
        return ralph("ask", *args, env=real_env(api), timeout=120, input=input)

    return run


def fake_claude(bin_dir: Path, script: str) -> None:
    (bin_dir / "claude").write_text(f"#!/bin/sh\n{script}\n")
    (bin_dir / "claude").chmod(0o755)


def offered(api: MessagesApi, number: int = 0) -> set[str]:
    """The tools that the model could call; 2.1.325 adds a placeholder by itself."""
    return {each["name"] for each in api.ledger.main[number].request["tools"]} - {"DeferredToolPlaceholder"}


@pytest.mark.spec("5.1-abgh", "5.2-b", "5.9-c", "5.10-d")
def test_the_answer_alone_is_on_stdout_and_the_context_is_one_prompt(
    ask: Ask, repo: Path, messages_api: ServeMessages
) -> None:
    history = repo / "history.json"
    history.write_text('[{"role": "user", "content": "Which one?"}, {"role": "assistant", "content": "SQLite."}]')
    made = Say(tool("Bash", command=f"touch {repo}/made", description="make a file"))
    api = messages_api([made, Say("The answer:\n\n42 \x1b]0;title\x07")])

    done = ask(api, "/why that?", "--system", "Be brief.", "--history", history)

    assert (done.exit_code, done.stdout, done.stderr) == (0, "The answer:\n\n42 \\x1b]0;title\\x07\n", "")
    assert (repo / "made").exists(), "the default tools are approved"
    # Spec 5 permits tools by --allowedTools, which only approves them: what restricts is --tools (2.1.325).
    assert offered(api) == {"Bash", "Read", "Write", "Edit"}
    asked = "[System]\nBe brief.\n\n[User]\nWhich one?\n\n[Assistant]\nSQLite.\n\n[User]\n/why that?"
    assert asked in api.ledger.main[0].user_texts


@pytest.mark.spec("3.1-c", "3.2-b", "3.4-ab", "3.5-e", "3.8-de", "3.14-e")
@pytest.mark.spec("5.1-ci", "5.4-a", "5.6-ce", "5.9-ab", "5.10-e")
def test_questions_with_one_session_id_share_a_conversation(ask: Ask, messages_api: ServeMessages) -> None:
    """Claude refuses an id of its own a second time (2.1.325): the conversation is resumed instead."""
    session = str(uuid.uuid4())
    long_question = "word " * 60_000  # 300 kB, more than an argument can be
    api = messages_api([Say("It is SQLite."), Say("Since 2019.")])

    first = ask(api, "-", "--session-id", session, "--json", "--allowed-tools", "Bash(git *),Read", input=long_question)
    second = ask(api, "Since when?", "--session-id", session, "--json")

    answers = [json.loads(done.stdout) for done in (first, second)]
    assert [list(answer) for answer in answers] == [KEYS, KEYS]
    assert [answer["text"] for answer in answers] == ["It is SQLite.", "Since 2019."]
    assert {answer["session_id"] for answer in answers} == {session}
    assert "opus" in answers[0]["model"]
    assert answers[0]["num_turns"] == 1
    assert 0 < answers[0]["cost_usd"] < answers[1]["cost_usd"]
    assert answers[0]["processing_time_ms"] > 0
    assert answers[0]["partial"] is False
    assert any(long_question.strip() in words for words in api.ledger.main[0].user_texts)
    assert any(long_question.strip() in words for words in api.ledger.main[1].user_texts)
    assert offered(api) == {"Bash", "Read"}


@pytest.mark.spec("5.2-c", "5.3-abc", "5.8-d", "5.10-g")
def test_when_the_turns_run_out_the_partial_text_is_the_answer(ask: Ask, messages_api: ServeMessages) -> None:
    """The result has no text then, and claude exits with 1 (2.1.325): the messages before it have."""
    user_config().parent.mkdir(parents=True)
    user_config().write_text("[provider.claude-code]\nmax_turns = 2\ntimeout_secs = 90\n")
    echo = tool("Bash", command="echo hi", description="say hi")
    api = messages_api([Say(text("I look."), echo), Say(text("I see."), echo), Say("never said")])

    done = ask(api, "what?", "--json")

    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["text"], answer["partial"]) == ("I look.\n\nI see.", True)
    assert done.stderr == "warning: claude used all of its 2 turns: the answer may be incomplete\n"


@pytest.mark.spec("5.10-b")
def test_a_claude_that_fails_is_an_error_with_its_own_words(ask: Ask, messages_api: ServeMessages) -> None:
    api = messages_api([Fail(401, "authentication_error", "no such key")] * 4)

    done = ask(api, "what?")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: claude failed (exit 1): ")
    assert "API Error: 401 no such key" in done.stderr
    assert done.stderr.endswith("\n\nhint: log in: run `claude` once\n")


@pytest.mark.spec("5.6-abd", "5.8-cefg", "5.10-c")
@pytest.mark.parametrize(
    ("script", "exit_code", "stdout", "stderr"),
    [
        ("echo 'plain words'", 0, "plain words\n", "warning: claude did not print JSON; this is its raw output\n"),
        ("""echo '{"type": "result", "tor'""", 0, '{"type": "result", "tor\n', "warning: claude did not print JSON"),
        ("""echo '{"type": "result", "subtype": "success"}'""", 0, "(No response text returned)\n", ""),
        (
            """echo '{"type": "result", "subtype": "error_during_execution", "is_error": true, "result": ""}'""",
            0,
            "Error from Claude: error_during_execution\n",
            "",
        ),
        (
            """echo '{"type": "result", "subtype": "error_max_turns", "is_error": true}'; exit 1""",
            0,
            "Error from Claude: error_max_turns\n",
            "warning: claude used all of its 10 turns",
        ),
        ("""echo '{"type": "result", "result": "old", "model": "m"}'""", 0, "old\n", ""),
        ("echo 'out of memory' >&2; exit 7", 1, "", "error: claude failed (exit 7): out of memory\n"),
        ("kill -9 $$", 1, "", "error: claude failed (killed by signal 9): no message on stderr\n"),
    ],
)
def test_what_claude_may_print(
    ralph: Ralph, bin_dir: Path, script: str, exit_code: int, stdout: str, stderr: str
) -> None:
    fake_claude(bin_dir, f"cat > /dev/null\n{script}")

    done = ralph("ask", "what?")

    assert (done.exit_code, done.stdout) == (exit_code, stdout), done.stderr
    assert done.stderr.startswith(stderr)
    assert stderr or not done.stderr


@pytest.mark.spec("5.1-def", "5.2-a", "5.7-ab")
def test_how_claude_is_started(ralph: Ralph, bin_dir: Path) -> None:
    fake_claude(bin_dir, 'cat > /dev/null; echo "$*"; echo "nested: ${CLAUDECODE-no}, mine: $MINE"')

    done = ralph("ask", "what?", env={"CLAUDECODE": "1", "MINE": "kept"})

    tools_of = (
        "--tools Bash,Read,Write,Edit --allowedTools Bash --allowedTools Read --allowedTools Write --allowedTools Edit"
    )
    started, env = done.stdout.splitlines()
    assert started == f"-p --output-format json --verbose --max-turns 10 {tools_of}"
    assert env == "nested: no, mine: kept"


@pytest.mark.spec("5.5-bcd", "5.10-f")
@pytest.mark.parametrize("setting", [["--timeout", "2"], []])
def test_a_claude_that_takes_too_long_is_ended_with_all_that_it_started(
    ralph: Ralph, bin_dir: Path, setting: list[str]
) -> None:
    user_config().parent.mkdir(parents=True)
    user_config().write_text("[provider.claude-code]\ntimeout_secs = 2\n" if not setting else "")
    child = ralph.repo.parent / "child.pid"
    fake_claude(bin_dir, f"setsid sh -c 'echo $$ > {child}; while :; do sleep 1; done' & cat > /dev/null; wait")

    done = ralph("ask", "what?", *setting)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: claude did not answer within 2.0s\n\nhint: ")
    assert not is_alive(pid_in(child))


def test_ctrl_c_ends_claude(ralph: Ralph, bin_dir: Path) -> None:
    child = ralph.repo.parent / "child.pid"
    fake_claude(bin_dir, f"setsid sh -c 'echo $$ > {child}; while :; do sleep 1; done' & wait")

    with ralph.start("ask", "what?") as asking:
        asking.wait_until(lambda: child.exists() and child.read_text(), "a child of claude's")
        asking.send(2)
        assert asking.wait().exit_code == 130

    assert not is_alive(pid_in(child))


def test_bad_input_starts_nothing(ralph: Ralph, bin_dir: Path) -> None:
    started = ralph.repo.parent / "started"
    fake_claude(bin_dir, f"touch {started}")
    broken = ralph.repo / "broken.json"
    broken.write_text('[{"role": "user", "content": "a"}, {"role": "robot", "content": "b"}]')
    ended = ralph.repo / "ended.json"
    ended.write_text('[{"role": "assistant", "content": "a"}]')
    refused = {
        ("",): "the prompt is empty",
        (): "there is no prompt",
        ("--history", ended): "there is no prompt",
        ("-",): "the prompt is empty",
        ("x", "--history", broken): "message 2: role must be one of system, user, assistant",
        ("x", "--history", "none.json"): "cannot read none.json: No such file",
        ("x", "--history", ralph.repo / "README.md"): "not JSON",
        ("x", "--session-id", "mine"): "--session-id: 'mine' is not a UUID",
        ("x", "--max-turns", "0"): "--max-turns: '0' is not a whole number above zero",
        ("x", "--timeout", "soon"): "--timeout: 'soon' is not a duration",
        ("x", "--timeout", "0"): "--timeout: '0s' is not a duration above zero",
        ("x", "--model", "y"): "no such option: --model",
    }

    for args, message in refused.items():
        done = ralph("ask", *args)
        assert (done.exit_code, done.stdout) == (2, ""), args
        assert done.stderr.startswith("error: ")
        assert message in done.stderr

    assert not started.exists()


@pytest.mark.spec("5.8-a", "5.10-a")
def test_without_claude_the_way_to_it_is_named(ralph: Ralph) -> None:
    done = ralph("ask", "what?", env={"PATH": "/nowhere"})

    assert (done.exit_code, done.stdout) == (6, "")
    assert done.stderr.startswith("error: cannot run claude: claude was not found on PATH\n\nhint: install Claude Code")


@pytest.mark.spec("5.5-c")
@pytest.mark.long
def test_the_real_claude_is_ended_in_time_with_its_commands(ask: Ask, repo: Path, messages_api: ServeMessages) -> None:
    child = repo.parent / "child.pid"
    api = messages_api([Say(tool("Bash", command=LEFT_BEHIND.format(child), description="go on"))])

    done = ask(api, "what?", "--timeout", "20s")

    assert done.exit_code == 1
    assert not is_alive(pid_in(child))


def run_python(script: str, repo: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", script]
    return subprocess.run(argv, cwd=repo, env=env, capture_output=True, text=True, timeout=2 * PATIENCE)


@pytest.mark.spec("5.2-c", "5.4-b", "5.11-ce")
def test_the_example_of_the_python_api_runs(
    repo: Path, real_env: Callable[[MessagesApi], Mapping[str, str]], messages_api: ServeMessages
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "asking.md").read_text(), re.DOTALL)
    api = messages_api(lambda number, request: Say(f"answer {number}"))

    done = run_python(example, repo, real_env(api))

    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert re.fullmatch(r"answer \d claude-\S+ 0\.\d+ False", first)
    assert len(others) == 2
    assert all(re.fullmatch(r"answer \d", line) for line in others)
    before = "[System]\nAnswer in one sentence.\n\n[User]\nWhich database do we use?\n\n[Assistant]\nSQLite."
    assert f"{before}\n\n[User]\nAnd in the tests?" in api.ledger.main[0].user_texts
    assert offered(api) == {"Read"}


PYTHON = """
import asyncio, logging, sys
from ralph.provider import BlockedError, ClaudeCode, RalphError, UsageError

logging.basicConfig(format="%(name)s: %(message)s")
claude = ClaudeCode()
print(claude.name, claude.requires_api_key, claude.is_available(), asyncio.run(claude.is_available_async()))
print(claude.complete("what?").text)
for each, kind in [(ClaudeCode(session_id="mine"), UsageError), (ClaudeCode(timeout=1.5), RalphError)]:
    try:
        each.complete("hang")
    except kind as error:
        print(type(error).__name__, error.message)

async def cancelled():
    asked = asyncio.ensure_future(claude.complete_async("hang for ever"))
    while not open("pids").read().endswith("again\\n"):
        await asyncio.sleep(0.05)
    asked.cancel()
    try:
        await asked
    except asyncio.CancelledError:
        print("cancelled")

asyncio.run(cancelled())
"""


@pytest.mark.spec("5.1-j", "5.11-abcd")
def test_the_python_api_says_what_goes_wrong_and_leaves_nothing_running(ralph: Ralph, bin_dir: Path) -> None:
    pids = ralph.repo / "pids"
    fake_claude(
        bin_dir,
        f"""test "$*" = --version && touch {ralph.repo}/asked && exit
case "$(cat)" in
*ever) echo $$ >> {pids}; echo again >> {pids}; while :; do sleep 1; done ;;
*hang) echo $$ >> {pids}; while :; do sleep 1; done ;;
*) echo plain words ;;
esac""",
    )

    done = run_python(PYTHON, ralph.repo, ralph.env)

    assert done.stdout.splitlines() == [
        "claude-code False True True",
        "plain words",
        "UsageError --session-id: 'mine' is not a UUID",
        "RalphError claude did not answer within 1.5s",
        "cancelled",
    ], done.stderr
    assert "ralph.provider: warning: claude did not print JSON" in done.stderr
    assert (ralph.repo / "asked").exists(), "claude --version was run"
    numbers = [int(line) for line in pids.read_text().split() if line.isdecimal()]
    assert len(numbers) == 2
    assert not any(map(is_alive, numbers))


@pytest.mark.spec("5.8-ab")
def test_the_python_api_without_claude(ralph: Ralph) -> None:
    script = """
from ralph.provider import BlockedError, ClaudeCode
print(ClaudeCode().is_available())
try:
    ClaudeCode().complete("what?")
except BlockedError as error:
    print(error.message, "|", error.hint)
"""

    done = run_python(script, ralph.repo, {**ralph.env, "PATH": "/nowhere"})

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("False\ncannot run claude: claude was not found on PATH | install Claude Code")
