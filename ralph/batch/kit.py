"""What the scheduler of a queue worker and the threads of its goals share."""

from dataclasses import dataclass

from ralph.batch.controls import Controls, Rules
from ralph.batch.engine import Engine
from ralph.batch.gate import Gate
from ralph.batch.premises import Premises
from ralph.batch.purse import Purse
from ralph.batch.repositories import Repositories
from ralph.batch.store import Store


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
