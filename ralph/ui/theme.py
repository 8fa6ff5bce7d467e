"""How things look: a handful of named styles, and the one rich console that turns renderables into rows.

The styles use the terminal's own sixteen colours and bold, dim and reverse only, so that they are readable on dark and
on light backgrounds. Text from agents, tools and repositories becomes a renderable through `safe` alone.
"""

import io
from functools import cache
from typing import TYPE_CHECKING

from ralph.ui.terminal import Look, flat, visible

if TYPE_CHECKING:  # rich takes a tenth of a second to load: only what is shown in a terminal pays for it
    from rich.console import Console, RenderableType
    from rich.style import Style
    from rich.text import Text

    from ralph.ui.terminal import Row


_STYLES = {
    Look.STRONG: "bold",
    Look.QUIET: "dim",
    Look.GOOD: "green",
    Look.WARN: "yellow",
    Look.BAD: "red",
    Look.ACCENT: "cyan",
    Look.SOFT: "magenta",
    Look.CHOSEN: "reverse",
    **{f"markdown.h{level}": "bold" for level in range(1, 7)},
    "markdown.code": "cyan",
    "markdown.code_block": "cyan",
    "markdown.link": "underline",
    "markdown.link_url": "underline",
    "markdown.block_quote": "dim",
    "markdown.hr": "dim",
    "markdown.item.bullet": "cyan",
    "markdown.item.number": "cyan",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
    "table.header": "bold",
    "rule.line": "dim",
}


@cache
def _console() -> "Console":
    """Never written to: it only measures and renders. Markup, emoji names and highlighting are off for all text."""
    from rich.console import Console
    from rich.theme import Theme

    return Console(
        file=io.StringIO(), width=80, height=24, theme=Theme({str(name): style for name, style in _STYLES.items()}),
        force_terminal=True, color_system="standard", legacy_windows=False, markup=False, emoji=False, highlight=False,
        _environ={},
    )  # fmt: skip


def render(renderable: "RenderableType", columns: int, height: int | None = None) -> "list[Row]":
    """Return a renderable as rows of at most so many cells; with a height, as exactly so many rows.

    This is the costly part (a table of 50 rows takes 30 ms): keep the rows until what they show changes.
    """
    console = _console()
    options = console.options.update(width=max(columns, 1), height=height, no_wrap=False)
    return [list(line) for line in console.render_lines(renderable, options, pad=False)]


@cache
def style(look: Look) -> "Style":
    """Return the style that a look stands for."""
    return _console().get_style(look)


def safe(text: str, look: Look = Look.PLAIN, *, one_line: bool = False) -> "Text":
    """Return text from anywhere as a rich text that can steer no terminal and means no markup."""
    from rich.text import Text

    return Text((flat if one_line else visible)(text), style=look, end="")
