"""The tools of MCP servers, as the model calls them, and the one that is asked for permissions.

What a server answers is turned into blocks as Claude Code 2.1.325 turns it. Arguments are not checked against the
server's schema: that is the server's business, and its schema may be none.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.claude_cli.control import RequestFailed, Requests
from ralph.claude_cli.desk import INTERRUPTED, Desk, ToolResult, failed, kept_in_file
from ralph.claude_cli.flags import BadUsage
from ralph.claude_cli.mcp_config import (
    McpFault,
    McpOffer,
    McpResult,
    McpServer,
    McpStopped,
    Skipped,
    display,
    named_servers,
)
from ralph.claude_cli.options import Options
from ralph.claude_cli.permissions.prompt import PermissionPrompt, PromptAnswer, PromptFault, read_answer
from ralph.core import ndjson
from ralph.core.errors import RalphError

if TYPE_CHECKING:
    from ralph.claude_cli.mcp_client import McpConnections, McpLink

_LONGEST = 100_000
"""Characters of an answer that the model gets as they are: 25,000 tokens in 2.1.325."""

_NOT_TEXT = (
    "Permission prompt tool returned an invalid result. Expected a single text block param with "
    'type="text" and a string text value.'
)


class McpTool:
    """One tool of one server."""

    def __init__(self, connections: "McpConnections", link: "McpLink", offer: McpOffer) -> None:
        self.name = link.server.tool(offer.name)
        self.description = offer.description
        self.input_schema = offer.input_schema
        self.offer = offer
        self._link = link
        self._connections = connections

    @property
    def meta(self) -> Mapping[str, object]:
        """What `tool_use_meta` says of a call of it."""
        return {
            "display_name": display(self.name),
            "server_display_name": self._link.server.name,
            "tool_name": self.offer.name,
        }

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """Call the tool; whatever its server does is an error of this call."""
        try:
            result = self.call(arguments, desk)
        except McpStopped:
            return ToolResult(INTERRUPTED, is_error=True, detail="User rejected tool use")
        except McpFault as fault:
            return failed(str(fault))
        return _told(self.name, self._link.server.name, result, desk)

    def call(self, arguments: Mapping[str, object], desk: Desk) -> McpResult:
        return self._connections.call(self._link, self.offer.name, arguments, desk.call_id, desk.stop)


class McpTools:
    """The servers of a session."""

    def __init__(self, connections: "McpConnections | None", skipped: Sequence[Skipped]) -> None:
        self._connections = connections
        self._links = connections.links if connections else []
        self.errors = [asdict(each) for each in skipped]
        """What init says of entries that make no sense."""

    def wait(self, stop: threading.Event) -> None:
        """Wait until every server has answered, has failed, or has had its time."""
        if self._connections is not None:
            self._connections.wait(stop)

    def tools(self) -> dict[str, McpTool]:
        connections = self._connections
        if connections is None:
            return {}
        tools = (McpTool(connections, link, offer) for link in self._links for offer in link.offers)
        return {tool.name: tool for tool in tools}

    def statuses(self) -> list[dict[str, object]]:
        """What init says of them."""
        return [{"name": link.server.name, "status": link.status, "source": link.server.source} for link in self._links]

    def notes(self) -> list[str]:
        """What the model should know of them beforehand."""
        notes: list[str] = []
        if lost := [f"{link.server.name}: {link.fault}" for link in self._links if link.status == "failed"]:
            said = "These MCP servers are configured and failed to connect, so this session lacks their tools:"
            notes.append("\n".join([said, *lost]))
        if told := [link for link in self._links if link.instructions]:
            parts = [f"## {link.server.name}\n{link.instructions}" for link in told]
            notes.append("\n\n".join(["# MCP server instructions", *parts]))
        return [f"<system-reminder>\n{note}\n</system-reminder>" for note in notes]

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()


def open_servers(
    options: Options, environment: Mapping[str, str], cwd: Path, requests: Requests
) -> tuple[McpTools, PermissionPrompt | None]:
    """Begin to connect to every MCP server; return their tools, and who is asked for permissions: None is nobody."""
    servers = _connected(options, environment, cwd, requests)
    match options.permission_prompt_tool:
        case "":
            return servers, None
        case "stdio":
            return servers, HarnessPrompt(requests)
        case name:
            return servers, ToolPrompt(name, servers)


def _connected(options: Options, environment: Mapping[str, str], cwd: Path, requests: Requests) -> McpTools:
    found = named_servers(
        options.mcp_configs,
        environment,
        cwd,
        options.settings,
        options.sources,
        only_these=options.only_these_mcp_servers,
    )
    servers = [each for each in found if isinstance(each, McpServer)]
    skipped = [each for each in found if isinstance(each, Skipped)]
    if not servers:
        return McpTools(None, skipped)
    if find_spec("mcp") is None:
        raise RalphError(
            "the mcp package is missing; in a clone of ralph, install it with: pip install '.[models,mcp]'"
        )
    from ralph.claude_cli.mcp_client import McpConnections

    own = {**environment, "CLAUDE_CODE_SESSION_ID": options.record.session_id}
    connections = McpConnections(servers, own, cwd, requests, options.debug)
    connections.begin()
    return McpTools(connections, skipped)


class HarnessPrompt:
    """The harness decides on calls, over the control protocol."""

    name = "stdio"

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def ask(self, tool: str, arguments: Mapping[str, object], desk: Desk) -> PromptAnswer:
        """Ask about one call; raise PromptFault for an answer that is none."""
        question = {
            "subtype": "can_use_tool",
            "tool_name": tool,
            "display_name": display(tool),
            "input": dict(arguments),
            "tool_use_id": desk.call_id,
        }
        try:
            return read_answer(self._requests.ask(question, desk.stop))
        except RequestFailed as error:
            raise PromptFault(str(error)) from error


class ToolPrompt:
    """A tool of an MCP server that decides on calls, as --permission-prompt-tool names it."""

    def __init__(self, name: str, servers: McpTools) -> None:
        self.name = name
        self._servers = servers

    def ask(self, tool: str, arguments: Mapping[str, object], desk: Desk) -> PromptAnswer:
        """Ask about one call; raise PromptFault for an answer that is none, BadUsage if there is no such tool."""
        tools = self._servers.tools()
        prompt = tools.get(self.name)
        if prompt is None:
            known = ", ".join(tools) or "none"
            raise BadUsage(
                f"Error: MCP tool {self.name} (passed via --permission-prompt-tool) not found. Available MCP tools: "
                f"{known}"
            )
        question = {"tool_name": tool, "input": dict(arguments), "tool_use_id": desk.call_id}
        try:
            result = prompt.call(question, desk)
        except (McpFault, McpStopped) as fault:
            raise PromptFault(str(fault)) from fault
        said = [ndjson.text(block.get("text")) for block in result.blocks if block.get("type") == "text"]
        if result.is_error:
            raise PromptFault("\n".join(said))
        if len(said) != 1 or len(result.blocks) != 1:
            raise PromptFault(_NOT_TEXT)
        try:
            answer = ndjson.decode(said[0])
        except ndjson.Malformed as error:
            raise PromptFault(f"Permission prompt tool returned an invalid result: {error}") from error
        return read_answer(ndjson.mapping(answer))


def _told(tool: str, server: str, result: McpResult, desk: Desk) -> ToolResult:
    """The result of a call, for the model and for the event."""
    blocks = [_block(block, server) for block in result.blocks]
    if result.is_error:
        said = "\n".join(ndjson.text(block.get("text")) for block in blocks)
        fault = failed(said or f"{tool} failed without a word")
        return replace(fault, detail={"content": fault.detail, "_meta": dict(result.meta)}) if result.meta else fault
    text = "" if result.structured is None else ndjson.encode(result.structured)
    links = [_link(block) for block in result.blocks if block.get("type") == "resource_link"]
    more: dict[str, object] = {"_meta": dict(result.meta)} if result.meta else {}
    if result.structured is not None:
        more["structuredContent"] = dict(result.structured)
    elif links:
        more["resourceLinks"] = links
    content: object = text or blocks
    detail = {"content": content, **more} if more else content
    if text:
        return _kept(ToolResult(text, detail=detail), tool, desk)
    if not blocks:
        return ToolResult(f"({tool} completed with no output)", detail=detail)
    return _kept(ToolResult("", detail=detail, blocks=blocks), tool, desk)


def _kept(result: ToolResult, tool: str, desk: Desk) -> ToolResult:
    """The result itself, or if it is too long for a conversation, the name of the file that has it."""
    text = result.content or "\n".join(ndjson.text(block.get("text")) for block in result.blocks)
    if len(text) <= _LONGEST:
        return result
    place = desk.place_for_output(tool)
    place.write_text(text, "utf-8", "replace")
    said = kept_in_file(text, len(text.encode("utf-8", "replace")), place)
    return ToolResult(said, detail=said)


def _block(block: Mapping[str, object], server: str) -> Mapping[str, object]:
    """One block of the protocol as one that the model takes."""
    match block.get("type"):
        case "text":
            return _text(ndjson.text(block.get("text")))
        case "image":
            source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
            return {"type": "image", "source": source}
        case "resource":
            resource = ndjson.mapping(block.get("resource"))
            where = f"[Resource from {server} at {ndjson.text(resource.get('uri'))}]"
            return _text(f"{where} {ndjson.text(resource.get('text')) or '(binary)'}")
        case "resource_link":
            return _text(f"[Resource link: {ndjson.text(block.get('name'))}] {ndjson.text(block.get('uri'))}")
        case kind:
            return _text(
                f"[{ndjson.text(kind) or 'Unknown content'} from {server}, {block.get('mimeType', 'no type')}]"
            )


def _link(block: Mapping[str, object]) -> Mapping[str, object]:
    return {name: block[name] for name in ("uri", "name", "description", "mimeType") if name in block}


def _text(text: str) -> Mapping[str, object]:
    return {"type": "text", "text": text}
