"""`ralph-claude` where it is more than a stand-in: the scripted model, its own words, what it does without a key."""

from __future__ import annotations

import ctypes
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ralph import __version__
from tests.support.messages_api import ServeMessages
from tests.support.real_claude import claude_env
from tests.support.waiting import is_alive, pid_in, wait_until

PROGRAM = Path(sys.executable).with_name("ralph-claude")
STREAM = ("--verbose", "--output-format", "stream-json")


class Run:
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.exit_code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture
def run(repo: Path, world: Path):
    def run(*args: str, env: Mapping[str, str] | None = None, program: Path = PROGRAM) -> Run:
        environment = claude_env(world / "home", "http://127.0.0.1:1", "none") | dict(env or {})
        argv = [program, *args]
        return Run(
            subprocess.run(
                argv, cwd=repo, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
            )
        )

    return run


@pytest.fixture
def shell(repo: Path, world: Path, script: Path):
    """Run a line of bash, in which `$RC` is ralph-claude with a script for a model."""

    def shell(line: str, env: Mapping[str, str] | None = None) -> Run:
        environment = claude_env(world / "home", "http://127.0.0.1:1", "none") | dict(env or {})
        environment["RC"] = f"{PROGRAM} -p --model scripted:{script}"
        return Run(
            subprocess.run(["bash", "-c", line], cwd=repo, env=environment, capture_output=True, text=True, timeout=30)
        )

    return shell


@pytest.fixture
def script(tmp_path: Path) -> Path:
    def session(name: str) -> list[list[dict[str, object]]]:
        call = {"type": "tool_use", "name": "Write", "input": {"file_path": f"{name}.txt", "content": f"{name}\n"}}
        return [[{"type": "text", "text": f"I write {name}."}, call], [{"type": "text", "text": f"{name} is written."}]]

    path = tmp_path / "script.json"
    path.write_text(json.dumps([session("one"), session("two")]))
    return path


def test_a_scripted_model_works_on_the_tree_and_costs_nothing(run: Any, script: Path, repo: Path) -> None:
    done = run("-p", "go", "--model", f"scripted:{script}", "--allowedTools", "Write", *STREAM)
    assert (done.exit_code, done.stderr) == (0, "")
    assert [event["type"] for event in done.events] == [
        "system",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "result",
    ]
    assert done.events[0]["model"] == f"scripted:{script}"
    assert (done.events[-1]["result"], done.events[-1]["total_cost_usd"]) == ("one is written.", 0)
    assert (repo / "one.txt").read_text() == "one\n"


@pytest.mark.spec("1.2-de")
@pytest.mark.spec("4.1.2-ef")
@pytest.mark.parametrize(
    ("chosen", "offered"),
    [
        ("", []),
        ("default", ["Task", "Bash", "Edit", "Glob", "Grep", "Read", "Skill", "Write"]),
        ("Read,Bash", ["Bash", "Read"]),
    ],
)
def test_the_tools_that_are_offered(run: Any, script: Path, chosen: str, offered: list[str]) -> None:
    done = run("-p", "go", "--model", f"scripted:{script}", "--tools", chosen, *STREAM)
    assert (done.exit_code, done.events[0]["tools"]) == (0, offered)


@pytest.mark.parametrize(("iteration", "name"), [("1", "one"), ("2", "two"), ("7", "two")])
def test_the_iteration_of_the_run_chooses_the_session(run: Any, script: Path, iteration: str, name: str) -> None:
    done = run("-p", "go", "--model", f"scripted:{script}", "--allowedTools=Write", env={"RALPH_ITERATION": iteration})
    assert (done.exit_code, done.stdout) == (0, f"{name} is written.\n")


