"""Anthropic's models on Amazon Bedrock, Google Vertex AI and Microsoft Foundry, through the official SDK's own clients.

Importing the SDK takes 1.7 s (anthropic 2.8), so it waits for the first request.
"""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ralph.claude_cli.models.attempts import NoMessage, unreached
from ralph.claude_cli.models.base import region_of, skips
from ralph.claude_cli.models.faults import FaultKind, ModelFault
from ralph.claude_cli.models.wire import Event, refused, told_in_stream
from ralph.core import ndjson
from ralph.core.errors import RalphError

if TYPE_CHECKING:
    from anthropic import APIStatusError

_NEEDS = {"bedrock": "boto3", "vertex": "google.auth"}
"""What the SDK imports for the provider, beside itself."""


class CloudWire:
    """One provider. It follows no redirect: a prompt goes where the user sends it."""

    quota = None

    def __init__(self, provider: str, environment: Mapping[str, str], timeout: float) -> None:
        self._provider = provider
        self._environment = environment
        self._timeout = timeout
        self._client: Any = None

    def events(self, parameters: Mapping[str, object]) -> Iterator[Event]:
        import anthropic
        import httpx2

        region = region_of(self._provider, str(parameters["model"]), self._environment)
        try:
            self._client = self._client or self._open(region)
            with self._client.messages.create(**parameters) as stream:
                for event in stream:
                    yield event.to_dict()
        except anthropic.APIStatusError as error:
            raise NoMessage(_fault_of(error)) from error
        except (anthropic.APITimeoutError, httpx2.TimeoutException) as error:
            raise NoMessage(ModelFault(FaultKind.TIMED_OUT)) from error
        except anthropic.APIConnectionError as error:
            raise NoMessage(unreached(error)) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:  # in the middle of a message the SDK does not translate
            raise NoMessage(ModelFault(FaultKind.BROKEN_OFF)) from error
        except _unforeseen(self._provider) as error:
            raise NoMessage(_of_credentials(self._provider, error)) from error

    def _open(self, region: str) -> object:
        import anthropic

        more: dict[str, Any] = {
            "timeout": self._timeout,
            "max_retries": 0,  # the SDK would wait silently, but readers of our stream should know
            "http_client": anthropic.DefaultHttpxClient(follow_redirects=False),
        }
        match self._provider:
            case "bedrock":
                return self._bedrock(region, more)
            case "vertex":
                return self._vertex(region, more)
            case _:
                return self._foundry(more)

    def _bedrock(self, region: str, more: dict[str, Any]) -> object:
        from anthropic.lib.bedrock import AnthropicBedrock

        said = self._environment.get
        token = said("AWS_BEARER_TOKEN_BEDROCK")
        if skips(self._environment, "bedrock"):
            token = said("ANTHROPIC_AUTH_TOKEN") or "none"
        if token:
            keys: dict[str, Any] = {"api_key": token}
        else:
            keys = {
                "aws_access_key": said("AWS_ACCESS_KEY_ID"),
                "aws_secret_key": said("AWS_SECRET_ACCESS_KEY"),
                "aws_session_token": said("AWS_SESSION_TOKEN"),
                "aws_profile": said("AWS_PROFILE"),
            }
        url = said("ANTHROPIC_BEDROCK_BASE_URL") or None
        return AnthropicBedrock(aws_region=region, base_url=url, **keys, **more)

    def _vertex(self, region: str, more: dict[str, Any]) -> object:
        from anthropic.lib.vertex import AnthropicVertex

        said = self._environment.get
        names = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
        project = next(filter(None, map(said, names)), "")
        token = (said("ANTHROPIC_AUTH_TOKEN") or "none") if skips(self._environment, "vertex") else None
        if token and not project:
            raise NoMessage(ModelFault(FaultKind.MISCONFIGURED, message=_NO_PROJECT))
        url = said("ANTHROPIC_VERTEX_BASE_URL") or None
        given: dict[str, Any] = {"project_id": project} if project else {}
        return AnthropicVertex(region=region, base_url=url, access_token=token, **given, **more)

    def _foundry(self, more: dict[str, Any]) -> object:
        import anthropic

        said = self._environment.get
        url, resource = said("ANTHROPIC_FOUNDRY_BASE_URL"), said("ANTHROPIC_FOUNDRY_RESOURCE")
        if url and resource:
            raise NoMessage(ModelFault(FaultKind.MISCONFIGURED, message="baseURL and resource are mutually exclusive"))
        if not url and not resource:
            raise NoMessage(ModelFault(FaultKind.MISCONFIGURED, message=_NO_RESOURCE))
        token = said("ANTHROPIC_FOUNDRY_AUTH_TOKEN") or ""
        if skips(self._environment, "foundry"):
            token = said("ANTHROPIC_AUTH_TOKEN") or "none"
        key = said("ANTHROPIC_FOUNDRY_API_KEY") if not token else None
        if not key and not token:
            raise NoMessage(ModelFault(FaultKind.NO_CREDENTIALS, type="foundry", message=_NO_AZURE))
        keys: dict[str, Any] = {"azure_ad_token_provider": lambda: token} if token else {"api_key": key}
        url = url or f"https://{resource}.services.ai.azure.com/anthropic/"
        return anthropic.AnthropicFoundry(base_url=url, **keys, **more)


