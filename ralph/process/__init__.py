"""Start, feed, read and stop one child and its tree: the only place that knows of subprocesses and signals."""

from ralph.process.asking import Reply, ask, run_to_end
from ralph.process.child import Child
from ralph.process.errands import Errands
from ralph.process.guardian import Guardian, StartError
from ralph.process.leash import LEASH, Leashed, heed_leash
from ralph.process.others import is_running, running_in
from ralph.process.signals import SIGINT, Signals, suspend
from ralph.process.starting import user_to_fork_for

__all__ = [
    "LEASH",
    "SIGINT",
    "Child",
    "Errands",
    "Guardian",
    "Leashed",
    "Reply",
    "Signals",
    "StartError",
    "ask",
    "heed_leash",
    "is_running",
    "run_to_end",
    "running_in",
    "suspend",
    "user_to_fork_for",
]
