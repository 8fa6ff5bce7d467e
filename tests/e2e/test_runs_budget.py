"""The budget of a batch holds over all goals at work: with the real Claude Code, and with `ralph-claude` in its place.

The scripted model's own ledger is the judge: what it served exceeds no budget by more than one call of each goal.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ralph.core import usage
from tests.support import tools
from tests.support.api_replies import Reply, Say, text, tool
from tests.support.batches import Batch, merged_goals, says, shell, write, wrote
from tests.support.git_repos import commits
from tests.support.messages_api import Ledger, MessagesApi, ServeMessages
from tests.support.notifier import listening
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.scripted_agent import ClaudeScript, bill, run, summary
from tests.support.scripted_agent import write as write_file
from tests.support.tokens import Tokens
from tests.support.waiting import is_alive, wait_until

NAMES = ("amber", "birch", "cedar")
USAGE = Tokens(input=1000, output=500, cache_creation=300, cache_read=200)
ONE_CALL = 0.00777
"""Dollars for one of these; `test_budgets` compares it with the price list."""

PLEA = "budget is used ("

RunBatch = Callable[..., Finished]


def surroundings(batch: Batch, world: Path, api: MessagesApi) -> dict[str, str]:
    return claude_env(world / "home", api.url) | {"PATH": batch.runs.env["PATH"], "API_TIMEOUT_MS": "60000"}


def dollars(ledger: Ledger) -> float:
    """What was served, at list price: asked of the table for each message by itself."""
    served = [(one.request["model"], one.usage) for one in ledger]
    return sum(
        usage.shipped().dollars(model, usage.Tokens(use.input, use.output, use.cache_creation, use.cache_read)) or 0
        for model, use in served
    )


class Model:
    """Works on and on, until it `may_end`; the first calls of all goals come together. Each call takes a moment.

    From the `slow_from`-th on it takes longer: a busy machine may take its time to hear of what was used.
    """

    def __init__(self, goals: int, *, heeds: bool = False, pause: float = 0.2, slow_from: int = 1000) -> None:
        self.may_end = False
        self.slow_from = slow_from
        self._pause = pause
        self._heeds = heeds
        self._together = threading.Barrier(goals, timeout=60)
        self._met: set[str] = set()

    def __call__(self, number: int, request: dict[str, Any]) -> Reply:
        prompt = str(request["messages"])
        (name,) = [name for name in NAMES if f"Write {name}." in prompt]
        is_slow = number >= self.slow_from
        if self.may_end:
            return Say(tool("StructuredOutput", summary="DONE"), usage=USAGE)
        if name not in self._met:
            self._met.add(name)
            self._together.wait()
        if self._heeds and PLEA in prompt:
            # It takes a while: the call in which the budget is reached is heard out.
            return Say(tool("StructuredOutput", summary="wrapped up"), usage=USAGE, pause=1.0)
        goes_on = f"echo on >> {name}.md" + ("; sleep 30" if is_slow and self._heeds else "")
        bash = tool("Bash", command=goes_on, description="go on")
        return Say(text("On."), bash, usage=USAGE, pause=4.0 if is_slow and not self._heeds else self._pause)


class Overlapping(Model):
    """Ends its `last` call only when every other goal is in the middle of one, which does not end by itself.

    The agents have seconds to hear that their calls have begun: what is used by one that is cut before that is known
    to nobody.
    """

    def __init__(self, goals: int, *, last: int) -> None:
        super().__init__(goals)
        self._last = last
        self._overlap = threading.Barrier(goals, timeout=60)

    def __call__(self, number: int, request: dict[str, Any]) -> Reply:
        reply = super().__call__(number, request)
        if number < self._last or self.may_end or not isinstance(reply, Say):
            return reply
        self._overlap.wait()
        reply.pause = 4.0 if number == self._last else 60.0
        return reply


@pytest.fixture
def run_batch(request: pytest.FixtureRequest, batch: Batch, bin_dir: Path, world: Path) -> RunBatch:
    ours = Path(sys.executable).with_name("ralph-claude")
    (bin_dir / "claude").symlink_to(ours if request.param == "ralph-claude" else tools.find("claude"))
    upstream = batch.upstream()

    def run_it(api: MessagesApi, *flags: str) -> Finished:
        env = surroundings(batch, world, api)
        return batch.run(batch.root / "goals", "--repo", upstream, "--max", "3", "--json", *flags, env=env)

    return run_it


def write_goals(batch: Batch, *names: str) -> None:
    for name in names:
        batch.goal(name, [], agent="claude", model="sonnet")


@pytest.mark.long
@pytest.mark.parametrize(
    ("run_batch", "limited"), [("claude", "cost"), ("ralph-claude", "tokens")], indirect=["run_batch"]
)
def test_three_goals_at_once_exceed_the_budget_by_no_more_than_one_call_each(
    batch: Batch, run_batch: RunBatch, messages_api: ServeMessages, limited: str
) -> None:
    write_goals(batch, *NAMES)
    model = Overlapping(len(NAMES), last=13)
    api = messages_api(model)
    # Not used up by what is told when the last three begin (13.1 calls by cost, 14.3 by tokens), but when one ends.
    cost, tokens = 13.4 * ONE_CALL, int(14.4 * USAGE.total)
    flag = ["--max-cost", f"{cost:.6f}"] if limited == "cost" else ["--max-tokens", str(tokens)]

    done = run_batch(api, *flag)

    assert done.exit_code == 4, done.stdout + done.stderr
    if limited == "cost":
        assert cost <= dollars(api.ledger) <= cost + len(NAMES) * ONE_CALL
    else:
        assert tokens <= api.ledger.tokens.total <= tokens + len(NAMES) * USAGE.total
    (said,) = done.events_of("budget")
    assert said["text"].startswith(f"--max-{limited}: ")
    assert "goals continue at the next start, with a new budget" in said["text"]
    goals = batch.goals()
    assert {goal["state"] for goal in goals.values()} == {"queued"}
    assert {goal["attempts"] for goal in goals.values()} == {0}, "nobody pays for it with an attempt"
    assert all(goal["reason"].startswith(f"--max-{limited}: ") for goal in goals.values())
    assert sum(served.complete for served in api.ledger.main) == len(api.ledger.main) - 2 == 13
    known = sum(goal["tokens"] for goal in goals.values())
    assert known == api.ledger.tokens.total, "of a call that is cut what was told when it began"

    model.may_end = True
    again = run_batch(api, *flag)

    assert again.exit_code == 0, again.stdout + again.stderr
    assert sorted(merged_goals(batch.repos["upstream"])) == list(NAMES)


@pytest.mark.parametrize(
    ("run_batch", "limited"),
    [pytest.param("claude", "tokens", marks=pytest.mark.long), ("ralph-claude", "cost")],
    indirect=["run_batch"],
)
def test_one_goal_alone_wraps_up_before_the_budget_of_the_batch_is_used_up(
    batch: Batch, run_batch: RunBatch, messages_api: ServeMessages, limited: str
) -> None:
    write_goals(batch, NAMES[0])
    api = messages_api(Model(1, heeds=True, slow_from=10))
    cost, tokens = 10.5 * ONE_CALL, int(10.5 * USAGE.total)
    flag = ["--max-cost", f"{cost:.6f}"] if limited == "cost" else ["--max-tokens", str(tokens)]

    done = run_batch(api, *flag)

    assert done.exit_code == 4, done.stdout + done.stderr
    assert api.ledger.tokens.total <= 11 * USAGE.total, "told after the tenth call, and then one more"
    assert [event["text"] for event in done.events_of("iteration")] == ["iteration 1: wrapped up"]
    (goal,) = batch.goals().values()
    assert (goal["state"], goal["attempts"], goal["iterations"]) == ("queued", 0, 1)


@pytest.mark.long
@pytest.mark.parametrize("run_batch", ["ralph-claude"], indirect=True)
def test_what_a_worker_that_was_killed_has_used_is_not_charged_to_the_next(
    batch: Batch, run_batch: RunBatch, messages_api: ServeMessages, world: Path
) -> None:
    write_goals(batch, *NAMES[:2])
    model = Model(2, pause=0.1)
    api = messages_api(model)
    goals = (batch.root / "goals", "--repo", batch.repos["upstream"])
    with batch.start(*goals, "--json", env=surroundings(batch, world, api)) as killed:
        wait_until(lambda: len(api.ledger.main) >= 20, "calls of the model")
        wait_until(lambda: min(goal["seconds"] for goal in batch.goals().values()) > 0.5, "the time to be written down")
        started = psutil.Process(killed.pid).children(recursive=True)
        killed.send(signal.SIGKILL)
        killed.wait()
    wait_until(lambda: not [one for one in started if is_alive(one.pid)], "the end of its agents")
    model.slow_from = len(api.ledger.main) + 11
    before = api.ledger.tokens.total
    worked = {name: goal["seconds"] for name, goal in batch.goals().items()}
    assert min(worked.values()) > 0.5, "nor is the time lost that it took"
    budget = int(12.5 * USAGE.total)

    done = run_batch(api, "--max-tokens", str(budget))

    assert done.exit_code == 4, done.stdout + done.stderr
    assert budget <= api.ledger.tokens.total - before <= budget + 2 * USAGE.total
    assert len(done.events_of("started")) == 2, "neither was cut short"
    assert all(goal["seconds"] > worked[name] for name, goal in batch.goals().items())


def test_time_that_is_over_ends_the_batch_as_a_signal_does(batch: Batch) -> None:
    upstream = batch.upstream()
    waits = shell(f"[ -e {batch.root}/later ] || sleep 600")
    # Twice: being told to wrap up cuts a call short, and the session goes on with the next one.
    goal = batch.goal("slow", [[waits, waits, write("texts/slow.txt", "Fine.\n"), says("DONE")]])

    over = batch.run(goal, "--repo", upstream, "--max-time", "6s")

    assert over.exit_code == 4, over.stdout + over.stderr
    assert "--max-time: 6.0s used" in over.stdout
    assert (batch.states(), batch.goals()["slow"]["attempts"]) == ({"slow": "queued"}, 0)
    (batch.root / "later").touch()
    again = batch.run(goal, "--repo", upstream, "--max-time", "1h")
    assert again.exit_code == 0, again.stdout + again.stderr
    assert merged_goals(upstream) == ["slow"]


def test_a_worker_that_serves_a_queue_ends_by_its_time_also_where_nothing_is_left_to_do(
    batch: Batch, tmp_path: Path
) -> None:
    """The command that goes on has every flag that is about the whole queue.

    Otherwise whoever copies it works without a budget, or leaves unproven work unmerged.
    """
    ears = listening(tmp_path / "ears")
    url = f"sqlite:///{tmp_path / 'other queue'}.sqlite"
    flags = "--max 3 --max-cost 0.5 --max-tokens 9000 --max-time 1s --merge-unproven"

    over = batch.runs("work", *flags.split(), "--db", url, cwd=batch.root, env=ears.env)

    assert over.exit_code == 4, over.stdout + over.stderr
    assert "--max-time: 1.0s used: stopping; nothing more to do" in over.stdout
    again = f"continue with a new budget: ralph-runs work {flags} --db '{url}'"
    assert over.stdout.splitlines()[-1] == f"--max-time: 1.0s used; {again}"
    assert [notice["next"] for notice in ears.heard] == [again]


def test_what_waits_in_vain_does_not_go_on_with_another_budget(batch: Batch, claude_script: ClaudeScript) -> None:
    upstream = batch.upstream()
    batch.goal("dear", [], agent="claude", model="sonnet", max_iterations=1)
    batch.goal("next", [], agent="claude", model="sonnet", after=["dear"])
    claude_script([bill(2.0), write_file("dear.txt", "dear"), summary("more to do")])

    ended = batch.run(batch.root / "goals", "--repo", upstream, "--max-cost", "1")

    assert batch.states() == {"dear": "stuck", "next": "queued"}
    assert ended.exit_code == 1, ended.stdout + ended.stderr


@pytest.mark.long
def test_that_the_budget_will_not_do_is_said_as_soon_as_it_can_be_told(
    batch: Batch, claude_script: ClaudeScript
) -> None:
    upstream = batch.upstream()
    names = ("one", "two", "three", "four")
    for name, before in zip(names, ((), *((name,) for name in names)), strict=False):
        batch.goal(name, [], agent="claude", model="sonnet", after=before)
    works = [bill(0.15), run('mkdir -p texts; echo Fine. > "texts/$RALPH_GOAL.txt"')]
    agent = claude_script(*[[*works, summary("DONE")]] * 3, [*works, summary("more to do")])

    ended = batch.run(batch.root / "goals", "--repo", upstream, "--max", "1", "--json", "--max-cost", "1")

    assert ended.exit_code == 4, ended.stdout + ended.stderr
    spent = agent.total_cost / len(agent.starts)
    (note,) = [event["text"] for event in ended.events_of("note")]
    assert note.startswith(f"--max-cost is probably not enough: 1 goal left: about ${spent:.2f}, ")
    assert note.endswith("estimated from 3 done")


@pytest.mark.long
def test_the_last_words_say_what_was_used_until_all_had_ended(batch: Batch, claude_script: ClaudeScript) -> None:
    """A worker that was stopped hears late of what its goals have used meanwhile: the budget ends with the first."""
    upstream = batch.upstream()
    write_goals(batch, *NAMES)
    waits = f'touch "{batch.root}/ready-$RALPH_GOAL"; until [ -e {batch.root}/go ]; do sleep 0.1; done'
    spends = f'touch "{batch.root}/spent-$RALPH_GOAL"; sleep 60'
    claude_script([bill(tokens=Tokens(input=1)), run(waits), bill(tokens=USAGE), run(spends)])
    limit = USAGE.total * 3 // 2  # no goal's own use, which would have it wrap up, but that of two of them
    with batch.start(
        batch.root / "goals", "--repo", upstream, "--max", "3", "--max-tokens", str(limit), "--json"
    ) as worker:
        wait_until(lambda: len(list(batch.root.glob("ready-*"))) == len(NAMES), "all are at work")
        worker.send(signal.SIGSTOP)
        (batch.root / "go").touch()
        wait_until(lambda: len(list(batch.root.glob("spent-*"))) == len(NAMES), "all have spent their part")
        worker.send(signal.SIGCONT)
        done = worker.wait()
    assert done.exit_code == 4, done.stdout + done.stderr
    goals = batch.goals().values()
    used = sum(goal["tokens"] for goal in goals)
    assert used > 2 * USAGE.total
    words = f"--max-tokens: {used:,} of {limit:,} tokens used"
    last = done.events[-1]
    assert (last["type"], last["exit_code"], last["waiting"]) == ("summary", 4, 0)
    assert last["over"] == f"{words}; continue with a new budget: ralph-runs run --all --max 3 --max-tokens {limit}"
    assert {goal["reason"] for goal in goals} == {words}


def silent(batch: Batch) -> dict[str, str]:
    """The environment in which `custom` is an agent that does its work, and says nothing of what it uses."""
    agent = batch.root / "agent"
    agent.write_text("#!/bin/sh\necho Fine. > $RALPH_GOAL.txt\necho '<promise>COMPLETE</promise>'\n")
    agent.chmod(0o755)
    return {"RALPH_AGENT_CMD": str(agent)}


def test_an_agent_that_does_not_say_what_it_uses_is_named(batch: Batch, ralph_runs: Ralph) -> None:
    """And nowhere is what it does not name said to be nothing."""
    upstream = batch.upstream()
    goals = [batch.goal(name, [], agent="custom", model="any") for name in ("silent", "silent-too")]

    ended = batch.run(
        *goals, "--repo", upstream, "--max", "1", "--max-tokens", "9", "--max-cost", "1", "--json", env=silent(batch)
    )

    assert ended.exit_code == 0, ended.stdout + ended.stderr
    (note,) = [event for event in ended.events_of("note") if "--max-time" in event["text"]]
    told = "--max-cost and --max-tokens can't be enforced: custom doesn't report cost or tokens. Use --max-time instead"
    assert note["text"] == told
    assert ended.events.index(note) < ended.events.index(ended.events_of("iteration")[0]), "before anything is spent"
    assert "id" not in note, "it is about all goals of this agent: a dashboard that is left says it again"
    assert batch.cautions() == (told,)

    batch.run(batch.goal("scripted", wrote("scripted")), "--repo", upstream)
    listed = ralph_runs("list").stdout.splitlines()
    assert {line.split()[2]: line.split()[listed[0].split().index("cost")] for line in listed[1:4]} == {
        "silent": "unknown",
        "silent-too": "unknown",
        "scripted": "$0.00",
    }
    assert listed[-1] == "3 goals: 3 done · cost of 2 unknown"
    assert {name: (goal["cost_usd"], goal["tokens"]) for name, goal in batch.goals().items()} == {
        "silent": (None, None),
        "silent-too": (None, None),
        "scripted": (0.0, 0),
    }
    costs = {
        commit.trailers["Ralph-Goal"]: commit.trailers["Ralph-Cost-USD"] for commit in commits(upstream, "main")[1:]
    }
    assert costs == {"silent": "unknown", "silent-too": "unknown", "scripted": "0.0"}
    assert "unknown" in ralph_runs("stats").stdout


MERGE_CHECK = """#!/bin/sh
case $PWD in */checkouts/*) touch {root}/merging; sleep 3 ;; esac
"""


@pytest.mark.long
def test_what_is_being_merged_when_the_budget_is_reached_is_merged(batch: Batch, claude_script: ClaudeScript) -> None:
    upstream = batch.upstream(check=MERGE_CHECK.format(root=batch.root))
    batch.goal("done", [[write("done.txt", "done"), says("DONE")]])
    batch.goal("dear", [], agent="claude", model="sonnet")
    meanwhile = f"until [ -e {batch.root}/merging ]; do sleep 0.1; done"
    claude_script([run(meanwhile), bill(2.0), write_file("dear.txt", "dear"), summary("more to do")])

    ended = batch.run(batch.root / "goals", "--repo", upstream, "--max", "2", "--max-cost", "1", "--quiet")

    assert ended.exit_code == 4, ended.stdout + ended.stderr
    assert batch.states() == {"done": "done", "dear": "queued"}
    assert merged_goals(upstream) == ["done"]
    assert "--max-cost: $" in ended.stdout, "also who asked for quiet is told why it ended"


@pytest.mark.parametrize(
    ("flag", "written", "said"),
    [
        ("--max-cost", "nothing", "is not an amount of US dollars"),
        ("--max-tokens", "-3", "is not a whole number above zero"),
        ("--max-time", "soon", "--max-time: 'soon' is not a duration"),
        ("--max-time", "", "--max-time: '' is not a duration"),
    ],
)
def test_a_budget_that_is_none_is_refused(batch: Batch, flag: str, written: str, said: str) -> None:
    refused = batch.run(flag, written)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert not batch.ralph_dir.exists()
