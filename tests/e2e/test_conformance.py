"""`ralph-claude` in the place of `claude`: both play the same stories against the same scripted model, and must agree.

They agree on the events (kinds, order, subtypes, blocks, what tools answered), on exit codes, on what became of the
tree, and on how often the model was asked. The few deliberate differences are at the end, both sides asserted.
`make test` plays the few stories in `SHORT`, `make long` all the others.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.api_replies import Block, Fail, Reply, Say, Stall, text, thinking, tool, usage_limit_headers
from tests.support.conformance import REPO, Drive, Event, Story, Told, shape, tell
from tests.support.conversation import SCHEMA, Conversation
from tests.support.git_repos import make_repo
from tests.support.messages_api import MessagesApi
from tests.support.tokens import Tokens
from tests.support.waiting import wait_until

BARE = ("-p", "--model", "sonnet", "--no-session-persistence", "--strict-mcp-config", "--setting-sources", "user")
ALL = "Read,Write,Edit,Glob,Grep,Bash,Skill"
TOOLS = ("--tools", ALL)
TRUSTED = (*TOOLS, "--allowedTools", ALL)
STREAM = (*BARE, "--verbose", "--input-format", "stream-json", "--output-format", "stream-json")
OPEN_STREAM = tuple(word for word in STREAM if word not in ("--strict-mcp-config", "--setting-sources", "user"))
"""With the project's own settings, servers and agents."""

WITH_SCHEMA = ("--json-schema", SCHEMA)
LOOP = "touch began; for i in $(seq 600); do sleep 0.1; done"
HALF_A_SECOND = "touch began; for i in $(seq 8); do sleep 0.1; done; rm began"


def bash(command: str) -> Block:
    return tool("Bash", command=command, description="Run a command")


def summary(words: str) -> Say:
    return Say(tool("StructuredOutput", summary=words))


def write(name: str, content: str) -> Block:
    return tool("Write", file_path=f"{REPO}/{name}", content=content)


# What the user does.


def one_message(talk: Conversation, _api: MessagesApi) -> None:
    talk.say("go")
    talk.wait_for("result")


def two_messages(talk: Conversation, api: MessagesApi) -> None:
    one_message(talk, api)
    talk.say("You must use the StructuredOutput tool.")
    talk.wait_for("result", 2)


def messages(*texts: str) -> Drive:
    """Say one after the other, each when the one before it was answered."""

    def drive(talk: Conversation, _api: MessagesApi) -> None:
        for number, words in enumerate(texts, 1):
            talk.say(words)
            talk.wait_for("result", number)

    return drive


def two_at_once(talk: Conversation, _api: MessagesApi) -> None:
    talk.say("one")
    talk.say("two")
    talk.wait_for("result", 2)


def say_nothing(_talk: Conversation, _api: MessagesApi) -> None: ...


def began(talk: Conversation) -> None:
    wait_until(lambda: Path(f"/proc/{talk.process.pid}/cwd/began").exists(), "the command")


def speak_meanwhile(talk: Conversation, api: MessagesApi) -> None:
    talk.say("go")
    began(talk)
    talk.say("and mind the gap")
    talk.wait_for("result")
    assert any("and mind the gap" in str(message["content"]) for message in api.ledger.main[-1].request["messages"])


def interrupt_a_command(talk: Conversation, _api: MessagesApi) -> None:
    talk.say("go")
    began(talk)
    talk.interrupt()
    talk.wait_for("result")
    talk.say("wrap up")
    talk.wait_for("result", 2)


def interrupt_the_model(talk: Conversation, api: MessagesApi) -> None:
    talk.say("go")
    wait_until(lambda: api.ledger.main, "the request")
    talk.interrupt()
    talk.wait_for("result")


def control(talk: Conversation, api: MessagesApi) -> None:
    for number, subtype in enumerate(["initialize", "nonesuch"], 1):
        talk.send({"type": "control_request", "request_id": f"q{number}", "request": {"subtype": subtype}})
        talk.wait_for("control_response", number)
    one_message(talk, api)
    talk.interrupt()  # of nothing
    talk.wait_for("control_response", 3)
    talk.send({"type": "keep_alive"})
    talk.send({"type": "user", "message": {"role": "user", "content": "in plain words"}})
    talk.wait_for("result", 2)


