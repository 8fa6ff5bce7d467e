"""The pages as a site: it builds without a warning, links lead somewhere, and the tables are those of the code."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import reference, site

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = sorted([*ROOT.glob("*.md"), *PAGES])
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def test_the_site_builds_without_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert site.build(tmp_path / "site") == 0, capfd.readouterr().out
    built = {page.relative_to(tmp_path / "site").with_suffix(".md") for page in (tmp_path / "site").rglob("*.html")}
    assert built - {Path("404.md")} == {page.relative_to(DOCS) for page in PAGES}


@pytest.mark.parametrize("line", ["[gone](nowhere.md)", "[gone](goals.md#nothing-there)"])
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, line: str) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(DOCS, sources / "docs")
    shutil.copy(ROOT / "mkdocs.yml", sources)
    with (sources / "docs" / "index.md").open("a") as page:
        page.write(f"\n{line}\n")
    assert site.build(tmp_path / "site", sources) != 0
    assert not (tmp_path / "site").exists()


def test_a_page_that_no_menu_leads_to_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n")
    assert site.build(tmp_path / "site", tmp_path) == 1
    assert capsys.readouterr().err == "error: mkdocs.yml does not list lost.md\n"


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(ROOT)))
def test_every_link_leads_somewhere_on_github(text: Path) -> None:
    lost = [target for target in links(text.read_text()) if not leads_somewhere(text, target)]
    assert lost == []


def test_no_page_repeats_another() -> None:
    """Twelve words in a row. The front page is a look at the others; tables from the code may share rows."""
    seen: dict[tuple[str, ...], str] = {}
    twice: list[str] = []
    for page in PAGES:
        if page.name != "index.md":
            twice += [f"{page.name}, {seen[run]}: {' '.join(run)}" for run in _runs(page) if run in seen]
            seen |= dict.fromkeys(_runs(page), page.name)
    assert twice == []
    assert len(seen) > 10_000


def _runs(page: Path, length: int = 12) -> set[tuple[str, ...]]:
    text = re.sub(r"<!-- begin: .*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    words = re.findall(r"[\w'-]+", re.sub(r"\]\([^)]*\)", "]", text).lower())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


def test_pages_link_to_pages_only() -> None:
    """What lies outside of docs/ is on GitHub but not on the site."""
    outside = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in links(page.read_text())
        if not target.startswith(("https://", "#")) and DOCS not in (page.parent / target).resolve().parents
    ]
    assert outside == []


def test_the_tables_are_those_of_the_code() -> None:
    old = [str(page.relative_to(ROOT)) for page, text in reference.pages().items() if page.read_text() != text]
    assert old == [], "bring them up to date with: make reference"


def test_every_table_of_the_code_is_on_a_page() -> None:
    used = {
        name for page in PAGES for name in re.findall(r"<!-- begin: (\S+), by make reference -->", page.read_text())
    }
    assert used == set(reference.all_tables())


def links(text: str) -> Iterator[str]:
    prose = _CODE.sub("", _FENCE.sub("", text))
    yield from re.findall(r"\]\(([^)\s]+)\)", prose)


def leads_somewhere(text: Path, target: str) -> bool:
    if re.match(r"https?://|mailto:", target):
        return True
    path, _, anchor = target.partition("#")
    found = (text.parent / path).resolve() if path else text
    return found.exists() and (not anchor or anchor in anchors(found.read_text()))


def anchors(text: str) -> list[str]:
    """The anchors that GitHub gives the headings."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
