"""Imports point down only, and every effect has one door. Both tables are meant to be edited, with a reason."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import ralph

PACKAGE = Path(ralph.__file__).parent

# What everyone above them may import.
COMMON = {"__init__", "errors", "events", "quantities"}

PURE = {
    "allowance", "budget", "calls", "digest", "excerpt", "failures", "goal", "history", "jsonline", "lines", "nearest",
    "run", "runners", "sensitive", "standstill", "steering", "summary", "trailers", "transcripts", "verdict",
}  # fmt: skip

# Many goals: it reaches `ralph run` only as a process.
BATCH = {
    "budget", "environ", "excerpt", "failures", "files", "gitcommand", "gitrepo", "goal", "goalfile", "journal",
    "jsonline", "lifetime", "mailbox", "nearest", "notifying", "process", "protected", "repolock", "sensitive",
    "settings", "standing", "steering", "trailers", "transcripts", "verdict", "windows",
}  # fmt: skip

# module or package -> what of ours it may import besides COMMON
LAYERS: dict[str, set[str]] = {
    "__init__": set(),
    "errors": set(),
    "events": set(),
    "quantities": set(),
    # pure: no I/O, no clock
    "allowance": {"budget"},
    "budget": set(),
    "calls": {"verdict"},
    "digest": {"verdict"},
    "excerpt": set(),
    "failures": {"budget", "verdict"},
    "goal": {"nearest"},
    "history": {"verdict"},
    "jsonline": set(),
    "lines": set(),
    "nearest": set(),
    "pricing": {"jsonline"},
    "dossier": {"excerpt", "run"},
    "run": {"budget", "history", "standstill", "steering", "summary", "verdict"},
    "runners": {"allowance", "budget", "jsonline", "pricing", "verdict"},
    "sensitive": set(),
    "standing": {"budget", "digest"},
    "standstill": set(),
    "steering": set(),
    "stopwatch": set(),
    "summary": {"budget", "excerpt"},
    "trailers": {"budget", "jsonline", "verdict"},
    "transcripts": {"budget", "jsonline", "lines"},
    "verdict": set(),
    # edges: one door per effect
    "agent": {"environ", "files", "handover", "jsonline", "lines", "nearest", "pricing", "process", "searchpath"},
    "accounts": {"files", "runners"},
    "check": {"excerpt", "lines", "process"},
    "configfile": {"files"},
    "environ": set(),
    "envrc": {"files", "jsonline", "process"},
    "files": set(),
    "lifetime": set(),
    "footprint": {"excerpt", "gitcommand"},
    "gitcommand": {"environ", "process", "searchpath"},
    "goalfile": {"goal"},
    "notifying": {"jsonline", "process", "searchpath"},
    "plugins": {"runners", "transcripts"},
    "gitrepo": {"files", "gitcommand", "process", "sensitive"},
    "journal": {"budget", "files", "history", "jsonline", "run", "standstill", "steering", "summary", "verdict"},
    "handover": set(),
    "mailbox": {"files", "jsonline", "steering"},
    "process": {"files", "handover", "lines"},
    "prompts": {"excerpt", "goal", "history", "run", "summary", "verdict"},
    "protected": {"files"},
    "recorder": {"budget"},
    "repolock": {"files", "jsonline", "process"},
    "recovery": {"budget", "history", "lines", "run", "trailers", "transcripts"},
    "roster": {"goal", "journal", "jsonline", "repolock"},
    "searchpath": set(),
    "settings": {"configfile", "budget", "environ", "nearest", "plugins", "runners", "summary", "transcripts"},
    "summaryfile": {"files", "summary"},
    "trust": {"envrc", "files", "journal"},
    "ui": {"budget", "digest", "jsonline", "standing", "steering", "verdict"},
    "windows": {"files", "jsonline"},
    # the core sees the edges through Protocols
    "patience": set(),
    "session": PURE,
    "loop": {"patience", "session"} | PURE,
    "scouting": {"patience", "session"} | PURE,
    "condensing": {"session"} | PURE,
    "batch": BATCH,
}
LAYERS["cli"] = set(LAYERS)
LAYERS["__main__"] = {"cli"}

# library -> the only modules that may import it: a module or package, or one file of a package by its path
DOORS: dict[str, set[str]] = {
    "anthropic": {"agent/models/anthropic"},
    "dbos": {"batch/engine"},
    "dotenv": {"envrc/static", "settings"},
    "fcntl": {"batch/bare", "mailbox", "process", "repolock"},
    "git": {"gitcommand"},
    "httpx2": {"agent/models/anthropic"},
    "jinja2": {"prompts"},
    "jsonschema": {"agent/schemas"},
    "orjson": {"jsonline"},
    "platformdirs": {"settings"},
    "psutil": {"process"},
    "rich": {"ui"},
    "signal": {"process"},
    "sqlalchemy": {"batch/database", "batch/engine", "batch/store"},
    "subprocess": {"process"},
    "termios": {"ui"},
    "threading": {
        "agent",
        "batch",
        "cli/runs/board/clerk",
        "cli/runs/board/showing",
        "cli/runs/progress",
        "handover",
        "process",
        "ui",
    },
    "tomli_w": {"envrc/direnv", "configfile", "trust"},
    "typer": {"cli"},
    "yaml": {"goal"},
}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}  # of os
ENVIRONMENT_DOOR = "environ"  # not settings, which takes 50 ms to import: the agent has 150 to its first event


def violations(package: Path, layers: dict[str, set[str]], doors: dict[str, set[str]]) -> list[str]:
    """List every import in `package` that the tables do not allow, wherever in a file it stands."""
    files = {file: file.relative_to(package).parts[0].removesuffix(".py") for file in package.rglob("*.py")}
    found = {f"{module}: is not in the table" for module in files.values() if module not in layers}
    for file, module in files.items():
        ours = {module} | layers.get(module, set()) | (COMMON if module not in COMMON else set())
        for target in imports(file, package):
            library, _, inner = target.partition(".")
            if library == package.name:
                name = inner.partition(".")[0]
                imported = name if name in files.values() else "__init__"
                allowed = imported in ours
            elif library == "os" and inner in ENVIRONMENT:
                imported, allowed = target, module == ENVIRONMENT_DOOR
            else:
                path = str(file.relative_to(package).with_suffix(""))
                imported, allowed = library, bool({module, path} & doors.get(library, {module}))
            if not allowed:
                found.add(f"{module}: imports {imported} (not allowed)")
    return sorted(found)


def imports(file: Path, package: Path) -> Iterator[str]:
    """Yield the dotted name of everything that `file` imports, and `os.<name>` wherever one is used."""
    here = (package.name, *file.relative_to(package).parent.parts)
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(base, names, level):
                parts = [*(here[: len(here) - level + 1] if level else ()), *([base] if base else ())]
                yield from (".".join([*parts, alias.name]) for alias in names)
            case ast.Attribute(ast.Name("os"), name):
                yield f"os.{name}"
            case _:
                pass


def test_ralph_keeps_to_the_tables() -> None:
    found = violations(PACKAGE, LAYERS, DOORS)
    assert not found, "\n".join(found)


def test_the_table_itself_points_down_only() -> None:
    graphlib.TopologicalSorter(LAYERS).prepare()  # raises CycleError


def test_every_kind_of_violation_is_found(tmp_path: Path) -> None:
    toy = tmp_path / "toy"
    files = {
        "__init__.py": "__version__ = '1'",
        "errors.py": "import toy.low",
        "low.py": "from toy import __version__, errors\ndef late():\n    from toy.high.inner import thing",
        "high/__init__.py": "import json, toy.low\nfrom .inner import thing\nfrom .. import errors",
        "high/inner.py": "import os\nfrom rich.text import Text\nthing = os.environ['HOME'], os.sep",
        "sly.py": "from os import getenv\nfrom . import high",
        "environ.py": "import os, rich\nhome = os.environ['HOME']",
        "high/door.py": "import httpx",
        "high/window.py": "import httpx",
        "stray.py": "import toy.low",
    }
    for name, text in files.items():
        (toy / name).parent.mkdir(parents=True, exist_ok=True)
        (toy / name).write_text(text)
    layers: dict[str, set[str]] = {"__init__": set(), "errors": set(), "low": set(), "high": {"low"}}
    layers |= {"sly": {"low"}, "environ": set()}

    assert violations(toy, layers, {"rich": {"environ"}, "httpx": {"high/door"}}) == [
        "errors: imports low (not allowed)",
        "high: imports httpx (not allowed)",
        "high: imports os.environ (not allowed)",
        "high: imports rich (not allowed)",
        "low: imports high (not allowed)",
        "sly: imports high (not allowed)",
        "sly: imports os.getenv (not allowed)",
        "stray: imports low (not allowed)",
        "stray: is not in the table",
    ]
