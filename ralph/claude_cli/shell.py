"""Reading a shell command without running it: its simple commands, and what is unknown before it runs.

tree-sitter-bash takes the line apart. Where its reading could differ from what bash runs, and for everything that only
bash will know, the result is an `obstacle`: a decision about the command must treat it as able to do anything.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

BLANKS = " \t\n"
NESTED = "A nested command in this command can't be checked before it runs"
NESTED_AS_FILE = "A command used as a file in this command can't be checked before it runs"
VARIABLE = "A variable in this command can't be checked before it runs"
VARIABLE_IN_BRACES = "A variable in braces in this command can't be checked before it runs"
FUNCTION = "A function definition in this command can't be checked before it runs"
CASE = "A case statement in this command can't be checked before it runs"
VARIABLE_SET = "A variable set in this command can't be checked before it runs"
QUOTED = "Quoted text in this command can't be checked before it runs"
ESCAPES = "Text with escape codes in this command can't be checked before it runs"
UNCHECKED = "This command can't be checked before it runs"
GROUP = "A group in braces or double parentheses in this command can't be checked before it runs"
HERE_DOCUMENT = "Heredoc with unquoted delimiter undergoes shell expansion"
CONTROL = "Contains control characters"
BRACES = "Brace expansion"
BRACE_PATTERN = "A brace pattern in this command can't be checked before it runs"
ESCAPED_BLANK = "Contains backslash-escaped whitespace"
NO_PARSE = "Parse error"
BACKGROUND = (
    "This command uses the `&` background operator, which defers execution past approval-time safety checks. Approve "
    "only if you trust it."
)
OPERATORS = "This command uses shell operators that require approval for safety"

_OBSTACLES = {
    "ansi_c_string": ESCAPES,
    "array": OPERATORS,
    "brace_expression": BRACE_PATTERN,
    "c_style_for_statement": OPERATORS,
    "case_statement": CASE,
    "command_substitution": NESTED,
    "compound_statement": GROUP,
    "expansion": VARIABLE_IN_BRACES,
    "function_definition": FUNCTION,
    "process_substitution": NESTED_AS_FILE,
    "select": OPERATORS,
    "subscript": OPERATORS,
    "subshell": OPERATORS,
    "translated_string": UNCHECKED,
}
"""Parts of the grammar that make a line unknown."""

_STATEMENTS = frozenset({
    "command", "compound_statement", "declaration_command", "do_group", "elif_clause", "else_clause", "for_statement",
    "if_statement", "list", "negated_command", "pipeline", "program", "redirected_statement", "subshell",
    "test_command", "unset_command", "variable_assignment", "variable_assignments", "while_statement",
})  # fmt: skip
_WORDS = frozenset({
    "arithmetic_expansion", "comment", "concatenation", "number", "raw_string", "simple_expansion", "string",
    "string_content", "word", "variable_name", "special_variable_name", "command_name", "file_descriptor",
    "file_redirect", "herestring_redirect", "heredoc_redirect", "heredoc_start", "heredoc_body", "heredoc_content",
    "heredoc_end", "test_operator", "unary_expression", "binary_expression", "parenthesized_expression",
    "extglob_pattern", "regex",
})  # fmt: skip
_SEPARATORS = frozenset({"&&", "||", "|&", "|", ";", "&"})
_COMMANDS = frozenset({"command", "declaration_command", "test_command", "unset_command", "variable_assignment"})
_REDIRECTIONS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_PASS_ON = frozenset({"list", "negated_command", "pipeline"})
_EXPANSIONS = frozenset({"arithmetic_expansion", "command_substitution", "expansion", "simple_expansion"})
_NOT_READ = frozenset({"{", "}", "coproc", "function", "select"})
_RESERVED = frozenset({
    "!", "[[", "case", "coproc", "for", "function", "if", "select", "time", "until", "while", "{",
})  # fmt: skip
_TESTED_AS_SUMS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
"""Between [[ and ]] these evaluate what stands beside them, and with it the commands in `a[$(...)]`."""

_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")
_BRACE_PATTERN = re.compile(r"\{[^{}]*\.\.[^{}]*\}|^\{\w+\}$")
"""The last one, before a redirection, would set a variable: PATH for one."""

_ESCAPED_BLANK = re.compile(r"(?<!\\)(\\\\)*\\[ \t]")

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_LOOP_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*")
"""In capitals it could be PATH."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|[^\S \t\n]")
"""The grammar and bash disagree on which of these are blanks."""

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
"""tree-sitter-bash 0.25.1 crashes on some of these (`{` before one); to bash they are letters of a word like `%`."""

