"""Flags that every command which holds sessions has: who works, how it is read, how long it may take, what is shown."""

from pathlib import Path
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


Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="The queue: sqlite:///PATH or postgresql://...; a file of ralph's own unless said."
    ),
]
PrintJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="A goal: g7, 7, or its name where only one has it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Goals: g7, 7, or a name where only one has it.")]
SOURCES = "Goal files, directories of them, or a batch.toml."
Sources = Annotated[list[Path], typer.Argument(metavar="GOAL...", help=SOURCES)]
Repo = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The repository to work on: a URL, or a path; an entry of a batch.toml counts more."
    ),
]
Merge = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="What becomes of proven work: direct, pr, branch or none; direct unless said."),
]
TrustEnvrc = Annotated[
    bool, typer.Option("--trust-envrc", help="Trust the .envrc of the repositories, as `ralph run --trust-envrc` does.")
]
GoalsAgent = Annotated[
    str | None, typer.Option(help="The agent of every goal: claude, codex, custom, ralph-claude, demo.")
]
GoalsModel = Annotated[str | None, typer.Option(help="The model of every goal, by alias or full name.")]
GoalsReasoning = Annotated[str | None, typer.Option(help="How much it thinks: none, low, med or high.")]
MaxIterations = Annotated[str | None, typer.Option(metavar="N", help="End each goal's run after so many iterations.")]
Duration = Annotated[str | None, typer.Option(metavar="TIME", help="End each goal's run after so long (30m, 4h).")]
