"""Rendering of prompt templates, strictly and in a sandbox; a project's own in a child process with limits.

A template can ask for any amount of memory and time, and jinja2's sandbox has no limit for either.
"""

import functools
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path

import jinja2
import jinja2.sandbox

from ralph.core import ndjson
from ralph.core.text import fenced, format_duration, format_size
from ralph.system import environ
from ralph.system.programs import OutOfTime, run_to_end

_LONGEST = 10.0
_MOST_MEMORY = 500_000_000
"""Seconds and bytes (of address space) that a project's template may take; usual ones take 0.1 s and 60 MB."""
_MOST_TEXT = 8 << 20
_FAULTS = (
    jinja2.TemplateError, UnicodeDecodeError, OSError, TypeError, ValueError, ArithmeticError, RecursionError,
    MemoryError,
)  # fmt: skip


class TemplateFault(Exception):
    """A template cannot be rendered: why."""


def render(folders: tuple[str, ...], name: str, variables: Mapping[str, object]) -> str:
    """Render a template that ships with ralph, in this process."""
    try:
        return _environment(folders).get_template(name).render(variables)
    except _FAULTS as error:
        raise TemplateFault(str(error) or type(error).__name__) from error


def render_with_limits(folders: tuple[str, ...], name: str, variables: Mapping[str, object]) -> str:
    """Render a template of the project's, in a child that may take only so much memory and time."""
    paper = ndjson.encode({"folders": folders, "name": name, "variables": variables}).encode("utf-8", "surrogatepass")
    argv = [sys.executable, "-P", "-m", "ralph.run.template"]
    try:
        status, output, _ = run_to_end(argv, environment=environ.inherited(), said=paper, limit=_LONGEST)
    except OutOfTime as error:
        raise TemplateFault(f"it takes longer than {format_duration(_LONGEST)}") from error
    if status == 0:
        return output.decode("utf-8", "surrogatepass")
    if status == 1:
        raise TemplateFault(output.decode("utf-8", "replace"))
    raise TemplateFault(f"it needs more than {format_size(_MOST_MEMORY)}")


def require_inside(folder: Path) -> None:
    """Refuse links among a project's templates that lead elsewhere: a prompt could quote any file."""
    real = folder.parent.resolve() / folder.name
    for path in (folder, *sorted(folder.rglob("*"))):
        if path.is_symlink() and not path.resolve().is_relative_to(real):
            raise TemplateFault(f"{path} is a link that leads out of {folder}")


@functools.cache
def _environment(folders: tuple[str, ...]) -> jinja2.Environment:
    """The engine for these folders, kept: compiling a template takes longer than all else in an iteration."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown for an agent, not HTML for a browser
    )
    environment.filters["fenced"] = fenced  # pyright: ignore[reportUnknownMemberType] - jinja2 does not type it
    return environment


def _main() -> int:
    """Render what stdin asks for; print it, or why not."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(_LONGEST), int(_LONGEST)))
    asked = ndjson.mapping(ndjson.decode(sys.stdin.buffer.read().decode("utf-8", "surrogatepass")))
    folders = tuple(map(str, ndjson.sequence(asked.get("folders"))))
    try:
        text = render(folders, ndjson.text(asked.get("name")), ndjson.mapping(asked.get("variables")))
        if len(text) > _MOST_TEXT:
            raise TemplateFault(f"the prompt is longer than {format_size(_MOST_TEXT)}")
        status = 0
    except TemplateFault as fault:
        text, status = str(fault), 2 if str(fault) == MemoryError.__name__ else 1
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()
    os._exit(status)


if __name__ == "__main__":
    _main()
