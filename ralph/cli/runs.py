"""`ralph-runs`: its commands. Many goals over many clones, merged to main."""

from typing import NoReturn

from ralph.cli import queue_add, queue_control, queue_show, queue_stats, queue_work
from ralph.cli.program import leave_with, program
from ralph.cli.queue_control import pause, resume
from ralph.cli.queue_show import logs
from ralph.cli.queue_stats import stats
from ralph.cli.queue_work import watch

_SUMMARY = "Work on many goals at once, each in a clone of its own, and merge what is proven."

app = program("ralph-runs", _SUMMARY)
app.command("run")(queue_work.run)
app.command("work")(queue_work.work)
app.command("watch")(watch)
app.command("add")(queue_add.add)
app.command("queue")(queue_control.queue)
app.command("list")(queue_show.list_)
app.command("show")(queue_show.show)
app.command("comment", context_settings={"ignore_unknown_options": True})(
    queue_control.comment
)  # it may begin with a dash
app.command("tell", context_settings={"ignore_unknown_options": True})(queue_control.tell)
app.command("retry")(queue_control.retry)
app.command("cancel")(queue_control.cancel)
app.command("wake")(queue_control.wake)
app.command("pause")(pause)
app.command("resume")(resume)
app.command("logs")(logs)
app.command("stats")(stats)
app.command("gc")(queue_stats.gc)


def main() -> NoReturn:
    """Run the command line, and leave with its exit code."""
    leave_with(app)


if __name__ == "__main__":  # `python -m ralph.cli.runs` is `ralph-runs`
    main()
