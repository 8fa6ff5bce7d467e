"""What a person sees of a queue: tables, lines, a live screen."""
