"""The commands: flags in, exit code out."""
