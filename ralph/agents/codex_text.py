"""The plain output of `codex exec`, read into ralph's events: a header, then sections under one-word titles.

Written for the output of 0.163.0 and 0.166.0 on stderr; the last message is on stdout, and follows where a log has
both. Prefer `--json`: it tells more and is unambiguous.

Nothing in this output marks the end of a section. With colours, titles are known by their colour. Without, a line
counts as a title only if the line below fits it, and in a tool's output only after the blank line that ends most
outputs. A prompt with the line `codex` above other text looks the same as codex speaking.
"""

import re
from collections.abc import Callable, Mapping

from ralph.agents.codex_sections import (
    NUMBER,
    CodexSession,
    CommandSection,
    EndSection,
    Header,
    MessageSection,
    Outside,
    Patch,
    PromptSection,
    Section,
    Thought,
    TokensSection,
    uncoloured,
)
from ralph.agents.transcript import spoken
from ralph.core.events import Event, Tag

_BANNER = re.compile(r"OpenAI Codex v(\S+)")
_NOTICE = re.compile(r"(?:warning|WARNING|ERROR|deprecated): ")
_COMMAND = re.compile(r"/|.* in /|\w*sh -l?c ")
_DIM = "\x1b[2m"

_SECTIONS: Mapping[str, Callable[[CodexSession], Section]] = {
    "codex": MessageSection,
    "thinking": lambda _: Thought(),
    "exec": CommandSection,
    "apply patch": Patch,
    "tokens used": TokensSection,
}


def is_banner(line: str) -> bool:
    """Tell the line that codex's output for people begins with."""
    return _BANNER.match(uncoloured(line)) is not None


class CodexHuman:
    """One session's output, with or without colours; of a resumed one, all outputs in turn."""

    def __init__(self) -> None:
        self._session = CodexSession()
        self._section: Section = Outside()
        self._title = ""
        self._after_notice = False

    def feed(self, line: str) -> list[Event]:
        line = line.rstrip("\r")
        words = uncoloured(line)
        if isinstance(self._section, Outside | EndSection) and (banner := _BANNER.match(words)):
            return [*self.flush(), *self._enter(Header(self._session, banner[1]))]
        events = self._judge_title(words)
        if not self._is_title(line, words):
            return [*events, *self._read(line, words)]
        if words == "user":
            return [*events, *self._enter(PromptSection())]
        if self._session.coloured:
            return [*events, *self._enter(_SECTIONS[words](self._session))]
        self._title = words
        return events

    def flush(self) -> list[Event]:
        """Close what the stream left open."""
        return [*self._judge_title(""), *self._enter(Outside()), *self._session.open_tools.close()]

    def _is_title(self, line: str, words: str) -> bool:
        if words == "user":
            return isinstance(self._section, Outside) and self._section.prompt_due
        if words not in _SECTIONS or not self._section.may_end_at(words):
            return False
        return line != words if self._session.coloured else True

    def _judge_title(self, below: str) -> list[Event]:
        """Without colours, the line below tells whether a line that reads like a title is one."""
        title, self._title = self._title, ""
        if not title:
            return []
        fits = {
            "exec": _COMMAND.match(below),
            "apply patch": below.startswith("patch: "),
            "tokens used": NUMBER.fullmatch(below.strip()),
        }
        if fits.get(title, below.strip()):
            return self._enter(_SECTIONS[title](self._session))
        return self._read(title, title)

    def _enter(self, section: Section) -> list[Event]:
        events = self._section.close()
        self._section = section
        self._after_notice = False
        return events

    def _read(self, line: str, words: str) -> list[Event]:
        if self._section.may_hold(words):
            if self._is_notice(line, words):
                return self._notice(words)
            if self._is_thought(line, words):
                return self._thought(words)
        self._after_notice = self._after_notice and not words.strip()
        events = self._section.read(line)
        if self._section.successor is not None:
            self._section = self._section.successor
        return events

    def _is_notice(self, line: str, words: str) -> bool:
        return _NOTICE.match(words) is not None and (line != words or not self._session.coloured)

    def _notice(self, words: str) -> list[Event]:
        """A remark of codex. It ends no prompt, which may hold such a line itself; a tool has ended before it."""
        is_tool = isinstance(self._section, CommandSection | Patch)
        events = self._enter(Outside()) if is_tool else self._section.close()
        self._after_notice = True
        return [*events, *spoken(Tag.SYS, words)]

    def _is_thought(self, line: str, words: str) -> bool:
        """Reasoning has no title. It is dimmed; without colours only its headline right after a remark tells."""
        if self._session.coloured:
            return line.startswith(_DIM)
        return isinstance(self._section, PromptSection) and self._after_notice and words.startswith("**")

    def _thought(self, words: str) -> list[Event]:
        """Dimmed, it has ended what stood above it; without colours the prompt may yet go on."""
        events = self._enter(Thought()) if self._session.coloured else self._section.close()
        return [*events, *spoken(Tag.THINK, words)]
