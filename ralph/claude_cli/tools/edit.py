"""Edit: one text replaced by another in a file that was read."""

import re
from collections.abc import Mapping
from pathlib import Path

from ralph.agent.tools.arguments import flag_argument, schema, text_argument
from ralph.agent.tools.outcomes import crashed, exists, failed, in_node_words, missing, rejected
from ralph.agent.tools.patch import structured_patch
from ralph.agent.tools.quotes import find_loosely, in_style_of
from ralph.agent.tools.textfile import TextFile, read_text_file, refusal_to_write, write_text_file
from ralph.agent.tools.write import CHANGED, CURRENT, NOT_READ
from ralph.claude_cli.desk import Desk, ToolResult
from ralph.core.errors import DiskError

_MARKDOWN = {".md", ".mdx"}
"""Where spaces at the end of a line mean something; elsewhere a model's are taken off."""

_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


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
        if refusal := desk.refusal(path, "write to"):
            return failed(refusal)
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
        # A file that changed meanwhile may still hold the text; only where it does not is the change to blame.
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
