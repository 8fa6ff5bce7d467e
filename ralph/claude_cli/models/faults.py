"""Faults of the model API: which are retried, when, and how claude words them; and where the API key comes from. Pure.

Wordings and kinds as seen on 2.1.325, against an endpoint that answered with each status.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal

from ralph.claude_cli.models.base import ModelError, Provider
from ralph.core import ndjson

_FIRST_DELAY = 500.0
_LONGEST_DELAY = 32_000.0
_LONGEST_WAIT = 60.0
"""Seconds the API may ask us to wait; for more than that the user had better know at once (2.1.325: 2 yes, 3600 no)."""

_WINDOWS = {"five_hour": "5-hour", "seven_day": "weekly", "seven_day_opus": "Opus weekly"}
_QUOTA = "anthropic-ratelimit-unified-"
_CREDENTIALS = {"bedrock": "AWS", "vertex": "Google Cloud", "foundry": "Azure"}
_REFRESH: Mapping[Provider, tuple[str, str, str]] = {
    "bedrock": (
        "AWS",
        "your AWS credentials (SSO sign-in, access keys, API key or proxy token)",
        "AWS permissions and model access",
    ),
    "vertex": (
        "Google Cloud",
        "your Google Cloud credentials (gcloud auth application-default login)",
        "GCP IAM permissions and Vertex AI model access",
    ),
    "foundry": (
        "Microsoft Foundry",
        "your Foundry credential (ANTHROPIC_FOUNDRY_AUTH_TOKEN, ANTHROPIC_FOUNDRY_API_KEY, Azure sign-in for Entra, or "
        "your proxy token)",
        "access to the Foundry resource",
    ),
}
"""Whose login failed, what to refresh, and what else to look at (2.1.325)."""

_SKIPPED: Mapping[Provider, str] = {
    "vertex": "the gateway token provided via ANTHROPIC_AUTH_TOKEN/ANTHROPIC_CUSTOM_HEADERS"
}


class FaultKind(Enum):
    """How far a request came."""

    ANSWERED = "answered"
    TIMED_OUT = "timed out"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    BROKEN_OFF = "broken off"
    NO_CREDENTIALS = "no credentials"
    MISCONFIGURED = "misconfigured"


@dataclass(frozen=True, slots=True)
class ModelFault:
    """One request that brought no message; `status` and headers only where the API answered."""

    kind: FaultKind
    status: int | None = None
    type: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    by_subscription: bool = False

    @property
    def quota(self) -> Mapping[str, object] | None:
        """The subscription's quota, if the answer reports one."""
        return quota(self.headers, self.status) if self.by_subscription else None

    @property
    def is_used_up(self) -> bool:
        return self.status == 429 and f"{_QUOTA}reset" in self.headers and self.by_subscription

    @property
    def is_worth_another_try(self) -> bool:
        if self.kind in (FaultKind.NO_CREDENTIALS, FaultKind.MISCONFIGURED):
            return False
        if self.status is None:
            return True
        if self.status == 429:
            return not self.is_used_up and (self.asked_wait or 0) <= _LONGEST_WAIT
        return self.status in (401, 408, 409) or self.status >= 500

    @property
    def asked_wait(self) -> float | None:
        """Seconds that the API asked us to wait."""
        asked = self.headers.get("retry-after", "")
        return float(asked) if asked.replace(".", "", 1).isdigit() else None

    @property
    def word(self) -> str:
        """What `api_retry` calls it."""
        match self.status:
            case 401 | 403:
                return "authentication_failed"
            case 429:
                return "rate_limit"
            case 529:
                return "overloaded"
            case int() as status if status >= 500:
                return "server_error"
            case _:
                return "unknown"


def delay_ms(fault: ModelFault, attempt: int, jitter: float) -> int:
    """Milliseconds until the next try: what the API asks for, else twice as long each time; `jitter` is 0 to 1."""
    if fault.asked_wait is not None:
        return int(fault.asked_wait * 1000)
    base = min(_FIRST_DELAY * 2 ** (attempt - 1), _LONGEST_DELAY)
    return int(base * (1 + jitter / 4))


def quota(headers: Mapping[str, str], status: int | None = None) -> Mapping[str, object] | None:
    """The `rate_limit_info` of an answer to a subscriber; None where the API tells nothing of it."""
    told, reset = headers.get(f"{_QUOTA}status", ""), headers.get(f"{_QUOTA}reset", "")
    if status == 429:
        info: dict[str, object] = {"status": "rejected"}
    elif told:
        info = {"status": told}
    else:
        return None
    if reset.isdigit():
        info |= {"resetsAt": int(reset), "rateLimitType": headers.get(f"{_QUOTA}representative-claim", "five_hour")}
    if overage := headers.get(f"{_QUOTA}overage-status"):
        info["overageStatus"] = overage
    if reason := headers.get(f"{_QUOTA}overage-disabled-reason"):
        info["overageDisabledReason"] = reason
    return info | {"isUsingOverage": False}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model was asked."""

    provider: Provider
    gateway: str = ""
    """The host, if it is not Anthropic's own."""

    skips: bool = False
    """A gateway has the credentials."""


