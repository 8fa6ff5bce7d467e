"""`.ralph/state/*.json`: whole documents that tools can read, and nobody else's file is ever written through them."""

import json
from pathlib import Path

from ralph.state.project import ProjectLinks


def show(root: Path, iterations: int) -> Path:
    ProjectLinks(root).show_budget(cost_usd=0.5, max_cost_usd=None, iterations=iterations, max_iterations=None)
    return root / ".ralph" / "state" / "budget.json"


def test_a_document_of_the_same_size_is_overwritten_in_place(tmp_path: Path) -> None:
    """Replacing a file costs 0.9 ms on ext4, which is a tenth of an iteration without its agent."""
    file = show(tmp_path, 9)
    before = file.stat().st_ino
    show(tmp_path, 10_000)

    assert json.loads(file.read_bytes())["iterations"] == 10_000
    assert file.stat().st_ino == before
    assert [path.name for path in file.parent.iterdir()] == ["budget.json"]


def test_a_file_of_another_size_is_replaced(tmp_path: Path) -> None:
    file = show(tmp_path, 9)
    file.write_text("{" + "x" * 10_000)
    show(tmp_path, 10)

    assert json.loads(file.read_bytes())["iterations"] == 10


def test_a_longer_document_is_written_whole(tmp_path: Path) -> None:
    long_name = "s" * 1000
    for name in ("short", long_name, "short"):
        ProjectLinks(tmp_path).show_session("worker", name, "2026-01-01T00:00:00Z")
        document = json.loads((tmp_path / ".ralph" / "state" / "claude-session.json").read_bytes())
        assert document["coder_session_id"] == name


def test_what_links_lead_to_stays_as_it_is(tmp_path: Path) -> None:
    """An agent could lay a link of either kind to a file of the user's."""
    file = show(tmp_path, 9)
    for number, link in enumerate((Path.symlink_to, Path.hardlink_to)):
        precious = tmp_path / f"precious{number}"
        precious.write_bytes(b"x" * file.stat().st_size)
        file.unlink()
        link(file, precious)
        show(tmp_path, 10)

        assert set(precious.read_bytes()) == {ord("x")}
        assert json.loads(file.read_bytes())["iterations"] == 10
        assert not file.is_symlink()
