"""What a call changes in files, as lines that begin with `+` or `-`, read off its input or what it printed."""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from ralph.core import ndjson

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
