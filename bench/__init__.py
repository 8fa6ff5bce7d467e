"""How fast and how small ralph is, as ratios against the bare machine and against a peer, all within one run."""
