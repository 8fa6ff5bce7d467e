"""For packages that bring an agent: what their runners are made of (entry points of the group `ralph.runners`)."""

from ralph.agents.base import AgentOptions, Launch, Request, Runner
from ralph.core.errors import BlockedError, RalphError
from ralph.core.verdict import PROMISE, Reply

__all__ = ["PROMISE", "AgentOptions", "BlockedError", "Launch", "RalphError", "Reply", "Request", "Runner"]
