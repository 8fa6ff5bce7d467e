"""ralph holds fresh coding-agent sessions on a goal until the goal is proven done."""

__version__ = "0.1.0"
