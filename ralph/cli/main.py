"""`ralph`: its commands."""

from typing import NoReturn

from ralph.cli import config, control, run, transcript
from ralph.cli.config import trust
from ralph.cli.control import pause, resume, stop, tell, wake
from ralph.cli.program import leave_with, program
from ralph.cli.run import check, understand

_SUMMARY = "Hold fresh coding-agent sessions on a goal until it is proven done."

app = program("ralph", _SUMMARY)
app.command("run")(run.run)
app.command("status")(control.status)
app.command("tell", context_settings={"ignore_unknown_options": True})(tell)  # it may begin with a dash
app.command("pause")(pause)
app.command("resume")(resume)
app.command("wake")(wake)
app.command("stop")(stop)
app.command("check")(check)
app.command("understand")(understand)
app.command("transcript")(transcript.transcript)
app.command("trust")(trust)
app.add_typer(config.app, name="config")


def main() -> NoReturn:
    """Run the command line, and leave with its exit code."""
    leave_with(app)