_BETWEEN = b" \t\n;|&()"
_JOINED = re.compile(rb"(?<![ \t\n])\\\n")
"""To bash `a\\<newline>b` is one word, to the grammar they are two."""

_TWO_WORDS = re.compile(r"[^\s'\"\\$`(){}<>]*[{}]?[ \t]+[^'\"\\$`]*")
"""What the grammar (0.25.1) takes for one word, as in `a=b { [[`, and bash for several."""

_DELIMITER = re.compile(r"'\w+'|\"\w+\"", re.ASCII)
_KNOWN_VARIABLES = frozenset({"HOME"})
"""Variables that claude looks up itself (2.1.325)."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """One redirection."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether it opens its target for writing."""
        duplicates = self.operator.endswith(">&") and (self.target.isdigit() or self.target == "-")
        return ">" in self.operator and not duplicates


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One simple command: its words without quotes, its own text, its redirections."""

    words: tuple[str, ...]
    text: str
    redirections: tuple[Redirection, ...] = ()
    after: str = ""
    """The operator before it: `&&` means that it runs only if the one before succeeded, `!` that it is turned round."""

    expands: bool = False
    """A variable or a nested command stands in it."""

    @property
    def assignments(self) -> int:
        """How many of the first words set variables."""
        return next((at for at, word in enumerate(self.words) if not _ASSIGNMENT.match(word)), len(self.words))

    @property
    def name(self) -> str:
        """The program's name, without its folder and what is set for it."""
        rest = self.words[self.assignments :]
        return PurePath(rest[0]).name if rest else ""


@dataclass(frozen=True, slots=True)
class Script:
    """All simple commands of a line, in order; those of nested commands as well."""

    commands: tuple[ShellCommand, ...]
    obstacle: str
    """Why the line cannot be judged by its commands; empty: it can."""

    background: bool = False
    """Something of it goes on while the rest runs."""


@cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


