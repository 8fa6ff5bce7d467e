"""Many goals: the queue, its worker, the merges."""
