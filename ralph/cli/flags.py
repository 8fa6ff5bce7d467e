"""Flags that every command which holds sessions has: who works, how it is read, how long it may take, what is shown."""

from typing import Annotated

import typer

Agent = Annotated[str | None, typer.Option(help="The agent: claude, codex, custom, ralph-claude or demo.")]
AgentCmd = Annotated[
    str | None,
    typer.Option(metavar="CMD", help="The agent is this command; it reads the prompt on stdin, or {prompt_file}."),
]
Transcript = Annotated[str | None, typer.Option(help="How its output is read: auto, claude, codex, rtf1 or plain.")]
Model = Annotated[str | None, typer.Option(help="The model, by alias or full name.")]
Reasoning = Annotated[str | None, typer.Option(help="How much it thinks: none, low, med or high.")]
IterationTimeout = Annotated[str | None, typer.Option(metavar="TIME", help="End a session that takes longer.")]
IdleTimeout = Annotated[str | None, typer.Option(metavar="TIME", help="End a session that is silent for so long.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print events as NDJSON, and nothing else, on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only how it ended.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print thinking and tool output in full.")]
LiveGoal = Annotated[
    str | None,
    typer.Argument(metavar="[GOAL]", help="The goal's name or file; may be left out when one run is live."),
]
