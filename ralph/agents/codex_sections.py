"""The sections of the plain output of `codex exec`, each with its own reader; `codex_text` finds where each begins."""

import re
from dataclasses import dataclass, field
from typing import Protocol

from ralph.agents.transcript import OpenTools, spoken
from ralph.core.events import (
    MOST_TOKENS,
    Event,
    Meta,
    SessionStarted,
    Tag,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
)

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST_HELD = 65_536
"""Characters of a prompt, a command or a message that are held at a time."""

_COMMAND_END = re.compile(r"(.*) in /[^\s;]*", re.DOTALL)
_OUTCOME = re.compile(r" (?:(succeeded)|(exited -?\d{1,10}|declined)|in progress)(?: in (\d{1,15})ms)?:")
_MOST_BLANKS = 100
_PATCHED = {"completed": ToolStatus.OK, "failed": ToolStatus.FAIL, "declined": ToolStatus.FAIL}
_MOST_PATHS = 1000
NUMBER = re.compile(r"\d{1,3}(?:,\d{3}){0,4}|\d{1,15}")


def uncoloured(line: str) -> str:
    return _COLOUR.sub("", line)


@dataclass(slots=True)
class CodexSession:
    """What outlives a section."""

    coloured: bool = False
    introduced: bool = False
    calls: int = 0
    open_tools: OpenTools = field(default_factory=OpenTools)
    total_tokens: int = 0
    message: list[str] = field(default_factory=list[str])
    """The last message, line by line; none if it was too long to hold."""


class Section(Protocol):
    """Takes in the lines below a title."""

    def may_hold(self, remark: str) -> bool:
        """Whether a line that reads like a remark of codex, or is dimmed like one, can be one here."""
        ...

    @property
    def successor(self) -> "Section | None":
        """What follows without a title, once this has ended by itself."""
        ...

    def may_end_at(self, title: str) -> bool:
        """Whether a line that reads like this title can be one here."""
        ...

    def read(self, line: str) -> list[Event]: ...

    def close(self) -> list[Event]: ...


class _Open:
    """A section of prose, which ends at any title."""

    successor: Section | None = None

    def may_hold(self, remark: str) -> bool:
        return bool(remark)

    def may_end_at(self, title: str) -> bool:
        return bool(title)

    def close(self) -> list[Event]:
        return []


class Outside(_Open):
    """Lines that belong to no section: remarks of codex. After a header the prompt is due."""

    def __init__(self, *, prompt_due: bool = False) -> None:
        self.prompt_due = prompt_due

    def read(self, line: str) -> list[Event]:
        return spoken(Tag.SYS, uncoloured(line))


class PromptSection(_Open):
    """The prompt, reported as one text instead of line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def read(self, line: str) -> list[Event]:
        self._lines.append(line)
        self._size += len(line) + 1
        return self.close() if self._size > _MOST_HELD else []

    def close(self) -> list[Event]:
        told = "\n".join(self._lines).rstrip()
        self._lines, self._size = [], 0
        return spoken(Tag.PROMPT, told)


class Thought(_Open):
    def read(self, line: str) -> list[Event]:
        return spoken(Tag.THINK, uncoloured(line))


class MessageSection(_Open):
    """What the agent says, line by line as it comes."""

    def __init__(self, session: CodexSession) -> None:
        self._lines = session.message = list[str]()
        self._size = 0

    def read(self, line: str) -> list[Event]:
        self._size += len(line)
        if self._size > _MOST_HELD:
            self._lines.clear()
        elif line.strip():
            self._lines.append(line)
        return spoken(Tag.AI, line)


class _Closed:
    """A section in which neither title nor remark can stand."""

    def __init__(self, session: CodexSession) -> None:
        self._session = session
        self.successor: Section | None = None

    def may_hold(self, remark: str) -> bool:
        return not remark

    def may_end_at(self, title: str) -> bool:
        return not title

    def close(self) -> list[Event]:
        return []


class Header(_Closed):
    """The settings between two rules. Whether they are coloured tells whether titles are."""

    def __init__(self, session: CodexSession, version: str) -> None:
        super().__init__(session)
        self._facts = {"version": version[:100]}
        self._rules = self._lines = 0
        self._told = False
        session.coloured = False

    def read(self, line: str) -> list[Event]:
        words = uncoloured(line)
        self._session.coloured = self._session.coloured or line != words
        self._lines += 1
        self._rules += words == "--------"
        name, colon, value = words.partition(":")
        if colon:
            self._facts[name[:100]] = value.strip()[:1000]
        if self._rules < 2 and self._lines < 100:
            return []
        self.successor = Outside(prompt_due=True)
        return self.close()

    def close(self) -> list[Event]:
        if self._told:
            return []
        self._told = True
        facts = self._facts
        if self._session.introduced:
            return [Meta({"codex": facts})]
        self._session.introduced = True
        started = SessionStarted(
            session_id=facts.get("session id", ""),
            model=facts.get("model", ""),
            version=facts["version"],
            tools=(),
            permission_mode=facts.get("approval", ""),
        )
        return [Meta({"codex": facts}), started]


class CommandSection:
    """A command, of however many lines; how it ended; its output. Tools have no name here but their number."""

    successor: Section | None = None

    def __init__(self, session: CodexSession) -> None:
        self._session = session
        self._lines: list[str] = []
        self._size = 0
        self._tool = ""
        self._outcome: ToolEnd | None = None
        self._printed = False
        self._blanks = 0

    def may_hold(self, remark: str) -> bool:
        """Compilers warn, too: without colours only an error, after the blank line, is codex's."""
        return bool(self._tool) and (self._session.coloured or (self._blanks > 0 and remark.startswith("ERROR: ")))

    def may_end_at(self, title: str) -> bool:
        """A tool prints what it likes; mostly a blank line follows it."""
        return bool(self._tool) and (self._session.coloured or self._may_be_over or title == "exec")

    def read(self, line: str) -> list[Event]:
        words = uncoloured(line)
        outcome = _OUTCOME.fullmatch(words)
        if outcome is not None and self._awaits_outcome:
            return [*self._start(), *self._end(), *self._end_with(outcome)]
        if self._tool:
            return self._output(line)
        self._lines.append(words)
        self._size += len(words) + 1
        # The line that ends with the directory it runs in is the command's last.
        return self._start() if _COMMAND_END.fullmatch(words) or self._size > _MOST_HELD else []

    def close(self) -> list[Event]:
        return [*self._start(), *self._end()]

    @property
    def _may_be_over(self) -> bool:
        return self._blanks > 0 or not self._printed

    @property
    def _awaits_outcome(self) -> bool:
        """Commands that ran side by side end one after the other; which is which is not said."""
        return self._outcome is None or (self._may_be_over and bool(self._session.open_tools.latest))

    def _start(self) -> list[Event]:
        if self._tool:
            return []
        self._session.calls += 1
        self._tool = f"exec-{self._session.calls}"
        written = "\n".join(self._lines)
        ending = _COMMAND_END.fullmatch(written)
        start = ToolStart(self._tool, "shell", {"command": written if ending is None else ending[1]})
        return [*self._session.open_tools.start(self._tool), start]

    def _end_with(self, outcome: re.Match[str]) -> list[Event]:
        self._tool = self._session.open_tools.latest or self._tool
        self._session.open_tools.end(self._tool)
        status = ToolStatus.OK if outcome[1] else ToolStatus.FAIL if outcome[2] else ToolStatus.UNKNOWN
        self._outcome = ToolEnd(self._tool, status, int(outcome[3]) if outcome[3] else None)
        self._printed, self._blanks = False, 0
        return []

    def _output(self, line: str) -> list[Event]:
        if not line.strip():
            self._blanks += 1
            return []
        gap = "\n" * min(self._blanks, _MOST_BLANKS)
        self._printed, self._blanks = True, 0
        return [ToolOutput(self._tool, gap + line)]

    def _end(self) -> list[Event]:
        ended, self._outcome = self._outcome, None
        return [] if ended is None else [ended]