_NO_PROJECT = (
    "No projectId was given and it could not be resolved from credentials. The client should be instantiated with the "
    "`projectId` option or the `ANTHROPIC_VERTEX_PROJECT_ID` environment variable should be set."
)
_NO_RESOURCE = (
    "Must provide one of the `baseURL` or `resource` arguments, or the `ANTHROPIC_FOUNDRY_RESOURCE` environment "
    "variable"
)
_NO_AZURE = "Set ANTHROPIC_FOUNDRY_API_KEY or ANTHROPIC_FOUNDRY_AUTH_TOKEN"
_NO_AWS = "Could not load credentials from any providers"
_NO_GOOGLE = (
    "Could not load the default credentials. Browse to "
    "https://cloud.google.com/docs/authentication/getting-started for more information"
)


def open_cloud(provider: str, environment: Mapping[str, str], timeout: float) -> CloudWire:
    """The wire to a provider; raise RalphError if what it needs is not installed."""
    for package in ("anthropic", _NEEDS.get(provider, "anthropic")):
        if not _is_installed(package):
            extra = provider if package != "anthropic" else "models"
            raise RalphError(
                f"the {package.partition('.')[0]} package is missing; in a clone of ralph, install it with: "
                f"pip install '.[{extra}]'"
            )
    return CloudWire(provider, environment, timeout)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def _fault_of(error: "APIStatusError") -> ModelFault:
    if error.status_code < 400:  # in the middle of a stream
        return told_in_stream(ndjson.mapping(error.body))
    return refused(error.status_code, error.response.text, dict(error.response.headers))


def _unforeseen(provider: str) -> tuple[type[Exception], ...]:
    """What finding credentials may raise, and what a broken stream makes of the SDK."""
    known: tuple[type[Exception], ...] = (LookupError, ValueError, TypeError, AttributeError, RuntimeError, OSError)
    match provider:
        case "bedrock":
            from botocore.exceptions import BotoCoreError  # pyright: ignore[reportMissingTypeStubs] - boto3 ships none

            return (BotoCoreError, *known)
        case "vertex":
            from google.auth.exceptions import GoogleAuthError

            return (GoogleAuthError, *known)
        case _:
            return known


def _of_credentials(provider: str, error: Exception) -> ModelFault:
    origin = type(error).__module__.partition(".")[0]
    if provider == "bedrock" and (origin == "botocore" or "credentials" in str(error)):
        return ModelFault(FaultKind.NO_CREDENTIALS, type=provider, message=_NO_AWS)
    if provider == "vertex" and origin == "google":
        said = str(error)
        return ModelFault(
            FaultKind.NO_CREDENTIALS, type=provider, message=said.rstrip(".") if "File" in said else _NO_GOOGLE
        )
    return ModelFault(FaultKind.BROKEN_OFF)
