"""Getting ready: what `ralph init` proposes for a repository, and what `ralph doctor` finds on the machine."""