def signal(number: int) -> Drive:
    def drive(talk: Conversation, _api: MessagesApi) -> None:
        talk.say("go")
        began(talk)
        talk.process.send_signal(number)
        talk.process.wait(90)

    return drive


def send_junk(talk: Conversation, _api: MessagesApi) -> None:
    assert talk.process.stdin
    talk.process.stdin.write(b"hello\n")
    talk.process.stdin.flush()
    talk.process.wait(90)


def failing(status: int, kind: str, message: str, **more: dict[str, str]) -> Callable[[int, str], Reply]:
    return lambda _number, _said: Fail(status, kind, message, **more)


ERRORS: dict[str, Fail] = {
    "bad request": Fail(400, "invalid_request_error", "bad thing"),
    "no credit": Fail(400, "invalid_request_error", "Your credit balance is too low to access the API."),
    "bad token": Fail(401, "authentication_error", "no"),
    "forbidden": Fail(403, "permission_error", "no"),
    "no such model": Fail(404, "not_found_error", "model: x"),
    "too many": Fail(429, "rate_limit_error", "slow", {"retry-after": "0"}),
    "too many for an hour": Fail(429, "rate_limit_error", "slow", {"retry-after": "3600"}),
    "broken": Fail(500, "api_error", "oops", {"retry-after": "0"}),
    "overloaded": Fail(529, "overloaded_error", "Overloaded", {"retry-after": "0"}),
}


def overloaded_once() -> Callable[[int, str], Reply]:
    return lambda number, _said: Fail(529, "overloaded_error", "Overloaded") if number == 1 else Say("fine")


# Of a call that was stopped, only that it was; how far it came is nobody's to know.
STOPPED = ("blocks",)
# Claude Code leaves the last try now and then out of its own count (2.1.325).
MISCOUNTED = ("usage", "model usage", "cost")

# One file each, or files in the order of their times: claude has lines and counts of several files in any order.
SEARCHES: list[dict[str, Any]] = [
    {"type": "py"},
    {"type": "py", "head_limit": 1, "offset": 1},
    {"glob": "*.none"},
    {"glob": "*.{py,log}", "path": "sub"},
    {"glob": "sub/*.py", "path": "sub"},
    {"path": "nowhere"},
    {"path": "secret/key.py"},
    {"type": "nonesuch"},
    {"head_limit": -1},
    {"output_mode": "count", "path": "old.py"},
    {"output_mode": "count", "path": "old.py", "offset": 5},
    *(
        {"output_mode": "content", **more}
        for more in (
            {"path": "old.py"},
            {"path": "old.py", "-A": 1},
            {"path": "old.py", "-n": False, "-C": 1},
            {"path": "old.py", "-o": True},
            {"path": "old.py", "offset": 9},
            {"path": "old.py", "-B": -1},
            {"path": "sub"},
            {"path": "crlf.txt"},
            {"glob": "new*.txt"},
            {"glob": "[z-a]"},
            {"glob": "*.log"},
        )
    ),
]
GLOBS = ("*.py", "sub/*.py", "*.none", "[z-a]", f"{REPO}/*.py", f"{REPO}/sub/new.py", f"{REPO}/nowhere/*", "new*.txt")

