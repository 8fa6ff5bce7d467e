"""A stream cut into lines: the cuts of its chunks never show."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ralph.core.ndjson import LineSplitter, Oversized

STREAM = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"bc", b"\xff", "\u2028".encode(), b"{}", b"x" * 9])).map(
    b"".join
)


def chunks(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in itertools.pairwise(places)]


def split(parts: list[bytes], longest: int) -> list[bytes | Oversized]:
    splitter = LineSplitter(longest)
    lines = [line for part in parts for line in splitter.feed(part)]
    return lines + splitter.flush()


def expected(stream: bytes, longest: int) -> list[bytes | Oversized]:
    lines = stream.split(b"\n")
    kept = lines if lines[-1] else lines[:-1]
    return [line if len(line) <= longest else Oversized(len(line)) for line in kept]


@given(STREAM | st.binary(), st.lists(st.integers(min_value=0, max_value=300)))
def test_any_chunking_gives_the_lines_between_newlines(stream: bytes, cuts: list[int]) -> None:
    assert split(chunks(stream, cuts), 1000) == expected(stream, 1000)


@given(STREAM, st.lists(st.integers(min_value=0, max_value=300)), st.integers(min_value=0, max_value=12))
def test_a_line_too_long_is_counted_and_the_next_one_is_whole(stream: bytes, cuts: list[int], longest: int) -> None:
    assert split(chunks(stream, cuts), longest) == expected(stream, longest)


def test_a_line_too_long_is_not_kept_in_memory() -> None:
    splitter = LineSplitter(longest=10)
    for _ in range(1000):
        assert splitter.feed(b"x" * 100) == []
    assert splitter.feed(b"\nnext\n") == [Oversized(100_000), b"next"]


def test_after_a_flush_nothing_is_left() -> None:
    splitter = LineSplitter()
    splitter.feed(b"half")
    assert splitter.flush() == [b"half"]
    assert splitter.flush() == []
