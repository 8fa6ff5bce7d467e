"""Payloads: exact sizes, valid JSON, and characters of every length that UTF-8 has."""

import json

from bench import payload


def test_a_payload_has_its_size_and_stands_between_the_quotes_of_json() -> None:
    for size in (*range(200), *payload.SIZES.values()):
        text = payload.text(size)
        assert len(text) == size
        assert isinstance(json.loads(b'"' + text + b'"'), str)


def test_a_payload_has_characters_of_one_to_four_bytes() -> None:
    assert payload.SIZES == {"200 B": 200, "2 KB": 2000, "20 KB": 20000}
    for size in payload.SIZES.values():
        assert {len(character.encode()) for character in payload.text(size).decode()} == {1, 2, 3, 4}
