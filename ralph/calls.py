"""The model's calls in a session, as the use that was told shows them, and which may end beyond a limit. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from ralph.core.events import ToolEnd, ToolStart, ToolStatus, Usage
from ralph.core.verdict import TOOL, Answer, read_answer


@dataclass(slots=True)
class Calls:
    """A fold over what a session says. A call is paid for once it has begun: whoever cuts it throws money away.

    An agent that tells its messages in pieces says when one begins and ends. Of others a larger prompt shows that
    there was one; when it ended, only what follows it shows.
    """

    made: int = 0
    in_progress: bool = False
    handed_in: Mapping[str, object] | None = None
    """The valid verdict that the last message handed in; the turn is about to end with it."""
    _by_tool: str = ""
    _answering: int = 0
    """The number of the call that may answer the plea; 0: none."""
    _in_pieces: bool = False
    _within: bool = True
    """The last call began within the limits."""
    _prompt_tokens: int = 0

    @property
    def may_end(self) -> bool:
        """Whether a limit on use must wait: at most one call goes beyond it, and that one is heard out."""
        is_paid = self._in_pieces and self.in_progress and self._within
        return is_paid or self.handed_in is not None or self.made <= self._answering > 0

    def expect_answer(self) -> None:
        """The plea was said: the one call that answers it may end, though it should begin beyond a limit."""
        self._answering = self.made + 1

    def hear_usage(self, usage: Usage, *, within: bool) -> None:
        """Take in what was used; `within`: before this, no limit was used up."""
        grown = (usage.prompt_tokens or 0) > self._prompt_tokens
        self._prompt_tokens = max(self._prompt_tokens, usage.prompt_tokens or 0)
        if usage.in_call is not None:
            self._in_pieces = True
            self._begin(within=within) if usage.in_call else self._end()
        elif not self._in_pieces and grown:
            self._begin(within=within)
        elif not self._in_pieces:
            self.in_progress = False

    def hear_tool(self, event: ToolStart | ToolEnd) -> None:
        if isinstance(event, ToolEnd):
            self.in_progress = self.in_progress and self._in_pieces
            if event.status is not ToolStatus.OK and event.id == self._by_tool:
                self.handed_in = None
        elif event.name != TOOL:  # it may follow the verdict in the same message, which stands
            self._answering = 0
        elif isinstance(read_answer(event.input), Answer):
            self.handed_in, self._by_tool = event.input, event.id

    def end_turn(self) -> None:
        self.in_progress, self.handed_in = False, None

    def _begin(self, *, within: bool) -> None:
        self.made += 1
        self.in_progress, self._within, self.handed_in = True, within, None

    def _end(self) -> None:
        """The message is whole: without a verdict in it, the plea remains unanswered."""
        self.in_progress = False
        if self.made >= self._answering and self.handed_in is None:
            self._answering = 0
