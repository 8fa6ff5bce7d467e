"""What the user sees of a queue: tables, lines, a live screen."""
