"""The message of an iteration's commit: its trailers are what a lost run directory is rebuilt from."""

from ralph.budget import Spend
from ralph.verdict import Answer

_SCISSORS = "--- >8 ---"


def commit_message(*, goal: str, run: str, iteration: int, answer: Answer, spend: Spend) -> str:
    """Write the commit message of an iteration; cost and tokens are the run's, cumulative."""
    trailers = {
        "Ralph-Goal": goal,
        "Ralph-Run": run,
        "Ralph-Iteration": str(iteration),
        "Ralph-Verdict": answer.verdict,
        "Ralph-Cost-USD": repr(round(spend.cost_usd, 12)) if spend.costed else "unknown",
        "Ralph-Tokens": str(spend.tokens),
    }
    # The trailers are the last paragraph, and git reads no other; unless a line before them looks like the start of
    # a patch or like scissors, so such a line is indented. NUL would end the message.
    lines = answer.summary.replace("\0", "").strip().splitlines()
    body = "\n".join(f" {line}" if line.startswith("---") or _SCISSORS in line else line for line in lines)
    return f"ralph: iteration {iteration}\n\n{body}\n\n" + "".join(
        f"{name}: {value}\n" for name, value in trailers.items()
    )
