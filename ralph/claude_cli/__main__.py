"""`python -m ralph.claude_cli` is `ralph-claude`."""

from ralph.claude_cli.main import main

main()
