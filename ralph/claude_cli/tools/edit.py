"""The Edit and Write tools: replacing text in a file that was read, writing a whole file, and the patch to report."""

import re
from collections.abc import Mapping
from pathlib import Path

from ralph.claude_cli.desk import Access, Desk, ToolResult, crashed, exists, failed, in_node_words, missing, rejected
from ralph.claude_cli.schemas import flag_argument, schema, text_argument
from ralph.claude_cli.tools.read import BYTE_ORDER_MARK, TextFile, read_text_file, refusal_to_write, write_text_file
from ralph.core.errors import DiskError

_CONTEXT = 3
_COMPARED = 1500
"""Lines beyond which a changed middle is one replacement: comparing takes their product."""

_TABS = re.compile(r"^\t+", re.MULTILINE)
"""At the beginning of a line they are shown as two spaces each: patches are for people."""

_NO_NEWLINE = "\\ No newline at end of file"

_Change = tuple[int, int, int, int]
"""Lines `old[a:b]` became `new[c:d]`."""
NOT_READ = "File has not been read yet. Read it first before writing to it."
CHANGED = (
    "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."
)
CURRENT = " (file state is current in your context — no need to Read it back)"
_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_OPENS_AFTER = set(" \t\n([{—–")

_MARKDOWN = {".md", ".mdx"}
"""Where spaces at the end of a line mean something; elsewhere a model's are taken off."""
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


def structured_patch(before: str, after: str) -> list[dict[str, object]]:
    """The hunks between two texts, with three lines of context."""
    old, new = _lines(_TABS.sub(_as_spaces, before)), _lines(_TABS.sub(_as_spaces, after))
    return [_hunk(group, old, new) for group in _groups(_changes(old, new))]


def _as_spaces(tabs: re.Match[str]) -> str:
    return "  " * len(tabs[0])


