"""`ralph-runs`: its commands. Many goals over many clones, merged to main."""

from typing import NoReturn

from ralph.cli.boundary import leave_with, program
from ralph.cli.runs import adding, clearing, logs, pausing, stats, steering, viewing, watching, working

_SUMMARY = "Work on many goals at once, each in a clone of its own, and merge what is proven."

app = program("ralph-runs", _SUMMARY)
app.command("run")(working.run)
app.command("work")(working.work)
app.command("watch")(watching.watch)
app.command("add")(adding.add)
app.command("queue")(steering.queue)
app.command("list")(viewing.list_)
app.command("show")(viewing.show)
app.command("comment", context_settings={"ignore_unknown_options": True})(steering.comment)  # it may begin with a dash
app.command("tell", context_settings={"ignore_unknown_options": True})(steering.tell)
app.command("retry")(steering.retry)
app.command("cancel")(steering.cancel)
app.command("wake")(steering.wake)
app.command("pause")(pausing.pause)
app.command("resume")(pausing.resume)
app.command("logs")(logs.logs)
app.command("stats")(stats.stats)
app.command("gc")(clearing.gc)


def main() -> NoReturn:
    """Run the command line, and leave with its exit code."""
    leave_with(app)