def worded(fault: ModelFault, model: str, place: Endpoint) -> ModelError:
    """The fault as the session's last word."""
    match fault.kind:
        case FaultKind.ANSWERED:
            return _refused(fault, model, place)
        case FaultKind.NO_CREDENTIALS:
            whose = _CREDENTIALS[fault.type]
            said = f"Could not load {whose} credentials · {fault.message}. Check or refresh your {whose} credentials"
            return ModelError(f"API Error: {said} and try again.", "cloud_credential_error")
        case FaultKind.MISCONFIGURED:
            return ModelError(f"API Error: {fault.message}", "unknown")
        case _:
            return _unheard(fault.kind)


def _refused(fault: ModelFault, model: str, place: Endpoint) -> ModelError:
    facts: dict[str, object] = {"api_error_type": fault.type or "api_error"}
    text, error, reason = _answered(fault, model, place.gateway)
    if fault.status in (401, 403) and place.provider in _REFRESH:
        refresh = _SKIPPED.get(place.provider, "") if place.skips else ""
        whose, own, check = _REFRESH[place.provider]
        text = (
            f"{whose} authentication failed · refresh {refresh or own} and retry · if credentials are current, check "
        )
        text += f"{check} · API Error: {fault.status} {fault.message}"
        facts["api_error"] = "provider_credentials"
    if fault.is_used_up:
        facts["api_error"] = "usage_limit_reached"
    return ModelError(text, error, status=fault.status, terminal_reason=reason, **facts)


def _unheard(kind: FaultKind) -> ModelError:
    if kind is FaultKind.TIMED_OUT:
        return ModelError("Request timed out", "server_error")
    said = {
        FaultKind.REFUSED: "Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
        FaultKind.UNREACHABLE: "Can't reach the API server — check your internet or DNS (ENOTFOUND)",
    }.get(kind, "The connection was lost in the middle of a message")
    return ModelError(f"API Error: {said}", "server_error", api_error="connection_failed")


def _answered(fault: ModelFault, model: str, gateway: str) -> tuple[str, str, str]:
    """Text, kind and terminal reason of an answer that is an error."""
    status, said = fault.status or 0, fault.message
    match status:
        case 400 if "credit balance is too low" in said.lower():
            return "Credit balance is too low", "billing_error", "api_error"
        case 400 if "prompt is too long" in said.lower():
            return f"Prompt is too long · {said}", "invalid_request", "prompt_too_long"
        case 401 | 403:
            return f"Failed to authenticate. API Error: {status} {said}", "authentication_failed", "api_error"
        case 404:
            text = (
                f"There's an issue with the selected model ({model}). It may not exist or you may not have access to "
            )
            return f"{text}it. Run --model to pick a different model.", "model_not_found", "api_error"
        case 413:
            text = "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the "
            text += "request over the limit. Remove older images or compact the conversation."
            return text, "invalid_request", "image_error"
        case 429:
            return _rate_limited(fault), "rate_limit", "api_error"
        case _ if status >= 500:
            where = f"your inference gateway ({gateway})" if gateway else "https://status.claude.com"
            text = (
                f"API Error: {status} {said}. This is a server-side issue, usually temporary — try again in a moment."
            )
            return f"{text} If it persists, check {where}.", "server_error", "api_error"
        case _:
            return f"API Error: {status} {said}", "unknown", "api_error"


def _rate_limited(fault: ModelFault) -> str:
    if fault.is_used_up:
        info = quota(fault.headers, 429) or {}
        window = _WINDOWS.get(str(info.get("rateLimitType")), "usage")
        resets = info.get("resetsAt")
        when = time.strftime("%b %-d, %Y, %-I:%M%p", time.gmtime(resets)) if isinstance(resets, int) else "later"
        return f"You've hit your {window} limit · resets {when.replace('AM', 'am').replace('PM', 'pm')} (UTC)"
    if fault.by_subscription:
        return f"API Error: Server is temporarily limiting requests (not your usage limit) · {fault.message}"
    return f"API Error: Request rejected (429) · {fault.message}"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A credential; a subscription's token is sent like a bearer token, and its answers report the quota."""

    kind: Literal["none", "bearer", "api-key", "subscription"]
    secret: str = ""

    @property
    def source(self) -> str:
        """In the words of `init.apiKeySource`."""
        return "ANTHROPIC_API_KEY" if self.kind == "api-key" else "none"


def find_key(environment: Mapping[str, str]) -> ApiKey:
    """Take the first that is there; an empty ANTHROPIC_API_KEY is none, and asks for the stored login."""
    if token := environment.get("ANTHROPIC_AUTH_TOKEN"):
        return ApiKey("bearer", token)
    if secret := environment.get("ANTHROPIC_API_KEY"):
        return ApiKey("api-key", secret)
    if token := environment.get("CLAUDE_CODE_OAUTH_TOKEN") or _stored_login(environment):
        return ApiKey("subscription", token)
    return ApiKey("none")


def _stored_login(environment: Mapping[str, str]) -> str:
    folder = environment.get("CLAUDE_CONFIG_DIR") or str(Path(environment.get("HOME", "/")) / ".claude")
    try:
        stored = ndjson.mapping(ndjson.decode((Path(folder) / ".credentials.json").read_text("utf-8")))
    except (OSError, ValueError):
        return ""
    return ndjson.text(ndjson.mapping(stored.get("claudeAiOauth")).get("accessToken"))
