"""`python -m ralph.cli.runs` is `ralph-runs`."""

from ralph.cli.runs import main

main()
