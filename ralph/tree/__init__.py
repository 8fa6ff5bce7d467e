"""A whole work tree as it stood, and the way back to it: `snapshot` is the door."""
