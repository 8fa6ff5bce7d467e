"""The dashboard of a queue: `board` is what is known, `view` what is looked at, `compose` what both come to as lines.

All of that is pure, and so is `pressing`: what a key does to a view. `source` reads the queue, `transcript` a goal's
run, `performing` does what a key asks for; `drawing` brings them together, beside a worker in a thread of its own
(`showing`), and never waits for the database itself (`clerk`).
"""
