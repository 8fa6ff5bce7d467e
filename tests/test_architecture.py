"""Imports point down only, and every effect has one door. All tables are meant to be edited, with a reason.

`LAYERS` says which folders a folder may import, `ORDER` what stands above what inside a folder, `DOORS` who alone may
import a library. A file's name here is its path in the package, without `.py`.
"""

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import ralph

PACKAGE = Path(ralph.__file__).parent

# folder or file at the top -> the folders of ours it may import, besides itself; everyone may import `core`
LAYERS: dict[str, str] = {
    "core": "",
    "system": "",
    "sandbox": "system",
    "git": "system",
    "agents": "",
    "config": "system agents sandbox",
    "state": "system config git",
    "ui": "system",
    "proof": "system sandbox git state",
    "run": "system sandbox git agents config state proof ui __init__",
    "queue": "system git agents config state",  # it reaches `ralph run` only as a process
    "setup": "system sandbox git agents config state proof ui run queue __init__",
    "dashboard": "queue ui config system state",  # a goal's log is what its run keeps on disk
    "cli": "system git agents config state ui run setup queue dashboard __init__",
    "claude_cli": "system __init__",
    "provider": "system config agents",
    "runners": "agents",
    "transcripts": "agents",
    "__main__": "cli",
    "__init__": "",
}

# folder -> its files; a file imports only what stands left of the `<` before it
ORDER: dict[str, str] = {
    "agents": (
        "base claude_answer transcript < claude claude_usage codex_sections codex_stream custom < claude_stream "
        "codex_text login < codex < registry"
    ),
    "claude_cli": (
        "flags instructions models/base permissions/rules schemas shell stdio < debug models/faults models/scripted "
        "settings usage < control desk < mcp_config models/attempts models/fallback permissions/prompt < mcp_client "
        "models/wire permissions/harmless stream tools/bash tools/read tools/ripgrep tools/skill < history "
        "models/clouds models/openai permissions/commands tools/edit tools/search < models/anthropic options upstream "
        "< permissions/decide tools/mcp < tools/__init__ < hooks models/choice < compaction toolbox < conversation < "
        "subagents < session < main < __main__"
    ),
    "cli": (
        "completion help < flags program < ask config control history queue_add queue_show queue_stats run setup < "
        "main queue_control queue_history queue_work < runs"
    ),
    "config": "envrc_files files paths values < envrc keys trust < settings < environment",
    "core": (
        "errors events guidance ndjson progress proof secrets stall text verdict < activity fallback goal records "
        "usage < limits plan reason status summary < failures run < history stage"
    ),
    "dashboard": (
        "reasons < board report rows < dry_run gc_report history lines source < needs table transcript view < "
        "actions margins pages preview < frame < screen"
    ),
    "git": "configuration < command < address history < repo",
    "proof": "check protected < checkout < judge",
    "queue": (
        "database goals repos/remote < engine glance manifest merge/vet news paths repos/mirror rows < budget clone "
        "merge/trees repos/goal_refs repos/push stats submit < discard store < child gc merge/pipeline merge_choice "
        "open repos/prefetch < history merge/undo worker_state < admission merge/task run_events < attempt scheduler "
        "< goal_task < serve"
    ),
    "run": (
        "observers place replay session template throwaway < prompts < agent loop scout summarizer < ask check_command "
        "prepare screen < cut report < dossier resume tree turn < proven workspace < open pipe planner understand < "
        "plan start"
    ),
    "sandbox": "policy variables < bubblewrap places < sandbox",
    "setup": "doctor preflight toolchains trial < init",
    "state": "inbox lock project result < journal < git_settings known_runs < past_runs",
    "system": "clock environ files guardian instruction_files programs signals < child leash notify",
    "ui": (
        "keys output < terminal < render theme < "
        "console markdown page progress status_line < history run_keys transcript < live"
    ),
}

# library -> the only files that may import it: a folder, or a file by its path
DOORS: dict[str, str] = {
    "anthropic": "claude_cli/models/clouds",
    "dbos": "queue/engine",
    "dotenv": "config/envrc config/settings",
    "fcntl": "queue/repos/remote state/inbox state/lock system",
    "git": "git/command",
    "httpx2": "claude_cli/mcp_client claude_cli/models/clouds claude_cli/models/openai claude_cli/models/wire",
    "mcp": "claude_cli/mcp_client",
    "jinja2": "run/template",
    "jsonschema": "claude_cli/schemas",
    "openai": "claude_cli/models/openai",
    "orjson": "core/ndjson",
    "pathspec": "claude_cli/permissions/rules proof/protected",
    "platformdirs": "config/paths",
    "psutil": "system",
    "rich": "ui dashboard",  # both build what people see; only ui/terminal writes it
    "signal": "system",
    "sqlalchemy": "queue/database queue/engine queue/rows queue/store queue/submit",
    "sqlite3": "queue/database queue/glance",
    "subprocess": "system",
    "termios": "ui",
    "threading": "claude_cli queue system ui provider dashboard/actions dashboard/lines dashboard/screen",
    "tomli_w": "config",
    "tree_sitter": "claude_cli/shell",
    "tree_sitter_bash": "claude_cli/shell",
    "typer": "cli",
    "yaml": "core/goal",
}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}  # of os
ENVIRONMENT_DOOR = "system/environ"


