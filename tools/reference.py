"""`make reference`: write the tables of docs/ that the code defines.

Each table stands between two comments on its page, and everything else there is written by hand. Names, types and
defaults come from the code; what they mean stands in `reference.toml`, where the code does not say it.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ralph.config.keys import KEYS, MANIFEST, flag
from ralph.core import goal, ndjson
from ralph.core.errors import ExitCode
from ralph.core.events import RunEvent, SessionEvent, Usage
from ralph.core.failures import TABLE
from ralph.core.run import Ending, Iteration
from ralph.dashboard import gc_report, report
from ralph.queue.gc import Holding, Weight, What
from ralph.queue.goals import BatchGoal, State
from ralph.queue.stats import tally
from ralph.setup.doctor import Finding
from ralph.state.known_runs import Outline
from ralph.state.result import ResultRecord
from ralph.system.notify import Notice, Occasion
from tools import specs
from tools.specs import Requirement, Spec

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MEANINGS = Path(__file__).with_suffix(".toml")
_BLOCK = re.compile(r"(<!-- begin: ([a-z0-9.-]+), by make reference -->\n).*?(<!-- end -->)", re.DOTALL)
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", object: "any"}


def main() -> int:
    """Rewrite the pages that are out of date, and name them."""
    for page, text in pages().items():
        if text != page.read_text():
            page.write_text(text)
            print(f"wrote {page.relative_to(ROOT)}")
    return 0


def pages() -> dict[Path, str]:
    """Every page with a table of ours, as it must be."""
    tables = all_tables()
    written: dict[Path, str] = {}
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        if _BLOCK.search(text):
            written[page] = _BLOCK.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[3]}", text)
    return written


def all_tables() -> dict[str, str]:
    """Every table by its name."""
    meanings = tomllib.loads(MEANINGS.read_text())
    tables = {
        "settings": _settings(),
        "guarded": f"{_names(name for name, key in KEYS.items() if key.guarded)}.\n",
        "manifest-keys": f"{_names(MANIFEST)}.\n",
        "failures": _table(
            ("end", "meaning", "policy"), [(end, row.meaning, row.policy) for end, row in TABLE.items()]
        ),
        "events": _events(meanings["events"]),
        "usage": _described("usage", _own_usage(), meanings["usage"]),
    }
    for program, codes in meanings["exit-codes"].items():
        _require_same(f"exit-codes.{program}", ExitCode.__members__ if program == "ralph" else codes, codes)
        rows = [(str(int(ExitCode[name])), meaning) for name, meaning in codes.items()]
        tables[f"exit-codes.{program}"] = _table(("code", "meaning"), rows)
    tables["words.ending"] = _words("ending", Ending, meanings["words"]["ending"])
    documents = _documents()
    _require_same("json", documents, meanings["json"])
    for name, fields in documents.items():
        tables[f"json.{name}"] = _described(f"json.{name}", fields, meanings["json"][name])
    return tables | _specs(specs.specs())


def _specs(known: Mapping[str, Spec]) -> dict[str, str]:
    """A table that counts, and for each spec one of every section."""
    counts = [(f"{number}. {spec.title}", *map(str, spec.counts)) for number, spec in known.items()]
    headings = ("spec", "requirements", "proven by a test", "different on purpose", "missing")
    total = [str(sum(column)) for column in zip(*(spec.counts for spec in known.values()), strict=True)]
    made = {"specs.counts": _table(headings, [*counts, ("all", *total)])}
    for number, spec in known.items():
        sections = [
            f"### {heading}\n\n{_table(('', 'requirement', 'proof'), map(_requirement, section))}"
            for heading, section in spec.sections.items()
        ]
        made[f"specs.{number}"] = "\n".join(sections)
    return made


def _requirement(each: Requirement) -> tuple[str, str, str]:
    reasons = [f"Different: {each.differs}"] * bool(each.differs) + [f"Missing: {each.missing}"] * bool(each.missing)
    proof = "<br>".join([*reasons, *(f"`{test}`" for test in each.tests)])
    return each.id, each.text.replace("|", "\\|"), proof.replace("|", "\\|")


def _failures() -> str:
    return _table(("end", "meaning", "policy"), [(end, row.meaning, row.policy) for end, row in TABLE.items()])


def _words(name: str, words: Iterable[str], meanings: Mapping[str, str]) -> str:
    _require_same(f"words.{name}", words, meanings)
    return _table((f"`{name}`", "meaning"), [(f"`{word}`", meanings[word]) for word in words])


def _settings() -> str:
    rows = [(f"`{name}`", _default(key.default), _flag(name), _places(name), key.help) for name, key in KEYS.items()]
    return _table(("key", "default", "flag", "can also be set in", ""), rows)


def _default(written: object) -> str:
    shown = str(written).lower() if isinstance(written, bool) else str(written)
    return "" if written in (None, "", []) else f"`{shown.replace(',', ', ')}`"


def _flag(name: str) -> str:
    return f"`{flag(name)}`" if KEYS[name].flags or name in ("db", "max") else ""


def _places(name: str) -> str:
    places = {
        "repository": not KEYS[name].guarded,
        "goal": name in goal.KEYS,
        "batch.toml": KEYS[name].in_manifest,
    }
    return ", ".join(place for place, may in places.items() if may)


def _events(meanings: Mapping[str, Mapping[str, str]]) -> str:
    """A section for each event that ralph reports itself; what an agent reports is the page on RTF1."""
    kinds = [*typing.get_args(SessionEvent), *typing.get_args(RunEvent)]
    _require_same("events", [kind.type for kind in kinds], meanings)
    sections: list[str] = []
    for kind in kinds:
        about, *_ = meanings[kind.type].values()
        fields = {name: meaning for name, meaning in meanings[kind.type].items() if name}
        table = _described(f"events.{kind.type}", _fields(kind), fields)
        sections.append(f"### {kind.type}\n\n{about}\n\n{table}")
    return "\n".join(sections)


def _own_usage() -> Mapping[str, str]:
    """What ralph adds to an agent's usage."""
    on_rtf1 = (DOCS / "rtf1.md").read_text()
    return {name: said for name, said in _fields(Usage).items() if f"`{name}`" not in on_rtf1}


