"""An MCP server that answers wrongly: `SEED WHERE`, with WHERE the first request that gets nonsense."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

TOOLS = [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(12)]


def nonsense(source: random.Random, request: dict[str, Any]) -> bytes:
    """One wrong answer; some are no JSON, some no message, some no answer to what was asked."""
    right = {"jsonrpc": "2.0", "id": request.get("id"), "result": {}}
    values: list[Any] = [
        None,
        3,
        "x",
        [],
        {},
        [[]],
        {"content": 3},
        {"content": [{"type": "nonesuch"}]},
        {"tools": "x"},
    ]
    values += [{"content": [{"type": "text"}]}, {"content": [{"type": "image", "data": 7}]}, {"tools": [{"name": 1}]}]
    match source.randrange(6):
        case 0:
            return source.randbytes(source.randrange(1, 200)).replace(b"\n", b" ")
        case 1:
            return json.dumps(source.choice(values)).encode()
        case 2:
            return json.dumps({**right, "id": source.choice([None, -1, "other", 1.5])}).encode()
        case 3:
            return json.dumps({**right, "error": source.choice(values)}).encode()
        case 4:
            return b"[" * source.randrange(1, 5000)
        case _:
            return json.dumps({**right, "result": source.choice(values)}).encode()


def main() -> None:
    source, where, is_broken = random.Random(int(sys.argv[1])), sys.argv[2], False
    for line in sys.stdin.buffer:
        request = json.loads(line)
        method = request.get("method")
        is_broken = is_broken or method == where
        right: dict[str, Any] = {"jsonrpc": "2.0", "id": request.get("id")}
        if is_broken:
            answer = nonsense(source, request)
        elif method == "initialize":
            version, server = request["params"]["protocolVersion"], {"name": "x", "version": "1"}
            right["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
            answer = json.dumps(right).encode()
        elif method == "tools/list":
            answer = json.dumps({**right, "result": {"tools": TOOLS}}).encode()
        elif "id" in request:
            answer = json.dumps({**right, "error": {"code": -32601, "message": "no"}}).encode()
        else:
            continue
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
