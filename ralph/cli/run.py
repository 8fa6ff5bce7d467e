"""`ralph run`: flags in, a run, an exit code out."""

from pathlib import Path
from typing import Annotated

import typer

from ralph.cli import completion, flags

Goal = Annotated[
    Path | None,
    typer.Argument(
        metavar="[GOAL.md]",
        help="A Markdown file with an `## Objective`.",
        autocompletion=completion.goal_files,
    ),
]
Words = Annotated[
    str | None,
    typer.Option("--prompt", "-p", metavar="TEXT", help="A goal as a sentence, instead of a file; - reads stdin."),
]
Clone = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Work in a clone of this repository (URL or path) instead of the current directory.",
        rich_help_panel=flags.REPOSITORY,
    ),
]
Branch = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Work on this branch, and create it if needed. In a clone, the default is ralph/<goal>.",
        rich_help_panel=flags.REPOSITORY,
    ),
]
Resume = Annotated[bool, typer.Option("--continue", help="Continue the unfinished run; fail if there is none.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Archive the last run and start over.")]
NoCheck = Annotated[bool, typer.Option("--no-check", help="Accept DONE without proof.", rich_help_panel=flags.PROOF)]
AllowDirty = Annotated[
    bool,
    typer.Option(
        "--allow-dirty",
        help="Start with uncommitted changes; the first commit includes them.",
        rich_help_panel=flags.REPOSITORY,
    ),
]
TrustEnvrc = Annotated[
    bool,
    typer.Option(
        "--trust-envrc",
        help="Trust .envrc and the files it reads, as they were before ralph first ran an agent.",
        rich_help_panel=flags.REPOSITORY,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the prompt and the command without starting anything.")]


@flags.settings("run")
def run(
    *,
    goal: Goal = None,
    words: Words = None,
    repo: Clone = None,
    branch: Branch = None,
    written: flags.Written,
    resume: Resume = False,
    fresh: Fresh = False,
    no_check: NoCheck = False,
    allow_dirty: AllowDirty = False,
    trust_envrc: TrustEnvrc = False,
    as_json: flags.AsJson = False,
    dry_run: DryRun = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Run agent sessions until your check proves the goal done.

    ralph also stops at a limit, when it makes no progress, or when it needs you.

    Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 a bug in ralph, 4 a limit was reached, 5 stalled, 6 blocked,
    129/130/143 stopped by a signal (130 also by `ralph stop`).
    """
    from ralph.system import environ
    from ralph.system.leash import LEASH, heed_leash

    heed_leash(environ.taken(LEASH))  # before anything slow: the parent may be gone already

    from ralph.run.prepare import RunFlags, look
    from ralph.run.prepare import dry_run as print_dry_run
    from ralph.run.start import start_run

    chosen = RunFlags(
        goal, words, repo, branch, resume, fresh, no_check, allow_dirty, trust_envrc, as_json, dry_run, quiet, verbose
    )
    asked = look(chosen, written)
    if dry_run:
        print_dry_run(asked)
    else:
        raise typer.Exit(start_run(asked))


@flags.settings("check")
def check(
    *,
    command: Annotated[
        str | None, typer.Option("--check", metavar="CMD", help="Run this command instead of .ralph/check.")
    ] = None,
    trust_envrc: TrustEnvrc = False,
    written: flags.Written,
    as_json: Annotated[bool, typer.Option("--json", help="Print only one JSON object on stdout, at the end.")] = False,
) -> None:
    """Run the repository's check, as `ralph run` would.

    ralph runs .ralph/setup, if there is one, then .ralph/check, in the current repository.

    The settings, a trusted .envrc and the time limit apply, and no process is left running. ralph commits and keeps
    nothing.

    Exit codes: 0 green, 1 red or out of time, 2 no check or bad input, 129/130/143 stopped by a signal.
    """
    from ralph.system import environ
    from ralph.system.leash import LEASH, heed_leash

    heed_leash(environ.taken(LEASH))

    from ralph.run.check_command import carry_out

    raise typer.Exit(carry_out(command, written, trusting=trust_envrc, as_json=as_json))


@flags.settings("understand")
def understand(
    *,
    written: flags.Written,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Map the code base for later sessions.

    An agent reads the repository and writes .ralph/codebase-map.md, which every later session reads.

    It works in a throwaway clone with your uncommitted and untracked files; none of its other changes come back.

    Exit codes: 0 map written, 1 failed, 2 bad usage, 3 a bug in ralph, 6 blocked, 129/130/143 stopped by a signal.
    """
    from ralph.core.errors import UsageError
    from ralph.run.understand import SurveyFlags, understand_repo

    if quiet and verbose:
        raise UsageError("--quiet and --verbose cannot be combined", "use one of them")
    raise typer.Exit(understand_repo(SurveyFlags(as_json, quiet, verbose), written))


def transcript(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with an agent's raw output; - reads stdin.")],
    name: Annotated[
        str,
        typer.Option(
            "--transcript",
            metavar="NAME",
            help="The format: claude, codex, rtf1 or plain; auto detects it.",
            autocompletion=completion.choices("transcript"),
        ),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print events as NDJSON.")] = False,
) -> None:
    """Show an agent's raw output as ralph reads it.

    Unreadable lines become events, so the exit code is 0 for any content, and 2 if the file is missing.
    """
    from ralph.run.replay import retell

    retell(file, name, as_json=as_json)


@flags.settings("plan")
def plan(
    *,
    idea: Annotated[
        str | None, typer.Argument(metavar="[IDEA]", help="What you want, in your words; - reads stdin.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The goal file to write; goal.md by default.")
    ] = None,
    written: flags.Written,
    resume: Annotated[bool, typer.Option("--continue", help="Continue this repository's unfinished plan.")] = False,
    no_questions: Annotated[
        bool, typer.Option("--no-questions", help="Let the planner decide everything by itself.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Turn an idea into a goal.

    A planner reads the repository, asks what only you can decide, and proposes a goal with outcomes and acceptance
    criteria. If the repository has no check, it proposes one as well. ralph shows both and asks before it writes. It
    never overwrites a file.

    Exit codes: 0 the goal is written, 1 failed or not written, 2 bad usage, 3 a bug in ralph, 4 a limit was reached,
    6 blocked, 129/130/143 stopped by a signal.
    """
    from ralph.core.errors import UsageError
    from ralph.system import environ
    from ralph.system.leash import LEASH, heed_leash

    heed_leash(environ.taken(LEASH))

    from ralph.run.plan import PlanFlags, plan_goal

    if quiet and verbose:
        raise UsageError("--quiet and --verbose cannot be combined", "use one of them")
    given = PlanFlags(idea, output, resume, no_questions, yes, as_json, quiet, verbose)
    raise typer.Exit(plan_goal(given, written))


@flags.settings("pipe")
def pipe(
    *,
    stages: Annotated[list[Path], typer.Argument(metavar="STAGE.md...", help="Stage files, in order: one task each.")],
    written: flags.Written,
    allow_dirty: AllowDirty = False,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Run several tasks one after the other, each in a session.

    Each stage has its own prompt and, in its front matter, its own agent, model, tools, permission mode and limits. It
    knows the conversation of the earlier stages, and ends with a commit. Limits on the command line apply to all.

    Exit codes: 0 all stages are done, otherwise that of the first failure: 1 failed, 2 bad usage, 3 a bug in ralph, 4 a
    limit was reached, 6 blocked, 129/130/143 stopped by a signal.
    """
    from ralph.core.errors import UsageError
    from ralph.system import environ
    from ralph.system.leash import LEASH, heed_leash

    heed_leash(environ.taken(LEASH))

    from ralph.run.pipe import PipeFlags, run_pipe

    if quiet and verbose:
        raise UsageError("--quiet and --verbose cannot be combined", "use one of them")
    raise typer.Exit(run_pipe(PipeFlags(tuple(stages), allow_dirty, as_json, quiet, verbose), written))