def _documents() -> dict[str, Mapping[str, str] | Sequence[str]]:
    """The keys of every document; with types where a class defines it."""
    sample = BatchGoal(1, "a", "A", "", "", "", "", State.DRAFT, 0, 0)
    known = report.GoalDetails(sample, (), None, None, (), "", cut_off=False, paused=False)
    row = report.row(sample)
    cleared = gc_report.gc_document([Holding(Path(), What.CLONE, Weight(0), True, "")], deleted=False)
    (entry,) = ndjson.sequence(cleared["goes"])
    return {
        "result": _fields(ResultRecord),
        "progress": _fields(Iteration),
        "status": _fields(Outline),
        "doctor": _fields(Finding),
        "notification": list(ndjson.mapping(ndjson.decode(Notice(Occasion.DONE, 0, "").encode().decode()))),
        "goal": list(row),
        "goal-details": [key for key in report.document(known) if key not in row],
        "stats": [*tally([], {}, ()).document(), "forecast", "paused"],
        "gc": list(cleared),
        "gc-entry": list(ndjson.mapping(entry)),
    }


def _fields(kind: type) -> Mapping[str, str]:
    """The keys of a record, each with its type in JSON."""
    hints = typing.get_type_hints(kind)
    return {str(item.metadata.get("key", item.name)): _json_type(hints[item.name]) for item in dataclasses.fields(kind)}


def _json_type(said: object) -> str:
    if isinstance(said, types.UnionType):
        return " or ".join("null" if each is type(None) else _json_type(each) for each in typing.get_args(said))
    if isinstance(said, type) and issubclass(said, str):
        return "string"
    if typing.get_origin(said) is tuple:
        return "array"
    return _TYPES.get(said, "object") if isinstance(said, type) else "object"


def _described(name: str, fields: Mapping[str, str] | Sequence[str], meanings: Mapping[str, str]) -> str:
    _require_same(name, fields, meanings)
    if isinstance(fields, Mapping):
        return _table(("key", "type", "meaning"), [(f"`{key}`", fields[key], meanings[key]) for key in fields])
    return _table(("key", "meaning"), [(f"`{key}`", meanings[key]) for key in fields])


def _require_same(name: str, said: Iterable[str], meant: Iterable[str]) -> None:
    missing, unknown = set(said) - set(meant), set(meant) - set(said) - {""}
    faults = [f"no meaning of {name}.{key}" for key in sorted(missing)]
    faults += [f"{name}.{key} does not exist" for key in sorted(unknown)]
    if faults:
        raise SystemExit(f"{MEANINGS.relative_to(ROOT)}: " + "; ".join(faults))


def _names(names: Iterable[str]) -> str:
    *most, last = [f"`{name}`" for name in names]
    return f"{', '.join(most)} and {last}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(headings), "|" + "---|" * len(headings), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


if __name__ == "__main__":
    sys.exit(main())