def test_ralph_keeps_to_the_tables() -> None:
    found = violations(PACKAGE)
    assert not found, "\n".join(found)


WRITES_ESCAPES = "ui/terminal"
READS_ESCAPES = {
    "agents/codex_sections": "colours in what codex prints",
    "agents/codex_text": "what is dim in what codex prints",
    "core/run": "control characters in a summary",
    "core/text": "control characters in what is fenced for a prompt",
    "core/verdict": "colours around a claim of DONE",
    "proof/check": "colours in what test runners print",
    "ui/keys": "keys, as terminals send them",
}


def test_escape_sequences_are_written_by_one_module() -> None:
    """Whoever else has the character in a literal looks for it in what others wrote."""
    files = _files(PACKAGE)
    found = {
        name
        for name, file in files.items()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and _is_an_escape(node.value)
    }
    assert found == {WRITES_ESCAPES, *READS_ESCAPES}


def _is_an_escape(value: object) -> bool:
    """Tell whether a literal begins a sequence, itself or as a regular expression writes it; or is its number."""
    match value:
        case str():
            return any(each in value for each in ("\x1b", "\x9b", "\x9d", "\\x1b", "\\033", "\\u001b"))
        case bytes():
            return b"\x1b" in value
        case _:
            return False


def test_the_tables_themselves_point_down_only() -> None:
    graphlib.TopologicalSorter({folder: words.split() for folder, words in LAYERS.items()}).prepare()  # CycleError
    assert all(set(words.split()) <= set(LAYERS) for words in LAYERS.values())
    assert set(ORDER) <= set(LAYERS)


@pytest.mark.spec("3.1-j")
def test_the_algorithms_of_a_run_see_the_world_only_through_their_collaborators() -> None:
    seen = {
        (name, target)
        for name in ("run/loop", "run/session", "run/summarizer", "run/scout")
        for target in imports(PACKAGE / f"{name}.py", PACKAGE)
        if target.startswith(("ralph.ui", "ralph.git", "ralph.state"))
    }
    assert not seen


def violations(
    package: Path,
    layers: Mapping[str, str] = LAYERS,
    order: Mapping[str, str] = ORDER,
    doors: Mapping[str, str] = DOORS,
    door_of_environment: str = ENVIRONMENT_DOOR,
) -> list[str]:
    """List every import in a package that the tables do not allow, wherever in a file it stands, and the rule."""
    files = _files(package)
    ranks = {
        f"{folder}/{name}": rank
        for folder, words in order.items()
        for rank, names in enumerate(words.split("<"))
        for name in names.split()
    }
    found = {f"{file}: has no place in ORDER" for file in files if _is_ranked(file, order) and file not in ranks}
    found |= {f"{name}: stands in ORDER, and is no file" for name in ranks if name not in files}
    for name, file in files.items():
        folder = name.partition("/")[0]
        if folder not in layers:
            found.add(f"{name}: has no place in LAYERS")
            continue
        for target in imports(file, package):
            library, _, inner = target.partition(".")
            if library == package.name:
                found |= _within(name, _file_of(inner, files), layers, ranks)
            elif library == "os" and inner in ENVIRONMENT:
                if name != door_of_environment:
                    found.add(f"{name} uses {target}: only {door_of_environment} may")
            elif library in doors and not {folder, name} & set(doors[library].split()):
                found.add(f"{name} imports {library}: only {' and '.join(doors[library].split())} may")
    return sorted(found)


def _is_ranked(name: str, order: Mapping[str, str]) -> bool:
    """Tell whether a file must have a place in the order of its folder; an `__init__` need not."""
    return name.partition("/")[0] in order and not name.endswith("/__init__")


def _within(name: str, target: str, layers: Mapping[str, str], ranks: Mapping[str, int]) -> set[str]:
    """Judge an import of one file of ours by another."""
    folder, other = name.partition("/")[0], target.partition("/")[0]
    if other == folder:
        down = target == name or ranks.get(target, -1) < ranks.get(name, len(ranks))
        return set() if down else {f"{name} imports {target}: in {folder}/ it stands left of it, or beside it"}
    allowed = {*layers[folder].split(), *({"core"} & set(layers) if folder not in ("core", "__init__") else ())}
    return set() if other in allowed else {f"{name} imports {target}: {folder} may import {sorted(allowed)}"}


