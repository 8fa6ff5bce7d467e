"""`ralph`: its commands."""

from typing import NoReturn

from ralph.cli import check, config, run, status, steer, transcript, trust, understand
from ralph.cli.boundary import leave_with, program

_SUMMARY = "Hold fresh coding-agent sessions on a goal until it is proven done."

app = program("ralph", _SUMMARY)
app.command("run")(run.run)
app.command("status")(status.status)
app.command("tell", context_settings={"ignore_unknown_options": True})(steer.tell)  # it may begin with a dash
app.command("pause")(steer.pause)
app.command("resume")(steer.resume)
app.command("wake")(steer.wake)
app.command("stop")(steer.stop)
app.command("check")(check.check)
app.command("understand")(understand.understand)
app.command("transcript")(transcript.transcript)
app.command("trust")(trust.trust)
app.add_typer(config.app, name="config")


def main() -> NoReturn:
    """Run the command line, and leave with its exit code."""
    leave_with(app)
