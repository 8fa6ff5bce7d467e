"""What a person reads who takes over from a run that got stuck."""

from pathlib import Path

from ralph.core.run import CheckRecord, History, Iteration, Run
from ralph.core.summary import Condensed, Summary
from ralph.core.usage import Spend
from ralph.core.verdict import Verdict
from ralph.run.dossier import Facts, dossier

FACTS = Facts(
    title="Faster start-up",
    goal_path=Path("/goals/speed.md"),
    repo=Path("/repo"),
    check=".ralph/check",
    check_output="3 failed ``` [/nope]",
    changes="a.py | 2 +-",
    logs=Path("/runs/speed/logs"),
)


def stuck(count: int, condensed: Condensed | None = None, check: CheckRecord | None = None) -> Run:
    iterations = tuple(
        Iteration(number, "", f"tried way {number}", f"{number:040x}", Verdict.CONTINUE)
        for number in range(1, count + 1)
    )
    spend = Spend(1.5, 1234, costed=True, counted=True)
    return Run(
        "r", "speed", "main", "b" * 40, History(iterations), spend, check=check, condensed=condensed or Condensed()
    )


def test_it_tells_all_that_was_tried_what_it_cost_and_where_to_look() -> None:
    told = dossier(stuck(3), "stalled: nothing moved", FACTS)
    for said in (
        "# Faster start-up", "stalled: nothing moved", "/goals/speed.md", "$1.50, 1,234 tokens; 3 iterations",
        "/runs/speed/logs", "tried way 1", "tried way 3", "on an earlier iteration", "3 failed", "a.py | 2 +-",
    ):  # fmt: skip
        assert said in told, said


def test_of_a_long_run_it_tells_the_summary_and_the_latest() -> None:
    told = dossier(stuck(60, Condensed(Summary(30, "thirty ways failed"))), "stalled", FACTS)
    assert "### Iterations 1-30, condensed" in told
    assert "thirty ways failed" in told
    assert "10 more iterations are in their commits" in told
    assert "tried way 40\n" not in told
    assert "tried way 41\n" in told


def test_without_a_check_or_changes_it_says_so() -> None:
    nothing = Facts("t", Path("g"), Path("r"), "", "", "", Path("l"))
    told = dossier(stuck(1), "stalled", nothing)
    assert "This run has no check." in told
    assert "no committed changes" in told
    assert "never ran" in dossier(stuck(1), "stalled", Facts("t", Path("g"), Path("r"), "c", "", "", Path("l")))


def test_the_check_of_the_last_iteration_is_told_as_such() -> None:
    assert "on the last iteration" in dossier(stuck(2, check=CheckRecord(2, 1, "x")), "stalled", FACTS)
