"""Write: a whole file, new or in place of one that was read."""

from collections.abc import Mapping
from pathlib import Path

from ralph.agent.tools.arguments import schema, text_argument
from ralph.agent.tools.outcomes import crashed, exists, failed, in_node_words, rejected
from ralph.agent.tools.patch import structured_patch
from ralph.agent.tools.textfile import BYTE_ORDER_MARK, TextFile, read_text_file, refusal_to_write, write_text_file
from ralph.claude_cli.desk import Desk, ToolResult
from ralph.core.errors import DiskError

NOT_READ = "File has not been read yet. Read it first before writing to it."
CHANGED = (
    "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."
)
CURRENT = " (file state is current in your context — no need to Read it back)"


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
        if refusal := desk.refusal(path, "write to"):
            return failed(refusal)
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
