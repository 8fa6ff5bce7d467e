"""Values and rules: nothing here reads, writes, or looks at a clock."""
