"""Many goals over many clones: the queue, its worker, and the way to main."""
