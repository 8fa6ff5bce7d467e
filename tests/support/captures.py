"""What the real agents print, story by story: `tests/fixtures/regenerate` writes it beside itself.

Each story runs the pinned program against a scripted model, in a repository of its own. The output is kept to the byte,
but for what names this machine; ids and times differ from run to run. Captures of other versions stay as they are.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from tests.support.api_replies import Block, Cut, Fail, Say, text, thinking, tool, usage_limit, usage_limit_headers
from tests.support.conversation import CLAUDE_ARGS, Conversation
from tests.support.git_repos import make_repo
from tests.support.messages_api import MessagesApi
from tests.support.output_file import OutputFile
from tests.support.real_claude import Auth, claude_env
from tests.support.real_codex import codex_env
from tests.support.responses_api import ResponsesApi
from tests.support.scripted_api import Script
from tests.support.tokens import Tokens
from tests.support.waiting import kill_tree, wait_until
from tools import fetch

FIXTURES = Path(__file__).parent.parent / "fixtures"
VERSIONS = FIXTURES / "VERSIONS.toml"
RESET = 4_000_000_000  # of a usage limit: 2096, which no test will live to see


@dataclass(frozen=True)
class World:
    """A story's place."""

    program: Path
    directory: Path

    @property
    def repo(self) -> Path:
        return self.directory / "repo"

    @property
    def home(self) -> Path:
        return self.directory / "home"

    def scrub(self, printed: str, api_url: str) -> str:
        """Replace what names this machine, also where a program made a file name of it."""
        for place, name in ((self.repo, "/srv/repo"), (self.home, "/home/u"), (self.directory, "/tmp")):
            printed = printed.replace(str(place), name)
            printed = printed.replace(re.sub(r"[^A-Za-z0-9]", "-", str(place)), name.replace("/", "-"))
        printed = printed.replace(api_url, "http://127.0.0.1:8080")
        for secret in (str(self.program.parent), str(Path.home()) + "/", self.directory.name, socket.gethostname()):
            assert secret not in printed, f"the capture names this machine: {secret}"
        return printed


Story = Callable[[World], str]

# claude: one conversation over stdin, which stays open until the story is told.

Drive = Callable[[Conversation, World], None]
APPROVE = ("--allowedTools", "Read,Write,Edit,Glob,Grep,Bash")


def turns(count: int) -> Drive:
    """Say `go`, and something else after every result but the last."""

    def drive(talk: Conversation, _world: World) -> None:
        for number in range(1, count + 1):
            talk.say("go" if number == 1 else "You must use the StructuredOutput tool.")
            talk.wait_for("result", number)

    return drive


def let_the_command_end(talk: Conversation, world: World) -> None:
    """End the command in the background only when the turn that started it is over; claude then begins another."""
    talk.say("go")
    talk.wait_for("result")
    (world.repo / "end").touch()
    talk.wait_for("result", 2)


def claude(script: Script, *args: str, drive: Drive | None = None, auth: Auth = "bearer") -> Story:
    def tell(world: World) -> str:
        with MessagesApi(script) as api:
            env = claude_env(world.home, api.url, auth)
            with Conversation([world.program, *CLAUDE_ARGS, *args], world.repo, env) as talk:
                (drive or turns(1))(talk, world)
                talk.end()
                return world.scrub(talk.stdout, api.url)

    return tell


SUMMARY = tool("StructuredOutput", summary="wrote hello")


def bash(command: str, **more: object) -> Block:
    return tool("Bash", command=command, description="Run a command", **more)


