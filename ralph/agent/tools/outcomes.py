"""The ways in which a call does not succeed, each in the form and words that it is told in."""

import errno
from pathlib import Path

from ralph.claude_cli.desk import Desk, ToolResult

INTERRUPTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
    " Correction to the text above: this call was stopped while running, not refused before it ran. It may have run in "
    "part or in full, and its changes may have been written. No permission prompt was involved. Work it started "
    "elsewhere (a remote command, a background process) may still be running, so check before starting the same work "
    "again. The instruction to stop and wait still stands."
)
"""What is said of a call that an interrupt ended."""


def failed(message: str) -> ToolResult:
    """The tool tried and could not."""
    return ToolResult(message, is_error=True, detail=f"Error: {message}")


def rejected(message: str) -> ToolResult:
    """The tool would not even try: the call itself makes no sense as things stand."""
    return ToolResult(f"<tool_use_error>{message}</tool_use_error>", is_error=True, detail=f"Error: {message}")


def crashed(tool: str, message: str) -> ToolResult:
    """The call met something that nobody foresaw."""
    said = f"Error calling tool ({tool}): {message}"
    return ToolResult(f"<tool_use_error>{said}</tool_use_error>", is_error=True, detail=said)


def in_node_words(error: OSError, action: str, path: object) -> str:
    """The error as the original's runtime words it."""
    code = errno.errorcode.get(error.errno or 0, "EIO")
    said = "illegal operation on a directory" if code == "EISDIR" else (error.strerror or str(error)).lower()
    return f"{code}: {said}, {action} '{path}'"


def exists(path: Path) -> bool:
    """Tell whether there is something; a path that leads through a file is a fault, not an absence."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def missing(path: Path, desk: Desk) -> str:
    """That the file does not exist, and which one might be meant: the same name with another ending."""
    said = f"File does not exist. Note: your current working directory is {desk.cwd}."
    try:
        near = sorted(other.name for other in path.parent.iterdir() if other.stem == path.stem and other != path)
    except OSError:
        return said
    return f"{said} Did you mean {near[0]}?" if near else said
