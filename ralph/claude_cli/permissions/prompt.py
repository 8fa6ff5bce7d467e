"""Asking somebody else whether a call may run, and reading the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ralph.claude_cli.desk import Desk
from ralph.core import ndjson

_REFUSED = "The permission prompt refused this call."


class PromptFault(Exception):
    """There is no usable answer; worded for the model."""


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """Whether a call may run, and how."""

    is_allowed: bool
    arguments: Mapping[str, object] | None = None
    """What takes the place of the call's own arguments; None: nothing."""

    message: str = ""
    """Why it may not."""

    interrupts: bool = False
    """The turn is to end."""


class PermissionPrompt(Protocol):
    """Who is asked about a call that no rule decides."""

    @property
    def name(self) -> str:
        """The tool that it is; the model does not get it."""
        ...

    def ask(self, tool: str, arguments: Mapping[str, object], desk: Desk) -> PromptAnswer:
        """Ask about one call; raise PromptFault."""
        ...


def read_answer(said: Mapping[str, object]) -> PromptAnswer:
    """Read an answer as claude's protocol has it; raise PromptFault for any other."""
    match said.get("behavior"):
        case "allow":
            changed = said.get("updatedInput")
            return PromptAnswer(True, ndjson.mapping(changed) if isinstance(changed, dict) else None)  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
        case "deny":
            message = ndjson.text(said.get("message")) or _REFUSED
            return PromptAnswer(False, message=message, interrupts=said.get("interrupt") is True)
        case _:
            raise PromptFault(
                'Permission prompt tool returned an invalid result: behavior is neither "allow" nor "deny".'
            )
