from ralph.config.envrc import read
from tests.support.rows import rows


def test_plain_assignments_are_read() -> None:
    text = "# a comment\n\nexport A=1\nB=two # words\nexport C='a b $X'\nexport D=\"a b\"\nexport E=\nF=a#b\n"
    assert read(text).values == {"A": "1", "B": "two", "C": "a b $X", "D": "a b", "E": "", "F": "a#b"}
    assert read(text).omissions == ""


def test_lines_and_words_are_those_of_bash() -> None:
    assert read("# not\u2028export A=1\nexport B=a\0b\n").values == {"B": "ab"}


@rows(
    "line",
    [
        "export A=$(touch x)",
        "export A=`touch x`",
        'export A="$(touch x)"',
        "export A=$HOME",
        'export A="$HOME"',
        "export A=1; touch x",
        "export A=1 B=2",
        "export A=1 && touch x",
        "export A=~/x",
        "export A=a\\ b",
        'export A="a\\nb"',
        "export A=(1 2)",
        "A=1 touch x",
        "export A",
        "A+=1",
        "unset A",
        "source_env lib",
        "PATH_add bin",
        " export A=1",
    ],
)
def test_what_is_no_plain_assignment_is_left_out_and_told(line: str) -> None:
    found = read(f"export BEFORE=1\n{line}\nexport AFTER=1\n")
    assert (found.values, found.omissions) == ({"BEFORE": "1", "AFTER": "1"}, "line 2")


@rows(
    "line",
    [
        "if true; then",
        'export A="one',
        "cat <<END",
        "f() {",
        "{",
        "(",
        "export A=1 \\",
        "case $X in",
        "exit",
        "return 1",
    ],
)
def test_nothing_is_read_after_a_line_that_goes_on(line: str) -> None:
    found = read(f"unset X\nexport BEFORE=1\n{line}\nexport AFTER=1\n")
    assert (found.values, found.omissions) == ({"BEFORE": "1"}, "line 1 and everything from line 3 on")
