"""`python -m ralph.agent` is `ralph-claude`."""

from ralph.agent.main import main

main()