def _file_of(dotted: str, files: Mapping[str, Path]) -> str:
    """The file that an imported name is in: a module, a package, or a name in one of them."""
    parts = dotted.split(".") if dotted else []
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        if path in files:
            return path
        if f"{path}/__init__" in files:
            return f"{path}/__init__"
    return "__init__"


def imports(file: Path, package: Path) -> Iterator[str]:
    """Yield the dotted name of everything that a file imports, and `os.<name>` wherever one is used."""
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


def test_every_kind_of_violation_is_found(tmp_path: Path) -> None:
    toy = tmp_path / "toy"
    files = {
        "__init__.py": "__version__ = '1'",
        "core/errors.py": "import toy.low.first",
        "low/__init__.py": "",
        "low/first.py": "import toy\nfrom toy.core import errors\ndef late():\n    import toy.high.inner",
        "low/second.py": "from .first import thing\nfrom toy.low import second, third",
        "low/third.py": "from toy.low.second import thing\nfrom toy.low import third",
        "low/fourth.py": "from . import third",
        "high/inner.py": "import os\nfrom rich.text import Text\nthing = os.environ['HOME'], os.sep",
        "high/environ.py": "import os, rich\nfrom toy.low.first import thing\nhome = os.environ['HOME']",
        "stray.py": "import toy.low.first",
    }
    _package(toy, files)
    layers = {"__init__": "", "core": "", "low": "__init__", "high": "low"}
    order = {"low": "first < second < third gone", "high": "inner environ"}

    assert violations(toy, layers, order, {"rich": "high/environ"}, "high/environ") == [
        "core/errors imports low/first: core may import []",
        "high/inner imports rich: only high/environ may",
        "high/inner uses os.environ: only high/environ may",
        "low/first imports high/inner: low may import ['__init__', 'core']",
        "low/fourth: has no place in ORDER",
        "low/gone: stands in ORDER, and is no file",
        "low/second imports low/third: in low/ it stands left of it, or beside it",
        "stray: has no place in LAYERS",
    ]


DEPTH, FAN_OUT, LONGEST_MODULE, LONGEST_FUNCTION = 13, 18, 450, 60
LONGEST_LOOP = 30
"""Lines of `run_goal`, the algorithm: one screen."""
BROAD = 8
"""Handlers of any exception at all: the edges of a program, a thread, a screen or another package's code."""
LINES_A_MODULE = 210
"""Lines of the package for each of its modules: few and deep ones."""
SINGLE = 0.3
"""The share of modules that only one other imports, at most."""
EMPTY = 8
"""Lines of a file that is hardly a module: a folder's docstring, a door."""


def test_the_package_stays_one_that_a_stranger_can_read() -> None:
    faults = [*shape_faults(PACKAGE), *size_faults(PACKAGE), *name_faults(PACKAGE)]
    assert not faults, "\n".join(faults)


def test_the_loop_fits_on_a_screen() -> None:
    tree = ast.parse((PACKAGE / "run/loop.py").read_text())
    (loop,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "run_goal")
    assert _length(loop) <= LONGEST_LOOP


def shape_faults(package: Path) -> Iterator[str]:
    """Yield what is wrong with the graph of imports: circles, depth, fan-out, modules with a single importer."""
    files = _files(package)
    uses = {name: _used_by(name, package, files) for name in files}
    try:
        order = [*graphlib.TopologicalSorter(uses).static_order()]
    except graphlib.CycleError as error:
        yield f"{' → '.join(reversed(error.args[1]))}: imports must not go in a circle"
        return
    chains: dict[str, tuple[str, ...]] = {}
    for name in order:
        chains[name] = (name, *max((chains[used] for used in uses[name]), key=len, default=()))
    deepest = max(order, key=lambda name: len(chains[name]))
    if len(chains[deepest]) - 1 > DEPTH:
        yield f"{' → '.join(chains[deepest])}: {len(chains[deepest]) - 1} imports deep, at most {DEPTH}"
    for name, used in uses.items():
        if len(used) > FAN_OUT:
            yield f"{name} imports {len(used)} modules of ours, at most {FAN_OUT}: {', '.join(sorted(used))}"
    modules = [name for name, file in files.items() if _lines(file) > EMPTY]
    importers = {name: [other for other, used in uses.items() if name in used] for name in modules}
    single = [f"{name} (by {others[0]})" for name, others in importers.items() if len(others) == 1]
    if len(single) > SINGLE * len(modules):
        share = f"{len(single)} of {len(modules)} modules have a single importer, at most {SINGLE:.0%}"
        yield f"{share}: {', '.join(sorted(single))}"


