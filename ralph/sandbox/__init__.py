"""What agents, checks and set-up scripts may see and touch: policies, and bubblewrap, which enforces them."""
