"""JSON in and out: hostile values become nothing, and whatever goes out is one strict line."""

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core import ndjson
from tests.support.rows import rows


def values(numbers: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | numbers | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    )


ANYTHING = values(st.floats())


@rows(
    "text",
    ["", "{", "{'a': 1}", "nothing", '{"a": 1} {"b": 2}', "[" * 100_000, "1" * 5000, '{"a": "\x01"}', "\ufeff{}"],
    ids=["empty", "open", "quotes", "word", "two", "deep", "long number", "control", "byte order mark"],
)
def test_what_is_not_json_is_malformed(text: str) -> None:
    with pytest.raises(ndjson.Malformed):
        ndjson.decode(text)


@given(st.text(st.characters()))
def test_no_text_raises_anything_but_malformed(text: str) -> None:
    with contextlib.suppress(ndjson.Malformed):
        ndjson.decode(text)


@pytest.mark.parametrize("depth", [100, 500, 800, 950, 5000])
def test_what_can_be_decoded_can_be_encoded(depth: int) -> None:
    text = "[" * depth + "]" * depth
    try:
        value = ndjson.decode(text)
    except ndjson.Malformed:
        return
    assert ndjson.encode(value) == text


@given(ANYTHING)
def test_what_is_encoded_is_one_line_of_ascii(value: object) -> None:
    line = ndjson.encode(value)
    assert line.isascii()
    assert "\n" not in line
    assert "\r" not in line


@given(ANYTHING)
def test_what_is_encoded_is_json_for_the_strictest_reader(value: object) -> None:
    json.loads(ndjson.encode(value), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@given(values(st.floats(allow_nan=False, allow_infinity=False)))
def test_a_line_says_the_same_as_its_ascii_form(value: object) -> None:
    line = ndjson.encode_line(value).decode("utf-8")
    assert line.splitlines(keepends=True) == [line]
    assert json.dumps(json.loads(line)) == json.dumps(json.loads(ndjson.encode(value)))


@given(st.lists(ANYTHING))
def test_several_lines_are_what_each_would_be(several: list[object]) -> None:
    assert ndjson.encode_lines(several) == b"".join(map(ndjson.encode_line, several))


def test_text_in_any_script_is_written_as_it_is() -> None:
    value = {"a": "Größe „weiter“ — 日本語 🙂 € 50 °C « »"}
    assert ndjson.encode_line(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


HOSTILE = [*range(0x80, 0xA0), *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xD800, 0xDFFF]


@pytest.mark.parametrize("code", HOSTILE, ids=hex)
def test_what_breaks_lines_steers_terminals_or_reorders_text_is_escaped(code: int) -> None:
    line = ndjson.encode_line({"a": f"é{chr(code)}日"})
    assert line == f'{{"a":"\\u00e9\\u{code:04x}\\u65e5"}}\n'.encode()


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"é": 10**40}, b'{"\\u00e9":' + str(10**40).encode() + b"}\n"),
        ({"é": math.nan}, '{"é":null}\n'.encode()),
        ({"é": 2**63}, '{"é":9223372036854775808}\n'.encode()),
    ],
    ids=["beyond 64 bits", "NaN", "beyond 63 bits"],
)
def test_numbers_beside_such_text_stay_what_they_are(value: object, line: bytes) -> None:
    assert ndjson.encode_line(value) == line


def test_a_lone_surrogate_comes_back_as_it_was() -> None:
    assert ndjson.encode("\ud800") == '"\\ud800"'
    assert ndjson.decode(ndjson.encode({"a": "\udfff\u2028"})) == {"a": "\udfff\u2028"}


@given(st.text(st.characters(), max_size=400), st.booleans(), st.integers(min_value=5, max_value=300))
def test_a_cut_text_begins_as_it_was_and_says_how_much_is_gone(text: str, ascii_only: bool, longest: int) -> None:
    written = json.dumps({"a": text, "b": ["q\\", 1]}, ensure_ascii=ascii_only).encode("utf-8", "replace")
    whole = json.loads(written)["a"]
    cut = json.loads(ndjson.shortened(written, longest).decode("utf-8"))
    kept, gone, left = cut["a"].partition("… (")
    if not gone:
        assert cut["a"] == whole
        return
    assert cut["b"] == ["q\\", 1]
    assert whole.encode("utf-8", "surrogatepass").startswith(kept.encode("utf-8", "surrogatepass")) or (
        "\ud800" <= kept[-1] <= "\udbff" and whole.startswith(kept[:-1])  # a pair of escapes, cut in between
    )
    assert left.endswith(" bytes left out; the raw log has them)")
    length = len(json.dumps(text, ensure_ascii=ascii_only).encode("utf-8", "replace")) - 2
    assert longest - 6 <= length - int(left.split()[0].replace(",", "")) <= longest


@pytest.mark.parametrize("torn", [b'"', b'{"a":"' + b'\\"' * 300_000, b'{"a": "x\\', b"\x80" * 50, b'"' + b"\x80" * 50])
def test_a_torn_line_is_cut_as_far_as_it_goes(torn: bytes) -> None:
    assert len(ndjson.shortened(torn, 10)) <= max(len(torn), 100)


@rows(
    ("value", "number"),
    [
        (0, 0),
        (7, 7),
        (2**53 - 1, 2**53 - 1),
        (2**53, 0),
        (10**400, 0),
        (-1, 0),
        (True, 0),
        (1.5, 0),
        ("7", 0),
        (None, 0),
    ],
)
def test_a_count_is_plausible_or_nothing(value: object, number: int) -> None:
    assert ndjson.count(value) == number


@rows(
    ("value", "amount"),
    [
        (0, 0.0),
        (2, 2.0),
        (0.25, 0.25),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (-0.01, None),
        (1e9, None),
        (10**400, None),
        (-(10**400), None),
        (True, None),
        ("1", None),
        (None, None),
        ([1], None),
    ],
)
def test_an_amount_is_plausible_or_nothing(value: object, amount: float | None) -> None:
    assert ndjson.amount(value) == amount


@pytest.mark.parametrize("value", [None, 1, "x", [1], True])
def test_what_is_no_object_is_an_empty_one(value: object) -> None:
    assert ndjson.mapping(value) == {}


@pytest.mark.parametrize("value", [None, 1, "xy", {"a": 1}, True])
def test_what_is_no_array_is_an_empty_one(value: object) -> None:
    assert list(ndjson.sequence(value)) == []


@pytest.mark.parametrize("value", [None, 1, ["x"], {"a": 1}, True])
def test_what_is_no_text_is_an_empty_one(value: object) -> None:
    assert ndjson.text(value) == ""
