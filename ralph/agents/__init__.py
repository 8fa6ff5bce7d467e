"""Agents: how to start each one, and how its output becomes events. Nothing here touches the machine."""
