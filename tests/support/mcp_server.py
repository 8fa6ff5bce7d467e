"""A small MCP server on the official package, to be started as a program: `stdio`, or `http PORT_FILE`.

Its tools answer, fail, die and hang. `ask` decides on permissions: Bash is changed, Write refused, all else allowed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import Image, MCPServer
from mcp.types import CallToolResult, EmbeddedResource, ResourceLink, TextContent, TextResourceContents

server = MCPServer("little", instructions="Add with add.")
PIXEL = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
    b"\0\0\0\rIDATx\xdacd\xf8\xcfP\x0f\0\x03\x86\x01\x80Z4}k\0\0\0\0IEND\xaeB`\x82"
)


@server.tool(structured_output=False)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool(structured_output=False)
def fail() -> CallToolResult:
    """Fail."""
    return CallToolResult(content=[TextContent(text="it went wrong")], is_error=True)


@server.tool(structured_output=False)
def die() -> str:
    """End the server."""
    os._exit(3)


@server.tool(structured_output=False)
def hang() -> str:
    """Never answer."""
    time.sleep(600)
    return "too late"


@server.tool(structured_output=False)
def nothing() -> CallToolResult:
    """Answer with nothing."""
    return CallToolResult(content=[])


@server.tool()
def facts() -> dict[str, int]:
    """Answer with structured content."""
    return {"x": 1}


@server.tool(structured_output=False)
def picture() -> Image:
    """Answer with an image."""
    return Image(data=PIXEL, format="png")


@server.tool(structured_output=False)
def many() -> CallToolResult:
    """Answer with blocks of several kinds."""
    here = TextResourceContents(uri="file:///y", mime_type="text/plain", text="the text")
    return CallToolResult(
        content=[
            TextContent(text="one"),
            TextContent(text="two"),
            ResourceLink(uri="file:///x", name="x"),
            EmbeddedResource(resource=here),
        ]
    )


@server.tool(structured_output=False)
def ask(tool_name: str, input: dict[str, object], tool_use_id: str = "") -> str:  # noqa: A002 - claude's name for it
    """Decide on a call."""
    match tool_name:
        case "Bash":
            return json.dumps({"behavior": "allow", "updatedInput": {**input, "command": "echo changed"}})
        case "Write":
            return json.dumps({"behavior": "deny", "message": "not today"})
        case "Edit":
            return json.dumps({"behavior": "perhaps"})
        case _:
            return json.dumps({"behavior": "allow"})


def _serve_http(port_file: Path) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    app = server.streamable_http_app()
    port_file.with_suffix(".new").write_text(str(listener.getsockname()[1]))
    port_file.with_suffix(".new").rename(port_file)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        _serve_http(Path(sys.argv[2]))
