"""Start, feed, read and stop one child and its tree: the only place that knows of subprocesses and signals."""

from ralph.process.errands import Errands
from ralph.process.others import is_running, running_in
from ralph.process.starting import user_to_fork_for
from ralph.system.child import Child
from ralph.system.guardian import Guardian, StartError
from ralph.system.leash import LEASH, Leashed, heed_leash
from ralph.system.programs import Reply, ask, run_to_end
from ralph.system.signals import SIGINT, Signals, suspend

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
