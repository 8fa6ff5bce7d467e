"""The difference between two texts, in the hunks that an Edit's or Write's event carries."""

import re

_CONTEXT = 3
_COMPARED = 1500
"""Lines beyond which a changed middle is told as one replacement: comparing takes their product."""

_TABS = re.compile(r"^\t+", re.MULTILINE)
"""At the beginning of a line they are shown as two spaces each: patches are for people."""

_NO_NEWLINE = "\\ No newline at end of file"


def structured_patch(before: str, after: str) -> list[dict[str, object]]:
    """The hunks between two texts, with three lines of context."""
    old, new = _lines(_TABS.sub(_as_spaces, before)), _lines(_TABS.sub(_as_spaces, after))
    return [_hunk(group, old, new) for group in _groups(_changes(old, new))]


def _as_spaces(tabs: re.Match[str]) -> str:
    return "  " * len(tabs[0])


def _lines(text: str) -> list[str]:
    # Not `splitlines`, which takes a form feed or U+2028 for the end of a line.
    return [line + "\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])


_Change = tuple[int, int, int, int]
"""Lines `old[a:b]` became `new[c:d]`."""


def _changes(old: list[str], new: list[str]) -> list[_Change]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old_middle and not new_middle:
        return []
    if max(len(old_middle), len(new_middle)) > _COMPARED:
        return [(head, len(old) - tail, head, len(new) - tail)]
    import difflib  # no start waits for it

    codes = difflib.SequenceMatcher(None, old_middle, new_middle, autojunk=False).get_opcodes()
    return [(head + a, head + b, head + c, head + d) for tag, a, b, c, d in codes if tag != "equal"]


def _groups(changes: list[_Change]) -> list[list[_Change]]:
    """Changes that are so near that their contexts touch share a hunk."""
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(group: list[_Change], old: list[str], new: list[str]) -> dict[str, object]:
    first, last = group[0], group[-1]
    before = min(_CONTEXT, first[0])
    end = min(len(old), last[1] + _CONTEXT)
    lines: list[str] = []
    at = first[0] - before
    for a, b, c, d in group:
        lines += _marked(" ", old[at:a]) + _marked("-", old[a:b]) + _marked("+", new[c:d])
        at = b
    lines += _marked(" ", old[at:end])
    return {
        "oldStart": first[0] - before + 1,
        "oldLines": end - first[0] + before,
        "newStart": first[2] - before + 1,
        "newLines": last[3] + (end - last[1]) - first[2] + before,
        "lines": lines,
    }


def _marked(mark: str, lines: list[str]) -> list[str]:
    marked = [mark + line.rstrip("\n") for line in lines]
    return [*marked, _NO_NEWLINE] if lines and not lines[-1].endswith("\n") else marked
