"""Read one session with claude-agent-sdk, as its documentation shows, and say when the last message had come.

Run by the peer's own interpreter: `sdk_reader.py AGENT [--echo]`; with --echo every message is printed as it comes.
"""

import sys
import time

import anyio
from claude_agent_sdk import ClaudeAgentOptions, query  # pyright: ignore[reportMissingImports] - the same


async def main(agent: str, echo: bool) -> None:
    options = ClaudeAgentOptions(cli_path=agent)
    async for message in query(prompt="Work.", options=options):
        if echo:
            sys.stdout.write(f"{message}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{time.monotonic_ns()}\n")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], "--echo" in sys.argv[2:])