@dataclass(slots=True)
class _ShellReader:
    source: bytes
    commands: list[ShellCommand] = field(default_factory=list[ShellCommand])
    operator: str = ""
    obstacle: str = ""
    background: bool = False
    assigned: set[str] = field(default_factory=set[str])

    def read(self) -> Script:
        root = _parser().parse(_BEYOND_ASCII.sub(b"%", self.source)).root_node
        if _CONTROL.search(self.source.decode("utf-8", "replace")):
            self._meet(CONTROL)
        if root.has_error or not self._is_covered(root):
            self._meet(NO_PARSE)
        self._look(root)
        if _JOINED.search(self.source):
            self._meet(OPERATORS)
        self._visit(root)
        return Script(tuple(self.commands), self.obstacle, self.background)

    def _meet(self, obstacle: str) -> None:
        self.obstacle = self.obstacle or obstacle

    def _is_covered(self, root: "Node") -> bool:
        """Tell whether nothing but blanks stands between what the grammar made something of."""
        at = 0
        for leaf in _leaves(root):
            if self.source[at : leaf.start_byte].replace(b"\\\n", b"").strip(b" \t\n"):
                return False
            at = max(at, leaf.end_byte)
        return not self.source[at:].replace(b"\\\n", b"").strip(b" \t\n")

    def _look(self, node: "Node") -> None:
        """Find what makes the line unknown, from left to right."""
        kind = node.type
        if kind in _OBSTACLES:
            self._meet(_OBSTACLES[kind])
        elif node.is_named and kind not in _STATEMENTS and kind not in _WORDS:
            self._meet(OPERATORS)
        match kind:
            case "simple_expansion":
                name = self._raw(node).removeprefix("$")
                if name in self.assigned:
                    self._meet(VARIABLE_SET)
                elif name not in _KNOWN_VARIABLES:
                    self._meet(VARIABLE)
            case "variable_assignment":
                self.assigned.add(self._raw(node).partition("=")[0].removesuffix("+"))
            case "string" if any(child.type == "command_substitution" for child in node.children):
                self._meet(QUOTED)
            case "arithmetic_expansion":
                if any(leaf.is_named and leaf.type != "number" for leaf in _leaves(node)):
                    self._meet(VARIABLE)
            case "comment":
                before = self.source[max(node.start_byte - 2, 0) : node.start_byte]
                if before and (before[-1:] not in _BETWEEN or before[:-1] == b"\\"):
                    self._meet(OPERATORS)
            case "!" if self.source[node.end_byte : node.end_byte + 1] not in (b" ", b"\t", b"\n", b"("):
                self._meet(OPERATORS)
            case "file_descriptor":
                before = self.source[max(node.start_byte - 1, 0) : node.start_byte]
                if not self._raw(node).isdigit() or before not in _BETWEEN:
                    self._meet(OPERATORS)
            case "heredoc_redirect":
                self._look_at_document(node)
            case "for_statement":
                name = next((child for child in node.children if child.type == "variable_name"), None)
                if name is None or not _LOOP_VARIABLE.fullmatch(self._raw(name)):
                    self._meet(OPERATORS)
            case "concatenation" | "word":
                self._look_at_word(self._raw(node))
            case _:
                pass
        for child in node.children:
            self._look(child)

    def _look_at_word(self, text: str) -> None:
        if _BRACES.search(text):
            self._meet(BRACES)
        elif _BRACE_PATTERN.search(text):
            self._meet(BRACE_PATTERN)
        elif _ESCAPED_BLANK.search(text):
            self._meet(ESCAPED_BLANK)

    def _look_at_document(self, node: "Node") -> None:
        """A here-document must end where bash ends it: at the first line that is its delimiter."""
        parts = {child.type: child for child in node.children}
        start, body, end = (parts.get(f"heredoc_{name}") for name in ("start", "body", "end"))
        if start is None or not _DELIMITER.fullmatch(delimiter := self._raw(start)):
            return self._meet(HERE_DOCUMENT)
        strips = "<<-" in parts
        lines = (self._raw(body) if body else "").split("\n")
        lines = [line.lstrip("\t") if strips else line for line in lines]
        is_alone = end is not None and self.source[: end.start_byte].rstrip(b"\t" if strips else b"").endswith(b"\n")
        if (
            end is None
            or not is_alone
            or self._raw(end).strip("\t" if strips else "") != delimiter[1:-1]
            or delimiter[1:-1] in lines
        ):
            self._meet(OPERATORS)
        return None

    def _visit(self, node: "Node") -> int | None:
        """Collect the simple commands below the node; return which one a redirection after the node belongs to."""
        if node.type == "redirected_statement":
            return self._visit_redirected(node)
        if node.type in _COMMANDS:
            return self._add(node)
        last = self._visit_children(node)
        return last if node.type in _PASS_ON else None

    def _visit_children(self, node: "Node") -> int | None:
        last: int | None = None
        for child in node.children:
            if child.type in _SEPARATORS:
                self.background |= child.type == "&"
                self.operator = child.type
            elif child.type == "!":
                self.operator = "!"
            elif child.type in _STATEMENTS:
                last = self._visit(child)
                self.operator = ";"
            else:
                self._visit_nested(child)
        return last

    def _visit_nested(self, node: "Node") -> None:
        """Collect the commands inside of words and redirections."""
        if node.type in _STATEMENTS:
            held, self.operator = self.operator, ";"
            self._visit(node)
            self.operator = held
            return
        for child in node.children:
            self._visit_nested(child)

    def _visit_redirected(self, node: "Node") -> int | None:
        body = node.child_by_field_name("body")
        last = None if body is None else self._visit(body)
        parts = [child for child in node.children if child.type in _REDIRECTIONS]
        read = [self._redirection(part) for part in parts]
        words = tuple(word for _, more in read for word in more)
        redirections = tuple(redirection for redirection, _ in read)
        expands = any(map(_expands, parts))
        if last is None:  # a loop, a group: its redirections are judged by themselves
            self.commands.append(ShellCommand(words, "", redirections, self.operator, expands))
            last = len(self.commands) - 1
        else:
            found = self.commands[last]
            self.commands[last] = replace(
                found,
                words=found.words + words,
                text=" ".join([found.text, *words]),
                redirections=found.redirections + redirections,
                expands=found.expands or expands,
            )
        for part in parts:  # after the start of a here-document the line goes on
            if part.type == "heredoc_redirect":
                self._visit_children(part)
            else:
                self._visit_nested(part)
        return last

    def _add(self, node: "Node") -> int:
        words: list[str] = []
        redirections: list[Redirection] = []
        parts = list(_words_of(node))
        for part in parts:
            if part.type in _REDIRECTIONS:
                redirection, more = self._redirection(part)
                redirections.append(redirection)
                words += more
            else:
                words.append(self._plain(part))
                if _TWO_WORDS.fullmatch(self._raw(part)):
                    self._meet(OPERATORS)
        if words[:1] and words[0] in _NOT_READ:
            self._meet(GROUP if words[0] == "{" else OPERATORS)
        is_timed = words[:1] == ["time"] and _RESERVED & set(words[1:])
        if is_timed or (words[:1] == ["[["] and _TESTED_AS_SUMS & set(words)):
            self._meet(OPERATORS)
        text = self._raw(node).strip(BLANKS)
        self.commands.append(ShellCommand(tuple(words), text, tuple(redirections), self.operator, _expands(node)))
        added = len(self.commands) - 1
        for part in parts:
            for child in part.children:
                self._visit_nested(child)
        return added

    def _redirection(self, node: "Node") -> tuple[Redirection, list[str]]:
        """The redirection, and what the grammar takes for more targets of it: words."""
        if node.type == "heredoc_redirect":
            return Redirection("<<", ""), []
        parts = [child for child in node.children if child.type != "file_descriptor"]
        targets = [self._plain(part) for part in parts[1:]]
        operator = parts[0].type if parts else ""
        if not targets and not operator.endswith("-"):
            self._meet(OPERATORS)
        return Redirection(operator.removesuffix("-"), targets[0] if targets else "-"), targets[1:]

    def _raw(self, node: "Node") -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _plain(self, node: "Node") -> str:
        """The word without its quotes; what stands in it for something else is left as it is."""
        match node.type:
            case "raw_string":
                return self._raw(node)[1:-1]
            case "string":
                return "".join(self._parts(node, _ESCAPED_IN_QUOTES))[1:-1]
            case "concatenation" | "command_name" | "variable_assignment":
                return "".join(self._parts(node, _ESCAPED))
            case "simple_expansion" | "expansion" | "command_substitution" | "process_substitution":
                return self._raw(node)
            case _:
                return _ESCAPED.sub(_unescaped, self._raw(node))

    def _parts(self, node: "Node", escaped: re.Pattern[str]) -> Iterator[str]:
        at = node.start_byte
        for child in node.children:
            yield self.source[at : child.start_byte].decode("utf-8", "replace")
            is_text = child.type == "string_content"
            yield escaped.sub(_unescaped, self._raw(child)) if is_text else self._plain(child)
            at = child.end_byte
        yield escaped.sub(_unescaped, self.source[at : node.end_byte].decode("utf-8", "replace"))


