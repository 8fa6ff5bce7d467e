"""Tools that were started and not ended."""

from ralph.agents.transcript import OpenTools
from ralph.core.events import ToolEnd, ToolStatus


def test_what_is_left_open_ends_unknown_in_its_order() -> None:
    tools = OpenTools()
    for name in ("b", "a", "c"):
        assert tools.start(name) == []
    assert tools.end("a")
    assert tools.close() == [ToolEnd("b", ToolStatus.UNKNOWN), ToolEnd("c", ToolStatus.UNKNOWN)]
    assert tools.close() == []


def test_only_what_is_open_can_end() -> None:
    tools = OpenTools()
    tools.start("a")
    assert "a" in tools
    assert tools.end("a")
    assert not tools.end("a")


def test_an_agent_that_never_ends_its_tools_does_not_fill_the_memory() -> None:
    tools = OpenTools()
    ended = [event for number in range(5000) for event in tools.start(str(number))]
    assert ended[0] == ToolEnd("0", ToolStatus.UNKNOWN)
    assert len(ended) == 4000
    assert len(tools.close()) == 1000
