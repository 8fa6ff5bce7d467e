"""Everything that was said between user, model and tools, as the next request tells it."""

from collections.abc import Mapping, Sequence

Content = Sequence[Mapping[str, object]]


class Dialogue:
    """A list of messages, begun by what the model should know beforehand."""

    def __init__(self, preamble: Sequence[str] = ()) -> None:
        self._messages: list[tuple[str, list[Mapping[str, object]]]] = []
        self._preamble = [{"type": "text", "text": text} for text in preamble]

    def hear_user(self, content: Content) -> None:
        """Add what the user or a tool said."""
        self._add("user", [*self._preamble, *content])
        self._preamble = []

    def hear_model(self, content: Content) -> None:
        """Add what the model said; a message without content never was one."""
        if content:
            self._add("assistant", content)

    def messages(self) -> list[Mapping[str, object]]:
        """All of it, for a request."""
        return [{"role": role, "content": list(content)} for role, content in self._messages]

    def _add(self, role: str, content: Content) -> None:
        # After an interrupt the user speaks twice in a row; to the API that is one message.
        if self._messages and self._messages[-1][0] == role:
            self._messages[-1][1].extend(content)
        else:
            self._messages.append((role, list(content)))