STORIES: dict[str, Story] = {
    "work": Story(
        [
            Say(thinking("hm"), text("I write"), write("new.txt", "x\n")),
            Say(bash("echo out; echo err >&2; exit 3"), bash("true")),
            summary("did"),
        ],
        (*STREAM, *TRUSTED, *WITH_SCHEMA),
        one_message,
    ),
    "words, and replies that need a push": Story(
        [
            *[Say("hello")],
            *[Say("part", stop_reason="max_tokens"), Say("rest")],
            *[Say(), Say("now")],
            *[Say("no", stop_reason="refusal"), Say("so")],
            *[Say(tool("Nonesuch", a=1)), Say("done")],
            *[summary("nobody asked"), Say("ok")],
        ],
        (*STREAM, *TOOLS),
        messages(*["go"] * 6),
    ),
    "nudged, in vain and not": Story(
        [
            *[Say("no"), Say("still no")],
            *[Say("no"), summary("ok")],
            *[Say("no"), Say(bash("true")), Say("only once a turn")],
            Say(tool("StructuredOutput", summary="a"), tool("StructuredOutput", summary="the last one stands")),
            Say(tool("StructuredOutput", summary="a"), write("also.txt", "the others run\n")),
        ],
        (*STREAM, *TRUSTED, *WITH_SCHEMA),
        messages(*["go"] * 5),
    ),
    "corrected on the open stdin": Story(
        [Say("no"), Say("no"), summary("ok")], (*STREAM, *TOOLS, *WITH_SCHEMA), two_messages
    ),
    "schema violated, then corrected": Story(
        lambda number, _said: Say(tool("StructuredOutput", sumary=number)) if number <= 5 else summary("ok"),
        (*STREAM, *TOOLS, *WITH_SCHEMA),
        two_messages,
        loose=MISCOUNTED,
    ),
    "a schema with more to violate": Story(
        [
            Say(tool("StructuredOutput", summary=1, n="x", z=1)),
            Say(tool("StructuredOutput", summary="a", n=1.5, k="c", l=["x"])),
            Say(tool("StructuredOutput")),
            Say(tool("StructuredOutput", summary="abc", n=1)),
        ],
        (
            *(*STREAM, *TOOLS, "--json-schema"),
            '{"type":"object","properties":{"summary":{"type":"string","minLength":3},"n":{"type":"integer"},'
            '"k":{"enum":["a","b"]},"l":{"type":"array","items":{"type":"number"}}},"required":["summary","n"],'
            '"additionalProperties":false}',
        ),
        one_message,
    ),
    "denied": Story(
        [Say(write("new.txt", "x")), Say(tool("Read", file_path=f"{REPO}/README.md")), Say("done")],
        (*STREAM, *TOOLS),
        one_message,
    ),
    "denied by mode": Story(
        [Say(write("new.txt", "x")), Say("done")], (*STREAM, *TOOLS, "--permission-mode", "dontAsk"), one_message
    ),
    "denied while planning": Story(
        [Say(write("new.txt", "x")), Say("done")], (*STREAM, *TOOLS, "--permission-mode", "plan"), one_message
    ),
    "denied by rule": Story(
        [Say(bash("git push")), Say(bash("echo hi")), Say("done")],
        (*STREAM, *TRUSTED, "--disallowedTools", "Bash(git push:*)"),
        one_message,
    ),
    "edits accepted": Story(
        [Say(write("new.txt", "x")), Say("done")], (*STREAM, *TOOLS, "--permission-mode=acceptEdits"), one_message
    ),
    "everything allowed": Story(
        [Say(write("new.txt", "x")), Say("done")], (*STREAM, *TOOLS, "--dangerously-skip-permissions"), one_message
    ),
    "a tool taken away": Story(
        [Say(write("new.txt", "x")), Say("done")], (*STREAM, *TOOLS, "--disallowed-tools", "Write"), one_message
    ),
    "a tool not chosen": Story(
        [Say(write("new.txt", "x")), Say("done")], (*STREAM, "--tools", "Read", "--allowedTools", "Write"), one_message
    ),
    "Read, Edit, Write, Glob, Grep, Bash": Story(
        [
            *[Say(tool("Read", file_path=f"{REPO}/README.md")), Say(tool("Read", file_path=f"{REPO}/none.md"))],
            Say(tool("Edit", file_path=f"{REPO}/README.md", old_string="Example", new_string="Sample")),
            Say(tool("Edit", file_path=f"{REPO}/README.md", old_string="nowhere", new_string="x")),
            *[Say(write("README.md", "# Other\n")), Say(write("deep/er/new.txt", "x\n")), Say("written")],
            *[Say(tool("Glob", pattern="*.md")), Say(tool("Glob", pattern="*.none"))],
            Say(tool("Grep", pattern="Oth", output_mode="content")),
            *[Say(tool("Grep", pattern="Oth")), Say(tool("Grep", pattern="nowhere")), Say("searched")],
            *[Say(bash("echo hi; echo there >&2")), Say(bash("true")), Say(bash("exit 7"))],
            Say(tool("Bash", command="echo first; while :; do :; done", timeout=700)),
            Say("run"),
            *[Say(tool("Read")), Say(tool("Bash", command=3)), Say(tool("Read", file_path="a", zzz=1, limit="x"))],
            Say("done"),
        ],
        (*STREAM, *TRUSTED),
        messages(*["go"] * 4),
        env={"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"},  # else claude lets it go on in the background
    ),
    "searches": Story(
        [
            *[Say(bash("touch -d @1 old.py; touch -d @2 sub/new.py")), Say("prepared")],
            *[Say(tool("Grep", pattern="foo", **more)) for more in SEARCHES],
            *[Say(tool("Glob", pattern=pattern)) for pattern in GLOBS],
            Say("searched"),
        ],
        (*STREAM, *TRUSTED, "--disallowedTools", "Read(./secret/**)"),
        messages("go", "go"),
        files={
            ".gitignore": "*.log\n",
            "build.log": "foo\n",
            "crlf.txt": "foo\r\n",
            "new\nline.txt": "foo\n",
            "old.py": "a\nfoo\nb\nc\nd\nfoo foo\n",
            "secret/key.py": "foo\n",
            "sub/new.py": "foo " + "x" * 600 + "\n",
        },
    ),
    "Skill": Story(
        [Say(tool("Skill", skill="greet", args="bob")), Say(tool("Skill", skill="zqzq")), Say("done")],
        (*STREAM[: STREAM.index("--setting-sources")], *STREAM[STREAM.index("--setting-sources") + 2 :], *TRUSTED),
        one_message,
        files={
            ".claude/skills/greet/SKILL.md": "---\nname: greet\ndescription: Says hello\n---\nSay hello to $ARGUMENTS\n"
        },
    ),
    "out of turns": Story([Say(bash("echo hi")), Say("unheard")], (*STREAM, *TRUSTED, "--max-turns", "1"), one_message),
    "out of money before a tool": Story(
        [
            Say(bash("for i in $(seq 20); do sleep 0.1; done; touch unpaid"), usage=Tokens(100_000, 1000)),
            Say("unheard"),
        ],
        (*STREAM, *TRUSTED, "--max-budget-usd", "0.1"),
        one_message,
        loose=("stop_reason", "usage"),
    ),
    "out of money, twice": Story(
        [Say("dear", usage=Tokens(100_000, 1000)), Say("unheard")],
        (*STREAM, *TOOLS, "--max-budget-usd", "0.1"),
        two_messages,
        loose=("usage",),  # claude leaves the message that broke the budget out of it
    ),
    "control requests": Story([Say("one"), Say("two")], (*STREAM, *TOOLS), control),
    "two messages at once": Story([Say("one"), Say("two")], (*STREAM, *TOOLS), two_at_once),
    "a message meanwhile": Story([Say(bash(HALF_A_SECOND)), Say("both")], (*STREAM, *TRUSTED), speak_meanwhile),
    "nothing said": Story([], (*STREAM, *TOOLS), say_nothing),
    "junk said": Story([], (*STREAM, *TOOLS), send_junk),
    "a command interrupted": Story(
        [Say(bash(LOOP), bash("touch second")), Say("wrapped up")], (*STREAM, *TRUSTED), interrupt_a_command
    ),
    "the model interrupted": Story(
        lambda number, _said: Stall() if number == 1 else Say("x"), (*STREAM, *TOOLS), interrupt_the_model
    ),
    "SIGINT": Story([Say(bash(LOOP))], (*STREAM, *TRUSTED), signal(2), loose=STOPPED),
    "SIGTERM": Story([Say(bash(LOOP))], (*STREAM, *TRUSTED), signal(15), loose=STOPPED),
    "another model": Story([Say("x")], (*STREAM, *TOOLS, "--model", "haiku", "--effort", "low"), one_message),
    "errors by status": Story(
        lambda _number, said: ERRORS.get(said, Say("recovered")), (*STREAM, *TOOLS), messages(*ERRORS, "and now?")
    ),
    "413": Story(
        failing(413, "request_too_large", "big"), (*STREAM, *TOOLS), one_message
    ),  # later claude would compact
    "overloaded once": Story(overloaded_once(), (*STREAM, *TOOLS), one_message),
    "400, too long": Story(
        failing(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
        (*STREAM, *TOOLS),
        one_message,
        loose=("result", "blocks"),  # claude adds what it thinks of the sizes
    ),
    "429, quota used up": Story(
        failing(429, "rate_limit_error", "no", headers=usage_limit_headers("rejected", 4_000_000_000)),
        (*STREAM, *TOOLS),
        one_message,
        auth="oauth",
        loose=("keys",),  # claude repeats the quota in the message that tells of it
    ),
    "no answer in time": Story(
        lambda _number, _said: Stall(),
        (*STREAM, *TOOLS),
        one_message,
        env={"API_TIMEOUT_MS": "300", "CLAUDE_CODE_MAX_RETRIES": "0"},
    ),
    "nobody there": Story([], (*STREAM, *TOOLS), one_message, env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}),
    "no key": Story([], (*STREAM, *TOOLS), one_message, auth="none"),
}

