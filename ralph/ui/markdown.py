"""The agent's Markdown as a rich renderable. Nothing in it can link, load, hide or decode anything.

Loading this takes a tenth of a second, so the transcript imports it with the first message.
"""

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import markdown as rich_markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from ralph.ui.terminal import visible


@cache
def _parser() -> MarkdownIt:
    """HTML, images and `&#27;` stay as they are written: a reader wants to see them, and nothing decodes them."""
    parser = MarkdownIt("commonmark", {"maxNesting": 12}).enable(["strikethrough", "table"])
    return parser.disable(["html_block", "html_inline", "image", "entity", "reference"])


class AgentMarkdown(rich_markdown.Markdown):
    """Line breaks stay: agents write one line for each thing they say. Code gets no syntax colours, which cost most."""

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _parser().parse(visible(text).expandtabs(4))
        for token in self.parsed:
            _keep_breaks(token)


def _keep_breaks(token: Token) -> None:
    for child in token.children or ():
        if child.type == "softbreak":
            child.type = "hardbreak"


class _Heading(rich_markdown.Heading):
    LEVEL_ALIGN = dict.fromkeys(rich_markdown.Heading.LEVEL_ALIGN, "left")


class _Code(rich_markdown.CodeBlock):
    """rich's own draws a box of the theme's background, and loads a lexer."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(
            Text(str(self.text).rstrip(), self.style), options.update(width=max(options.max_width - 2, 1)), pad=False
        ):
            yield Segment("  ")
            yield from line
            yield Segment.line()


class _Item(rich_markdown.ListItem):
    """A list's item, whose number ends with a full stop."""

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        width = len(str(last_number)) + 2
        lines = console.render_lines(
            self.elements, options.update(width=max(options.max_width - width, 1)), style=self.style, pad=False
        )
        for index, line in enumerate(lines):
            yield Segment(
                f"{number}. ".rjust(width) if index == 0 else " " * width, console.get_style("markdown.item.number")
            )
            yield from line
            yield Segment.line()


AgentMarkdown.elements = {
    **rich_markdown.Markdown.elements,
    "heading_open": _Heading,
    "fence": _Code,
    "code_block": _Code,
    "list_item_open": _Item,
}
