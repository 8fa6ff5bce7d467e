"""The agent's Markdown as a rich renderable. Nothing in it can link, load, hide or decode anything.

Loading this takes a tenth of a second, so the transcript imports it with the first message.
"""

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import markdown as rich_markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSI_LIGHT, ANSISyntaxTheme, Syntax, SyntaxTheme
from rich.text import Text

from ralph.ui.terminal import visible


@cache
def _parser() -> MarkdownIt:
    """HTML, images and `&#27;` stay as they are written: a reader wants to see them, and nothing decodes them."""
    parser = MarkdownIt("commonmark", {"maxNesting": 12}).enable(["strikethrough", "table"])
    return parser.disable(["html_block", "html_inline", "image", "entity", "reference"])


class AgentMarkdown(rich_markdown.Markdown):
    """Line breaks stay: agents write one line for each thing they say."""

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


_LANGUAGES = frozenset(
    ("bash", "c", "cpp", "css", "diff", "go", "html", "java", "javascript", "js", "json", "jsx", "kotlin", "lua",
     "makefile", "php", "py", "python", "rb", "rs", "ruby", "rust", "sh", "sql", "swift", "toml", "ts", "tsx",
     "typescript", "xml", "yaml", "yml", "zsh")
)  # fmt: skip
"""Languages whose code is coloured. For any other name, pygments would look through every installed package."""
_LONGEST_CODE = 2_000
"""Characters of coloured code: 2,000 take a few milliseconds."""
_READABLE = {"blue": "magenta", "bright_blue": "magenta", "bright_red": "red", "white": None}
"""What stands for colours of rich's theme that cannot be read on some background."""


@cache
def _colours() -> SyntaxTheme:
    return ANSISyntaxTheme({token: _readable(each) for token, each in ANSI_LIGHT.items()})


def _readable(each: Style) -> Style:
    name = each.color.name if each.color else None
    return Style(color=_READABLE.get(name, name) if name else None, dim=each.dim, bold=each.bold)


def _coloured(code: str, language: str) -> Text | None:
    """Return code in the colours of its language, if that is known and the code is short."""
    if language not in _LANGUAGES or len(code) > _LONGEST_CODE:
        return None
    coloured = Syntax(code, language, theme=_colours()).highlight(code)
    coloured.no_wrap = False  # rich would cut lines that are too long
    return coloured


class _Code(rich_markdown.CodeBlock):
    """rich's own draws a box of the theme's background, and loads a lexer for any name."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        words = _coloured(code, self.lexer_name.lower()) or Text(code, self.style)
        words.rstrip()
        for line in console.render_lines(words, options.update(width=max(options.max_width - 2, 1)), pad=False):
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