OUTPUTS: dict[str, Story] = {
    "text": Story([Say("first", bash("true")), Say("second", "last")], (*BARE, *TRUSTED, "--", "hi")),
    "text, from both": Story([Say("hello")], (*BARE, *TOOLS, "--", "hi"), stdin="and stdin\n"),
    "text, structured": Story([summary("ok")], (*BARE, *TOOLS, *WITH_SCHEMA, "--", "hi")),
    "text, an error of the API": Story(failing(403, "permission_error", "no"), (*BARE, *TOOLS, "--", "hi")),
    "text, out of turns": Story([Say(bash("true"))], (*BARE, *TRUSTED, "--max-turns", "1", "--", "hi")),
    "json": Story([Say("hello")], (*BARE, *TOOLS, "--output-format", "json", "--", "hi")),
    "json, verbose": Story([Say("hello")], (*BARE, *TOOLS, "--verbose", "--output-format", "json", "--", "hi")),
}

REFUSALS: dict[str, tuple[str, ...]] = {
    "unknown flag": ("-p", "hi", "--nonesuch"),
    "misspelt flag": ("-p", "hi", "--modle", "x"),
    "unknown output": ("-p", "hi", "--output-format", "xml"),
    "unknown input": ("-p", "hi", "--input-format=xml"),
    "unknown mode": ("-p", "hi", "--permission-mode", "zzz"),
    "missing value": ("-p", "hi", "--model"),
    "stream without verbose": ("-p", "hi", "--output-format", "stream-json"),
    "stream in, text out": ("-p", "hi", "--input-format", "stream-json"),
    "pieces without a stream": ("-p", "hi", "--include-partial-messages"),
    "turns that are no number": ("-p", "hi", "--max-turns", "x"),
    "a budget of nothing": ("-p", "hi", "--max-budget-usd", "0"),
    "a session id that is none": ("-p", "hi", "--session-id", "zzz"),
    "a prompt file that is not there": ("-p", "hi", "--system-prompt-file", "nope"),
    "a schema that is no object": ("-p", "hi", "--json-schema", "[]"),
    "no prompt": ("-p", "--output-format", "text"),
    "a prompt eaten by a flag": ("-p", "--tools", "Read", "hi"),
    "version": ("--version",),
    "version, in a cluster": ("-pv", "hi"),
}
WORDED_BY_A_PARSER: dict[str, tuple[str, ...]] = {
    "a schema that is not JSON": ("-p", "hi", "--json-schema", "{nope"),
    "a schema that is none": ("-p", "hi", "--json-schema", '{"type":"objekt"}'),
}


