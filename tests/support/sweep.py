"""Kill ralph at a chosen system call, start it again, and say all that is wrong then.

`trace` lists the calls of a whole run that change something or start a process; `crash` kills a run at one of them, by
strace, which follows ralph's main thread alone: what ralph starts is not touched. The run takes three iterations, one a
refused DONE, one a step, one a proven DONE, and its agent goes by the iteration's number, so that a second try of an
unfinished iteration does what the first did. After the second iteration the first is condensed.
"""

from __future__ import annotations

import ast
import compileall
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from ralph.config.paths import repo_key
from ralph.core.usage import Tokens, shipped
from tests.support.git_repos import Commit, commits
from tests.support.goals import CHECK_42, raw_logs, result, run_directory, state, write_check
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ROOT, STANDARD_SUMMARY, ScriptedAgent, scripted_agent, summary, write
from tests.support.stages import Stage, make_stage
from tests.support.waiting import comes_true, is_alive

# fork, vfork and clone are git and the guardian, clone3 a thread; wait4 is in the middle of what was started.
CALLS = (
    "write", "pwrite64", "rename", "renameat", "renameat2", "fsync", "fdatasync", "ftruncate", "unlink", "unlinkat",
    "mkdir", "mkdirat", "symlink", "symlinkat", "sendto", "sendmsg", "fork", "vfork", "clone", "clone3", "wait4",
)  # fmt: skip

SESSIONS = {
    1: (0.0113, [write("answer.txt", "41\n"), summary("DONE")]),
    2: (0.0207, [write("answer.txt", "42\n"), summary("It said 41; it says 42 now.")]),
    3: (0.0411, [summary("DONE")]),
}
VERDICTS = ["DONE", "CONTINUE", "DONE"]
CENT = 1e-9


@dataclass(frozen=True)
class Point:
    """The `number`-th call of its kind, as it stood in the trace."""

    call: str
    number: int
    line: str
    file: str = ""
    """Only calls count that name this file in the run's directory: of others one run makes more than the next."""

    def __str__(self) -> str:
        return f"{self.call} {self.number}: {self.line[:160]}"


@dataclass(frozen=True)
class Run:
    """A place where the run of three iterations can be had."""

    stage: Stage
    agents: Sequence[ScriptedAgent]

    @property
    def repo(self) -> Path:
        return self.stage.repo

    @property
    def pids(self) -> list[int]:
        """Every agent that was started."""
        return [start["pid"] for agent in self.agents for start in agent.starts]


def make_run(directory: Path, ralph: Ralph) -> Run:
    """Put goal, check and agent in place."""
    # Writing what it compiled is no part of ralph's work, and not the same from run to run.
    env = {**ralph.env, "PYTHONDONTWRITEBYTECODE": "1", "RALPH_SUMMARY_EVERY": "2", "RALPH_SUMMARY_KEEP": "1"}
    stage = make_stage(directory, replace(ralph, env=env))
    write_check(stage.repo, CHECK_42)
    players = directory / "agents"
    agents = [scripted_agent(players / str(number), [steps], cost=cost) for number, (cost, steps) in SESSIONS.items()]
    agent = directory / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(f'#!/bin/sh\nn=$RALPH_ITERATION\ntest "$n" -lt 3 || n=3\nexec "{players}/$n/claude" "$@"\n')
    agent.chmod(0o755)
    return Run(stage, agents)


def trace(directory: Path, ralph: Ralph, strace: str) -> list[Point]:
    """Hold the whole run once and list its calls, in order."""
    run = make_run(directory, ralph)
    calls = directory / "calls"
    under = [strace, "-y", "-s", "120", "-o", str(calls), "-e", f"trace={','.join(CALLS)}"]
    done = run.stage.ralph("run", "goal.md", under=under)
    assert done.exit_code == 0, done
    assert not (wrong := list(violations(run, []))), wrong
    seen: Counter[str] = Counter()
    points: list[Point] = []
    for line in calls.read_text(errors="replace").splitlines():
        if match := re.match(r"(\w+)\(", line):
            seen[match[1]] += 1
            points.append(Point(match[1], seen[match[1]], line))
    return points


