"""A scripted model behind the Anthropic Messages API: a real HTTP server on loopback, in a thread.

It owns the script, the server and the ledger of what was served; `api_replies` owns the words of a script,
`api_wire` the bytes of a reply. The real `claude` works against it (see `real_claude`):

    with MessagesApi([Say(tool("Write", file_path="a.txt", content="a")), Say("done")]) as api:
        ...start something with ANTHROPIC_BASE_URL=api.url...
    assert api.ledger.tokens == ONE_MESSAGE + ONE_MESSAGE
"""

from __future__ import annotations

import itertools
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, assert_never

from tests.support import api_wire
from tests.support.api_replies import Fail, Reply, Say, Stall
from tests.support.tokens import Tokens

Script = Sequence[Reply] | Callable[[int, dict[str, Any]], Reply]
Kind = Literal["main", "side", "compaction", "count_tokens", "other"]

AFTER_THE_SCRIPT = Say("The script has ended.")
SIDE_ANSWER = Say("ok")
# Without the tags claude asks for the summary a second time (2.1.325).
COMPACTED = Say("<analysis>None.</analysis>\n<summary>The work goes on.</summary>")


@dataclass(slots=True)
class Served:
    """One request and what it was answered with; `complete` once its last byte was handed to the network."""

    number: int  # of the main request, from 1; 0 for everything that takes no part in the script
    kind: Kind
    path: str
    headers: Mapping[str, str]
    request: dict[str, Any]
    reply: Reply
    complete: bool = False

    @property
    def status(self) -> int:
        """The HTTP status sent; 0 while a stalled reply has not even sent its headers."""
        match self.reply:
            case Fail(status=status):
                return status
            case Stall(when="before_headers"):
                return 0
            case Say() | Stall():
                return 200
            case _:
                assert_never(self.reply)

    @property
    def usage(self) -> Tokens:
        """What this reply cost: nothing before it was served to its end, and nothing for a mere count."""
        is_paid = self.complete and self.kind != "count_tokens"
        return self.reply.usage if is_paid and isinstance(self.reply, Say) else Tokens()

    @property
    def user_texts(self) -> list[str]:
        """Every text the request holds in the user's name, in order: prompts, corrections, reminders."""
        messages = [message for message in self.request.get("messages", []) if message["role"] == "user"]
        return [text for message in messages for text in _texts(message["content"])]


