"""What the scheduler of a queue worker and the threads of its goals share."""

from dataclasses import dataclass

from ralph.batch.gate import Gate
from ralph.queue.budget import Purse
from ralph.queue.engine import Engine
from ralph.queue.paths import Premises
from ralph.queue.repos.prefetch import Repositories
from ralph.queue.store import Store
from ralph.queue.worker_state import Controls, Rules


@dataclass(frozen=True, slots=True)
class WorkerKit:
    """Built once, where a queue worker is put together."""

    store: Store
    engine: Engine
    premises: Premises
    repositories: Repositories
    gate: Gate
    controls: Controls
    rules: Rules
    purse: Purse
