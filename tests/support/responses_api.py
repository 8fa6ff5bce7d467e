"""A scripted model behind the OpenAI Responses API, as a stream of server-sent events.

`scripted_api` owns the server and the ledger, `api_replies` the words of a script, `responses_wire` the bytes of a
reply. The real `codex` works against it (see `real_codex`):

    with ResponsesApi([Say(tool("exec_command", cmd="touch a.txt")), Say("done")]) as api:
        ...start codex with codex_env(home, api.url)...
    assert turn_completed["usage"] == api.ledger.tokens.in_codex
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from tests.support import responses_wire
from tests.support.api_replies import Fail, Reply, Say
from tests.support.scripted_api import AFTER_THE_SCRIPT, Body, Kind, Ledger, Request, Script, ScriptedApi, Served
from tests.support.tokens import Tokens

__all__ = ["AFTER_THE_SCRIPT", "Ledger", "ResponsesApi", "Script", "ServeResponses", "Served"]

COMPACTED = Say("The work goes on.")


class ResponsesApi(ScriptedApi):
    """A running server for one script."""

    def __init__(self, script: Script = ()) -> None:
        super().__init__(_Responses(), script)


@dataclass(frozen=True)
class ServeResponses:
    """The fixture `responses_api`: starts a server for a script, to be closed with the others when the test ends."""

    servers: ExitStack

    def __call__(self, script: Script = ()) -> ResponsesApi:
        return self.servers.enter_context(ResponsesApi(script))


class _Responses:
    def kind(self, path: str, request: Request) -> Kind:
        if path.partition("?")[0] != "/v1/responses" or not request:  # a GET would open a WebSocket
            return "other"
        return "compaction" if _asks_for_compaction(self.user_texts(request)) else "main"

    def aside(self, kind: Kind) -> Reply:
        return COMPACTED if kind == "compaction" else Fail(404, "invalid_request_error", "no such path")

    def user_texts(self, request: Request) -> list[str]:
        return [
            part["text"]
            for item in request.get("input", [])
            if item["type"] == "message" and item["role"] == "user"
            for part in item["content"]
            if part["type"] == "input_text"
        ]

    def says(self, say: Say, kind: Kind, request: Request) -> Body:
        return Body.stream(responses_wire.stream(say))

    def breaks_off(self, request: Request) -> Body:
        return Body.stream(responses_wire.stream_start())

    def cost_of_cut(self, reply: Reply) -> Tokens:
        """Nothing that anybody could know: this API tells the use at the end of a reply only."""
        return Tokens()

    def fails(self, fail: Fail, request: Request) -> Body:
        if fail.status == 200:
            return Body.stream(responses_wire.failing_stream(fail))
        return Body([responses_wire.error(fail)])


def _asks_for_compaction(texts: list[str]) -> bool:
    # codex asks for the summary with the user's voice, and with the tools of a main request (0.163.0).
    return bool(texts) and "CONTEXT CHECKPOINT COMPACTION" in texts[-1]
