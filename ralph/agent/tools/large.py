"""Output too long for a conversation: its beginning is shown, the whole is kept in a file that can be read."""

from pathlib import Path

_PREVIEW = 2000


def format_size(size: int) -> str:
    """A size as people read it: 512 bytes, 29.3KB, 4.8MB."""
    if size < 1024:
        return f"{size} bytes"
    for unit in ("KB", "MB"):
        size_in_unit = size / 1024 if unit == "KB" else size / 1024**2
        if size_in_unit < 1024:
            return f"{size_in_unit:.1f}".removesuffix(".0") + unit
    return f"{size / 1024**3:.1f}".removesuffix(".0") + "GB"


def kept_in_file(text: str, size: int, place: Path) -> str:
    """What the model is told instead of the whole."""
    cut = text.rfind("\n", 0, _PREVIEW)
    preview = text[: cut if cut > _PREVIEW // 2 else _PREVIEW]
    return (
        f"<persisted-output>\nOutput too large ({format_size(size)}). Full output saved to: {place}\n\n"
        f"Preview (first 2KB):\n{preview}\n...\n</persisted-output>"
    )