class Stage:
    """Both programs, each in a repository of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        ours = directory / "bin" / "claude"
        ours.parent.mkdir()
        ours.symlink_to(Path(sys.executable).with_name("ralph-claude"))
        self.programs = {"claude": tools.find("claude"), "ralph-claude": ours}

    @contextmanager
    def world(self, name: str) -> Iterator[tuple[Path, Path]]:
        home = self._directory / f"{name}-home"
        yield make_repo(self._directory / name / "repo", {"README.md": "# Example\n"}), home

    def play(self, story: Story) -> tuple[Told, Told]:
        """Tell the story to both, real first."""
        both: list[Told] = []
        for name, program in self.programs.items():
            with self.world(name) as (repo, home):
                both.append(tell(story, program, repo, home))
        return both[0], both[1]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


SHORT = ("work", "no key", "junk said", "unknown flag", "version")
"""What `make test` plays: a session of several tools, two that come to nothing, and a refusal."""


def each(stories: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrise a test by `name`; what is not in `SHORT` is marked `long`."""
    marks = {name: () if name in SHORT else (pytest.mark.long,) for name in stories}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[name]) for name in marks])


@pytest.mark.spec("1.5-abcdef", case="Read, Edit, Write, Glob, Grep, Bash")
@pytest.mark.spec("1.4.3-c", case="SIGINT")
@pytest.mark.spec("1.5-g", case="Skill")
@pytest.mark.spec("4.3.3-b", case="Skill")
@pytest.mark.spec("1.2-i", case="a schema with more to violate")
@pytest.mark.spec("4.1.5-a", case="a schema with more to violate")
@pytest.mark.spec("1.2-c", "1.12-c", case="a tool not chosen")
@pytest.mark.spec("4.1.2-d", case="a tool not chosen")
@pytest.mark.spec("4.1.2-c", case="a tool taken away")
@pytest.mark.spec("1.9-b", "1.12-b", case="another model")
@pytest.mark.spec("4.1.1-g", case="another model")
@pytest.mark.spec("1.12-p", case="corrected on the open stdin")
@pytest.mark.spec("4.3.1-a", case="corrected on the open stdin")
@pytest.mark.spec("4.1.2-g", "4.3.5-c", case="denied")
@pytest.mark.spec("4.1.2-i", case="denied while planning")
@pytest.mark.spec("4.1.2-h", case="edits accepted")
@pytest.mark.spec("4.1.2-k", case="everything allowed")
@pytest.mark.spec("1.12-o", case="no key")
@pytest.mark.spec("1.3.3-a", case="nobody there")
@pytest.mark.spec("4.3.3-b", case="nudged, in vain and not")
@pytest.mark.spec("4.2-m", case="out of money before a tool")
@pytest.mark.spec("4.1.1-k", case="out of money, twice")
@pytest.mark.spec("4.1.1-j", "4.2-lp", case="out of turns")
@pytest.mark.spec("1.12-g", case="schema violated, then corrected")
@pytest.mark.spec("4.2-o", case="schema violated, then corrected")
@pytest.mark.spec("4.2-n", case="the model interrupted")
@pytest.mark.spec("1.12-e", case="two messages at once")
@pytest.mark.spec("1.2-fghi", "1.4.1-h", "1.5-h", "1.10-c", "1.12-dfjklmo", case="work")
@pytest.mark.spec(
    "4.1.1-df", "4.1.2-a", "4.1.5-a", "4.2-k", "4.3.1-bcdeghij", "4.3.2-abc", "4.3.3-ac", "4.3.5-ab", case="work"
)
@each(STORIES)
def test_the_same_story(stage: Stage, name: str) -> None:
    story = STORIES[name]
    real, ours = stage.play(story)
    assert shape(ours, story) == shape(real, story)
    assert (ours.exit_code, ours.tree) == (real.exit_code, real.tree)


