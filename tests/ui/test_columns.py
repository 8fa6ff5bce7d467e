"""Tables of plain text: aligned, and never wider than they may be."""

from ralph.ui.columns import columns, cut, width


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


def test_a_cell_is_one_harmless_line() -> None:
    assert columns([["a\nb\x1b[31m", "\u202e"]], [20, 20], 80) == ["a b\\x1b[31m  \\u202e"]
