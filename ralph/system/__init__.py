"""The machine: processes, signals, files, the environment, the clock."""
