"""Films of terminals: every row of every frame is there for as long as it stood, and harmless as a picture."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

from pictures.recording import Frame, Press, Run, record
from pictures.svg import film

SVG = "{http://www.w3.org/2000/svg}"


def row(text: str) -> tuple[Run, ...]:
    return (Run(0, text, "default", False, False),)


def test_a_row_is_shown_from_when_it_came_to_when_it_went() -> None:
    frames = [
        Frame(5.0, (row("title"), row("a"))),
        Frame(6.0, (row("title"), row("b"))),
        Frame(60.0, (row("title"), ())),
    ]
    picture = ElementTree.fromstring(film(frames, 20, 2, "<a title>"))
    groups = {"".join(group.itertext()): group for group in picture.iter(f"{SVG}g")}
    assert list(groups) == ["title", "a", "b"]
    shown = {words: item.attrib for words, group in groups.items() for item in group.iter(f"{SVG}set")}
    assert {words: (said["begin"], said["dur"]) for words, said in shown.items()} == {
        "a": ("film.begin+0.00s", "1.00s"),
        "b": ("film.begin+1.00s", "2.50s"),
    }, "the title always stands, and a minute in which nothing happens is cut"
    assert picture.attrib["aria-label"] == "<a title>"


def test_a_program_is_filmed_as_its_terminal_shows_it(tmp_path: Path) -> None:
    program = "print('\\x1b[31mred\\x1b[0m \\x1b[2mfaint\\x1b[0m /some/where'); print('got', input())"
    frames = record(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={},
        columns=40,
        rows=4,
        presses=[Press("x\n", "red", 0.1)],
        hidden={"/some/where": "/home/you"},
    )
    last = frames[-1].rows
    assert [(run.text.strip(), run.colour) for run in last[0]][:1] == [("red", "red")]
    assert [run.text for run in last[0] if run.colour == "brightblack"] == ["faint"]
    assert "/home/you" in last[0][-1].text
    assert last[2][0].text.startswith("got x")


def test_the_users_own_screen_is_back_when_a_program_leaves_the_alternate_one(tmp_path: Path) -> None:
    before = "print('first'); print('second', end='', flush=True)"
    inside = "print('\\x1b[?1049h\\x1b[?25l\\x1b[2J\\x1b[1;1H\\x1b[31mboard\\x1b[3;1Hlast row', flush=True); input()"
    after = "print('\\x1b[?25h\\x1b[?1049l and on', end='')"
    frames = record(
        [sys.executable, "-c", f"{before}; {inside}; {after}"],
        cwd=tmp_path, env={}, columns=40, rows=4, presses=[Press("x\n", "last row", 0.1)],
    )  # fmt: skip
    inner = next(frame for frame in frames if any("last row" in run.text for run in frame.rows[2]))
    assert [run.text.strip() for run in inner.rows[0]] == ["board"], "the alternate screen begins empty"
    assert not inner.rows[1]
    last = [[(run.text.rstrip(), run.colour) for run in row] for row in frames[-1].rows]
    assert last == [[("first", "default")], [("second and on", "default")], [], []]


def test_the_pictures_of_the_pages_are_there_and_show_what_they_say() -> None:
    root = Path(__file__).parent.parent
    pages = [root / "README.md", root / "docs" / "many-goals.md"]
    named = [name for page in pages for name in re.findall(r"\]\((?:docs/)?(pictures/[a-z]+\.svg)\)", page.read_text())]
    words = {"demo": "done: proven by .ralph/check", "batch": "12 done"}
    assert sorted(named) == [f"pictures/{name}.svg" for name in sorted(words)]
    for name, said in words.items():
        shown = "".join(ElementTree.parse(root / "docs" / "pictures" / f"{name}.svg").getroot().itertext())
        assert said in shown
        assert str(root) not in shown
