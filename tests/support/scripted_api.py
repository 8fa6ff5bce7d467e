"""A scripted model behind an HTTP API: a real server on loopback, in a thread; and the ledger of what it served.

It owns the server, the order of the script and the ledger; `api_replies` owns the words of a script, and a `Dialect`
(`messages_api`, `responses_api`) what is a request of the conversation and how a reply is spelled.
"""

from __future__ import annotations

import itertools
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Protocol, Self, assert_never

from tests.support.api_replies import Cut, Fail, Reply, Say, Stall
from tests.support.tokens import Tokens

Request = dict[str, Any]
Script = Sequence[Reply] | Callable[[int, Request], Reply]
Kind = Literal["main", "side", "compaction", "count_tokens", "other"]

AFTER_THE_SCRIPT = Say("The script has ended.")


class Dialect(Protocol):
    """One API: its requests and the bytes of its replies."""

    def kind(self, path: str, request: Request) -> Kind:
        """Tell the requests of the conversation ("main") from those an agent makes on the side."""
        ...

    def aside(self, kind: Kind) -> Reply:
        """The reply to a request that takes nothing from the script."""
        ...

    def user_texts(self, request: Request) -> list[str]: ...

    def says(self, say: Say, kind: Kind, request: Request) -> Body: ...

    def breaks_off(self, request: Request) -> Body:
        """A message that ends in its middle."""
        ...

    def cost_of_cut(self, reply: Reply) -> Tokens:
        """What a reply is charged that began and was not sent to its end."""
        ...

    def fails(self, fail: Fail, request: Request) -> Body: ...


@dataclass(frozen=True, slots=True)
class Body:
    """A reply as it is sent: in parts, the last of which completes it."""

    parts: list[bytes]
    content_type: str = "application/json"

    @classmethod
    def stream(cls, events: list[bytes]) -> Body:
        return cls(events, "text/event-stream")


@dataclass(slots=True)
class Served:
    """One request and what it was answered with; `complete` once its last byte was handed to the network.

    `begun`: the client may have seen its first part, of which `if_cut` is the price.
    """

    number: int  # of the main request, from 1; 0 for everything that takes no part in the script
    kind: Kind
    path: str
    headers: Mapping[str, str]
    request: Request
    reply: Reply
    user_texts: list[str]  # every text the request holds in the user's name, in order: prompts, corrections, reminders
    if_cut: Tokens = field(default_factory=Tokens)
    begun: bool = False
    complete: bool = False

    @property
    def status(self) -> int:
        """The HTTP status sent; 0 while a stalled reply has not even sent its headers."""
        match self.reply:
            case Fail(status=status):
                return status
            case Stall(when="before_headers"):
                return 0
            case Say() | Stall() | Cut():
                return 200
            case _:
                assert_never(self.reply)

    @property
    def usage(self) -> Tokens:
        """What this reply cost: nothing before it began, its beginning if it was cut, and nothing for a mere count."""
        if self.kind == "count_tokens" or not self.begun:
            return Tokens()
        return self.reply.usage if self.complete and isinstance(self.reply, Say) else self.if_cut


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


class ScriptedApi:
    """A running server; a context manager whose end stops every thread and reports a script that raised."""

    def __init__(self, dialect: Dialect, script: Script) -> None:
        self.ledger = Ledger()
        self.dialect = dialect
        self._script = script
        self._faults: list[BaseException] = []
        self._numbers = itertools.count(1)
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="scripted-api", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
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

    def answer(self, path: str, headers: Mapping[str, str], request: Request) -> Served:
        """Choose the reply to one request and enter it into the ledger."""
        match kind := self.dialect.kind(path, request):
            case "main":
                number = next(self._numbers)
                reply = self._scripted(number, request)
            case _:
                number, reply = 0, self.dialect.aside(kind)
        if_cut = self.dialect.cost_of_cut(reply)
        served = Served(number, kind, path, headers, request, reply, self.dialect.user_texts(request), if_cut)
        self.ledger.entries.append(served)
        return served

    def fault(self, error: BaseException) -> None:
        self._faults.append(error)

    def _scripted(self, number: int, request: Request) -> Reply:
        if not callable(self._script):
            return self._script[number - 1] if number <= len(self._script) else AFTER_THE_SCRIPT
        try:
            return self._script(number, request)
        except Exception as error:  # whatever a test's script raises belongs to the test, not to this thread
            self.fault(error)
            return Fail(500, "api_error", f"the script raised {error!r}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api: ScriptedApi) -> None:
        self.api = api
        self.released = threading.Event()
        self._open: dict[threading.Thread, socket.socket] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks the resolver for the name of the address

    def process_request(self, request: Any, client_address: Any) -> None:
        # ThreadingMixIn does not keep its daemon threads, so nobody could join them.
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="scripted-api-reply", daemon=True
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
    def scripted(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def do_HEAD(self) -> None:
        self._send(200, {}, Body([]))

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            request: object = json.loads(body or b"{}")
        except ValueError:
            request = {}
        self._serve(request if isinstance(request, dict) else {})

    def _serve(self, request: Request) -> None:
        dialect = self.scripted.api.dialect
        served = self.scripted.api.answer(self.path, dict(self.headers.items()), request)
        match served.reply:
            case Say() as say:
                self._finish(served, say.headers, dialect.says(say, served.kind, request))
            case Fail() as fail:
                self._finish(served, fail.headers, dialect.fails(fail, request))
            case Stall(when="mid_stream") as stall:
                served.begun = True
                self._send(200, stall.headers, dialect.breaks_off(request))
                self.scripted.released.wait()
            case Stall():
                self.scripted.released.wait()
            case Cut():
                served.begun = True
                self._send(200, {}, dialect.breaks_off(request))
            case _:
                assert_never(served.reply)

    def _finish(self, served: Served, headers: Mapping[str, str], body: Body) -> None:
        """Send a reply; its entry is complete before the client can have seen the last part."""
        served.begun = True
        pause = served.reply.pause if isinstance(served.reply, Say) else 0.0
        self._send(served.status, headers, Body(body.parts[:-1], body.content_type), pause)
        served.complete = True
        try:
            self.wfile.write(body.parts[-1])
        except OSError:
            served.complete = False
            raise

    def _send(self, status: int, headers: Mapping[str, str], body: Body, pause: float = 0.0) -> None:
        """Send what there is of a reply, after its first part with a pause, unless the server is closed before."""
        self.close_connection = True
        self.send_response(status)
        # Without a length, the end of the connection is the end of the reply.
        for name, value in {"content-type": body.content_type, "connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for part in body.parts:
            self.wfile.write(part)
            if pause and part is body.parts[0]:
                self.scripted.released.wait(pause)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
        """Print nothing: the ledger is the log."""
