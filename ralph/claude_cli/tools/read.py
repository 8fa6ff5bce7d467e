"""The Read tool, and the text files that Read, Edit and Write share: encodings, line endings, byte order marks."""

import base64
import codecs
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.claude_cli.desk import Access, Desk, ToolResult, failed, format_size, in_node_words, missing, rejected
from ralph.claude_cli.schemas import flag_argument, number_argument, schema, text_argument
from ralph.system.files import replace_file

_HEAD = 8192
BYTE_ORDER_MARK = "\ufeff"

_NUL = (
    "has NUL bytes in its first 8 KB: binary data, UTF-16/UTF-32 without a byte-order mark, or text with embedded NULs."
)
_LEGACY = "is not valid UTF-8: it uses a legacy encoding such as Windows-1252, Shift-JIS or GBK, or it is binary."

_LARGEST = 256 * 1024
_LARGEST_EVER = 64 * 1024 * 1024
"""Beyond this not even a part is read: the file is taken into memory whole to find its lines."""
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
_BINARY = frozenset({
    ".7z", ".a", ".bin", ".bmp", ".bz2", ".class", ".dat", ".db", ".deb", ".dll", ".dmg", ".doc", ".docx", ".dylib",
    ".eot", ".exe", ".gz", ".ico", ".iso", ".jar", ".lib", ".m4a", ".mkv", ".mov", ".mp3", ".mp4", ".o", ".obj",
    ".ogg", ".otf", ".pdf", ".ppt", ".pptx", ".pyc", ".pyo", ".rar", ".rpm", ".so", ".sqlite", ".sqlite3", ".tar",
    ".tgz", ".tif", ".tiff", ".ttf", ".wasm", ".wav", ".webm", ".woff", ".woff2", ".xls", ".xlsx", ".xz", ".zip",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextFile:
    """The text with plain newlines; `trouble` says why it cannot be written back, empty when it can."""

    text: str
    encoding: str
    crlf: bool
    trouble: str

    @property
    def body(self) -> str:
        """The text without its byte-order mark."""
        return self.text.removeprefix(BYTE_ORDER_MARK)

    def with_text(self, text: str) -> "TextFile":
        return TextFile(text, self.encoding, self.crlf, self.trouble)


def read_text_file(path: Path) -> TextFile:
    """Read a file as text, whatever its bytes are."""
    return decode(path.read_bytes())


def decode(content: bytes) -> TextFile:
    """Bytes as text with plain newlines."""
    encoding, trouble = "utf-8", ""
    if content.startswith(codecs.BOM_UTF16_LE):
        encoding = "utf-16-le"
    elif b"\0" in content[:_HEAD]:
        trouble = _NUL
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode(encoding, "replace")
        trouble = trouble or _LEGACY
    endings = text.count("\n")
    crlf = text.count("\r\n", 0, len(text))
    return TextFile(text.replace("\r\n", "\n"), encoding, crlf * 2 > endings, trouble)


def write_text_file(path: Path, file: TextFile) -> None:
    """Replace the file's content, whole or not at all; its mode stays. A link stays one: its target is written."""
    target = path.resolve()
    text = file.text.replace("\n", "\r\n") if file.crlf else file.text
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text.encode(file.encoding, "replace"), 0o666 if mode is None else mode, durable=False)
    if mode is not None:
        target.chmod(mode)


def note_on(file: TextFile) -> str:
    """What a reader must know about a file that cannot be written back."""
    if not file.trouble:
        return ""
    shown = " Its undecodable bytes show above as U+FFFD." if file.trouble is _LEGACY else ""
    return (
        f"\n\n[This file {file.trouble}{shown} Edit and Write will refuse it: change it with a shell command that "
        "keeps its encoding, or ask the user whether to convert it to UTF-8.]"
    )


def refusal_to_write(file: TextFile) -> str:
    """Why this file must not be written back as text; empty: it may."""
    if not file.trouble:
        return ""
    return (
        f"File {file.trouble} These tools write UTF-8 (or UTF-16LE behind its byte-order mark) and never convert a "
        "file's encoding on their own, so nothing was written. If the file is text, make the change with a shell "
        "command that reads and writes it in its own encoding (iconv, or PowerShell Get-Content/Set-Content "
        "-Encoding), or ask the user whether to convert it to UTF-8 first. To replace the whole file with new "
        "UTF-8 text anyway, delete it first, then Write it."
    )


class Read:
    name = "Read"
    description = (
        "Read a file. `file_path` should be absolute. Lines come numbered from 1, as `number<TAB>line`; give `offset` "
        "and `limit` to read a part of a large file. Images are shown. A file must be read before it can be changed."
    )
    input_schema = schema(
        {
            "file_path": {"type": "string", "description": "The absolute path of the file"},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "maximum": 9007199254740991,
                "description": "The number of the first line wanted",
            },
            "limit": {
                "type": "integer",
                "exclusiveMinimum": 0,
                "maximum": 9007199254740991,
                "description": "How many lines are wanted",
            },
            "pages": {"type": "string", "description": "Pages of a PDF; not supported here"},
            "allow_large": {"type": "boolean", "description": "Read the file although it is over the usual size"},
        },
        "file_path",
    )

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """Show the file."""
        given = text_argument(arguments, "file_path")
        path = desk.locate(given)
        if refusal := desk.refusal(path, Access.READ):
            return failed(refusal.message)
        try:
            status = path.stat()
        except FileNotFoundError:
            return failed(missing(path, desk))
        except OSError as error:
            return failed(in_node_words(error, "open", path))
        if stat.S_ISDIR(status.st_mode):
            return failed(f"EISDIR: illegal operation on a directory, read '{path}'")
        if not stat.S_ISREG(status.st_mode):  # a pipe would block for ever, a device never end
            return rejected(
                f"Cannot read '{path}': this path names a device or process file that this tool does not read."
            )
        if path.suffix.lower() in _BINARY:
            return rejected(_binary(path))
        if too_large := _too_large(status.st_size, arguments):
            return failed(too_large)
        try:
            content = path.read_bytes()
        except OSError as error:
            return failed(in_node_words(error, "open", path))
        if path.suffix.lower() in _IMAGES:
            return _image(content, _IMAGES[path.suffix.lower()])
        return _lines(decode(content), given, path, arguments, desk)


