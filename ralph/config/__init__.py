"""Settings, and the environment of an agent."""