@pytest.mark.spec("4.1.1-c", "4.2-abcdefghij", case="json")
@pytest.mark.spec("4.1.1-l", "4.6-a", case="json, verbose")
@pytest.mark.spec("1.2-a", "1.12-a", case="text")
@pytest.mark.spec("4.1.1-ab", case="text")
@pytest.mark.spec("4.1.1-e", case="text, from both")
@pytest.mark.spec("4.1.1-j", case="text, out of turns")
@each(OUTPUTS)
def test_the_same_output(stage: Stage, name: str) -> None:
    story = OUTPUTS[name]
    real, ours = stage.play(story)
    assert ours.exit_code == real.exit_code
    assert ours.api.ledger.main[0].user_texts[-1] == real.api.ledger.main[0].user_texts[-1]
    if "json" in name:
        told = [replace(each, events=_documents(each.stdout)) for each in (ours, real)]
        assert shape(told[0], story) == shape(told[1], story)
    else:
        assert ours.stdout == real.stdout


@pytest.mark.spec("4.1.3-abcdf")
@pytest.mark.long
@pytest.mark.parametrize("suffix", ["", "-file"])
@pytest.mark.parametrize("replaced", [True, False])
def test_system_prompts_reach_the_model(stage: Stage, suffix: str, replaced: bool) -> None:
    words = {"alpha.md": "You are a very quiet penguin.", "beta.md": "Your name is Bert."}
    first, second = words if suffix else words.values()
    flags = [f"--system-prompt{suffix}", first] if replaced else []
    args = (*BARE, *TOOLS, *flags, f"--append-system-prompt{suffix}", second, "--", "hi")
    own = ("not an exhaustive survey", "You are a coding agent.")
    for told, of_its_own in zip(stage.play(Story([Say("hello")], args, files=words)), own, strict=True):
        system = json.dumps(told.api.ledger.main[0].request["system"])
        assert told.exit_code == 0
        assert [system.count(said) for said in words.values()] == [int(replaced), 1]
        assert (of_its_own in system) is not replaced


