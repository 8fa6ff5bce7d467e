"""`ralph understand`: flags in, a map of the code base, an exit code out."""

import typer

from ralph.cli import flags


def understand(
    agent: flags.Agent = None,
    agent_cmd: flags.AgentCmd = None,
    transcript: flags.Transcript = None,
    model: flags.Model = None,
    reasoning: flags.Reasoning = None,
    iteration_timeout: flags.IterationTimeout = None,
    idle_timeout: flags.IdleTimeout = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Let a scout read the repository and write .ralph/codebase-map.md, which later workers are given.

    The scout works in a throwaway clone with your uncommitted and untracked files: nothing it changes there comes back.

    Exit codes: 0 the map is written, 1 failed, 2 bad usage, 3 a bug in ralph, 6 blocked, 129/130/143 stopped by a
    signal.
    """
    from ralph.core.errors import UsageError
    from ralph.run.understand import SurveyFlags, Surveying
    from ralph.ui.render import Detail

    if quiet and verbose:
        raise UsageError("--quiet and --verbose contradict each other", "choose one of them")
    written = {
        "agent": agent, "agent_cmd": agent_cmd, "transcript": transcript, "model": model, "reasoning": reasoning,
        "iteration_timeout": iteration_timeout, "idle_timeout": idle_timeout,
    }  # fmt: skip
    detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL
    asked = {name: value for name, value in written.items() if value is not None}
    raise typer.Exit(Surveying(SurveyFlags(as_json, detail), asked).carry_out())