def _lines(text: str) -> list[str]:
    # Not `splitlines`, which takes a form feed or U+2028 for the end of a line.
    return [line + "\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])


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


class Write:
    name = "Write"
    description = (
        "Write a file, replacing what is there. `file_path` should be absolute; missing folders are made. A file that "
        "exists must have been read first. To change a part of a file, use Edit."
    )
    input_schema = schema(
        {
            "file_path": {"type": "string", "description": "The absolute path of the file"},
            "content": {"type": "string", "description": "The whole new content"},
        },
        "file_path",
        "content",
    )

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """Write the file."""
        given = text_argument(arguments, "file_path")
        path = desk.locate(given)
        if refusal := desk.refusal(path, Access.WRITE):
            return failed(refusal.message)
        try:
            return self._write(given, path, text_argument(arguments, "content"), desk)
        except DiskError as error:
            return failed(error.message)
        except OSError as error:
            return crashed(self.name, in_node_words(error, "stat", path))

    def _write(self, given: str, path: Path, content: str, desk: Desk) -> ToolResult:
        if path.is_dir():
            return rejected(
                f"{path} is a directory, not a file. To create a file inside it, include the file name in file_path."
            )
        if not exists(path):
            write_text_file(path, TextFile(content, "utf-8", crlf=False, trouble=""))
            desk.saw(path, whole=True)
            said = f"File created successfully at: {given}{CURRENT}"
            return ToolResult(said, detail=_detail("create", given, content, [], None))
        if desk.seen(path) is None:
            return rejected(NOT_READ)
        if desk.has_changed(path):
            return rejected(CHANGED)
        before = read_text_file(path)
        if refusal := refusal_to_write(before):
            return failed(refusal)
        if before.text.startswith(BYTE_ORDER_MARK) and not content.startswith(BYTE_ORDER_MARK):
            content = BYTE_ORDER_MARK + content
        # Line endings are the caller's: what is written whole is written as it was given.
        write_text_file(path, TextFile(content, before.encoding, crlf=False, trouble=""))
        desk.saw(path, whole=True)
        patch = structured_patch(before.text, content)
        said = f"The file {given} has been updated successfully.{CURRENT}"
        return ToolResult(said, detail=_detail("update", given, content, patch, before.text))


def _detail(
    kind: str, given: str, content: str, patch: list[dict[str, object]], before: str | None
) -> dict[str, object]:
    return {
        "type": kind,
        "filePath": given,
        "content": content,
        "structuredPatch": patch,
        "originalFile": before,
        "userModified": False,
    }


# ruff: noqa: RUF001 - these letters are what the module is about


def find_loosely(text: str, wanted: str) -> str:
    """The part of `text` that equals `wanted` but for its quotes; empty: there is none."""
    at = text.translate(_STRAIGHT).find(wanted.translate(_STRAIGHT))
    return text[at : at + len(wanted)] if at >= 0 else ""


def in_style_of(found: str, replacement: str) -> str:
    """The replacement with curly quotes where `found` has them."""
    if "“" in found or "”" in found:
        replacement = _curled(replacement, '"', "“", "”")
    if "‘" in found or "’" in found:
        replacement = _curled(replacement, "'", "‘", "’")
    return replacement


def _curled(text: str, straight: str, opening: str, closing: str) -> str:
    before = " " + text
    return "".join(
        (opening if before[at] in _OPENS_AFTER else closing) if letter == straight else letter
        for at, letter in enumerate(text)
    )


class Edit:
    name = "Edit"
    description = (
        "Replace `old_string` by `new_string` in a file that was read in this conversation. `old_string` must match "
        "the file exactly, without line numbers, and only once, unless `replace_all` is set. An empty `old_string` "
        "makes a new file."
    )
    input_schema = schema(
        {
            "file_path": {"type": "string", "description": "The absolute path of the file"},
            "old_string": {"type": "string", "description": "The text to replace"},
            "new_string": {"type": "string", "description": "The text that takes its place; it must differ"},
            "replace_all": {"type": "boolean", "default": False, "description": "Replace every occurrence"},
        },
        "file_path",
        "old_string",
        "new_string",
    )

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """Change the file."""
        given = text_argument(arguments, "file_path")
        old, new = text_argument(arguments, "old_string"), text_argument(arguments, "new_string")
        path = desk.locate(given)
        if path.suffix.lower() not in _MARKDOWN:
            new = _TRAILING.sub("", new)
        if refusal := desk.refusal(path, Access.WRITE):
            return failed(refusal.message)
        if old == new:
            return rejected("No changes to make: old_string and new_string are exactly the same.")
        try:
            if not exists(path):
                return _create(given, path, new, desk) if not old else rejected(missing(path, desk))
            return _change(given, path, old, new, desk, every=flag_argument(arguments, "replace_all"))
        except DiskError as error:
            return failed(error.message)
        except OSError as error:
            return crashed(self.name, in_node_words(error, "stat", path))


def _create(given: str, path: Path, new: str, desk: Desk) -> ToolResult:
    return _written(given, path, TextFile("", "utf-8", crlf=False, trouble=""), ("", new), new, desk, every=False)


def _change(given: str, path: Path, old: str, new: str, desk: Desk, *, every: bool) -> ToolResult:
    if path.is_dir():
        return crashed("Edit", "EISDIR: illegal operation on a directory, read")
    file = read_text_file(path)
    if not old:
        if file.text.strip():
            return rejected("Cannot create new file - file already exists.")
        return _written(given, path, file, (old, new), new, desk, every=False)
    # Claude Code 2.1.325 lets an edit of an unread file pass; a change to what was never seen is a guess.
    if desk.seen(path) is None:
        return rejected(NOT_READ)
    if refusal := refusal_to_write(file):
        return rejected(refusal)
    found = old if old in file.text else find_loosely(file.text, old)
    if not found:
        # A file that has changed since may still contain the text; only if it does not, the change is the reason.
        return rejected(CHANGED if desk.has_changed(path) else f"String to replace not found in file.\nString: {old}")
    if (matches := file.text.count(found)) > 1 and not every:
        return rejected(
            f"Found {matches} matches of the string to replace, but replace_all is false. To replace all occurrences, "
            "set replace_all to true. To replace only one occurrence, please provide more context to uniquely identify "
            f"the instance.\nString: {old}"
        )
    styled = new if found == old else in_style_of(found, new)
    # A line that is taken away goes with its end.
    gone = found + "\n" if not styled and not found.endswith("\n") and found + "\n" in file.text else found
    after = file.text.replace(gone, styled, -1 if every else 1)
    return _written(given, path, file, (found, new), after, desk, every=every)


def _written(
    given: str, path: Path, before: TextFile, strings: tuple[str, str], after: str, desk: Desk, *, every: bool
) -> ToolResult:
    known = desk.seen(path)
    knows_all = not path.exists() or not before.text or (known is not None and known.whole)
    write_text_file(path, before.with_text(after))
    desk.saw(path, whole=knows_all)
    detail: dict[str, object] = {
        "filePath": given,
        "oldString": strings[0],
        "newString": strings[1],
        "originalFile": before.text,
        "structuredPatch": structured_patch(before.text, after),
        "userModified": False,
        "replaceAll": every,
    }
    if not knows_all:
        detail["contentNotInModelContext"] = True
    done = (
        "has been updated. All occurrences were successfully replaced." if every else "has been updated successfully."
    )
    return ToolResult(f"The file {given} {done}{CURRENT if knows_all else ''}", detail=detail)
