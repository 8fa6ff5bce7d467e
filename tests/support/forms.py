"""How long the long tests are: their short form belongs to every `make check`, the long one to `make soak` and `sweep`.

Import it at the top of a module: it looks at the environment once, before the guards of conftest.py clear RALPH_*.
"""

import os

ROUNDS = int(os.environ.get("RALPH_ROUNDS") or 1)
"""Rounds of hostile agents against every ending (`make soak`: 100); of races for one main, five of them at most."""

POINTS = int(os.environ.get("RALPH_SWEEP") or 20)
"""Moments at which ralph is killed (`make sweep`: 200)."""
