"""Start, feed, read and stop one child and its tree: the only place that knows of subprocesses, signals and threads."""

from ralph.process.child import Child
from ralph.process.guardian import Guardian, StartError
from ralph.process.others import is_running, running_in
from ralph.process.signals import SIGINT, Signals

__all__ = ["SIGINT", "Child", "Guardian", "Signals", "StartError", "is_running", "running_in"]