@pytest.mark.spec("4.1.5-b", "4.3.4-abcde")
@pytest.mark.long
def test_the_same_pieces_of_messages(stage: Stage) -> None:
    said = Say(thinking("hm"), text("I look"), bash("echo out"), usage=Tokens(1000, 500, 30, 20))
    args = (*STREAM, *TRUSTED, *WITH_SCHEMA, "--include-partial-messages")
    real, ours = stage.play(Story([said, summary("did")], args, one_message))
    assert _pieces(ours) == _pieces(real)
    statuses = [[event["status"] for event in told.events if event.get("subtype") == "status"] for told in (ours, real)]
    assert statuses[0] == statuses[1] == ["requesting"] * 2


def _pieces(told: Told) -> list[str]:
    """The pieces without their ids, which are the script's, in order: those of a message stand in one row."""
    pieces = [event for event in told.events if event["type"] == "stream_event"]
    assert all(piece["api_message_id"] and piece["parent_tool_use_id"] is None for piece in pieces)
    return [re.sub(r"_\d{4}", "", json.dumps(piece["event"], sort_keys=True)) for piece in pieces]


def _documents(stdout: str) -> list[Event]:
    document = json.loads(stdout)
    return document if isinstance(document, list) else [document]


@pytest.mark.spec("4.1.5-b", case="pieces without a stream")
@each(REFUSALS)
def test_the_same_refusal(stage: Stage, name: str) -> None:
    real, ours = stage.play(Story([], REFUSALS[name]))
    assert (ours.exit_code, ours.stdout) == (real.exit_code, real.stdout)
    assert ours.stderr.replace(str(ours.repo), REPO) == real.stderr.replace(str(real.repo), REPO)