@dataclass(slots=True)
class Ledger:
    """Everything that was served, in the order of the replies."""

    entries: list[Served] = field(default_factory=list)

    def __iter__(self) -> Iterator[Served]:
        return iter(list(self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def of(self, kind: Kind) -> list[Served]:
        return [served for served in self if served.kind == kind]

    @property
    def main(self) -> list[Served]:
        return self.of("main")

    @property
    def tokens(self) -> Tokens:
        return sum((served.usage for served in self), Tokens())


class MessagesApi:
    """A running server; a context manager whose end stops every thread and reports a script that raised."""

    def __init__(self, script: Script = ()) -> None:
        self.ledger = Ledger()
        self._script = script
        self._faults: list[BaseException] = []
        self._numbers = itertools.count(1)
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="messages-api", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MessagesApi:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if self._faults and kind is None:
            raise self._faults[0]

    def close(self) -> None:
        """Stop serving, let go of stalled connections, and wait for every thread."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.release()
            self._server.server_close()
            self._thread.join(timeout=10)

    def answer(self, path: str, headers: Mapping[str, str], request: dict[str, Any]) -> Served:
        """Choose the reply to one request and enter it into the ledger."""
        match kind := _kind(path, request):
            case "main":
                number = next(self._numbers)
                reply = self._scripted(number, request)
            case "compaction":
                number, reply = 0, COMPACTED
            case "side" | "count_tokens":
                number, reply = 0, SIDE_ANSWER
            case "other":
                number, reply = 0, Fail(404, "not_found_error", "no such path")
        served = Served(number, kind, path, headers, request, reply)
        self.ledger.entries.append(served)
        return served

    def fault(self, error: BaseException) -> None:
        self._faults.append(error)

    def _scripted(self, number: int, request: dict[str, Any]) -> Reply:
        if not callable(self._script):
            return self._script[number - 1] if number <= len(self._script) else AFTER_THE_SCRIPT
        try:
            return self._script(number, request)
        except Exception as error:  # whatever a test's script raises belongs to the test, not to this thread
            self.fault(error)
            return Fail(500, "api_error", f"the script raised {error!r}")


@dataclass(frozen=True)
class ServeMessages:
    """The fixture `messages_api`: starts a server for a script, to be closed with the others when the test ends."""

    servers: ExitStack

    def __call__(self, script: Script = ()) -> MessagesApi:
        return self.servers.enter_context(MessagesApi(script))


def _kind(path: str, request: dict[str, Any]) -> Kind:
    """Tell the requests of the conversation from those that claude makes on the side (seen on 2.1.197 and 2.1.325)."""
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


def _asks_for_compaction(request: dict[str, Any]) -> bool:
    # Compaction carries the tools like a main request; only the text of its last message gives it away.
    return any("Respond with TEXT ONLY" in text for text in _texts(request["messages"][-1]["content"]))


def _texts(content: str | Iterable[dict[str, Any]]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api: MessagesApi) -> None:
        self.api = api
        self.released = threading.Event()
        self._open: dict[threading.Thread, socket.socket] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks the resolver for the name of the address

    def process_request(self, request: Any, client_address: Any) -> None:
        # ThreadingMixIn does not keep its daemon threads, so nobody could join them.
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="messages-api-reply", daemon=True
        )
        self._open = {known: connection for known, connection in self._open.items() if known.is_alive()}
        self._open[thread] = request
        thread.start()

    def release(self) -> None:
        """Hang up on whoever is still connected and wait for the threads that served them."""
        self.released.set()
        for thread, connection in self._open.items():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=10)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if error and not isinstance(error, OSError):  # OSError: the client went away, its entry stays incomplete
            self.api.fault(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def messages(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def do_HEAD(self) -> None:
        self._send(200, {}, [])

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            request: object = json.loads(body or b"{}")
        except ValueError:
            request = {}
        self._serve(request if isinstance(request, dict) else {})

    def _serve(self, request: dict[str, Any]) -> None:
        served = self.messages.api.answer(self.path, dict(self.headers.items()), request)
        match served.reply:
            case Say() as say if served.kind == "count_tokens":
                self._finish(served, {}, [api_wire.token_count(say)])
            case Say() as say if not request.get("stream"):
                self._finish(served, say.headers, [api_wire.whole(say, request)])
            case Say() as say:
                headers = {"content-type": "text/event-stream", **say.headers}
                self._finish(served, headers, api_wire.stream(say, request))
            case Fail() as fail:
                self._finish(served, fail.headers, [api_wire.error(fail)])
            case Stall(when="mid_stream") as stall:
                headers = {"content-type": "text/event-stream", **stall.headers}
                self._send(200, headers, api_wire.stream_start(request))
                self.messages.released.wait()
            case Stall():
                self.messages.released.wait()
            case _:
                assert_never(served.reply)

    def _finish(self, served: Served, headers: Mapping[str, str], parts: list[bytes]) -> None:
        """Send a reply; its entry is complete before the client can have seen the last part."""
        self._send(served.status, headers, parts[:-1])
        served.complete = True
        try:
            self.wfile.write(parts[-1])
        except OSError:
            served.complete = False
            raise

    def _send(self, status: int, headers: Mapping[str, str], parts: list[bytes]) -> None:
        self.close_connection = True
        self.send_response(status)
        # Without a length, the end of the connection is the end of the reply.
        for name, value in {"content-type": "application/json", "connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
        """Print nothing: the ledger is the log."""
