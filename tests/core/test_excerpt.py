"""Both ends of a long text."""

from hypothesis import given
from hypothesis import strategies as st

from ralph.core.text import Excerpt, both_ends

PARTS = st.lists(st.binary(max_size=40), max_size=20)
SIZE = st.integers(min_value=0, max_value=50)


def excerpt(parts: list[bytes], head: int, tail: int) -> str:
    kept = Excerpt(head, tail)
    for part in parts:
        kept.feed(part)
    return kept.text()


@given(PARTS, SIZE, SIZE)
def test_first_and_last_bytes_are_kept_and_the_rest_is_counted(parts: list[bytes], head: int, tail: int) -> None:
    data = b"".join(parts)
    left_out = len(data) - head - tail
    wanted = data
    if left_out > 0:
        gap = f"\n[... {left_out} bytes left out ...]\n".encode()
        wanted = data[:head] + gap + data[len(data) - tail :]
    assert excerpt(parts, head, tail) == wanted.decode("utf-8", "replace")


def test_a_cut_character_does_no_harm() -> None:
    assert excerpt(["é".encode() * 10], 3, 3).startswith("é\ufffd\n[... 14 bytes left out ...]")


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_a_text_is_cut_in_its_middle(text: str, most: int) -> None:
    cut = both_ends(text, most)
    if len(text) <= most:
        assert cut == text
    else:
        half = most // 2
        assert cut == f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[len(text) - half :]}"
