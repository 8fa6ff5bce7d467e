"""The transcript of a run as rows of a terminal: Markdown rendered, edits as diffs, each call one line once it is over.

The live view and the preview of the dashboard share it. Wording is `ui/render`'s; wrapping and colours are rich's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.rule import Rule
from rich.segment import Segment
from rich.text import Text

from ralph.core import ndjson
from ralph.core.activity import NAMELESS, CallEnd, gist
from ralph.core.events import (
    Event,
    IterationStarted,
    SummaryStarted,
    Tag,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
)
from ralph.core.events import Text as Utterance
from ralph.core.text import few, format_duration
from ralph.core.verdict import TOOL
from ralph.ui.render import COMMANDS, Detail, Divider, EventRenderer, FinishedCall, Paragraph, Said, last_lines
from ralph.ui.terminal import Look, Row, flat, one_line, visible
from ralph.ui.theme import render, safe, style

_LOOKED_AT = 200_000
_PATCH = re.compile(r"^(?:@@|\*\*\* Begin Patch)", re.MULTILINE)
_PATCHED = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/)(.{1,200})", re.MULTILINE)
_HUNK = re.compile(
    r"@@(?: -(?P<old>\d{1,9})(?:,(?P<old_lines>\d{1,9}))? \+(?P<new>\d{1,9})(?:,(?P<new_lines>\d{1,9}))? @@)?"
)
_HUNKLESS = ("*** Add File:", "*** Update File:")
"""What a patch of codex's begins a file with; the whole of a new one follows, and `@@` is left out where it can be."""

_COMPARED = 40_000
"""Pairs of lines that are compared in one call: 200 lines with 200 others take 0.04 s at worst, 500 with 500 0.6 s."""


@dataclass(frozen=True, slots=True)
class Change:
    """A line that an edit removes or adds; `number`: which one of the file it is, where that is known."""

    sign: str
    number: int | None
    text: str


def changed(tool_input: Mapping[str, object], output: str = "", line: int | None = None) -> Iterator[Change]:
    """The lines that go and those that come; nothing of a call that is no edit.

    Claude's Edit names the old and the new text, its Write the whole; others hand in a patch, or print one (codex).
    `line` is where the first change is, if the agent said that.
    """
    edits = [ndjson.mapping(edit) for edit in ndjson.sequence(tool_input.get("edits"))] or [tool_input]
    compared = 0
    for edit in edits:
        old, new = edit.get("old_string"), edit.get("new_string")
        if isinstance(old, str) and isinstance(new, str):
            goes, comes = _middles(old[:_LOOKED_AT].splitlines(), new[:_LOOKED_AT].splitlines())
            compared += len(goes) * len(comes)
            stretches = _stretches(goes, comes) if compared <= _COMPARED else [(0, goes, 0, comes)]
            for begins, gone, arrives, come in stretches:
                yield from _numbered("-", gone, None if line is None else line + begins)
                yield from _numbered("+", come, None if line is None else line + arrives)
            line = None  # it is the first edit's
    content, patch = tool_input.get("content"), tool_input.get("patch", tool_input.get("input"))
    if isinstance(content, str) and isinstance(tool_input.get("file_path"), str):
        yield from _numbered("+", content[:_LOOKED_AT].splitlines(), 1)
    elif isinstance(patch, str) and _PATCH.search(patch[:_LOOKED_AT]):
        yield from _of_patch(patch[:_LOOKED_AT])
    elif "changes" in tool_input and _PATCH.search(output[:_LOOKED_AT]):
        yield from _of_patch(output[:_LOOKED_AT])


def _numbered(sign: str, lines: Sequence[str], first: int | None) -> Iterator[Change]:
    for number, text in enumerate(lines):
        yield Change(sign, None if first is None else first + number, text)


