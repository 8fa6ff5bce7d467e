"""What the agent may do: rules, commands that do no harm, and the decision."""