def _unescaped(found: re.Match[str]) -> str:
    return found[1].strip("\n")


def _words_of(node: "Node") -> Iterator["Node"]:
    """What a simple command is made of; of a test each operator and operand."""
    match node.type:
        case "variable_assignment":
            yield node
        case "test_command":
            yield from _operands(node)
        case _:
            yield from (child for child in node.children if child.type != "comment")


def _operands(node: "Node") -> Iterator["Node"]:
    for child in node.children:
        is_inner = child.type in ("unary_expression", "binary_expression", "parenthesized_expression")
        yield from _operands(child) if is_inner else [child]


def _leaves(node: "Node") -> Iterator["Node"]:
    if node.children and node.type not in ("string", "heredoc_body"):
        for child in node.children:
            yield from _leaves(child)
    else:
        yield node


def _expands(node: "Node") -> bool:
    return node.type in _EXPANSIONS or any(map(_expands, node.children))


def read_script(command: str) -> Script:
    """Take a command line apart."""
    reader = _ShellReader(command.encode("utf-8", "replace"))
    if not command.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in command):
        reader.obstacle = CONTROL
    return reader.read()


def programs(command: str) -> list[str]:
    """Return the names of the programs that a command line runs, as far as known."""
    return [part.name for part in read_script(command).commands]


def last_program(command: str) -> str:
    """The program whose exit code is the command line's."""
    names = programs(command)
    return names[-1] if names else ""
