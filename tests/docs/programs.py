"""The command lines of ralph's programs, and every text that they show."""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from ralph.claude_cli.flags import FLAGS
from ralph.cli import main, runs

ROOT = Path(__file__).parents[2]


def commands() -> dict[str, Any]:
    """Every command of `ralph` and `ralph-runs`, by what is typed: `ralph config set`."""
    found: dict[str, Any] = {}
    for name, app in (("ralph", main.app), ("ralph-runs", runs.app)):
        found |= dict(_below(name, typer.main.get_command(app)))
    return found


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        if inner.hidden:  # an old name that scripts still use
            continue
        yield from _below(f"{name} {word}", inner)


def flags() -> dict[str, set[str]]:
    """The flags of every command, and those of `ralph-claude`."""
    found = {name: {"--help", *_flags(command)} for name, command in commands().items()}
    return found | {"ralph-claude": {"--help", *(name for flag in FLAGS for name in flag.names)}}


def _flags(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (flag for flag in [*parameter.opts, *parameter.secondary_opts] if flag.startswith("--"))


def documents() -> Iterator[tuple[str, str]]:
    """The pages that people read."""
    names = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    for page in sorted([*(ROOT / name for name in names), *(ROOT / "docs").rglob("*.md")]):
        yield str(page.relative_to(ROOT)), page.read_text()


def examples() -> Iterator[tuple[str, str]]:
    """What ships to be copied or played: goals, settings, scripts."""
    for path in sorted([*(ROOT / "examples").rglob("*"), *(ROOT / ".ralph.example").rglob("*")]):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text()


def helps() -> Iterator[tuple[str, str]]:
    """What `--help` says."""
    for name, command in commands().items():
        said = [command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)]
        yield f"{name} --help", "\n".join(said)


def messages() -> Iterator[tuple[str, str]]:
    """Every string in the package that is not a docstring: messages, hints and what is drawn on screens."""
    yield from ((where, text) for where, text, is_docstring in _strings() if not is_docstring)


def docstrings() -> Iterator[tuple[str, str]]:
    """Every docstring in the package, below a name or an attribute."""
    yield from ((where, text) for where, text, is_docstring in _strings() if is_docstring)


def comments() -> Iterator[tuple[str, str]]:
    """Every comment in the package."""
    for path in sorted((ROOT / "ralph").rglob("*.py")):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.COMMENT:
                yield f"{path.relative_to(ROOT)}:{token.start[0]}", token.string


def refusals() -> Iterator[tuple[str, int]]:
    """Every error that only the user can fix, and its number of arguments; ralph-claude's words are Claude Code's."""
    for path in sorted(set((ROOT / "ralph").rglob("*.py")) - set((ROOT / "ralph" / "claude_cli").rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("UsageError", "BlockedError"):
                starred = any(isinstance(argument, ast.Starred) for argument in node.args)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", 2 if starred else len(node.args) + len(node.keywords)


def templates() -> Iterator[tuple[str, str]]:
    """The prompts that agents get."""
    for path in sorted((ROOT / "prompts").glob("*.md.j2")):
        yield str(path.relative_to(ROOT)), path.read_text()


@functools.cache
def _strings() -> list[tuple[str, str, bool]]:
    """Every string in the package, and whether it stands alone, as a docstring does."""
    found: list[tuple[str, str, bool]] = []
    for path in sorted((ROOT / "ralph").rglob("*.py")):
        tree = ast.parse(path.read_text())
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", node.value, id(node) in alone))
    return found
