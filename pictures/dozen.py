"""Twelve goals over two repositories, four at a time: ralph's own agent against a model of ours on loopback."""

import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.api_replies import Reply, Say, text, thinking, tool
from tests.support.tokens import Tokens

_SHOP = {
    "checkout": "The checkout shows the shipping cost before the last step",
    "coupons": "Coupons can be combined, once each",
    "invoices": "Invoices are numbered without gaps",
    "search": "Search forgives one wrong letter",
    "stock": "Nothing can be ordered that is not in stock",
    "refunds": "A refund is made within a day, or somebody is told",
    "prices": "Prices are kept in cents",
    "emails": "Every order is confirmed by an email",
}
_DOCS = {
    "install": "The installation takes one command",
    "faq": "The ten questions that support hears most are answered",
    "glossary": "Every word of ours is explained once",
    "links": "No link leads nowhere",
}
_AFTER = {"refunds": ["invoices"], "emails": ["checkout"], "links": ["faq", "glossary"]}
_CHECK = "#!/bin/sh\nfor file in done/*; do grep -q Fine $file || { echo $file is not fine; exit 1; }; done\n"


class Model:
    """Answers each goal by its own part: a thought, a look, an edit, a summary, then DONE; one is blocked at first."""

    def __init__(self) -> None:
        self._asked = Counter[str]()
        self._lock = threading.Lock()

    def __call__(self, _number: int, request: Mapping[str, Any]) -> Reply:
        prompt = str(request["messages"])
        name = next(name for name in {**_SHOP, **_DOCS} if f"# {name}:" in prompt)
        with self._lock:
            self._asked[name] += 1
            turn = self._asked[name]
        words = {**_SHOP, **_DOCS}[name]
        slow = 0.5 + (sum(map(ord, name)) % 7) / 5
        used = Tokens(2_400 + 900 * turn, 180 + 40 * turn, 1_200, 21_000 + 4_500 * turn)
        if name == "stock" and "keep the old column" not in prompt:
            blocked = "BLOCKED: the orders table has two columns for the stock; which one is right is not mine to say"
            return Say(tool("StructuredOutput", summary=blocked), usage=used, pause=slow)
        if name == "stock":
            turn -= 2
        match turn:
            case 1:
                said = [thinking(f"Plan: see what there is, then: {words.lower()}."), text("I look at what there is.")]
                return Say(*said, tool("Bash", command="ls; git log --oneline | head", description="Look"), usage=used)
            case 2:
                body = f"{words}.\nFine.\n"
                return Say(tool("Write", file_path=f"done/{name}.txt", content=body), usage=used, pause=slow)
            case 3:
                return Say(
                    tool("Bash", command="sleep 2; sh .ralph/check", description="Check"), usage=used, pause=slow
                )
            case 4:
                said = f"{words}: it is written and the check is green. Next: see whether anything is left."
                return Say(tool("StructuredOutput", summary=said), usage=used, pause=slow)
            case _:
                return Say(tool("StructuredOutput", summary="DONE"), usage=used, pause=slow)


def lay_out(place: Path) -> Path:
    """Make the repositories and the goals; return the manifest."""
    for name in ("shop", "docs"):
        repository = place / name
        (repository / ".ralph").mkdir(parents=True)
        (repository / ".ralph" / "check").write_text(_CHECK)
        (repository / ".ralph" / "check").chmod(0o755)
        (repository / "done").mkdir()
        (repository / "done" / "README.txt").write_text("Fine.\n")
        for command in (
            ["init", "--quiet", "--initial-branch=main"],
            ["config", "user.name", "you"],
            ["config", "user.email", "you@localhost"],
            ["add", "--all"],
            ["commit", "--quiet", "--message", "What there is"],
        ):
            subprocess.run(["git", *command], cwd=repository, check=True)
    goals = place / "goals"
    goals.mkdir()
    manifest: list[str] = []
    for repository, named in (("shop", _SHOP), ("docs", _DOCS)):
        for name, words in named.items():
            (goals / f"{name}.md").write_text(f"# {name}: {words}\n\n## Objective\n{words}.\n")
            manifest += ["[[goal]]", f'file = "goals/{name}.md"', f'repo = "{place / repository}"']
            manifest += [f"after = {after}".replace("'", '"')] if (after := _AFTER.get(name)) else []
    (place / "batch.toml").write_text("\n".join([*manifest, ""]))
    return place / "batch.toml"
