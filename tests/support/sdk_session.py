"""One session through claude-agent-sdk: `sdk_session.py PART PROGRAM`; prints what came of it as JSON.

Run by an interpreter that has the SDK, which the one of the tests has not.
"""

import asyncio
import json
import sys
from typing import Any

import claude_agent_sdk as sdk  # pyright: ignore[reportMissingImports] - the same


def options(**more: Any) -> Any:
    return sdk.ClaudeAgentOptions(cli_path=sys.argv[2], **more)


async def hear(messages: Any) -> list[Any]:
    """The results of tools and of turns."""
    found: list[Any] = []
    async for message in messages:
        if isinstance(message, sdk.UserMessage) and not isinstance(message.content, str):
            found += [block.content for block in message.content if isinstance(block, sdk.ToolResultBlock)]
        if isinstance(message, sdk.ResultMessage):
            found.append(message.result)
    return found


async def converse(chosen: Any, *prompts: str) -> list[Any]:
    found: list[Any] = []
    async with sdk.ClaudeSDKClient(chosen) as client:
        for prompt in prompts:
            await client.query(prompt)
            found += await hear(client.receive_response())
    return found


async def turns() -> Any:
    return await converse(options(), "one", "two")


async def resumed() -> Any:
    ids: list[str] = []
    for more in ({}, {"resume": 0}, {"resume": 0, "fork_session": True}):
        given = more | ({"resume": ids[0]} if more else {})
        async for message in sdk.query(prompt="go", options=options(**given)):
            if isinstance(message, sdk.ResultMessage):
                ids.append(message.session_id)
    return [each == ids[0] for each in ids]


async def hooked() -> Any:
    async def guard(given: Any, call: Any, context: Any) -> Any:
        del call, context
        if "rm" not in given["tool_input"]["command"]:
            return {}
        decision = {"permissionDecision": "deny", "permissionDecisionReason": "no rm"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}

    hooks = {"PreToolUse": [sdk.HookMatcher(matcher="Bash", hooks=[guard])]}
    return await converse(options(allowed_tools=["Bash"], hooks=hooks), "go")


async def asked() -> Any:
    async def may(name: str, given: Any, context: Any) -> Any:
        del name, context
        if "one" in given["command"]:
            return sdk.PermissionResultDeny(message="not that")
        return sdk.PermissionResultAllow(updated_input={**given, "command": "touch changed; echo changed"})

    return await converse(options(can_use_tool=may), "go")


async def served() -> Any:
    @sdk.tool("add", "adds", {"a": int, "b": int})
    async def add(given: Any) -> Any:
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    server = sdk.create_sdk_mcp_server("calc", tools=[add])
    return await converse(options(mcp_servers={"calc": server}, allowed_tools=["mcp__calc__add"]), "go")


PARTS = {part.__name__: part for part in (turns, resumed, hooked, asked, served)}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(PARTS[sys.argv[1]]())))
