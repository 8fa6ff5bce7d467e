"""The scripted model of `messages_api` behind the paths and the framing of Bedrock, Vertex AI and Foundry."""

from __future__ import annotations

import base64
import json
import struct
import zlib

from tests.support.api_replies import Fail, Reply, Say
from tests.support.messages_api import MessagesApi
from tests.support.scripted_api import Body, Dialect, Kind, Request, Script
from tests.support.tokens import Tokens


class CloudApi(MessagesApi):
    """A running server for one script; `provider`: whose paths it knows."""

    def __init__(self, provider: str, script: Script = ()) -> None:
        super().__init__(script)
        self.dialect = _Cloud(provider, self.dialect)


class _Cloud:
    def __init__(self, provider: str, messages: Dialect) -> None:
        self._provider = provider
        self._messages = messages

    def aside(self, kind: Kind) -> Reply:
        return self._messages.aside(kind)

    def user_texts(self, request: Request) -> list[str]:
        return self._messages.user_texts(request)

    def cost_of_cut(self, reply: Reply) -> Tokens:
        return self._messages.cost_of_cut(reply)

    def kind(self, path: str, request: Request) -> Kind:
        plain = path.partition("?")[0]
        match self._provider:
            case "bedrock":
                is_main = plain.endswith("/invoke-with-response-stream")
            case "vertex":
                is_main = plain.endswith(":streamRawPredict")
            case _:
                is_main = plain.endswith("/v1/messages")
        if not is_main:
            return "other"
        return "main" if request.get("tools") else "side"

    def says(self, say: Say, kind: Kind, request: Request) -> Body:
        return self._framed(self._messages.says(say, kind, {"stream": True, **request}))

    def breaks_off(self, request: Request) -> Body:
        return self._framed(self._messages.breaks_off(request))

    def fails(self, fail: Fail, request: Request) -> Body:
        if self._provider == "bedrock" and fail.status != 200:
            return Body([json.dumps({"message": fail.message}).encode()])
        body = self._messages.fails(fail, request)
        return self._framed(body) if fail.status == 200 else body

    def _framed(self, body: Body) -> Body:
        if self._provider != "bedrock":
            return body
        events = [line[6:] for part in body.parts for line in part.split(b"\n") if line.startswith(b"data: ")]
        return Body([_frame(event) for event in events], "application/vnd.amazon.eventstream")


def _frame(event: bytes) -> bytes:
    """One message of AWS's event stream."""
    payload = json.dumps({"bytes": base64.b64encode(event).decode()}).encode()
    headers = b"".join(
        bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value
        for name, value in (
            (b":event-type", b"chunk"),
            (b":content-type", b"application/json"),
            (b":message-type", b"event"),
        )
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))
