"""MCP servers as flags and files name them (--mcp-config, .mcp.json, ~/.claude.json), and what they offer and answer.

Measured on Claude Code 2.1.325: which file is read when, what it says of a wrong one, and that with -p it starts the
servers of a `.mcp.json` in a repository that nobody has trusted. Entries that make no sense are left out, as there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ralph.claude_cli.flags import BadUsage
from ralph.claude_cli.settings import ClaudeSettings, texts
from ralph.core.ndjson import Malformed, decode, mapping, text

PREFIX = "mcp__"
_INVALID = "Error: Invalid MCP configuration:"
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server to be connected to."""

    name: str
    kind: Literal["stdio", "http", "sse", "sdk"]
    source: str
    """In the words of `init.mcp_servers`: dynamic, project, user, local, sdk."""

    command: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def tool(self, name: str) -> str:
        """The name under which the model knows a tool of this server."""
        return f"{PREFIX}{_STRANGE.sub('_', self.name)}__{_STRANGE.sub('_', name)}"


class McpFault(Exception):
    """A server did not do what was asked of it; worded for the model."""


class McpStopped(Exception):
    """The call was called off."""


@dataclass(frozen=True, slots=True)
class McpOffer:
    """A tool as its server describes it."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class McpResult:
    """What a call came to: blocks as the protocol writes them, and the structured content beside them."""

    blocks: Sequence[Mapping[str, object]]
    structured: Mapping[str, object] | None
    meta: Mapping[str, object]
    is_error: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that makes no sense, in the words of `init.mcp_server_errors`."""

    name: str
    type: str
    message: str


def named_servers(
    configs: Iterable[str],
    environment: Mapping[str, str],
    cwd: Path,
    settings: ClaudeSettings,
    sources: Iterable[str],
    *,
    only_these: bool,
) -> list[McpServer | Skipped]:
    """Every server of a session, the strongest of each name; raise BadUsage for a wrong --mcp-config."""
    found: dict[str, McpServer | Skipped] = {}
    if not only_these:
        for source, servers in _of_files(environment, cwd, settings, set(sources)):
            found |= _read(servers, source, environment)
    for config in configs:
        found |= _read(_of_flag(config, cwd), "dynamic", environment)
    return list(found.values())


def display(tool: str) -> str:
    """A tool's name as people read it."""
    words = tool.rpartition("__")[2].replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def _of_flag(config: str, cwd: Path) -> Mapping[str, object]:
    try:
        document = decode(config)
    except Malformed:
        document = _of_file(config, cwd)
    if not isinstance(document, dict):
        raise BadUsage(f"{_INVALID}\nInvalid input: expected object, received {_kind(document)}")
    servers = mapping(document).get("mcpServers")  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
    if not isinstance(servers, dict):
        raise BadUsage(f"{_INVALID}\nmcpServers: Invalid input: expected record, received {_kind(servers)}")
    return mapping(servers)  # pyright: ignore[reportUnknownArgumentType] - JSON from outside


def _of_file(config: str, cwd: Path) -> object:
    path = cwd / config
    try:
        said = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BadUsage(f"{_INVALID}\nMCP config file not found: {path}") from error
    try:
        return decode(said)
    except Malformed as error:
        raise BadUsage(f"{_INVALID}\nMCP config is not a valid JSON") from error


def _of_files(
    environment: Mapping[str, str], cwd: Path, settings: ClaudeSettings, sources: set[str]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The servers of the files that this session reads, the weakest first."""
    own = _object(Path(environment.get("HOME", "/")) / ".claude.json")
    if "user" in sources:
        yield "user", mapping(own.get("mcpServers"))
    if "project" in sources:
        off = {name for file in settings.files for name in texts(file.values, "disabledMcpjsonServers")}
        servers = mapping(_object(cwd / ".mcp.json").get("mcpServers"))
        yield "project", {name: server for name, server in servers.items() if name not in off}
    if "local" in sources:
        yield "local", mapping(mapping(mapping(own.get("projects")).get(str(cwd))).get("mcpServers"))


def _object(path: Path) -> Mapping[str, object]:
    """A file's JSON object; a file that is missing or broken names no server, as with claude."""
    try:
        return mapping(decode(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, Malformed):
        return {}


def _read(servers: Mapping[str, object], source: str, environment: Mapping[str, str]) -> dict[str, McpServer | Skipped]:
    return {name: _server(name, mapping(said), source, environment) for name, said in servers.items()}


def _server(name: str, said: Mapping[str, object], source: str, environment: Mapping[str, str]) -> McpServer | Skipped:

    def filled(value: object) -> str:
        return _VARIABLE.sub(lambda match: environment.get(match[1], match[2] or match[0]), text(value))

    def several(key: str) -> dict[str, str]:
        return {each: filled(value) for each, value in mapping(said.get(key)).items() if isinstance(value, str)}

    kind, arguments = text(said.get("type", "stdio")), said.get("args", [])
    match kind:
        case "stdio":
            command = filled(said.get("command"))
            if not command:
                return _skipped(name, "command", "string", said.get("command"))
            if not isinstance(arguments, list):
                return _skipped(name, "args", "array", arguments)
            words = tuple(filled(each) for each in texts(said, "args"))
            return McpServer(name, "stdio", source, command=command, arguments=words, environment=several("env"))
        case "http" | "sse":
            url = filled(said.get("url"))
            if not url:
                return _skipped(name, "url", "string", said.get("url"))
            return McpServer(name, kind, source, url=url, headers=several("headers"))
        case "sdk":
            return McpServer(name, "sdk", "sdk")
        case _:
            return Skipped(name, "unknown_type", f'Skipped — unknown MCP server type "{kind}" for server "{name}"')


def _skipped(name: str, key: str, expected: str, value: object) -> Skipped:
    wrong = f"{key}: expected {expected}, received {_kind(value)}"
    return Skipped(name, "invalid_config", f'Skipped — invalid MCP server config for "{name}": {wrong}')


def _kind(value: object) -> str:
    match value:
        case None:
            return "undefined"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
