"""The text in the stand-in agent's events: source code with non-ASCII characters of two, three and four bytes."""

import json

SIZES = {"200 B": 200, "2 KB": 2_000, "20 KB": 20_000}

_CODE = 'def größe(wert):  # prüft „wert > 0“ → ok\n    return "naïve café, 日本語, 🙂" if wert else None\n'


def text(size: int) -> bytes:
    """Return exactly `size` bytes of UTF-8, escaped so that they can stand between the quotes of a JSON string."""
    unit = json.dumps(_CODE, ensure_ascii=False)[1:-1].encode()
    cut = (unit * (size // len(unit) + 1))[:size].decode(errors="ignore")
    if cut.endswith("\\"):  # every escape in the unit has two characters
        cut = cut[:-1]
    whole = cut.encode()
    return whole + b"." * (size - len(whole))
