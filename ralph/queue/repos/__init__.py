"""The repositories that goals work on: the mirrors, what goes to and comes from their remotes."""
