"""`python -m ralph` is the `ralph` command."""

from ralph.cli.main import main

main()