def test_nothing_slow_is_loaded_where_it_is_not_needed(run: Any, script: Path) -> None:
    """The SDK takes longer than a whole session of the real claude; ripgrep's wheel is looked for in a search only."""
    done = run("-p", "go", "--model", f"scripted:{script}", env={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "ralph.claude_cli.conversation" in imported
    assert not imported & {"anthropic", "importlib.metadata", "pydantic", "ralph.config.settings", "psutil"}


def test_a_script_that_cannot_be_read_is_one_line(run: Any) -> None:
    done = run("-p", "go", "--model", "scripted:none.json", *STREAM)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "ralph-claude: cannot read the script none.json: No such file or directory\n"


def test_without_a_key_one_line_says_what_to_do(run: Any) -> None:
    done = run("-p", "go")
    assert (done.exit_code, done.stdout) == (1, "Not logged in · Please run /login\n")
    assert done.stderr.count("\n") == 1
    assert "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN" in done.stderr


def test_a_flag_without_effect_is_accepted_with_a_line(run: Any, script: Path) -> None:
    done = run("-p", "go", "--model", f"scripted:{script}", "--chrome", "--file", "a", "b")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "ralph-claude: --chrome has no effect here",
        "ralph-claude: --file has no effect here",
    ]


@pytest.mark.parametrize("flag", ["--from-pr", "--worktree"])
def test_a_flag_that_changes_the_meaning_is_refused(run: Any, script: Path, flag: str) -> None:
    done = run("-p", "go", flag, "--model", f"scripted:{script}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: ralph-claude does not support {flag}\n"


def test_by_its_own_name_it_says_whose_child_it_is(run: Any, tmp_path: Path) -> None:
    assert run("--version").stdout == f"ralph-claude {__version__} (as Claude Code 2.1.325)\n"
    linked = tmp_path / "claude"
    linked.symlink_to(PROGRAM)
    assert run("--version", program=linked).stdout == "2.1.325 (Claude Code)\n"


def test_help_names_every_kind_of_flag(run: Any) -> None:
    said = run("--help").stdout
    for expected in (
        "--json-schema <schema>",
        "Accepted, already the default:",
        "Accepted, but ignored:",
        "Not supported:",
        "-r, --resume",
    ):
        assert expected in said


def test_a_reader_that_leaves_ends_it(repo: Path, world: Path, script: Path, messages_api: ServeMessages) -> None:
    argv = [PROGRAM, "-p", "go", "--model", f"scripted:{script}", "--allowedTools", "Write", *STREAM]
    env = claude_env(world / "home", messages_api([]).url)
    with subprocess.Popen(
        argv, cwd=repo, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.wait(90) == 1
        assert process.stderr.read() == b""


TGKILL = {"x86_64": 234, "aarch64": 131}


@pytest.mark.skipif(platform.machine() not in TGKILL, reason="how this machine signals one thread is not known here")
def test_a_signal_is_heeded_whichever_thread_it_reaches(repo: Path, world: Path, tmp_path: Path) -> None:
    """The kernel takes any thread; Python runs handlers in the first one, which waits."""
    command = "echo $$ > shell.pid; while :; do read -t 1 x; done"
    call = {"type": "tool_use", "name": "Bash", "input": {"command": command}}
    (tmp_path / "script.json").write_text(json.dumps([[[call]]]))
    argv = [PROGRAM, "-p", "go", "--model", f"scripted:{tmp_path / 'script.json'}", "--allowedTools", "Bash", *STREAM]
    environment = claude_env(world / "home", "http://127.0.0.1:1", "none")
    process = subprocess.Popen(argv, cwd=repo, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (repo / "shell.pid").exists() and (repo / "shell.pid").read_text(), "the command to run")
        others = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        others.remove(process.pid)
        ctypes.CDLL(None).syscall(TGKILL[platform.machine()], process.pid, others[0], int(signal.SIGTERM))
        assert process.wait(90) == 143
    finally:
        process.kill()
        process.wait()
    assert not is_alive(pid_in(repo / "shell.pid"))


def test_a_stdin_that_cannot_be_read_has_ended(shell: Any) -> None:
    stream = f"$RC {' '.join(STREAM)} --input-format stream-json"
    ended = shell(f"{stream} <&-")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "")
    answered = shell("$RC go <&-")
    assert (answered.exit_code, answered.stdout, answered.stderr) == (0, "one is written.\n", "")
    refused = shell("$RC <&-")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: Input must be provided ")


def test_a_command_that_prints_the_mark_of_a_wrong_call_was_allowed_all_the_same(run: Any, tmp_path: Path) -> None:
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "echo '<tool_use_error>'"}}
    (tmp_path / "s.json").write_text(json.dumps([[[call], [{"type": "text", "text": "done"}]]]))
    done = run("-p", "go", "--model", f"scripted:{tmp_path / 's.json'}", "--allowedTools", "Bash", *STREAM)
    told = next(event for event in done.events if event["type"] == "user")
    assert told["message"]["content"][0]["content"] == "<tool_use_error>"
    assert told["tool_result_meta"][0]["permission_decision"]["decision"] == "accept"