CLAUDE: dict[str, Story] = {
    "happy.ndjson": claude(
        [
            Say(thinking("hm"), text("I write."), tool("Write", file_path="hello.txt", content="hello\n")),
            Say(bash("cat hello.txt; exit 3")),
            Say(text("Written."), SUMMARY),
        ],
        *APPROVE,
    ),
    "text-only-then-correction.ndjson": claude([Say("no"), Say("no"), Say(SUMMARY)], drive=turns(2)),
    "background-bash.ndjson": claude(
        [
            Say(bash("until test -e end; do sleep 0.1; done; echo ended", run_in_background=True)),
            Say(SUMMARY),
            Say(tool("StructuredOutput", summary="it has ended")),
        ],
        *APPROVE,
        drive=let_the_command_end,
    ),
    "denied.ndjson": claude(
        [Say(tool("Write", file_path="hello.txt", content="x"), bash("touch hello.txt")), Say(SUMMARY)]
    ),
    "overloaded.ndjson": claude(lambda _number, _request: Fail(529, "overloaded_error", "Overloaded")),
    "usage-limit.ndjson": claude(
        lambda _number, _request: Fail(429, "rate_limit_error", "no", usage_limit_headers("rejected", RESET)),
        auth="oauth",
    ),
    "partial-messages.ndjson": claude([Say(thinking("hm"), text("I write."), SUMMARY)], "--include-partial-messages"),
    "schema-violation.ndjson": claude([Say(tool("StructuredOutput", wrong=1)), Say(SUMMARY)]),
}

# codex: one turn for each start, with the prompt on stdin.

FREE = ("--sandbox", "danger-full-access")
SCHEMA = (
    '{"type":"object","properties":{"summary":{"type":"string"}},"required":["summary"],"additionalProperties":false}'
)


def shell(command: str) -> Block:
    return tool("exec_command", cmd=command)


def codex(
    script: Script,
    *args: str,
    human: bool = False,
    before: Script | None = None,
    killed_when: str = "",
) -> Story:
    """One turn; `before` is an earlier turn of the same thread; `killed_when` the output at which it is killed."""

    def tell(world: World) -> str:
        command = ["exec", *(() if human else ("--json",)), *FREE, *args]
        (world.directory / "schema.json").write_text(SCHEMA)
        if before is not None:
            first, _ = hold(world, before, [*command, "-"], merged=human, killed_when="")
            found = re.search(r'"thread_id":"([^"]+)"', first)
            assert found, first
            command += ["resume", found[1]]
        printed, url = hold(world, script, [*command, "-"], merged=human, killed_when=killed_when)
        return world.scrub(printed, url)

    return tell


