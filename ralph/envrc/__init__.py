"""A repository's `.envrc`: what it reads, what direnv makes of it, and what of that an agent and a check are given."""