def _lines(file: TextFile, given: str, path: Path, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
    offset, limit = number_argument(arguments, "offset"), number_argument(arguments, "limit")
    first = 1 if offset is None or offset < 0 else offset
    lines = file.body.split("\n")
    begin = max(first - 1, 0)
    wanted = lines[begin:] if limit is None else lines[begin : begin + limit]
    desk.saw(path, whole=len(wanted) == len(lines))
    shown = {
        "filePath": given,
        "content": "\n".join(wanted),
        "numLines": len(wanted),
        "startLine": first,
        "totalLines": len(lines),
    }
    return ToolResult(_numbered(wanted, first, lines, file), detail={"type": "text", "file": shown})


def _numbered(wanted: list[str], first: int, lines: list[str], file: TextFile) -> str:
    if lines == [""]:
        return "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
    if not wanted:
        return (
            "<system-reminder>Warning: the file exists but is shorter than the provided offset "
            f"({first}). The file has {len(lines)} lines.</system-reminder>"
        )
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(wanted, first)) + note_on(file)


def _too_large(size: int, arguments: Mapping[str, object]) -> str:
    parts = (
        "Use offset and limit parameters to read specific portions of the file, or search for specific content instead"
    )
    if size > _LARGEST_EVER:
        return (
            f"File content ({format_size(size)}) exceeds what this tool can read ({format_size(_LARGEST_EVER)}). "
            "Use a shell command, or search for specific content instead of reading the file."
        )
    if size <= _LARGEST or number_argument(arguments, "limit") is not None or flag_argument(arguments, "allow_large"):
        return ""
    return (
        f"File content ({format_size(size)}) exceeds maximum allowed size ({format_size(_LARGEST)}). {parts} of "
        "reading the whole file. To read it anyway, up to what still fits in your context, call Read again with "
        "allow_large: true — only if you genuinely need all of it or the user asked for the whole file."
    )


def _binary(path: Path) -> str:
    return (
        f"This tool cannot read binary files. The file appears to be a binary {path.suffix.lower()} file. Use a skill "
        "for this file type if one is available, or a shell command or script that can read the format."
    )


def _image(content: bytes, kind: str) -> ToolResult:
    data = base64.b64encode(content).decode()
    block = {"type": "image", "source": {"type": "base64", "data": data, "media_type": kind}}
    detail = {"type": "image", "file": {"base64": data, "type": kind, "originalSize": len(content)}}
    return ToolResult("", detail=detail, blocks=[block])