@pytest.mark.parametrize(("bad", "said"), [("a\0b", "a NUL character"), ("a\ud800b", "a lone surrogate")])
def test_an_argument_that_the_system_cannot_take_is_a_tools_error(
    run: Any, tmp_path: Path, bad: str, said: str
) -> None:
    calls = [
        ("Read", {"file_path": bad}),
        ("Write", {"file_path": bad, "content": "x"}),
        ("Edit", {"file_path": bad, "old_string": "a", "new_string": "b"}),
        ("Glob", {"pattern": "*", "path": bad}),
        ("Glob", {"pattern": f"/{bad}/*"}),
        ("Grep", {"pattern": "x", "path": bad}),
        *(("Grep", {"pattern": "x", name: bad}) for name in ("pattern", "glob", "type")),
        ("Bash", {"command": f"echo {bad}"}),
    ]
    turns = [[{"type": "tool_use", "name": name, "input": arguments}] for name, arguments in calls]
    (tmp_path / "s.json").write_text(json.dumps([[*turns, [{"type": "text", "text": "still here"}]]]))
    done = run("-p", "go", "--model", f"scripted:{tmp_path / 's.json'}", "--allowedTools", "Write,Edit,Bash", *STREAM)
    assert (done.exit_code, done.stderr, done.events[-1]["result"]) == (0, "", "still here")
    results = [event["message"]["content"][0] for event in done.events if event["type"] == "user"]
    assert [result["is_error"] for result in results] == [True] * len(calls)
    assert all(result["content"].endswith(f"must not contain {said}</tool_use_error>") for result in results)


