"""Why a codex turn failed, from its message: codex gives no status and no kind, only words for people.

Statuses, the usage limit, a full context, a missing key and a cut stream were seen on 0.166.0 in these words; names
with underscores are the API's own, and codex hands them on. What none of them settles is an error of another kind.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ralph.core import ndjson
from ralph.core.events import RateLimited


@dataclass(frozen=True, slots=True)
class Fault:
    """What the failure table asks for; the names are those of claude's results."""

    api_status: int | None = None
    error: str = ""
    terminal_reason: str = ""
    quota: RateLimited | None = None


_LATEST_RESET = 2**32
_LIMIT = re.compile(r"\bhit your usage limit\b", re.IGNORECASE)
_RESET = re.compile(r"try again at ([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) (\d{1,2}:\d{2} [AP]M)")
_STATUS = re.compile(r"\b(?:unexpected|last) status:? (\d{3})\b")
_KINDS: Mapping[str, re.Pattern[str]] = {
    "billing_error": re.compile(
        r"\binsufficient_quota\b|\bbilling_hard_limit_reached\b|\bexceeded your current quota\b|^Quota exceeded\b"
        r"|\bout of credits\b|^To use Codex with your ChatGPT plan\b",
        re.IGNORECASE,
    ),
    "authentication_failed": re.compile(
        r"^Missing environment variable\b|\binvalid_api_key\b|\baccess token could not be refreshed\b", re.IGNORECASE
    ),
    "model_not_found": re.compile(
        r"\bmodel_not_found\b|\bmodel\b.{0,100}\b(?:does not exist|is not supported)\b", re.IGNORECASE | re.DOTALL
    ),
}
_TOO_LONG = re.compile(r"\bran out of room in the model.s context window\b|\bcontext_length_exceeded\b")
# A 500, a 429 within the stream and a busy model are told in these words, without a number (seen on 0.163.0).
_OVERLOADED = re.compile(r"\bcurrently experiencing high demand\b|^rate limit exceeded\b|\bmodel is at capacity\b")
_NETWORK = re.compile(
    r"\bstream (?:disconnected|closed)\b|\berror sending request\b|\bconnection (?:failed|refused|reset|closed)\b"
    r"|\bconnection error\b|\bidle timeout\b|\boperation timed out\b|\bdns error\b",
    re.IGNORECASE,
)


def read_fault(message: str) -> Fault:
    """Read the message of a failed turn; a kind that stops a run is given only where the words leave no doubt."""
    said = message[:4000]
    if _TOO_LONG.search(said):
        return Fault(terminal_reason="prompt_too_long")
    if _LIMIT.search(said):
        return Fault(quota=RateLimited("rejected", _resets_at(said), "codex"))
    status = _status(said)
    for kind, words in _KINDS.items():
        if words.search(said):
            return Fault(status, kind)
    if status is None and _NETWORK.search(said):
        return Fault(error="server_error")
    return Fault(status)


def _status(said: str) -> int | None:
    found = _STATUS.search(said)
    if found is not None:
        return ndjson.count(int(found[1])) or None
    return 500 if _OVERLOADED.search(said) else None


def _resets_at(said: str) -> float | None:
    """When the quota is back, which codex tells in local time; a time without its day is none: what day is it?"""
    found = _RESET.search(said)
    if found is None:
        return None
    month, day, year, clock = found.groups()
    try:
        resets_at = time.mktime(time.strptime(f"{month} {day} {year} {clock}", "%b %d %Y %I:%M %p"))
    except (ValueError, OverflowError):
        return None
    return resets_at if 0 < resets_at < _LATEST_RESET else None
