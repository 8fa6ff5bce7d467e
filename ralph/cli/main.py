"""`ralph`: its commands."""

from typing import NoReturn

from ralph.cli import ask, config, control, history, run, setup
from ralph.cli.program import command, leave_with, program

_SUMMARY = "Run your coding agent in a loop until your own check proves the goal is done."

app = program("ralph", _SUMMARY)
command(
    app,
    "run",
    run.run,
    "Start",
    "ralph run goal.md --max-cost 5",
    'ralph run -p "fix the flaky login test" --agent codex --duration 2h',
)
command(
    app,
    "plan",
    run.plan,
    "Start",
    'ralph plan "let users export their data as CSV" -o export.md',
    "ralph plan --continue --max-cost 2",
)
command(
    app,
    "pipe",
    run.pipe,
    "Start",
    "ralph pipe find.md fix.md summarize.md --max-cost 5",
    "ralph pipe stages/1-design.md stages/2-build.md --json",
)
command(app, "understand", run.understand, "Start", "ralph understand", "ralph understand --model opus --json")
command(
    app,
    "ask",
    ask.ask,
    "Start",
    'ralph ask "why is the build slow?" --allowed-tools Read,Bash',
    "git diff | ralph ask - --system 'Review this diff.' --json",
)
command(app, "status", control.status, "Watch", "ralph status", "ralph status fix-login --json")
command(
    app,
    "tell",
    control.tell,
    "Steer",
    'ralph tell "the tests need redis: docker compose up -d redis"',
    'ralph tell fix-login "leave the public API as it is"',
    takes_dashes=True,
)
command(app, "pause", control.pause, "Steer", "ralph pause", "ralph pause fix-login")
command(app, "resume", control.resume, "Steer", "ralph resume", "ralph resume fix-login")
command(app, "wake", control.wake, "Steer", "ralph wake", "ralph wake fix-login")
command(app, "stop", control.stop, "Steer", "ralph stop", "ralph stop fix-login")
command(app, "log", history.log, "Look back", "ralph log", "ralph log fix-login -i 2")
command(app, "diff", history.diff, "Look back", "ralph diff", "ralph diff fix-login -i 2 --json")
command(
    app,
    "transcript",
    run.transcript,
    "Look back",
    "ralph transcript .ralph/logs/claude/session.ndjson",
    "claude -p hello --output-format stream-json --verbose | ralph transcript -",
)
command(app, "init", setup.init, "Set up", "ralph init", "ralph init --yes")
command(app, "doctor", setup.doctor, "Set up", "ralph doctor", "ralph doctor --json")
command(app, "check", run.check, "Set up", "ralph check", 'ralph check --check "make test"')
command(app, "config", config.app, "Set up", "ralph config", "ralph config set max_cost 5")
command(app, "trust", config.trust, "Set up", "ralph trust", "ralph trust ../shop --forget")


def main() -> NoReturn:
    """Run the command line, and leave with its exit code."""
    leave_with(app)
