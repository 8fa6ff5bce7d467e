"""Everything that `ralph run` does with one goal."""
