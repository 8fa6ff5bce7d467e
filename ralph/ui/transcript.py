"""A run's events as the lines of a live transcript: in quiet tones, each call one line once it is over."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from ralph.core import ndjson
from ralph.core.activity import NAMELESS, CallEnd, gist
from ralph.core.events import (
    Event,
    IterationStarted,
    SummaryStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
)
from ralph.core.text import format_duration
from ralph.core.verdict import TOOL
from ralph.ui.draw import Line, Tone, Words, letters_within, width
from ralph.ui.render import COMMANDS, Detail, Divider, EventRenderer, Paragraph, first_lines
from ralph.ui.terminal import flat, one_line, visible

_LOOKED_AT = 200_000
_PATCH = re.compile(r"^(?:@@|\*\*\* Begin Patch)", re.MULTILINE)
_HUNK = re.compile(r"@@(?: -(?P<old>\d+)(?:,(?P<old_lines>\d{1,9}))? \+\d+(?:,(?P<new_lines>\d{1,9}))? @@)?")
_HUNKLESS = ("*** Add File:", "*** Update File:")
"""What a patch of codex's begins a file with; the whole of a new one follows, and `@@` is left out where it can be."""

_COMPARED = 40_000
"""Pairs of lines that are compared in one call: 200 lines with 200 others take 0.04 s at worst, 500 with 500 0.6 s."""


def changed(tool_input: Mapping[str, object], output: str = "") -> Iterator[str]:
    """The lines that go and those that come; nothing of a call that is no edit.

    Claude's Edit names the old and the new text, its Write the whole; others hand in a patch, or print one (codex).
    """
    edits = [ndjson.mapping(edit) for edit in ndjson.sequence(tool_input.get("edits"))] or [tool_input]
    compared = 0
    for edit in edits:
        old, new = edit.get("old_string"), edit.get("new_string")
        if isinstance(old, str) and isinstance(new, str):
            goes, comes = _middles(old[:_LOOKED_AT].splitlines(), new[:_LOOKED_AT].splitlines())
            compared += len(goes) * len(comes)
            for gone, come in _stretches(goes, comes) if compared <= _COMPARED else [(goes, comes)]:
                yield from (f"-{line}" for line in gone)
                yield from (f"+{line}" for line in come)
    content, patch = tool_input.get("content"), tool_input.get("patch", tool_input.get("input"))
    if isinstance(content, str) and isinstance(tool_input.get("file_path"), str):
        yield from (f"+{line}" for line in content[:_LOOKED_AT].splitlines())
    elif isinstance(patch, str) and _PATCH.search(patch[:_LOOKED_AT]):
        yield from _of_patch(patch[:_LOOKED_AT])
    elif "changes" in tool_input and _PATCH.search(output[:_LOOKED_AT]):
        yield from _of_patch(output[:_LOOKED_AT])