def hold(world: World, script: Script, args: Sequence[str], *, merged: bool, killed_when: str) -> tuple[str, str]:
    """Hold one turn and return what it printed, and where the model was."""
    output = OutputFile()
    with ResponsesApi(script) as api:
        process = subprocess.Popen(
            [world.program, *args],
            cwd=world.repo,
            env=codex_env(world.home, api.url),
            stdin=subprocess.PIPE,
            stdout=output.file,
            stderr=subprocess.STDOUT if merged else subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert process.stdin
            process.stdin.write(b"Do it.\nIn two lines.")
            process.stdin.close()
            if killed_when:
                wait_until(lambda: killed_when in output.text, killed_when)
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
        finally:
            kill_tree(process.pid)
            process.wait(90)
        printed = output.text
        output.close()
        return printed, api.url


WORK = [
    Say(thinking("**Planning** look"), text("I look."), shell("echo hi; ls"), usage=Tokens(1000, 50, 0, 200, 7)),
    Say(shell("echo bad >&2; exit 3"), usage=Tokens(1100, 40, 0, 1200, 0)),
    Say("All done.\nReally.", usage=Tokens(1300, 30, 0, 2300, 0)),
]
PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Add File: hello.txt
+hello
*** Update File: README.md
@@
-# Example
+# Other
*** End Patch
EOF"""
BOOM = Fail(500, "server_error", "boom")
LATE_FAILURE = [*WORK[:2], Fail(400, "invalid_request_error", "bad")]

CODEX: dict[str, Story] = {
    "simple.ndjson": codex([Say(thinking("**Planning** greet"), text("Hello."), usage=Tokens(1000, 50, 0, 200, 7))]),
    "tools.ndjson": codex(WORK),
    "output-schema.ndjson": codex(
        [Say(text("I look."), shell("ls")), Say('{"summary":"looked"}')], "--output-schema", "../schema.json"
    ),
    "output-schema-ignored.ndjson": codex([Say("not json at all")], "--output-schema", "../schema.json"),
    "file-change.ndjson": codex([Say(shell(PATCH)), Say("Changed.")]),
    "todo-list.ndjson": codex(
        [
            Say(tool("update_plan", plan=[{"step": "one", "status": first}, {"step": "two", "status": second}]))
            for first, second in (("in_progress", "pending"), ("completed", "in_progress"))
        ],
        *("-c", "tools.update_plan.enabled=true"),
    ),
    "401.ndjson": codex(
        lambda _number, _request: Fail(
            401, "invalid_request_error", "Incorrect API key provided", more={"code": "invalid_api_key"}
        )
    ),
    "429.ndjson": codex(lambda _number, _request: Fail(429, "rate_limit_error", "no", {"retry-after": "1"})),
    "usage-limit.ndjson": codex([usage_limit(RESET)]),
    "quota-exceeded.ndjson": codex([Fail(429, "insufficient_quota", "x", more={"code": "insufficient_quota"})]),
    "context-overflow.ndjson": codex([*WORK[:2], Fail(200, "context_length_exceeded", "too long")]),
    "500-forever.ndjson": codex(lambda _number, _request: BOOM),
    "500-then-ok.ndjson": codex([BOOM, BOOM, Say("recovered")]),
    "stream-cut-then-ok.ndjson": codex([Cut(), Say("recovered")]),
    "no-network.ndjson": codex(
        [], "-c", "model_providers.scripted.base_url='http://127.0.0.1:1'", killed_when="waiting"
    ),
    "failed-after-work.ndjson": codex(LATE_FAILURE),
    "resume.ndjson": codex([Say("two", usage=Tokens(1100, 40, 0, 1200, 0))], before=[Say("one")]),
    "compaction.ndjson": codex(
        [Say(shell("true"), usage=Tokens(400_000, 100)), Say("went on")],
        *("-c", "model_auto_compact_token_limit=100000"),
    ),
    "killed.ndjson": codex([*WORK[:1], Say(shell("exec sleep 60"))], killed_when="exec sleep 60"),
    "human.txt": codex(WORK, human=True),
    "human-color.txt": codex(WORK, "--color", "always", human=True),
    "human-file-change.txt": codex([Say(shell(PATCH)), Say("Changed.")], human=True),
    "human-failed.txt": codex(LATE_FAILURE, human=True),
    "human-reconnecting.txt": codex([BOOM, BOOM, Say("recovered")], human=True),
}

AGENTS = {"claude": CLAUDE, "codex": CODEX}


def file_of(agent: str, version: str, story: str) -> str:
    """The name of a capture: claude counts its releases in the last number of its version, codex in the middle one."""
    numbers = version.split(".")
    return f"{numbers[-1] if agent == 'claude' else numbers[1]}-{story}"


@contextmanager
def new_world(program: Path) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="capture-") as directory:
        world = World(program, Path(directory).resolve())
        make_repo(world.repo, {"README.md": "# Example\n"})
        yield world


def note(agent: str, version: str, file: str) -> None:
    """List the capture under its version, and under no other."""
    known = tomllib.loads(VERSIONS.read_text())
    listed: dict[str, list[str]] = known.setdefault(agent, {})
    for files in listed.values():
        files[:] = [each for each in files if each != file]
    listed[version] = sorted([*listed.get(version, []), file])
    VERSIONS.write_text(f"# Which version of the program printed which capture.\n\n{tomli_w.dumps(known)}")


def main(chosen: Sequence[str]) -> int:
    """Regenerate the stories whose file names are given, or all of them."""
    cache = fetch.cache_dir(os.environ)
    for agent, stories in AGENTS.items():
        pinned = fetch.pinned()[agent]
        program = pinned.path(cache)
        if not program.exists():
            print(f"error: {fetch.why_missing(pinned, cache)}", file=sys.stderr)
            return 1
        for story, tell in stories.items():
            file = file_of(agent, pinned.version, story)
            if chosen and file not in chosen:
                continue
            with new_world(program) as world:
                (FIXTURES / agent / file).write_text(tell(world))
            note(agent, pinned.version, file)
            print(f"{agent}/{file}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
