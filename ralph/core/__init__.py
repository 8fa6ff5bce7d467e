"""Values and rules without input, output or clock."""
