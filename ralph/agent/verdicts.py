"""StructuredOutput: the tool by which a session hands in what `--json-schema` asks for. One nudge, so many tries."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ralph.agent.tools.outcomes import failed
from ralph.claude_cli.desk import ToolResult
from ralph.claude_cli.models.base import ToolOffer
from ralph.claude_cli.schemas import violations

TOOL = "StructuredOutput"
TRIES = 5
NUDGE = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this tool now."
)

_ACCEPTED = "Structured output provided successfully"
_DESCRIPTION = (
    "Use this tool to return your final response in the requested structured format. You MUST call this tool exactly "
    "once at the end of your response to provide the structured output."
)


@dataclass(slots=True)
class Verdict:
    """What one turn is to hand in, and how that went so far."""

    schema: Mapping[str, object]
    most: int = TRIES
    tries: int = 0
    fault: str = ""
    nudged: bool = False
    accepted: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    """What was handed in; the last one stands (2.1.325, two calls in one message)."""

    @property
    def is_given_up(self) -> bool:
        return not self.accepted and self.tries >= self.most

    def offer(self) -> ToolOffer:
        return ToolOffer(TOOL, _DESCRIPTION, self.schema)

    def take(self, arguments: Mapping[str, object]) -> ToolResult:
        """Accept what keeps to the schema; say what is wrong with anything else."""
        self.tries += 1
        if faults := violations(self.schema, arguments):
            self.fault = f"Output does not match required schema: {', '.join(faults)}"
            return failed(self.fault)
        self.accepted.append(arguments)
        return ToolResult(_ACCEPTED, detail=_ACCEPTED)
