"""The message of an iteration's commit: its trailers are what a lost run directory is rebuilt from."""

import contextlib
import re
from dataclasses import dataclass

from ralph.core import ndjson
from ralph.core.limits import Spend
from ralph.core.verdict import Answer, Verdict


@dataclass(frozen=True, slots=True)
class IterationMessage:
    """What the message of an iteration's commit says; `spend` is the run's, cumulative."""

    goal: str
    run: str
    iteration: int
    verdict: Verdict
    spend: Spend
    summary: str


def read_message(message: str) -> IterationMessage | None:
    """Read back what `commit_message` wrote; None if it is no iteration's message."""
    body, _, last = message.rstrip().rpartition("\n\n")
    trailers = dict(line.split(": ", 1) for line in last.splitlines() if ": " in line)
    with contextlib.suppress(KeyError, ValueError):
        cost = trailers["Ralph-Cost-USD"]
        amount = 0.0 if cost == "unknown" else ndjson.amount(float(cost))
        count = trailers["Ralph-Tokens"]
        number, tokens = int(trailers["Ralph-Iteration"]), 0 if count == "unknown" else int(count)
        if amount is None or number < 1 or tokens != ndjson.count(tokens):
            return None  # no figure that ralph would have written
        return IterationMessage(
            trailers["Ralph-Goal"],
            trailers["Ralph-Run"],
            number,
            Verdict(trailers["Ralph-Verdict"]),
            Spend(amount, tokens, cost != "unknown", count != "unknown"),
            body.partition("\n\n")[2].strip(),
        )
    return None


_SCISSORS = "--- >8 ---"
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
"""What would end the message, or colour and move the terminal of whoever reads the log."""


def commit_message(*, goal: str, run: str, iteration: int, answer: Answer, spend: Spend) -> str:
    """Write the commit message of an iteration; cost and tokens are the run's, cumulative."""
    trailers = {
        "Ralph-Goal": goal,
        "Ralph-Run": run,
        "Ralph-Iteration": str(iteration),
        "Ralph-Verdict": answer.verdict,
        "Ralph-Cost-USD": repr(round(spend.cost_usd, 12)) if spend.costed else "unknown",
        "Ralph-Tokens": str(spend.tokens) if spend.knows_tokens else "unknown",
    }
    # The trailers are the last paragraph, and git reads no other; unless a line before them looks like the start of
    # a patch or like scissors, so such a line is indented. NUL would end the message.
    lines = _CONTROLS.sub("", answer.summary).strip().splitlines()
    body = "\n".join(f" {line}" if line.startswith("---") or _SCISSORS in line else line for line in lines)
    return f"ralph: iteration {iteration}\n\n{body}\n\n" + "".join(
        f"{name}: {value}\n" for name, value in trailers.items()
    )
