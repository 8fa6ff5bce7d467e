"""`ralph-runs`: its commands. Many goals in many clones, merged to main."""

from typing import NoReturn

from ralph.cli import queue_add, queue_control, queue_history, queue_show, queue_stats, queue_work
from ralph.cli.program import command, leave_with, program

_SUMMARY = "Work on many goals at once, each in its own clone, and merge proven work."

app = program("ralph-runs", _SUMMARY)
command(
    app,
    "run",
    queue_work.run,
    "Start",
    "ralph-runs run goals/ --merge pr --max 4 --max-cost 20",
    "ralph-runs run batch.toml --repo https://example.com/shop.git --dry-run",
)
command(app, "work", queue_work.work, "Start", "ralph-runs work", "ralph-runs work --max 4 --max-time 8h")
command(
    app,
    "add",
    queue_add.add,
    "Start",
    "ralph-runs add goals/ --queue",
    "ralph-runs add fix-login.md --after set-up --priority 5",
)
command(app, "queue", queue_control.queue, "Start", "ralph-runs queue g7", "ralph-runs queue fix-login set-up")
command(app, "watch", queue_work.watch, "Watch", "ralph-runs watch", "ralph-runs watch --db postgresql://db/queue")
command(app, "list", queue_show.list_, "Watch", "ralph-runs list --state stuck", "ralph-runs list --json")
command(app, "show", queue_show.show, "Watch", "ralph-runs show g7", "ralph-runs show fix-login --json")
command(
    app,
    "comment",
    queue_control.comment,
    "Steer",
    'ralph-runs comment g7 "use the old form; it is in forms/"',
    'ralph-runs comment fix-login "- and leave the API as it is"',
    takes_dashes=True,
)
command(
    app,
    "tell",
    queue_control.tell,
    "Steer",
    'ralph-runs tell g7 "the tests need redis"',
    'ralph-runs tell fix-login "skip the slow tests" --json',
    takes_dashes=True,
)
command(app, "retry", queue_control.retry, "Steer", "ralph-runs retry g7", "ralph-runs retry g7 g9 fix-login")
command(app, "cancel", queue_control.cancel, "Steer", "ralph-runs cancel g7", "ralph-runs cancel g7 g9 --json")
command(app, "undo", queue_history.undo, "Steer", "ralph-runs undo g7", "ralph-runs undo fix-login --json")
command(app, "wake", queue_control.wake, "Steer", "ralph-runs wake g7", "ralph-runs wake g7 g9")
command(app, "pause", queue_control.pause, "Steer", "ralph-runs pause", "ralph-runs pause --json")
command(app, "resume", queue_control.resume, "Steer", "ralph-runs resume", "ralph-runs resume --json")
command(app, "log", queue_history.log, "Look back", "ralph-runs log g7", "ralph-runs log fix-login -f")
command(app, "diff", queue_history.diff, "Look back", "ralph-runs diff g7", "ralph-runs diff fix-login -i 2 --json")
app.command("logs", hidden=True)(queue_show.logs)  # what `log -f` was called before
command(app, "stats", queue_stats.stats, "Look back", "ralph-runs stats", "ralph-runs stats --json")
command(app, "gc", queue_stats.gc, "Set up", "ralph-runs gc --delete", "ralph-runs gc --force g7 --dry-run")


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    leave_with(app)


if __name__ == "__main__":  # `python -m ralph.cli.runs` is `ralph-runs`
    main()
