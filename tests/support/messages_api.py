"""A scripted model behind the Anthropic Messages API.

`scripted_api` owns the server and the ledger, `api_replies` the words of a script, `messages_wire` the bytes of a
reply. The real `claude` works against it (see `real_claude`):

    with MessagesApi([Say(tool("Write", file_path="a.txt", content="a")), Say("done")]) as api:
        ...start something with ANTHROPIC_BASE_URL=api.url...
    assert api.ledger.tokens == ONE_MESSAGE + ONE_MESSAGE
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from tests.support import messages_wire
from tests.support.api_replies import Cut, Fail, Reply, Say, Stall
from tests.support.scripted_api import AFTER_THE_SCRIPT, Body, Kind, Ledger, Request, Script, ScriptedApi, Served
from tests.support.tokens import Tokens

__all__ = ["AFTER_THE_SCRIPT", "Ledger", "MessagesApi", "Script", "ServeMessages", "Served"]

SIDE_ANSWER = Say("ok")
# Without the tags claude asks for the summary a second time (2.1.325).
COMPACTED = Say("<analysis>None.</analysis>\n<summary>The work goes on.</summary>")


class MessagesApi(ScriptedApi):
    """A running server for one script."""

    def __init__(self, script: Script = ()) -> None:
        super().__init__(_Messages(), script)


@dataclass(frozen=True)
class ServeMessages:
    """The fixture `messages_api`: starts a server for a script, to be closed with the others when the test ends."""

    servers: ExitStack

    def __call__(self, script: Script = ()) -> MessagesApi:
        return self.servers.enter_context(MessagesApi(script))


class _Messages:
    def kind(self, path: str, request: Request) -> Kind:
        """Tell the requests of the conversation from those that claude makes on the side (2.1.197 and 2.1.325)."""
        match path.partition("?")[0]:
            case "/v1/messages/count_tokens":
                return "count_tokens"
            case "/v1/messages" if not request.get("tools"):
                return "side"
            case "/v1/messages" if _asks_for_compaction(request):
                return "compaction"
            case "/v1/messages":
                return "main"
            case _:
                return "other"

    def aside(self, kind: Kind) -> Reply:
        match kind:
            case "compaction":
                return COMPACTED
            case "side" | "count_tokens":
                return SIDE_ANSWER
            case _:
                return Fail(404, "not_found_error", "no such path")

    def user_texts(self, request: Request) -> list[str]:
        messages = [message for message in request.get("messages", []) if message["role"] == "user"]
        return [text for message in messages for text in _texts(message["content"])]

    def says(self, say: Say, kind: Kind, request: Request) -> Body:
        if kind == "count_tokens":
            return Body([messages_wire.token_count(say)])
        if not request.get("stream"):
            return Body([messages_wire.whole(say, request)])
        return Body.stream(messages_wire.stream(say, request))

    def breaks_off(self, request: Request) -> Body:
        return Body.stream(messages_wire.stream_start(request))

    def cost_of_cut(self, reply: Reply) -> Tokens:
        """The prompt, and what was written by then: as `message_start` tells it."""
        usage = messages_wire.BROKEN_OFF.usage if isinstance(reply, Stall | Cut) else None
        usage = reply.usage if isinstance(reply, Say) else usage
        return Tokens() if usage is None else replace(usage, output=1)

    def fails(self, fail: Fail, request: Request) -> Body:
        if fail.status == 200:
            return Body.stream(messages_wire.failing_stream(fail, request))
        return Body([messages_wire.error(fail)])


def _asks_for_compaction(request: Request) -> bool:
    # Compaction carries the tools like a main request; only the text of its last message gives it away.
    return any("Respond with TEXT ONLY" in text for text in _texts(request["messages"][-1]["content"]))


def _texts(content: str | Iterable[dict[str, Any]]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]
