"""Text on disk: its encoding, byte-order mark and line endings are taken off when it is read and put back after."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from ralph.system.files import replace_file

_HEAD = 8192
BYTE_ORDER_MARK = "\ufeff"

_NUL = (
    "has NUL bytes in its first 8 KB: binary data, UTF-16/UTF-32 without a byte-order mark, or text with embedded NULs."
)
_LEGACY = "is not valid UTF-8: it uses a legacy encoding such as Windows-1252, Shift-JIS or GBK, or it is binary."


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