@each(WORDED_BY_A_PARSER)
def test_the_same_refusal_in_the_words_of_another_parser(stage: Stage, name: str) -> None:
    real, ours = stage.play(Story([], WORDED_BY_A_PARSER[name]))
    assert (ours.exit_code, ours.stdout) == (real.exit_code, real.stdout) == (1, "")
    assert ours.stderr.split(":")[:2] == real.stderr.split(":")[:2]


# The deliberate differences: six at most, none about what spec 1 requires of a drop-in (its section 12).


@pytest.mark.spec("4.1.3-e")
def test_difference_two_system_prompts_are_a_contradiction(stage: Stage) -> None:
    """Ralph's contract says so; 2.1.325 silently takes one of them."""
    args = (*BARE, *TOOLS, "--system-prompt", "a", "--system-prompt-file", "README.md", "--", "hi")
    real, ours = stage.play(Story([Say("hello")], args))
    assert (real.exit_code, real.stdout) == (0, "hello\n")
    assert (ours.exit_code, ours.stdout) == (1, "")
    assert "Cannot use both --system-prompt and --system-prompt-file" in ours.stderr


@pytest.mark.long
def test_difference_the_price_of_an_unknown_model_is_not_guessed(stage: Stage) -> None:
    """2.1.325 charges it like its own default model, and says so only in `costBasis`."""
    story = Story([Say("hello")], (*STREAM, *TOOLS, "--model", "gpt-9"), one_message)
    real, ours = (told.events[-1] for told in stage.play(story))
    assert real["total_cost_usd"] > 0
    assert "total_cost_usd" not in ours
    assert [each["modelUsage"]["gpt-9"]["costBasis"] for each in (real, ours)] == ["unknown", "unknown"]
    assert ours["usage"]["input_tokens"] == real["usage"]["input_tokens"]


@pytest.mark.spec("1.12-n")
@pytest.mark.long
def test_difference_the_default_tools_are_those_we_have(stage: Stage) -> None:
    """The others (web, agents, schedules) have no counterpart; what ralph and spec 1 name, is there."""
    real, ours = (set(told.events[0]["tools"]) for told in stage.play(Story([Say("hello")], STREAM, one_message)))
    assert ours == {*ALL.split(","), "Task"}
    assert {"Bash", "Edit", "Read", "Skill", "Write"} <= real & ours
    assert "WebSearch" in real - ours


@pytest.mark.long
def test_difference_paths_outside_are_refused_even_when_the_tool_is_allowed(stage: Stage, tmp_path: Path) -> None:
    """2.1.325 reads anything once Read is allowed; ours stays in the working directory and what --add-dir adds."""
    outside = tmp_path / "outside.txt"
    outside.write_text("secret\n")
    read: list[Reply] = [Say(tool("Read", file_path=str(outside))), Say("done")]
    real, ours = stage.play(Story(read, (*STREAM, *TRUSTED), one_message))
    answers = [next(event for event in told.events if event["type"] == "user") for told in (real, ours)]
    blocks = [answer["message"]["content"][0] for answer in answers]
    assert "secret" in blocks[0]["content"]
    assert blocks[1]["is_error"]
    assert "secret" not in blocks[1]["content"]
    assert real.exit_code == ours.exit_code == 0


@pytest.mark.long
def test_difference_a_message_that_was_cut_is_charged(stage: Stage) -> None:
    """The API charges for what it has begun; 2.1.325 leaves it out of its own figures."""

    def interrupt_a_message(talk: Conversation, _api: MessagesApi) -> None:
        talk.say("go")
        talk.wait_for("stream_event")
        talk.interrupt()
        talk.wait_for("result")

    args = (*STREAM, *TOOLS, "--include-partial-messages")
    real, ours = stage.play(Story([Stall("mid_stream")], args, interrupt_a_message))
    figures = [next(event for event in told.events if event["type"] == "result") for told in (real, ours)]
    assert [each["subtype"] for each in figures] == ["error_during_execution"] * 2
    assert figures[0]["total_cost_usd"] == 0 < figures[1]["total_cost_usd"]
    assert figures[1]["usage"]["input_tokens"] == ours.api.ledger.tokens.input