class Patch:
    """A change of files: how it ended, which files, and what the turn has changed so far, as a diff.

    No line of a diff reads like a title, so any title ends it.
    """

    successor: Section | None = None

    def __init__(self, session: CodexSession) -> None:
        self._session = session
        self._status: ToolStatus | None = None
        self._paths: list[str] = []
        self._tool = ""

    def may_hold(self, remark: str) -> bool:
        return not remark.startswith("/")

    def may_end_at(self, title: str) -> bool:
        return bool(title)

    def read(self, line: str) -> list[Event]:
        words = uncoloured(line)
        if self._status is None and words.startswith("patch: "):
            self._status = _PATCHED.get(words.removeprefix("patch: "), ToolStatus.UNKNOWN)
        elif words.startswith("/") and not self._tool and len(self._paths) < _MOST_PATHS:
            self._paths.append(words)
        elif words:
            return [*self._start(), ToolOutput(self._tool, line)]
        return []

    def close(self) -> list[Event]:
        started = self._start()
        if self._status is None or not self._session.open_tools.end(self._tool):
            return started
        return [*started, ToolEnd(self._tool, self._status)]

    def _start(self) -> list[Event]:
        if self._tool:
            return []
        self._session.calls += 1
        self._tool = f"patch-{self._session.calls}"
        changed = {"path": ", ".join(self._paths), "changes": [{"path": path} for path in self._paths]}
        start = ToolStart(self._tool, "edit", changed)
        return [*self._session.open_tools.start(self._tool), start]


class TokensSection(_Closed):
    """The one figure that codex tells people: what was not cached, and the answers; less than its JSON counts."""

    def read(self, line: str) -> list[Event]:
        self.successor = EndSection(self._session)
        words = uncoloured(line).strip()
        if not NUMBER.fullmatch(words) or (told := int(words.replace(",", ""))) > MOST_TOKENS:
            return spoken(Tag.SYS, words)
        self._session.total_tokens = max(self._session.total_tokens, told)
        return [Usage(total_tokens=self._session.total_tokens)]


class EndSection(_Closed):
    """Reads what follows the last section: the last message again, from stdout. Reports only differences."""

    def __init__(self, session: CodexSession) -> None:
        super().__init__(session)
        self._expected = session.message
        self._repeated = 0
        self._differs = not session.message

    def read(self, line: str) -> list[Event]:
        if not line.strip():
            return []
        if self._differs or self._repeated == len(self._expected):
            return spoken(Tag.AI, line)
        if line == self._expected[self._repeated]:
            self._repeated += 1
            return []
        self._differs = True
        return [*self._repetition(), *spoken(Tag.AI, line)]

    def close(self) -> list[Event]:
        if self._differs or self._repeated == len(self._expected):
            return []
        self._differs = True
        return self._repetition()

    def _repetition(self) -> list[Event]:
        """Return lines that looked like a repetition and were not."""
        return [event for line in self._expected[: self._repeated] for event in spoken(Tag.AI, line)]
