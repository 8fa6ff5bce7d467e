"""Connections to MCP servers, through the official client, in a thread with an event loop of its own.

The only module that imports `mcp`: 1.3 s, which only sessions with a server pay. Whatever a server does is a fault of
one call or of one connection: each is a task, and its exception is a value for the caller that waits.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from ralph.claude_cli.debug import QUIET, Debug
from ralph.claude_cli.mcp_config import McpFault, McpOffer, McpResult, McpServer, McpStopped
from ralph.core import ndjson
from ralph.system.guardian import spare, spare_no_more, sweep

if TYPE_CHECKING:
    from mcp import Client

_LOOK = 0.05
_CONNECTING = 30.0
"""Seconds for a server to answer at the start, unless MCP_TIMEOUT says otherwise."""

_CALLING = 600.0
"""Seconds for one call without a sign of progress, unless MCP_TOOL_TIMEOUT says otherwise. 2.1.325 waits for a day."""

_LEAVING = 6.0
"""Seconds for all servers to end; the client itself kills a server 4 seconds after it closed its stdin."""

_GRACE = 1.5
"""Seconds for a server to end after its stdin was closed, and after it was asked to."""

_LONGEST_LINE = 1 << 26
_MOST_PAGES = 50


class Harness(Protocol):
    """Who started this session, and answers control requests."""

    def ask(
        self, request: Mapping[str, object], stop: threading.Event, timeout: float | None = None
    ) -> Mapping[str, object]: ...


@dataclass(slots=True)
class McpLink:
    """One server and the connection to it."""

    server: McpServer
    status: str = "pending"
    offers: Sequence[McpOffer] = ()
    instructions: str = ""
    fault: str = ""
    client: "Client | None" = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    heard: float = 0.0
    """When a call last showed progress."""


class McpConnections:
    """All servers of a session."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        environment: Mapping[str, str],
        cwd: Path,
        requests: Harness | None = None,
        debug: Debug = QUIET,
    ) -> None:
        """`requests` reach the servers that live in the harness."""
        self.links = [McpLink(server) for server in servers]
        self._environment = {**environment, "CLAUDECODE": "1", "CLAUDE_PROJECT_DIR": str(cwd)}
        self._cwd = cwd
        self._requests = requests
        self._debug = debug
        self._connecting = _seconds(environment, "MCP_TIMEOUT", _CONNECTING)
        self._calling = _seconds(environment, "MCP_TOOL_TIMEOUT", _CALLING)
        self._stop = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: concurrent.futures.Future[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="mcp")

    def begin(self) -> None:
        """Begin to connect to every server."""
        self._thread.start()
        self._begun = asyncio.run_coroutine_threadsafe(self._connect_all(), self._loop)

    def wait(self, stop: threading.Event) -> None:
        """Wait until every server has answered, has failed, or has had its time."""
        while self._begun and not concurrent.futures.wait([self._begun], _LOOK).done and not stop.is_set():
            pass

    def call(
        self, link: McpLink, tool: str, arguments: Mapping[str, object], call_id: str, stop: threading.Event
    ) -> McpResult:
        """Call a tool; raise McpFault for every fault, McpStopped as soon as `stop` is set."""
        link.heard = time.monotonic()
        self._debug.tell("mcp", f"{link.server.name}: call of {tool}", id=call_id)
        future = asyncio.run_coroutine_threadsafe(self._call(link, tool, arguments, call_id), self._loop)
        while not concurrent.futures.wait([future], _LOOK).done:
            if stop.is_set():
                future.cancel()
                raise McpStopped
            if time.monotonic() - link.heard > self._calling:
                future.cancel()
                raise McpFault(f'MCP server "{link.server.name}" tool "{tool}" timed out after {int(self._calling)}s')
        if future.cancelled():
            raise McpFault("Connection closed")
        if (error := future.exception()) is not None:
            raise McpFault(_said(error)) from error
        return future.result()

    def close(self) -> None:
        """End every connection, and with it every server that was started."""
        if not self._thread.is_alive():
            return
        self._stop.set()
        ending = asyncio.run_coroutine_threadsafe(self._end_all(), self._loop)
        concurrent.futures.wait([ending], _LEAVING)
        self._loop.call_soon_threadsafe(self._loop.stop)
        sweep()  # what servers left behind

    async def _connect_all(self) -> None:
        await asyncio.gather(*(self._connect(link) for link in self.links), return_exceptions=True)

    async def _end_all(self) -> None:
        for link in self.links:
            link.ended.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LEAVING)

    async def _connect(self, link: McpLink) -> None:
        """Connect, or raise what keeps us from it."""
        link.ended = asyncio.Event()
        opened = asyncio.Event()
        task = self._loop.create_task(self._hold(link, opened))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        waiting = self._loop.create_task(opened.wait())
        await asyncio.wait({task, waiting}, timeout=self._connecting, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if opened.is_set():
            link.status = "connected"
            self._debug.tell("mcp", f"{link.server.name}: connected", tools=len(link.offers))
            return
        link.status = "failed"
        if not task.done():
            task.cancel()
            link.fault = f"no answer within {self._connecting:g}s"
        else:
            link.fault = "cancelled" if task.cancelled() else _said(task.exception())
        self._debug.tell("mcp", f"{link.server.name}: not connected: {link.fault}")
        raise McpFault(link.fault)

    async def _hold(self, link: McpLink, opened: asyncio.Event) -> None:
        """Keep one connection open until it is ended; the client wants the same task to open and to close it."""
        from mcp import Client
        from mcp.types import Implementation

        # What a server prints amiss is for its log, not for our stderr.
        for name in ("mcp", "asyncio", "httpx2"):
            logging.getLogger(name).addHandler(logging.NullHandler())
            logging.getLogger(name).propagate = False
        info = Implementation(name="ralph-claude", version="1")
        mode = "legacy" if link.server.kind == "sdk" else "auto"
        async with Client(self._transport(link.server), mode=mode, client_info=info, cache=None) as client:
            link.offers = await _listed(client)
            link.instructions = client.instructions or ""
            link.client = client
            opened.set()
            try:
                await link.ended.wait()
            finally:
                link.client = None

    def _transport(self, server: McpServer) -> Any:  # the client's transports have no type in common
        match server.kind:
            case "stdio":
                return self._through_pipes(server)
            case "http":
                import httpx2
                from mcp.client.streamable_http import streamable_http_client

                timeout = httpx2.Timeout(_CONNECTING, read=self._calling)
                client = httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout)
                return streamable_http_client(server.url, http_client=client)
            case "sse":
                from mcp.client.sse import sse_client

                return sse_client(server.url, headers=dict(server.headers))
            case "sdk":
                return self._through_harness(server.name)

    @contextlib.asynccontextmanager
    async def _through_pipes(self, server: McpServer) -> "AsyncGenerator[Any]":
        """Start a server, and exchange lines with it; it is gone when this ends.

        Not by the client's own transport: what a Bash command leaves behind is swept away, and a server is not of it,
        so its pid must be known.
        """
        import anyio

        to_session, read = anyio.create_memory_object_stream[Any](0)
        write, from_session = anyio.create_memory_object_stream[Any](0)
        process = await asyncio.create_subprocess_exec(
            server.command,
            *server.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._cwd,
            env={**self._environment, **server.environment},
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        spare(process.pid)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_hear, process.stdout, to_session)
                group.start_soon(_tell, process.stdin, from_session, to_session)
                yield read, write
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _leave(process)
            spare_no_more(process.pid)

    @contextlib.asynccontextmanager
    async def _through_harness(self, name: str) -> "AsyncGenerator[Any]":
        """Carry messages to a server that lives in the harness: a control request each, answered by the reply."""
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        if self._requests is None:
            raise McpFault("the harness takes no control requests")
        requests = self._requests
        to_session, read = anyio.create_memory_object_stream[Any](0)
        write, from_session = anyio.create_memory_object_stream[Any](0)

        async def carry(message: Any) -> None:
            said = message.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
            request = {"subtype": "mcp_message", "server_name": name, "message": said}
            answer = await asyncio.to_thread(requests.ask, request, self._stop)
            reply = answer.get("mcp_response")
            if "id" in said and isinstance(reply, dict):
                await to_session.send(SessionMessage(jsonrpc_message_adapter.validate_python(reply, by_name=False)))

        async def carry_all(group: Any) -> None:
            async for message in from_session:
                group.start_soon(carry, message)

        async with anyio.create_task_group() as group, to_session, from_session:
            group.start_soon(carry_all, group)
            yield read, write
            group.cancel_scope.cancel()

    async def _call(self, link: McpLink, tool: str, arguments: Mapping[str, object], call_id: str) -> McpResult:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if link.client is None:
            await self._connect(link)
        if link.client is None:
            raise McpFault("Connection closed")

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            del progress, total, message
            link.heard = time.monotonic()

        meta: Any = {"claudecode/toolUseId": call_id}
        try:
            result = await link.client.call_tool(tool, dict(arguments), progress_callback=heard, meta=meta)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:  # the next call connects again
                link.ended.set()
                link.client = None
            raise
        said = ndjson.mapping(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        structured = said.get("structuredContent")
        blocks = [ndjson.mapping(block) for block in ndjson.sequence(said.get("content"))]
        whole = None if structured is None else ndjson.mapping(structured)
        return McpResult(blocks, whole, ndjson.mapping(said.get("_meta")), said.get("isError") is True)


async def _hear(stdout: asyncio.StreamReader | None, to_session: Any) -> None:
    """Hand over every line that is a message; a line that is none is a fault that the session passes over."""
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    async with to_session:
        while stdout is not None and (line := await stdout.readline()):
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError as error:
                await to_session.send(error)
            else:
                await to_session.send(SessionMessage(message))


async def _tell(stdin: asyncio.StreamWriter | None, from_session: Any, to_session: Any) -> None:
    async with from_session:
        async for message in from_session:
            said = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            if stdin is None:
                return
            try:
                stdin.write(said.encode() + b"\n")
                await stdin.drain()
            except OSError:  # it is gone: the session sees the connection end instead of waiting for ever
                await to_session.aclose()
                return


async def _leave(process: asyncio.subprocess.Process) -> None:
    """End a server as the protocol wants it: close its stdin, wait, ask, and only then kill."""
    if process.stdin is not None:
        process.stdin.close()
    for end in (process.terminate, process.kill, None):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), _GRACE)
            return
        if end is not None:
            with contextlib.suppress(ProcessLookupError):
                end()


async def _listed(client: "Client") -> list[McpOffer]:
    offers: list[McpOffer] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        offers += [
            McpOffer(tool.name, tool.description or "", ndjson.mapping(tool.input_schema)) for tool in page.tools
        ]
        cursor = page.next_cursor
        if not cursor:
            break
    return offers


def _said(error: BaseException | None) -> str:
    """The words of the first real fault: task groups wrap theirs."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return str(error) or type(error).__name__


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    said = environment.get(name, "")
    return int(said[:9]) / 1000 if said.isascii() and said.isdigit() and int(said[:9]) else default
