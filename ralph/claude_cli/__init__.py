"""`ralph-claude`: a stand-in for the `claude` command, with its own tool loop. A program of its own, beside `ralph`."""