def _middles(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Two texts without the lines that both begin and end with."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return old[start : len(old) - end], new[start : len(new) - end]


def _stretches(old: list[str], new: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """The lines that go and those that come in their place, from one line that stays to the next."""
    for kind, begun, ended, at, to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield old[begun:ended], new[at:to]


def _of_patch(patch: str) -> Iterator[str]:
    """Only before a file's first hunk are `---` and `+++` its names: within one they are a line's `--` and `++`.

    How long a hunk is says its own head; in patches without figures (codex's) it lasts until the next file's.
    """
    old = new = 0
    is_open = False
    for line in patch.splitlines():
        if (head := _HUNK.match(line)) is not None:
            is_open = head["old"] is None
            old, new = (int(head[name] or 1) for name in ("old_lines", "new_lines")) if not is_open else (0, 0)
        elif line.startswith("*** "):
            is_open = line.startswith(_HUNKLESS)
        elif is_open or old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            if line.startswith(("+", "-")):
                yield line


MARGIN = 11
"""Cells before the words: a label of nine and a gap."""

_RULE = "──"
_LONGEST = 20_000
_MOST_LINES = 400
"""Of what is said at once; all of it is in the log."""

_OPEN_CALLS = 1000
_CHANGED_LINES = {Detail.QUIET: 0, Detail.NORMAL: 8, Detail.VERBOSE: 60}
_SIGNS = {
    ToolStatus.OK: ("✓", Tone.GOOD),
    ToolStatus.FAIL: ("✗", Tone.BAD),
    ToolStatus.UNKNOWN: ("·", Tone.DIM),
}
_IN_BRIEF = (Text, ToolStart, ToolOutput, ToolEnd)
"""What an agent says and does: told in brief, a session is its end alone."""


class TonedTelling(EventRenderer):
    """Its detail may be changed at any time; quiet is in brief here: what sessions came to, and what hinders them."""

    def __init__(self, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        super().__init__(detail, root)
        self._calls: dict[str, ToolStart] = {}

    def lines(self, event: Event, at: str | None) -> list[Line]:
        """What to show of an event, as lines of any length (see `folded`)."""
        if isinstance(event, IterationStarted | SummaryStarted):
            self._calls.clear()
        told = self.tell(event, at)
        if self.detail is Detail.QUIET and isinstance(event, _IN_BRIEF) and getattr(event, "tag", None) is not Tag.SYS:
            return []
        return [line for said in told for line in toned(said)]

    def lines_passed_over(self, event: Event, at: str | None) -> list[Line]:
        """What to show of an event for which there is no time: what it is to be remembered for is."""
        told = self.pass_over(event, at)
        return [] if self.detail is Detail.QUIET else [line for said in told for line in toned(said)]

    def forget_call(self, event: ToolEnd) -> None:
        self._calls.pop(event.id, None)

    def call_starts(self, event: ToolStart) -> list[Paragraph]:
        """Nothing yet: the status line tells what is under way."""
        self._calls[event.id] = event
        if len(self._calls) > _OPEN_CALLS:
            del self._calls[next(iter(self._calls))]
        return []

    def call_ends(self, event: ToolEnd, ended: CallEnd, output: str) -> Sequence[Paragraph]:
        call = self._calls.pop(event.id, None)
        failed = event.status is ToolStatus.FAIL
        if call is None and not failed and not self.is_verbose:
            return []  # the verdict, whose summary follows, or a call whose beginning nobody has seen
        sign, tone = _SIGNS[event.status]
        about = "" if call is None else one_line(gist(call.input, self.root), 400 if self.is_verbose else 100)
        took = "" if ended.seconds is None else format_duration(ended.seconds)
        said = [Paragraph(f"{sign} {one_line(ended.name or NAMELESS, 40)}", about, tone, aside=took)]
        if call is not None and not failed:
            said += self._changes(call, output)
        shown = first_lines(output) if failed and not self.is_verbose else [output] if self.is_verbose else []
        return [*said, *(Paragraph("", line, words=Tone.DIM) for line in shown if line)]

    def _changes(self, call: ToolStart, output: str) -> list[Paragraph]:
        if call.name == TOOL:
            return []
        lines = list(changed(call.input, output))
        shown = [
            Paragraph("", _code_line(line), words=Tone.GOOD if line.startswith("+") else Tone.BAD)
            for line in lines[: _CHANGED_LINES[self.detail]]
        ]
        more = len(lines) - len(shown)
        return [*shown, Paragraph("", f"… {more:,} more changed lines", words=Tone.DIM)] if shown and more else shown


def _code_line(line: str) -> str:
    """A line of code, with its indent, as far as anybody reads it."""
    return line[:300].expandtabs(4)


def toned(said: Paragraph | Divider) -> list[Line]:
    """What is said as lines, each with its own margin."""
    if isinstance(said, Divider):
        return [((f"{_RULE} {said.what} " + "─" * 40, Tone.DIM),)]
    cut = said.text if len(said.text) <= _LONGEST else f"{said.text[:_LONGEST]}\n… (the rest is in the log)"
    first, *rest = visible(cut).rstrip().expandtabs(4).splitlines() or [""]
    if len(rest) > _MOST_LINES:
        rest = [*rest[:_MOST_LINES], f"… {len(rest) - _MOST_LINES:,} more lines"]
    label = f"{visible(said.label):<{MARGIN - 2}}  "
    words: list[Words] = [(label, said.tone), (first, said.words), (f"  {said.aside}" if said.aside else "", Tone.DIM)]
    head = tuple((text, tone) for text, tone in words if text)
    if not said.label and not first:
        head = ()
    return [head, *(((" " * MARGIN, Tone.PLAIN), (line, said.words)) for line in rest)]


def holds_command(said: Line) -> bool:
    """Whether a line is to be copied as it is."""
    return bool(said) and said[0][0].rstrip() in COMMANDS


_PIECE = re.compile(r" +|[^ ]+")


def folded(said: Line, columns: int) -> list[Line]:
    """Fold a line at so many cells, between words, keeping tones and the column that the words began in.

    One that holds a command stays whole.
    """
    safe = [(flat(text), tone) for text, tone in said]
    if holds_command(said) or sum(width(text) for text, _ in safe) <= columns:
        return [tuple(safe)]
    if safe and safe[0][0].startswith(_RULE):
        return [((letters_within(safe[0][0], columns), safe[0][1]),)]
    return _Folding(columns).fold(safe)


class _Folding:
    def __init__(self, columns: int) -> None:
        self._columns = max(columns, 1)
        self._indent = min(MARGIN, (self._columns - 1) // 2)
        self._rows: list[list[Words]] = [[]]
        self._taken = 0
        self._gap: list[Words] = []
        """The room since the last word: whether it is set depends on where the next one goes."""

    def fold(self, safe: Sequence[Words]) -> list[Line]:
        leading = "".join(text for text, _ in safe)
        if leading.startswith(" "):
            self._indent = min(len(leading) - len(leading.lstrip()), (self._columns - 1) // 2)
        for text, tone in safe:
            for piece in _PIECE.findall(text):
                self._put(piece, tone)
        return [tuple(row) for row in self._rows]

    def _put(self, piece: str, tone: Tone) -> None:
        """Set a word, and before it the room that there is between it and the last one, or a new row."""
        if piece.startswith(" "):
            self._gap.append((piece, tone))
            return
        begins = self._taken + sum(len(room) for room, _ in self._gap)
        if begins >= self._columns or (begins > self._indent and begins + width(piece) > self._columns):
            if not self._taken:
                self._rows.pop()  # its margin alone is too wide
            self._next_row()
        else:
            for room in self._gap:
                self._append(*room)
        self._gap.clear()
        while len(fitting := letters_within(piece, self._columns - self._taken)) < len(piece):
            fitting = fitting or piece[:1]
            self._append(fitting, tone)
            piece = piece[len(fitting) :]
            self._next_row()
        if piece:
            self._append(piece, tone)

    def _append(self, piece: str, tone: Tone) -> None:
        self._rows[-1].append((piece, tone))
        self._taken += width(piece)

    def _next_row(self) -> None:
        self._rows.append([(" " * self._indent, Tone.PLAIN)])
        self._taken = self._indent