def size_faults(package: Path) -> Iterator[str]:
    """Yield the modules and functions that are too long, and whether the modules are too many for their lines."""
    files = _files(package)
    lengths = {name: _lines(file) for name, file in files.items()}
    for name, length in lengths.items():
        if length > LONGEST_MODULE:
            yield f"{name} has {length} lines, at most {LONGEST_MODULE}"
        for node in ast.walk(ast.parse(files[name].read_text())):
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if is_function and _length(node) > LONGEST_FUNCTION:
                yield f"{name}: {node.name} has {_length(node)} lines, at most {LONGEST_FUNCTION}"
    modules, lines = sum(length > EMPTY for length in lengths.values()), sum(lengths.values())
    if modules * LINES_A_MODULE > lines:
        yield f"{modules} modules share {lines} lines: at most one for every {LINES_A_MODULE}"


def name_faults(package: Path) -> Iterator[str]:
    """Yield modules that are named in -ing, and class names that stand for two things."""
    classes: dict[str, list[str]] = {}
    for name, file in _files(package).items():
        if name.endswith("ing"):
            yield f"{name} ends in -ing: a module is a thing, so give it a noun"
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(name)
    for kind, places in classes.items():
        if len(places) > 1:
            yield f"class {kind} is in {' and '.join(places)}: one name means one thing"


def test_every_fault_of_shape_size_and_name_is_found(tmp_path: Path) -> None:
    chain = {f"c{number}.py": f"from toy import c{number + 1}\n" for number in range(DEPTH + 1)}
    wide = "".join(f"from toy import c{number}\n" for number in range(DEPTH + 1))
    files = {
        **chain,
        f"c{DEPTH + 1}.py": "",
        "__init__.py": "version = 1",
        "folder/__init__.py": "name = 1",
        "wide.py": f"from toy import version\nfrom toy.folder import name\n{wide}from toy import x1, x2, x3\n",
        **{f"x{number}.py": "\n" * 20 for number in (1, 2, 3)},
        "long.py": "async def f():\n" + "    pass\n" * LONGEST_FUNCTION + "\n" * LONGEST_MODULE,
        "parsing.py": "class Thing: ...\nclass _Own: ...",
        "other.py": "class Thing: ...\nclass _Own: ...",
    }
    toy = _package(tmp_path / "toy", files)
    used = ["__init__", *sorted(f"c{number}" for number in range(DEPTH + 1)), "folder/__init__", "x1", "x2", "x3"]
    assert [*shape_faults(toy)] == [
        f"wide → {' → '.join(f'c{number}' for number in range(DEPTH + 2))}: {DEPTH + 2} imports deep, at most {DEPTH}",
        f"wide imports {len(used)} modules of ours, at most {FAN_OUT}: {', '.join(used)}",
        "3 of 5 modules have a single importer, at most 30%: x1 (by wide), x2 (by wide), x3 (by wide)",
    ]
    lines = sum(len(text.splitlines()) for text in files.values())
    assert [*size_faults(toy)] == [
        f"long has {LONGEST_MODULE + LONGEST_FUNCTION + 1} lines, at most {LONGEST_MODULE}",
        f"long: f has {LONGEST_FUNCTION + 1} lines, at most {LONGEST_FUNCTION}",
        f"5 modules share {lines} lines: at most one for every {LINES_A_MODULE}",
    ]
    assert {*name_faults(toy)} == {
        "parsing ends in -ing: a module is a thing, so give it a noun",
        "class Thing is in other and parsing: one name means one thing",
    }


def test_a_circle_of_imports_is_named(tmp_path: Path) -> None:
    files = {"__init__.py": "", "a.py": "from toy import b", "b.py": "def late():\n    from toy.c import x", "c.py": ""}
    assert [*shape_faults(_package(tmp_path / "toy", {**files, "c.py": "import toy.a"}))] in [
        [f"{circle}: imports must not go in a circle"] for circle in ("a → b → c → a", "b → c → a → b", "c → a → b → c")
    ]


def test_few_handlers_catch_everything_and_each_says_why() -> None:
    broad: list[str] = []
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type):
                broad.append(f"{file.relative_to(PACKAGE)}: {text.splitlines()[node.lineno - 1].strip()}")
    assert len(broad) <= BROAD, "\n".join(broad)
    assert not [line for line in broad if "  # " not in line], "\n".join(broad)


def _catches_everything(kind: ast.expr | None) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(each is None or ast.unparse(each) in {"Exception", "BaseException"} for each in kinds)


def _package(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _files(package: Path) -> dict[str, Path]:
    return {str(file.relative_to(package).with_suffix("")): file for file in sorted(package.rglob("*.py"))}


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def _used_by(name: str, package: Path, files: Mapping[str, Path]) -> set[str]:
    """Return the files of ours that one imports, an `__init__` from which it takes a name included."""
    targets = (target.partition(".") for target in imports(files[name], package))
    return {_file_of(inner, files) for library, _, inner in targets if library == package.name} - {name}
