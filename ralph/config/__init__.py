"""What the user has set, and what an agent is given."""
