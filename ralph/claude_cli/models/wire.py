"""The Messages API over HTTP, of Anthropic or of the server at ANTHROPIC_BASE_URL.

Not through the SDK: importing it takes more CPU time than all the rest of a session (anthropic 2.8).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ralph.claude_cli.models import faults
from ralph.claude_cli.models.attempts import NoMessage, unreached
from ralph.claude_cli.models.faults import ApiKey, FaultKind, ModelFault
from ralph.core import ndjson

if TYPE_CHECKING:
    import httpx2

ANTHROPIC = "https://api.anthropic.com"
_VERSION = "2023-06-01"
_SUBSCRIBER = "oauth-2025-04-20"
_LONGEST_EVENT = 1 << 26
_SHOWN = 500
"""Characters of an error that is not JSON."""

Event = Mapping[str, object]


class Wire(Protocol):
    """One way to the Messages API."""

    def events(self, parameters: Mapping[str, object]) -> Iterator[Event]:
        """Send one request; give the events of its answer. Raises NoMessage."""
        ...

    @property
    def quota(self) -> Mapping[str, object] | None:
        """The subscription's quota, as the last answer reported it."""
        ...


class HttpWire:
    """Speaks to one endpoint. It follows no redirect: a prompt goes where the user sends it."""

    def __init__(self, key: ApiKey, base_url: str, timeout: float, headers: Mapping[str, str]) -> None:
        self._key = key
        self._url = (base_url or ANTHROPIC).rstrip("/") + "/v1/messages"
        self._timeout = timeout
        own = _credentials(key)
        betas = [each["anthropic-beta"] for each in (headers, own) if "anthropic-beta" in each]
        self._headers = {**headers, "anthropic-version": _VERSION, **own}
        if betas:
            self._headers["anthropic-beta"] = ",".join(betas)
        self._client: httpx2.Client | None = None
        self._told: Mapping[str, str] = {}

    @property
    def quota(self) -> Mapping[str, object] | None:
        return faults.quota(self._told) if self._key.kind == "subscription" else None

    def events(self, parameters: Mapping[str, object]) -> Iterator[Event]:
        import httpx2

        try:
            with self._connected().stream("POST", self._url, json=parameters, headers=self._headers) as response:
                if response.status_code != 200:
                    response.read()
                    raise NoMessage(self._refused(response))
                self._told = dict(response.headers)
                yield from _events(response.iter_bytes(), self._by_subscription)
        except httpx2.TimeoutException as error:
            raise NoMessage(ModelFault(FaultKind.TIMED_OUT)) from error
        except httpx2.ConnectError as error:
            raise NoMessage(unreached(error)) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise NoMessage(ModelFault(FaultKind.BROKEN_OFF)) from error
        except (httpx2.InvalidURL, ValueError) as error:  # ANTHROPIC_BASE_URL, or a header that HTTP cannot send
            raise NoMessage(ModelFault(FaultKind.UNREACHABLE)) from error

    @property
    def _by_subscription(self) -> bool:
        return self._key.kind == "subscription"

    def _connected(self) -> "httpx2.Client":
        import httpx2

        if self._client is None:
            self._client = httpx2.Client(timeout=self._timeout, follow_redirects=False)
        return self._client

    def _refused(self, response: "httpx2.Response") -> ModelFault:
        return refused(response.status_code, response.text, dict(response.headers), self._by_subscription)


def refused(status: int, text: str, headers: Mapping[str, str], by_subscription: bool = False) -> ModelFault:
    """The fault that an answer with this status and body stands for."""
    try:
        answer = ndjson.mapping(ndjson.decode(text))
    except ndjson.Malformed:
        return ModelFault(FaultKind.ANSWERED, status, "", text.strip()[:_SHOWN], headers, by_subscription)
    body = ndjson.mapping(answer.get("error"))
    message = ndjson.text(body.get("message")) or ndjson.text(answer.get("message")) or text.strip()[:_SHOWN]
    return ModelFault(FaultKind.ANSWERED, status, ndjson.text(body.get("type")), message, headers, by_subscription)


def _credentials(key: ApiKey) -> dict[str, str]:
    if key.kind == "api-key":
        return {"x-api-key": key.secret}
    bearer = {"authorization": f"Bearer {key.secret}"}
    return {**bearer, "anthropic-beta": _SUBSCRIBER} if key.kind == "subscription" else bearer


def _events(parts: Iterator[bytes], by_subscription: bool) -> Iterator[Event]:
    """Read server-sent events. Their data is JSON that names its type, so nothing else of them matters."""
    held = b""
    for part in parts:
        *lines, held = (held + part).split(b"\n")
        for line in lines:
            yield from _event(line, by_subscription)
        if len(held) > _LONGEST_EVENT:
            raise NoMessage(ModelFault(FaultKind.BROKEN_OFF))
    yield from _event(held, by_subscription)


def _event(line: bytes, by_subscription: bool) -> Iterator[Event]:
    if not line.startswith(b"data:"):
        return
    try:
        event = ndjson.mapping(ndjson.decode(line[5:].decode("utf-8", "replace").strip()))
    except ndjson.Malformed as error:
        raise NoMessage(ModelFault(FaultKind.BROKEN_OFF)) from error
    if event.get("type") == "error":
        raise NoMessage(told_in_stream(event, by_subscription))
    yield event


def told_in_stream(event: Event, by_subscription: bool = False) -> ModelFault:
    """The fault that an error in the middle of a message stands for: it has no status of its own."""
    body = ndjson.mapping(event.get("error"))
    kind, message = ndjson.text(body.get("type")), ndjson.text(body.get("message"))
    status = 529 if kind == "overloaded_error" else 500
    return ModelFault(FaultKind.ANSWERED, status, kind, message, {}, by_subscription)