def spread(points: Sequence[Point], count: int) -> list[Point]:
    """Choose so many points, evenly."""
    count = min(count, len(points))
    return [points[(2 * index + 1) * len(points) // (2 * count)] for index in range(count)]


def crash(directory: Path, ralph: Ralph, strace: str, point: Point) -> tuple[bool, list[str]]:
    """Kill a run at this point and go on with it; tell whether the point was reached, and all that is wrong then."""
    run = make_run(directory, ralph)
    inject = f"inject={point.call}:signal=KILL:when={point.number}"
    state = Path(run.stage.ralph.env["RALPH_DIR"]) / "runs" / repo_key(run.repo) / "goal"  # nobody has made it yet
    only = ["-P", str(state / point.file)] if point.file else []
    under = [strace, "-o", "/dev/null", *only, "-e", f"trace={point.call}", "-e", inject]
    first = run.stage.ralph("run", "goal.md", under=under)
    before = commits(run.repo)
    if first.exit_code == 0:  # it made one call less this time; what it left must be right all the same
        return False, list(violations(run, before))
    if first.exit_code >= 0:
        return True, [f"ralph was not killed but exited {first.exit_code}: {first.stdout}{first.stderr}"]
    again = _start_again(run)
    if again.exit_code != 0:
        return True, [f"the next start exited {again.exit_code}: {again.stdout}{again.stderr}"]
    return True, list(violations(run, before))


def _start_again(run: Run) -> Finished:
    """Start ralph again; the tree that it left may take its moment to die, and holds the lock until then."""
    again = run.stage.ralph("run", "goal.md")
    for _ in range(2):
        if again.exit_code != 2 or "another run" not in again.stderr:
            break
        again = run.stage.ralph("run", "goal.md")
    return again


def violations(run: Run, before: Sequence[Commit]) -> Iterator[str]:
    """Say all that is wrong with a run that has ended well; `before` are the commits that stood when it was killed."""
    found = result(run.repo)
    if (found["exit_code"], found["proven"]) != (0, True):
        yield f"result.json: {found}"
    after = commits(run.repo)
    if lost := [commit.sha for commit in before if commit not in after]:
        yield f"commits are lost: {lost}"
    runs: dict[str, list[Commit]] = {}
    for commit in after[1:]:
        runs.setdefault(commit.trailers["Ralph-Run"], []).append(commit)
    for name, made in runs.items():
        numbers = [commit.trailers["Ralph-Iteration"] for commit in made]
        if numbers != ["1", "2", "3"]:
            yield f"run {name} has the iterations {numbers}"
        elif [commit.trailers["Ralph-Verdict"] for commit in made] != VERDICTS:
            yield f"run {name} has the verdicts {[commit.trailers['Ralph-Verdict'] for commit in made]}"
    directory = run_directory(run.repo)
    current = json.loads((directory / "run.json").read_text())["run"]
    archived = (json.loads(file.read_text()) for file in (directory.parent / ".archive").glob("goal-*/run.json"))
    finished = {document["run"] for document in archived if document["exit_code"] == 0}
    if abandoned := runs.keys() - finished - {current}:
        yield f"a run was begun anew that had not ended: {abandoned}"
    yield from _wrong_progress(directory, runs.get(current, []))
    yield from _wrong_ledger(run, found, runs.get(current, []))
    if not all(STANDARD_SUMMARY in prompt and "## Iteration 2" in prompt for prompt in run.agents[2].heard):
        yield "the third iteration was not told what the first had come to"
    if any("# The check is red" in prompt for prompt in run.agents[2].heard):
        yield "the third iteration was told that the claim of the second was refused, which made none"
    fsck = subprocess.run(["git", "fsck", "--strict"], cwd=run.repo, capture_output=True, text=True)
    if fsck.returncode != 0:
        yield f"git fsck: {fsck.stdout}{fsck.stderr}"
    if (run.repo / ".git" / "index.lock").exists():
        yield "an index.lock is left"
    comes_true(lambda: not any(map(is_alive, run.pids)), 12)
    if alive := [pid for pid in run.pids if is_alive(pid)]:
        yield f"agents outlived ralph: {[psutil.Process(pid).cmdline() for pid in alive]}"


def _wrong_progress(directory: Path, made: Sequence[Commit]) -> Iterator[str]:
    try:
        lines = (directory / "progress.jsonl").read_text().splitlines()
        progress = [json.loads(line) for line in lines if line]
    except (OSError, ValueError) as error:
        yield f"progress.jsonl: {error}"
        return
    noted = [(str(entry["iteration"]), entry["verdict"], entry["commit"]) for entry in progress]
    true = [(commit.trailers["Ralph-Iteration"], commit.trailers["Ralph-Verdict"], commit.sha) for commit in made]
    if noted != true:
        yield f"progress.jsonl says {noted}, the commits {true}"


def _wrong_ledger(run: Run, found: dict[str, Any], made: Sequence[Commit]) -> Iterator[str]:
    """Compare what ralph says was spent with what the raw logs say."""
    logs = [_spent(log) for log in raw_logs(run.repo)]
    cost, tokens = sum(cost for cost, _ in logs), sum(tokens for _, tokens in logs)
    budget = state(run.repo, "budget.json")
    said = {
        "result.json": found["cost_usd"],
        "budget.json": budget["total_cost_usd"],
        "the last trailer": float(made[-1].trailers["Ralph-Cost-USD"]) if made else None,
    }
    for where, amount in said.items():
        if amount is None or abs(amount - cost) > CENT:
            yield f"{where} says ${amount}, the raw logs ${cost} ({logs})"
    if found["tokens"] != tokens:
        yield f"result.json says {found['tokens']} tokens, the raw logs {tokens} ({logs})"
    if made and int(made[-1].trailers["Ralph-Tokens"]) != tokens:
        yield f"the last trailer says {made[-1].trailers['Ralph-Tokens']} tokens, the raw logs {tokens}"
    if budget["iterations"] != len(made):
        yield f"budget.json says {budget['iterations']} iterations, the commits {len(made)}"


def _spent(log: Path) -> tuple[float, int]:
    """The last cost and the tokens that a session reported: those of its result, else those of its messages.

    Messages name no cost; what they used is worth its list price.
    """
    cost, of_result, of_messages, worth = None, 0, dict[str, int](), dict[str, float]()
    for line in log.read_bytes().split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:  # the torn last line
            continue
        if event["type"] == "result":
            cost = event["total_cost_usd"]
            of_result = sum(map(_tokens, event["modelUsage"].values()))
        elif event["type"] == "assistant":
            message = event["message"]
            of_messages[message["id"]] = _tokens(message["usage"])
            worth[message["id"]] = _list_price(message["model"], message["usage"])
    return sum(worth.values()) if cost is None else cost, max(of_result, sum(of_messages.values()))


def _list_price(model: str, usage: dict[str, Any]) -> float:
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return shipped().dollars(model, Tokens(*(usage.get(name, 0) for name in names))) or 0.0


def _tokens(usage: dict[str, Any]) -> int:
    """All tokens of a usage, in either of claude's spellings."""
    spellings = (
        ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
    )
    return sum(usage.get(name, 0) for names in spellings for name in names)


def copy_package(directory: Path) -> Path:
    """Copy ralph with its prompts, to be changed; put the directory on PYTHONPATH."""
    for name in ("ralph", "prompts"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def make_it_return(package: Path, function: str, value: str) -> None:
    """Replace the body of the function or method of this name by `return value`, and compile the package."""
    for file in package.rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name == function:
                lines = text.splitlines(keepends=True)
                indent = " " * (node.col_offset + 4)
                first, last = node.body[0].lineno, node.end_lineno or node.body[-1].lineno
                file.write_text("".join([*lines[: first - 1], f"{indent}return {value}\n", *lines[last:]]))
                compileall.compile_dir(package, quiet=1)
                return
    raise LookupError(f"no function {function} in {package}")


def with_package(ralph: Ralph, directory: Path) -> Ralph:
    """A ralph whose package comes from this directory."""
    return replace(ralph, env={**ralph.env, "PYTHONPATH": str(directory)})
