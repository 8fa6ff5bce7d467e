"""Permission rules and shell commands: what runs and what is refused, and in which words, by both programs.

Each table is one session with one set of flags, a call a message, played once by each program; every call is a case.
Where ralph-claude differs on purpose it is the stricter one, and the table says why.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.api_replies import Block, Say, tool
from tests.support.conformance import REPO, Story, tell
from tests.support.conversation import Conversation
from tests.support.git_repos import make_repo
from tests.support.messages_api import MessagesApi
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long

OURS = Path(sys.executable).with_name("ralph-claude")
ARGS = ("-p", "--model", "sonnet", "--no-session-persistence", "--strict-mcp-config", "--setting-sources", "user")
STREAM = ("--verbose", "--input-format", "stream-json", "--output-format", "stream-json")
TOOLS = ("--tools", "Read,Write,Edit,Glob,Grep,Bash")
FILES = {"a.txt": "x\n", ".env": "x\n", "sub/x.txt": "x\n", "sub/y.md": "x\n", "locked.txt": "x\n", "Deny/x": "x\n"}
FILES |= {"A.key": "x\n", "b/c.key": "x\n", "b/dot.txt": "x\n", "dot.txt": "x\n"}


@dataclass(frozen=True)
class Table:
    calls: Sequence[str | tuple[str, str]]
    args: tuple[str, ...] = ()
    stricter: Mapping[str, str] = field(default_factory=dict)
    """Calls that 2.1.325 lets run and ralph-claude refuses, and why."""


@dataclass(frozen=True)
class Outcome:
    refused: bool
    said: str


TABLES: dict[str, Table] = {
    "looking": Table(
        [
            *[
                "ls",
                "cat *.txt",
                "echo hi",
                "echo $HOME",
                "echo FOO=$FOO",
                'echo "FOO=$FOO"',
                "echo $FOO",
                "echo '$FOO'",
            ],
            *["echo ${FOO}", "echo $((1+2))", "echo $PATH", "echo $?", "ls $FOO", "X=1; echo $X", "echo $(pwd)"],
            *[
                "echo `pwd`",
                'echo "$(pwd)"',
                "cat <<'E'\nhi\nE",
                "cat <<E\nhi\nE",
                "cat <<< hi",
                "[[ -f a.txt ]] && ls",
            ],
            *[
                "((1+1))",
                "{ ls; }",
                "(ls)",
                "f() { ls; }; f",
                "case x in x) ls;; esac",
                "for i in 1 2; do echo $i; done",
            ],
            *["if test -f a.txt; then cat a.txt; fi", "! ls", "ls # comment", "ls |& wc -l", "ls & ls", "ls &"],
            *["git status", "git log --oneline -3", "git -C sub status", "env", "find . -delete", "awk 1 a.txt"],
            *["echo {a,b}", "echo {1..3}", "echo a\\ b", "echo $'a'", "echo a{b", "cat < a.txt", "cat < /etc/passwd"],
            *["cat /etc/passwd", "ls ..", "ls > f.txt", "ls 2>/dev/null", "ls > $X", "ls > ~/f", "ls > ../f"],
            *["TZ=1 ls", "NODE_ENV=x ls", "FOO=1 ls", "PYTHONPATH=1 ls", "PATH=1 ls", "timeout 5 ls", "nice ls"],
            *[
                "command ls",
                "builtin echo hi",
                "eval ls",
                "exec ls",
                "sudo ls",
                "bash -c ls",
                "/bin/ls",
                "l\\s",
                "'ls'",
            ],
            *["touch q", "rm a.txt", "git push", "make", "python3 -c 1", "ls &&", "ls\nls"],
        ],
    ),
    "rules": Table(
        [
            *["make", "make all", "makex", "make; ls", "make | python3 -c 1", "make; perl -e 1", "make & perl"],
            *["make $(perl -e 1)", 'make "$(perl)"', "make $HOME", "make ${X}", "make <(perl)", "make <<E\nhi\nE"],
            *["make <<'E'\nhi\nE", "make > f", "make 2>/dev/null", "npm run test x", "python3 -c 1", "docker x y ps"],
            *["echo FOO=$FOO", "git commit -m 'a b'", 'git commit -m "a $X"', "FOO=1 make", "LANG=C make"],
            *["timeout 5 make", "time make", "nohup make", "env make", "/usr/bin/make", "m\\ake", "(make)", "! perl"],
            *[
                "make {a,b}",
                "make 'a;b'",
                "Make",
                "sudo make",
                "bash -c make",
                "if make; then make; fi",
                "cd /tmp && make",
            ],
        ],
        ("--allowedTools", "Bash(git commit:*),Bash(make:*),Bash(npm run test),Bash(python3 *),Bash(docker * ps)"),
    ),
    "denials": Table(
        [
            *["rm nosuch", "ls && rm nosuch", "echo $(rm nosuch)", "FOO=1 rm nosuch", "/bin/rm nosuch", "r\\m nosuch"],
            *["timeout 5 rm nosuch", "env rm nosuch", "sudo rm nosuch", "(rm nosuch)", "{ rm nosuch; }", "! rm nosuch"],
            *[
                "for i in a; do rm nosuch; done",
                "X=rm; $X nosuch",
                "cat <(rm nosuch)",
                "rmdir nosuch",
                "perl",
                "perl -e 1",
            ],
            *["git push origin", "cat .env", "cat ./sub/../.env", "grep x .env", "cat < .env", "echo x > locked.txt"],
            *["cat locked.txt", "cat Deny/x", "ls Deny", "cat deny/x", "cd Deny", "find Deny", "ls sub"],
            *[("Read", "Deny/x"), ("Read", "Deny"), ("Read", "deny/x"), ("Read", "a.txt"), ("Read", "b/c.key")],
            *[("Read", "A.key"), ("Read", "dot.txt"), ("Read", "b/dot.txt"), ("Grep", "Deny"), ("Glob", "Deny")],
            *[
                ("Write", "Deny/n"),
                ("Write", "DENY/n"),
                ("Write", ".env"),
                ("Write", "Locked.txt"),
                ("Edit", "locked.txt"),
            ],
        ],
        (
            *("--dangerously-skip-permissions", "--disallowedTools"),
            "Bash(rm:*),Bash(git push:*),Bash(perl),Read(./.env),Edit(./locked.txt),Read(Deny/**),Read(*.KEY),"
            "Read(./dot.txt)",
        ),
        stricter={"cat locked.txt": "a file that must not be edited is no shell command's, either"},
    ),
    "leave by path": Table(
        [
            *[("Write", name) for name in ("sub/n.txt", "Sub/n.txt", "case/a", "p.txt", "{p,q}.txt", "root.txt")],
            *[
                ("Write", name)
                for name in ("b/root.txt", "z/a", "b/z/a", "deep/1/x.txt", "deep/1/2/x.txt", "other.txt")
            ],
        ],
        ("--allowedTools", "Edit(sub/**),Edit(Case/**),Edit({p,q}.txt),Edit(/root.txt),Edit(z/),Edit(deep/*/x.txt)"),
    ),
}
CASES = [(name, call) for name, table in TABLES.items() for call in table.calls]


def block(call: str | tuple[str, str]) -> Block:
    if isinstance(call, str):
        return tool("Bash", command=call, description="Run a command")
    name, path = call
    more: dict[str, dict[str, str]] = {
        "Write": {"content": "y\n"},
        "Edit": {"old_string": "x", "new_string": "y"},
        "Grep": {"pattern": "x"},
        "Glob": {"pattern": "*"},
    }
    argument = "path" if name in ("Grep", "Glob") else "file_path"
    return tool(name, **{argument: f"{REPO}/{path}"}, **more.get(name, {}))


@functools.cache
def outcomes(name: str) -> tuple[list[Outcome], list[Outcome]]:
    """What became of each call of a table: by claude, and by ralph-claude."""
    return play(tools.find("claude"), TABLES[name]), play(OURS, TABLES[name])


def play(program: Path, table: Table) -> list[Outcome]:
    def drive(talk: Conversation, _api: MessagesApi) -> None:
        talk.say("go")
        wait_until(lambda: any(event["type"] == "result" for event in talk.events), "the result", 400)

    with tempfile.TemporaryDirectory() as folder:
        repo = make_repo(Path(folder) / "repo", {"README.md": "# Example\n"})
        script = [*(Say(block(call)) for call in table.calls), Say("done")]
        args = (*ARGS, *STREAM, *TOOLS, *table.args)
        story = Story(script, args, drive, files=FILES, env={"API_TIMEOUT_MS": "60000"})
        told = tell(story, program, repo, Path(folder) / "home")
        found = [_outcome(event, folder) for event in told.events if event["type"] == "user" and _is_answer(event)]
    assert len(found) == len(table.calls)
    return found


def _is_answer(event: dict[str, Any]) -> bool:
    content = event["message"]["content"]
    return isinstance(content, list) and content[0]["type"] == "tool_result"


def _outcome(event: dict[str, Any], folder: str) -> Outcome:
    answer = event["message"]["content"][0]["content"]
    decision = event.get("tool_result_meta", [{}])[0].get("permission_decision", {}).get("decision")
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return Outcome(decision == "reject", text.replace(folder, "$HERE") if decision == "reject" else "")


@pytest.mark.parametrize(("name", "call"), CASES, ids=[f"{name}-{call}" for name, call in CASES])
def test_the_same_decision(name: str, call: str | tuple[str, str]) -> None:
    table = TABLES[name]
    real, ours = (both[list(table.calls).index(call)] for both in outcomes(name))
    if call in table.stricter:
        assert (ours.refused, real.refused) == (True, False), table.stricter
    else:
        assert ours == real
