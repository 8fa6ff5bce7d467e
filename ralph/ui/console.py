"""Events as lines a person can read, in any terminal, file or pipe."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from ralph.events import (
    ApiRetry,
    CheckEnded,
    Event,
    IterationEnded,
    IterationStarted,
    Meta,
    RateLimited,
    RunEnded,
    RunStarted,
    SessionEnded,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
    Usage,
    Waiting,
)
from ralph.quantities import format_duration, format_money, timestamp
from ralph.ui.outlet import Outlet
from ralph.ui.sanitise import one_line, visible
from ralph.verdict import TOOL

_LABEL = 9
_FAILED_LINES = 8
_TELLING = ("command", "file_path", "path", "pattern", "skill", "summary")
"""Tool parameters that say most about a call."""


class Detail(IntEnum):
    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Console:
    """A screen of plain lines: `label  text`, the label saying who speaks."""

    def __init__(self, outlet: Outlet, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        """Write to `outlet`; paths below `root` are shown relative to it."""
        self._outlet = outlet
        self._detail = detail
        self._root = root
        self._tools: dict[str, str] = {}
        self._output: dict[str, str] = {}

    def __call__(self, events: Sequence[Event], _at: str, _lines: bytes) -> None:
        lines = [line for event in events for line in self.lines(event)]
        if self._detail > Detail.QUIET and lines:
            self._write(lines)

    def say(self, label: str, text: str) -> None:
        """Write a line that is no event's: header, recovery, farewell."""
        self._write(_labelled(label, text))

    def _write(self, lines: list[str]) -> None:
        width = self._outlet.width
        folded = lines if width is None else [part for line in lines for part in _folded(line, width)]
        self._outlet.write("".join(f"{line}\n" for line in folded))

    def lines(self, event: Event) -> list[str]:
        """What to show of an event."""
        match event:
            case IterationStarted(iteration=number):
                return ["", f"── iteration {number} " + "─" * 40]
            case SessionStarted():
                return _labelled("session", f"{event.model} · agent version {event.version}")
            case Text():
                return self._text(event)
            case ToolStart():
                self._tools[event.id] = event.name
                if event.name == TOOL and not self._verbose:
                    return []  # the summary follows
                return _labelled(one_line(event.name, 20), self._brief(event.input))
            case ToolOutput():
                self._output[event.id] = self._output.get(event.id, "") + event.text + "\n"
                return []
            case ToolEnd():
                return self._tool_end(event)
            case RateLimited():
                return [] if event.status == "allowed" else _labelled("quota", _quota(event))
            case ApiRetry():
                return _labelled(
                    "retry", f"the API answered {event.status or 'nothing'}; the agent tries again ({event.attempt})"
                )
            case TurnEnded():
                return _labelled("error", one_line(event.text or event.subtype, 300)) if event.is_error else []
            case IterationEnded():
                return self._iteration_ended(event)
            case CheckEnded():
                return self._check_ended(event)
            case Waiting():
                return _labelled("waiting", f"until {timestamp(event.until)}: {one_line(event.reason, 300)}")
            case Usage() | Meta() | SessionEnded() | RunStarted() | RunEnded():
                return []

    @property
    def _verbose(self) -> bool:
        return self._detail is Detail.VERBOSE

    def _text(self, event: Text) -> list[str]:
        match event.tag:
            case Tag.AI:
                return _labelled("agent", event.text)
            case Tag.THINK:
                return _labelled("thinks", event.text if self._verbose else one_line(event.text, 100))
            case Tag.PROMPT:
                return _labelled("told", event.text if self._verbose else one_line(event.text, 160))
            case Tag.SYS:
                return _labelled("ralph", event.text)
            case Tag.TOOL | Tag.USER:
                return _labelled("tool" if event.tag is Tag.TOOL else "user", event.text) if self._verbose else []

    def _tool_end(self, event: ToolEnd) -> list[str]:
        output = self._output.pop(event.id, "")
        name = self._tools.pop(event.id, "tool")
        if event.status is ToolStatus.FAIL:
            lines = output.strip().splitlines()
            kept = lines if self._verbose else [one_line(line, 200) for line in lines[:_FAILED_LINES]]
            return _labelled("", "\n".join([f"{one_line(name, 40)} failed:", *kept]))
        return _labelled("", output) if self._verbose and output.strip() else []

    def _brief(self, tool_input: Mapping[str, object]) -> str:
        named = [str(tool_input[key]) for key in _TELLING if key in tool_input]
        said = " ".join(named) or ", ".join(f"{key}={value}" for key, value in tool_input.items())
        return one_line(said.replace(f"{self._root}/", "") if self._root else said, 400 if self._verbose else 100)

    def _iteration_ended(self, event: IterationEnded) -> list[str]:
        facts = [f"commit {event.commit[:10]}"]
        if event.cost_usd is not None:
            facts.append(format_money(event.cost_usd))
        if event.context_pct is not None:
            facts.append(f"context {event.context_pct:.0f} %")
        said = "claims DONE" if event.verdict == "DONE" else event.summary
        return [*_labelled("summary", said), *_labelled("", " · ".join(facts))]

    def _check_ended(self, event: CheckEnded) -> list[str]:
        took = format_duration(event.seconds)
        if event.exit_code == 0:
            return _labelled("check", f"green in {took}")
        why = "ran out of time" if event.exit_code is None else _status(event.exit_code)
        tail = event.output.strip().splitlines()[-_FAILED_LINES:] or ["(it printed nothing)"]
        return _labelled("check", "\n".join([f"red ({why}) in {took}: DONE is withdrawn", *tail]))


def _folded(line: str, width: int) -> list[str]:
    """Fold a line at the terminal's edge, between words, keeping the column of labels free."""
    if len(line) <= width:
        return [line]
    words = line.lstrip()
    indent = line[: len(line) - len(words)]
    below = indent or " " * (_LABEL + 2)
    wrapped = textwrap.wrap(
        words, max(width, 40), initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
    )
    return wrapped or [""]


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = visible(text).rstrip().expandtabs(4).splitlines() or [""]
    margin = " " * (_LABEL + 2)
    return [f"{visible(label):<{_LABEL}}  {first}".rstrip(), *(f"{margin}{line}".rstrip() for line in rest)]


def _status(exit_code: int) -> str:
    return f"exit {exit_code}" if exit_code >= 0 else f"killed by signal {-exit_code}"


def _quota(event: RateLimited) -> str:
    when = f", resets {timestamp(event.resets_at)}" if event.resets_at else ""
    return f"{one_line(event.status)} ({one_line(event.kind)}{when})"


def json_screen(outlet: Outlet) -> Callable[[Sequence[Event], str, bytes], None]:
    """A screen for programs: every event as the line that was journaled."""

    def show(_events: Sequence[Event], _at: str, lines: bytes) -> None:
        outlet.write_bytes(lines)

    return show
