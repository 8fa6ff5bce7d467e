"""What a session planned, did and used, in a few lines each. What the agent did not report is not said."""

import re

from ralph.core.activity import Digest, ToolRow
from ralph.core.events import Usage
from ralph.core.text import format_duration, format_money, plural
from ralph.core.usage import total_tokens
from ralph.ui.sanitise import one_line

_PLAN_LINES = 6
_PLAN_WIDTH = 160
_HEADING = re.compile(r"(?:#+ *plan:?|\*\*plan:?\*\*:?|plan:)\s+", re.IGNORECASE)


def plan(text: str) -> str:
    """The first lines of a plan, without the word that the label says already."""
    said = _HEADING.sub("", text[: _PLAN_LINES * _PLAN_WIDTH * 8].lstrip(), count=1)
    lines = [line for line in said.splitlines() if line.strip()]
    kept = [one_line(line, _PLAN_WIDTH) for line in lines[:_PLAN_LINES]]
    if len(lines) > _PLAN_LINES:
        kept[-1] += " …"
    return "\n".join(kept)


def actions(digest: Digest) -> str:
    """A line for each tool; empty if none was called."""
    return "\n".join(_row(row) for row in digest.tools)


def report(usage: Usage) -> str:
    """Tokens, dollars and context, as far as they were told."""
    context = "" if usage.context_pct is None else f"context {usage.context_pct:.0f} %"
    estimate = " (estimate)" if usage.cost_is_estimate is True else ""
    cost = "" if usage.cost_usd is None else f"{format_money(usage.cost_usd)}{estimate}"
    return " · ".join(filter(None, [_tokens(usage), cost, context]))


def call(status: str, seconds: float | None, lines: int) -> str:
    """How one call, or all of a tool's, went."""
    took = "" if seconds is None else format_duration(seconds)
    return " · ".join(filter(None, [status, took, plural(lines, "line") if lines else ""]))


def _row(row: ToolRow) -> str:
    ends = {"ok": row.ok, "failed": row.failed, "unknown": row.unknown}
    status = ", ".join(f"{number:,} {word}" for word, number in ends.items() if number)
    return call(f"{one_line(row.name, 40)} {row.calls:,}: {status}", row.seconds, row.lines)


def _tokens(usage: Usage) -> str:
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    total = total_tokens(usage)
    if not total:
        return "" if total is None else "0 tokens"
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    parts = [
        "" if prompt is None else f"{prompt:,} in{cached}",
        "" if completion is None else f"{completion:,} out",
    ]
    detail = ", ".join(filter(None, parts))
    return plural(total, "token") + (f": {detail}" if detail else "")
