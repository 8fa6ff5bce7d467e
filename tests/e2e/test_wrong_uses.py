"""Wrong uses of the three programs: each refusal, word for word, in one file that people can review.

`golden/wrong_uses.md` is written again by `WRITE_GOLDEN=1 .venv/bin/python -m pytest tests/e2e/test_wrong_uses.py`.
Read the difference as a newcomer would: what cannot be done, why, and what to type next.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.frames import same_as_golden
from tests.support.git_repos import git
from tests.support.ralph_process import Ralph

GOLDEN = Path(__file__).with_name("golden") / "wrong_uses.md"
GOAL = "## Objective\nAdd a page on shipping.\n"
MODULES = {"ralph": "ralph", "ralph-runs": "ralph.cli.runs", "ralph-claude": "ralph.claude_cli"}
FILES = {
    "goal.md": GOAL,
    "README.md": "# Shop\n",
    "no-objective.md": "# Ship it\n\nSoon.\n",
    "empty-objective.md": "## Objective\n\n## Acceptance\n- It ships.\n",
    "yaml.md": f"---\ntitle: Ship: soon\n---\n{GOAL}",
    "key.md": f"---\nmax_iteration: 5\n---\n{GOAL}",
    "value.md": f"---\nmax_cost: much\n---\n{GOAL}",
    "open.md": f"---\ntitle: Ship\n{GOAL}",
    "latin.md": "## Objective\nCaf\udce9\n",
    "bad.toml": '[[goal]]\nfile = "goal.md"\nretries = 3\n',
    "history.json": '[{"role": "boss", "content": "hi"}]',
}
"""What the repository holds."""


@dataclass(frozen=True, slots=True)
class Use:
    """A command as it is typed, and what is special about the place. Nothing is on stdin."""

    command: str
    place: str = ""


USES = {
    "Starting a run": [
        Use("ralph run"),
        Use("ralph run gaol.md"),
        Use("ralph run goals"),
        Use("ralph run no-objective.md"),
        Use("ralph run empty-objective.md"),
        Use("ralph run yaml.md"),
        Use("ralph run open.md"),
        Use("ralph run key.md"),
        Use("ralph run value.md"),
        Use("ralph run latin.md"),
        Use("ralph run goal.md", "outside a repository"),
        Use("ralph run goal.md", "README.md has changes"),
        Use("ralph run goal.md", ".ralph/check is not executable"),
        Use("ralph run goal.md", ".ralph/check has no #! line"),
        Use("ralph run goal.md", "claude is not installed"),
        Use("ralph run goal.md --agent codex"),
        Use("ralph run goal.md --agent cladue"),
        Use("ralph run goal.md --agent custom"),
        Use("ralph run goal.md --agent-cmd 'no-such-agent --fast'"),
        Use("ralph run goal.md --agent codex --agent-cmd my-agent"),
        Use("ralph run goal.md --transcript codex"),
    ],
    "Flags": [
        Use("ralph run goal.md --max-iteration 5"),
        Use("ralph run goal.md --max-cost free"),
        Use("ralph run goal.md --duration '4 hours'"),
        Use("ralph run goal.md --reasoning hihg"),
        Use("ralph run goal.md --check nonesuch"),
        Use("ralph run goal.md --require-check"),
        Use("ralph run goal.md --continue --fresh"),
        Use("ralph run goal.md --continue"),
        Use("ralph run goal.md -p 'Ship it'"),
        Use("ralph run -p -"),
        Use("ralph run goal.md --repo ../nowhere"),
        Use("ralph run goal.md --branch 'a b'"),
        Use("ralph rum goal.md"),
    ],
    "Looking at a run, and steering it": [
        Use("ralph status nope"),
        Use("ralph tell nope 'use tabs'"),
        Use("ralph tell use tabs instead"),
        Use("ralph pause"),
        Use("ralph wake nope"),
        Use("ralph log"),
        Use("ralph diff -i 0"),
        Use("ralph transcript nope.ndjson"),
    ],
    "Settings, checks and questions": [
        Use("ralph config set max_costs 5"),
        Use("ralph config set max_iterations some"),
        Use("ralph config set agents.claude.path /bin/claude --project"),
        Use("ralph trust"),
        Use("ralph check"),
        Use("ralph init", "outside a repository"),
        Use("ralph ask"),
        Use("ralph ask hello --history history.json"),
    ],
    "Many goals": [
        Use("ralph-runs run", "outside a repository"),
        Use("ralph-runs run nonesuch.md"),
        Use("ralph-runs run goal.md"),
        Use("ralph-runs add bad.toml --merge pr"),
        Use("ralph-runs add goal.md --merge push"),
        Use("ralph-runs add goal.md --merge pr --after nope"),
        Use("ralph-runs list --state finished"),
        Use("ralph-runs show g7"),
        Use("ralph-runs pause"),
        Use("ralph-runs gc --force"),
        Use("ralph-runs run --db mysql://db/queue"),
        Use("ralph-runs watch"),
    ],
    "ralph-claude": [
        Use("ralph-claude -p hi --model scripted:none.json"),
        Use("ralph-claude -p"),
        Use("ralph-claude -p hi --max-turns none"),
        Use("ralph-claude -p hi --permission-mode root"),
        Use("ralph-claude -p hi --resume nope --model scripted:none.json"),
        Use("ralph-claude -p --output-format yaml hi"),
        Use("ralph-claude --modle opus -p hi"),
        Use("ralph-claude -p hi"),
    ],
}
"""The wrong uses, by what the user wants to do."""


def test_every_wrong_use_is_refused_in_words_that_help(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = repo / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    (repo / "goals").mkdir()
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "Shop")
    page = "\n".join(_page(repo, ralph, tmp_path))
    assert same_as_golden(page, GOLDEN), "see the first lines of this file"
    assert sum(len(uses) for uses in USES.values()) >= 40
    refusals = re.findall(r"^\$ ralph(?:-runs)? .*?^\$ echo", page, re.MULTILINE | re.DOTALL)
    assert [said for said in refusals if not re.search(r"\nerror: .*\n\nhint: ", said, re.DOTALL)] == []
    assert git(repo, "status", "--porcelain") == "", "bad input writes nothing"


def _page(repo: Path, ralph: Ralph, tmp_path: Path) -> Iterator[str]:
    yield "# Wrong uses"
    yield ""
    yield "What the programs say when they cannot do what was typed. Written by `tests/e2e/test_wrong_uses.py`."
    for title, uses in USES.items():
        yield f"\n## {title}\n"
        for use in uses:
            yield from _refusal(use, repo, ralph, tmp_path)


def _refusal(use: Use, repo: Path, ralph: Ralph, tmp_path: Path) -> Iterator[str]:
    program, *words = shlex.split(use.command)
    outside = tmp_path / "elsewhere"
    outside.mkdir(exist_ok=True)
    (outside / "goal.md").write_text(GOAL)
    claude = Path(ralph.env["PATH"].partition(":")[0]) / "claude"
    claude.write_text("#!/bin/sh\nexit 1\n")
    claude.chmod(0o644 if use.place.startswith("claude") else 0o755)
    with _as(use.place, repo):
        where = outside if use.place == "outside a repository" else repo
        done = Ralph(where, ralph.env, MODULES[program], ralph.forks)(*words)
    assert done.exit_code != 0, use
    said = "\n".join(part.rstrip("\n") for part in (done.stdout, done.stderr) if part.strip())
    yield "```console"
    yield f"$ {use.command}" + (f"  # {use.place}" if use.place else "")
    yield _anywhere(said, repo, ralph, tmp_path)
    yield f"$ echo $?\n{done.exit_code}\n```\n"


@contextlib.contextmanager
def _as(place: str, repo: Path) -> Iterator[None]:
    """Let the repository be in the state that a use is about."""
    check = repo / ".ralph" / "check"
    if place == "README.md has changes":
        (repo / "README.md").write_text("# Sh\n")
    if place.startswith(".ralph/check"):
        check.parent.mkdir()
        check.write_text("make test\n" if place.endswith("line") else "#!/bin/sh\nmake test\n")
        check.chmod(0o755 if place.endswith("line") else 0o644)
    yield
    git(repo, "checkout", "--quiet", "--", "README.md")
    shutil.rmtree(check.parent, ignore_errors=True)


def _anywhere(said: str, repo: Path, ralph: Ralph, tmp_path: Path) -> str:
    """The text without the paths of this machine."""
    places = {
        str(repo): "/home/you/shop",
        str(tmp_path / "elsewhere"): "/home/you/elsewhere",
        str(tmp_path): "/home/you",
        ralph.env["RALPH_DIR"]: "/home/you/.local/state/ralph",
        ralph.env["HOME"]: "/home/you",
    }
    for path, shown in sorted(places.items(), key=lambda item: -len(item[0])):
        said = said.replace(path, shown)
    return re.sub(r"-[0-9a-f]{8}\b", "-1a2b3c4d", said)
