"""What a run keeps on disk; `ralph run` writes it, and the queue reads it, too."""