def _middles(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Two texts without the lines that both begin and end with."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return old[start : len(old) - end], new[start : len(new) - end]


def _stretches(old: list[str], new: list[str]) -> Iterator[tuple[int, list[str], int, list[str]]]:
    """The lines that go, those that come in their place, and where: from one line that stays to the next."""
    for kind, begun, ended, at, to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield begun, old[begun:ended], at, new[at:to]


def _of_patch(patch: str) -> Iterator[Change]:
    """Only before a file's first hunk are `---` and `+++` its names: within one they are a line's `--` and `++`.

    How long a hunk is says its own head; in patches without figures (codex's) it lasts until the next file's.
    """
    old = new = 0
    numbers: dict[str, int] = {}
    is_open = False
    for line in patch.splitlines():
        if (head := _HUNK.match(line)) is not None:
            is_open = head["old"] is None
            old, new = (int(head[name] or 1) for name in ("old_lines", "new_lines")) if not is_open else (0, 0)
            numbers = {} if is_open else {"-": int(head["old"]), "+": int(head["new"])}
        elif line.startswith("*** "):
            is_open = line.startswith(_HUNKLESS)
        elif is_open or old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            if line.startswith(("+", "-")):
                yield Change(line[0], numbers.get(line[0]), line[1:])
            for sign in numbers:
                numbers[sign] += line[:1] in (sign, " ", "")


MARGIN = 11
"""Cells before the words: a label of nine and a gap."""

_LONGEST = 20_000
_LONGEST_MARKDOWN = 4_000
"""Characters: 4,000 take rich a few milliseconds, and what is longer is no message but a file."""
_MOST_LINES = 400
"""Of one paragraph; the log has all of it."""
_LONGEST_CODE = 300

_OPEN_CALLS = 1000
_CHANGED_LINES = {Detail.QUIET: 0, Detail.NORMAL: 12, Detail.VERBOSE: 80}
_SIGNS = {
    ToolStatus.OK: ("✓", Look.GOOD),
    ToolStatus.FAIL: ("✗", Look.BAD),
    ToolStatus.UNKNOWN: ("·", Look.QUIET),
}
_SHORTEST = 0.1
"""Seconds; what a call took is only shown from there on."""


class TranscriptRenderer(EventRenderer):
    """Words events with `tell` and draws them with `rows`; `detail` may change at any time.

    Quiet is brief here: what sessions came to, and what hinders them.
    """

    def __init__(self, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        super().__init__(detail, root)
        self._calls: dict[str, ToolStart] = {}

    def tell(self, event: Event, at: str | None) -> Sequence[Said]:
        """What to show of an event; it may be drawn later, or never."""
        if isinstance(event, IterationStarted | SummaryStarted):
            self._calls.clear()
        said = super().tell(event, at)
        if self.detail is Detail.QUIET and _is_the_agents(event):
            return []
        return said

    def call_starts(self, event: ToolStart) -> Sequence[Said]:
        """Nothing yet: the footer shows calls that are open."""
        self._calls[event.id] = event
        if len(self._calls) > _OPEN_CALLS:
            del self._calls[next(iter(self._calls))]
        return []

    def call_ends(self, event: ToolEnd, ended: CallEnd, output: str) -> Sequence[Said]:
        call = self._calls.pop(event.id, None)
        if call is None and event.status is not ToolStatus.FAIL and not self.is_verbose:
            return []  # the verdict, whose summary follows, or a call whose beginning nobody has seen
        return [FinishedCall(call, event.status, ended, event.line, output)]

    def rows(self, said: Said, columns: int, *, quickly: bool = False) -> list[Row]:
        """Draw it for a terminal so wide; `quickly`: without Markdown."""
        match said:
            case Divider():
                title = Text.assemble(("── ", style(Look.QUIET)), safe(said.what, Look.STRONG, one_line=True))
                return render(Rule(title, align="left", style=style(Look.QUIET)), columns)
            case FinishedCall():
                return self._call_rows(said, columns)
            case _:
                return paragraph_rows(said, columns, quickly=quickly)

    def plain(self, said: Said) -> Said:
        """The same for plain lines: a call in words."""
        return self._call(said, ()) if isinstance(said, FinishedCall) else said

    def _call_rows(self, said: FinishedCall, columns: int) -> list[Row]:
        failed = said.status is ToolStatus.FAIL
        changes: list[Change] = []
        if said.start is not None and said.start.name != TOOL and not failed:
            changes = list(changed(said.start.input, said.output, said.line))
        rows = paragraph_rows(self._call(said, changes), columns)
        shown = changes[: _CHANGED_LINES[self.detail]]
        rows += _diff_rows(shown, columns, more=len(changes) - len(shown))
        output = said.output if self.is_verbose else "\n".join(last_lines(said.output)) if failed else ""
        if output:
            rows += paragraph_rows(Paragraph("", output, words=Look.QUIET), columns)
        return rows

    def _call(self, said: FinishedCall, changes: Sequence[Change]) -> Paragraph:
        sign, tone = _SIGNS[said.status]
        about = (
            "" if said.start is None else one_line(_about(said.start.input, self.root), 400 if self.is_verbose else 100)
        )
        signs = [change.sign for change in changes]
        counts = " ".join(f"{sign}{number:,}" for sign in "+-" if (number := signs.count(sign)))
        seconds = said.ended.seconds
        took = "" if seconds is None or seconds < _SHORTEST else format_duration(seconds)
        aside = " · ".join(filter(None, [counts, took]))
        return Paragraph(f"{sign} {one_line(said.ended.name or NAMELESS, 40)}", about, tone, aside=aside)


def _about(tool_input: Mapping[str, object], root: str) -> str:
    """What a call is about: of a patch that it hands in, the files."""
    patch = tool_input.get("patch", tool_input.get("input"))
    if isinstance(patch, str) and _PATCH.search(patch[:_LOOKED_AT]):
        files = dict.fromkeys(match[1] for match in _PATCHED.finditer(patch[:_LOOKED_AT]))
        return few([file.removeprefix(f"{root}/") for file in files], 3) or "a patch"
    return gist(tool_input, root)


def _is_the_agents(event: Event) -> bool:
    """Whether it is something that an agent says or does: in brief, a session is its end alone."""
    match event:
        case Utterance():
            return event.tag is not Tag.SYS
        case ToolStart() | ToolOutput() | ToolEnd():
            return True
        case _:
            return False


def paragraph_rows(said: Paragraph, columns: int, *, quickly: bool = False) -> list[Row]:
    """Draw a label and its words. A command stays one row: the terminal wraps it, and copies it whole."""
    label, indent = visible(said.label), _indent(columns)
    if said.label in COMMANDS:
        words = " ".join(visible(said.text).split("\n"))
        return [[Segment(f"{label:<{MARGIN}}", style(said.tone)), Segment(words)]]
    if not label and not said.text:
        return [[]]
    is_wide = len(label) >= MARGIN - 1 or indent < MARGIN
    head = Text(f"{label}  ", style(said.tone), end="") if is_wide and label else None
    if head is None and (row := _short(said, columns - indent, quickly=quickly)) is not None:
        return [[Segment(set_cell_size(label, indent), style(said.tone)), *row]]
    body = [_stripped(row) for row in render(_words(said, head, quickly=quickly), columns - indent)]
    if said.markdown:  # rich sets room around tables and quotes: one row of it is enough
        body = [
            row for row, before in zip(body, [[], *body], strict=False) if not _is_blank(row) or not _is_blank(before)
        ]
    if len(body) > 1 and _is_blank(body[-1]):
        body.pop()
    first: Row = body[0] if body else []
    if head is None:
        first = [Segment(set_cell_size(label, indent), style(said.tone)), *first]
    return [first, *([Segment(" " * indent), *row] for row in body[1:])]


def _short(said: Paragraph, columns: int, *, quickly: bool) -> Row | None:
    """Words that fit in one row, as most calls do: without rich's wrapping it takes a fifth of the time."""
    if (said.markdown and not quickly) or len(said.text) > columns or "\n" in said.text:
        return None
    words = visible(said.text).rstrip().expandtabs(4)
    aside = f"  {said.aside}" if said.aside else ""
    if not words or cell_len(words) + cell_len(aside) > columns:
        return None
    return [Segment(words, style(said.words)), *([Segment(aside, style(Look.QUIET))] if aside else [])]


def _indent(columns: int) -> int:
    return MARGIN if columns >= 3 * MARGIN else 2 if columns > 4 else 0


def _is_blank(row: Row) -> bool:
    return all(segment.text.isspace() or not segment.text for segment in row)


def _stripped(row: Row) -> Row:
    """Without the room that rich leaves at the end of some rows."""
    kept = list(row)
    while kept and kept[-1].text.isspace():
        kept.pop()
    return [*kept[:-1], Segment(kept[-1].text.rstrip(" "), kept[-1].style)] if kept else kept


def _words(said: Paragraph, head: Text | None, *, quickly: bool) -> RenderableType:
    if said.markdown and not quickly and head is None and len(said.text) <= _LONGEST_MARKDOWN:
        from ralph.ui.markdown import AgentMarkdown  # it takes a tenth of a second to load

        return AgentMarkdown(said.text)
    text = said.text if len(said.text) <= _LONGEST else f"{said.text[:_LONGEST]}\n… (the rest is in the log)"
    lines = visible(text).rstrip().expandtabs(4).splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"… {len(lines) - _MOST_LINES:,} more lines"]
    words = Text("\n".join(lines), style(said.words), end="")
    if head is not None:
        words = Text.assemble(head, words, end="")
    return words.append(f"  {said.aside}", style(Look.QUIET)) if said.aside else words


def _diff_rows(changes: Sequence[Change], columns: int, *, more: int) -> list[Row]:
    """One row for each changed line, cut at the edge: its number, its sign and its text."""
    numbers = [change.number for change in changes if change.number is not None]
    digits = len(str(max(numbers))) if numbers else 0
    indent = _indent(columns)
    rows: list[Row] = []
    room = max(columns - indent, 1)
    for change in changes:  # without rich's Text: a call of twelve lines would take 0.7 ms instead of 0.1
        number = "" if change.number is None else str(change.number)
        margin = _cut(f"{number:>{digits}} " if digits else "", room)
        line = f"{change.sign} {flat(change.text[:_LONGEST_CODE].expandtabs(4))}"
        look = style(Look.GOOD if change.sign == "+" else Look.BAD)
        rows.append(
            [
                Segment(f"{' ' * indent}{margin}", style(Look.QUIET)),
                Segment(_cut(line, room - len(margin)), look),
            ]
        )
    if rows and more:
        rows.append([Segment(" " * indent), Segment(f"… {more:,} more changed lines", style(Look.QUIET))])
    return rows


def _cut(text: str, columns: int) -> str:
    """A text that takes at most so many cells."""
    if columns < 1:
        return ""
    return text if cell_len(text) <= columns else f"{set_cell_size(text, columns - 1)}…"
