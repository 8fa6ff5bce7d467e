"""Tables of plain text: aligned, and never wider than they may be."""

from ralph.ui.draw import columns, cut, letters_within, width


def test_columns_are_aligned_and_figures_stand_to_the_right() -> None:
    rows = [["id", "goal", "cost", ""], ["g1", "a", "$0.50", "merged"], ["g10", "longer", "$12.00", ""]]
    assert columns(rows, [6, 20, 9, 30], 80, {2}) == [
        "id   goal      cost",
        "g1   a        $0.50  merged",
        "g10  longer  $12.00",
    ]


def test_the_last_column_gets_what_is_left() -> None:
    rows = [["id", ""], ["g1", "a reason that is rather long"]]
    assert columns(rows, [6, 80], 20) == ["id", "g1  a reason that i…"]
    assert columns(rows, [6, 80], 3) == ["id", "g1"]


def test_what_is_wider_than_its_column_is_cut() -> None:
    assert columns([["name", "x"], ["a-very-long-name", "y"]], [8, 5], 80) == ["name      x", "a-very-…  y"]


def test_without_a_width_nothing_is_cut() -> None:
    rows = [["name", ""], ["a-very-long-name", "a reason " * 100]]
    assert columns(rows, [8, 5], None) == ["name", f"a-very-long-name  {('a reason ' * 100).strip()}"]


def test_wide_letters_take_two_cells_and_combining_ones_none() -> None:
    assert (width("ab"), width("名前"), width("e\u0301")) == (2, 4, 1)
    assert cut("名前の前", 5) == "名前…"
    assert columns([["a", "b"], ["名", "b"]], [9, 9], 80) == ["a   b", "名  b"]


def test_a_letter_of_several_signs_is_measured_and_cut_as_one() -> None:
    heart, syllable = "\u2764\ufe0f", "\u1112\u1161\u11ab"  # a picture by its second sign; three that are drawn as one
    assert (width(heart), width(syllable)) == (2, 2)
    assert [letters_within(f"a{heart}b", most) for most in range(5)] == ["", "a", "a", f"a{heart}", f"a{heart}b"]
    assert letters_within("e\u0301e\u0301", 1) == "e\u0301"


def test_a_cell_is_one_harmless_line() -> None:
    assert columns([["a\nb\x1b[2J", "\u202e"]], [20, 20], 80) == ["a b\\x1b[2J  \\u202e"]