def test_an_interrupt_right_behind_its_message_aborts_the_turn(repo: Path, world: Path, tmp_path: Path) -> None:
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "sleep 20; touch ran"}}
    (tmp_path / "s.json").write_text(json.dumps([[[call], [{"type": "text", "text": "end"}]]]))
    argv = [PROGRAM, "-p", f"--model=scripted:{tmp_path / 's.json'}", "--allowedTools=Bash", *STREAM]
    message = {"type": "user", "message": {"role": "user", "content": "go"}}
    interrupt = {"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}}
    done = subprocess.run(
        [*argv, "--input-format=stream-json"],
        cwd=repo,
        env=claude_env(world / "home", "http://127.0.0.1:1", "none"),
        input=f"{json.dumps(message)}\n{json.dumps(interrupt)}\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    events = Run(done).events
    assert [event["type"] for event in events if event["type"] in ("control_response", "result")][-1] == "result"
    assert events[-1]["terminal_reason"] in ("aborted_streaming", "aborted_tools")
    assert not (repo / "ran").exists()


def test_a_budget_for_a_model_without_a_price_is_refused(run: Any, script: Path) -> None:
    refused = run("-p", "go", "--model", "claude-nobody-knows", "--max-budget-usd", "1", env={"ANTHROPIC_API_KEY": "k"})
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        "ralph-claude: --max-budget-usd can't be enforced: claude-nobody-knows has no price in ralph's pricing.toml\n"
    )
    assert run("-p", "go", "--model", f"scripted:{script}", "--max-budget-usd", "1").exit_code == 0


@pytest.mark.parametrize("name", ["CLAUDE_CODE_TMPDIR", "TMPDIR"])  # as claude has it (2.1.325)
def test_outputs_are_kept_in_a_folder_that_nobody_made_before(run: Any, tmp_path: Path, name: str) -> None:
    session, place = "11111111-2222-3333-4444-555555555555", tmp_path / "temporary"
    trap = place / f"ralph-claude-{session}"
    trap.mkdir(parents=True)
    (trap / "bash-1.txt").symlink_to(tmp_path / "precious")
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "seq 20000"}}
    (tmp_path / "s.json").write_text(json.dumps([[[call], [{"type": "text", "text": "end"}]]]))
    flags = ("--model", f"scripted:{tmp_path / 's.json'}", "--allowedTools=Bash", *STREAM)
    done = run("-p", "go", *flags, "--session-id", session, env={"CLAUDE_CODE_TMPDIR": "", name: str(place)})
    kept = Path(
        next(event for event in done.events if event["type"] == "user")["tool_use_result"]["persistedOutputPath"]
    )
    assert kept.read_text().endswith("20000\n")
    assert kept.parent.parent == place
    assert kept.parent != trap
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "precious").exists()
    again = run("-p", "go", *flags, "--disallowedTools=Bash", env={"CLAUDE_CODE_TMPDIR": "", name: str(place)})
    assert again.exit_code == 0
    assert sorted(place.iterdir()) == sorted([trap, kept.parent])
    refused = run(
        "-p", "go", "--model", f"scripted:{tmp_path / 's.json'}", env={"CLAUDE_CODE_TMPDIR": "", name: "/dev/null/x"}
    )
    assert (refused.exit_code, refused.stderr) == (1, "ralph-claude: /dev/null/x: Not a directory\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("$RC go </dev/null >&-", "cannot print the answer: stdout is closed"),
        ("$RC go </dev/null >/dev/full", "cannot write to stdout: No space left on device"),
        ("$RC go --output-format json </dev/null >/dev/full", "cannot write to stdout: No space left on device"),
        (f"$RC go {' '.join(STREAM)} </dev/null >/dev/full", "cannot write to stdout: No space left on device"),
        ("$RC --help >/dev/full", "No space left on device"),
        ("mkdir gone; cd gone; rmdir ../gone; $RC go", "the working directory no longer exists"),
    ],
)
def test_what_cannot_be_done_is_one_line(shell: Any, line: str, said: str) -> None:
    refused = shell(line)
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", f"ralph-claude: {said}\n")


def test_notes_never_go_to_stdout(shell: Any) -> None:
    for nowhere in ("&-", "/dev/full"):
        done = shell(f"$RC go --betas x --output-format text </dev/null 2>{nowhere}")
        assert (done.exit_code, done.stdout) == (0, "one is written.\n")


def test_an_iteration_beyond_all_numbers_is_the_last(run: Any, script: Path) -> None:
    environment = {"RALPH_ITERATION": "9" * 5000, "MAX_STRUCTURED_OUTPUT_RETRIES": "9" * 5000}
    done = run("-p", "go", "--model", f"scripted:{script}", "--allowedTools=Write", env=environment)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "two is written.\n", "")


@pytest.mark.spec("4.6-cd")
def test_debug_output_leaves_standard_output_clean(run: Any, script: Path, tmp_path: Path) -> None:
    given = ("-p", "go", "--model", f"scripted:{script}", "--allowedTools=Write")
    done = run(*given, "--debug", "permissions,!hooks")
    assert (done.exit_code, done.stdout) == (0, "one is written.\n")
    (line,) = done.stderr.splitlines()
    assert " [DEBUG] [permissions] Write: allowed id=" in line

    lost = run(*given, "--debug-file", str(tmp_path))
    assert (lost.exit_code, lost.stdout) == (0, "one is written.\n")
    assert lost.stderr == f"ralph-claude: cannot write debug output to {tmp_path}: Is a directory\n"
