"""The text in the stand-in agent's events: source code with non-ASCII characters of two, three and four bytes."""

import json
from collections.abc import Mapping

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


_MESSAGE = """The parser in `src/größe.py` drops the **last** element; step {number} does this:

- read `tokens[{number}:]` once, naïvely
- keep what 日本語 names need

```python
def größe(wert):
    return wert[{number}]
```
"""


def session(steps: int) -> bytes:
    """Return the events of a session: a message in Markdown, an edit of twelve lines and a command, in turn."""
    lines: list[bytes] = []
    for number in range(steps):
        match number % 3:
            case 0:
                said = {"type": "text", "text": _MESSAGE.format(number=number)}
                lines.append(_event("assistant", number, said))
            case 1:
                old = [f"    wert_{line} = lesen({line})  # ü" for line in range(12)]
                new = [line.replace("lesen", f"parse_{number}") if at % 2 else line for at, line in enumerate(old)]
                edit = {"file_path": "src/größe.py", "old_string": "\n".join(old), "new_string": "\n".join(new)}
                lines += _call(number, "Edit", edit, "The file src/größe.py has been updated.")
            case _:
                printed = "\n".join(f"tests/test_{line}.py::test_größe PASSED  [{line:3} %]" for line in range(20))
                lines += _call(number, "Bash", {"command": f"pytest -q -k größe_{number}"}, printed)
    return b"".join(lines)


def _call(number: int, tool: str, given: Mapping[str, str], printed: str) -> list[bytes]:
    call, result = f"toolu_{number:010}", {"type": "tool_result", "content": printed}
    return [
        _event("assistant", number, {"type": "tool_use", "id": call, "name": tool, "input": given}),
        _event("user", number, {"tool_use_id": call, **result}),
    ]


def _event(role: str, number: int, block: Mapping[str, object]) -> bytes:
    usage = {"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": 2000}
    about = {"id": f"msg_{number:010}", "model": "claude-sonnet-5-5", "usage": usage} if role == "assistant" else {}
    event = {
        "type": role,
        "message": {**about, "type": "message", "role": role, "content": [block]},
        "parent_tool_use_id": None,
        "session_id": "bench",
        "uuid": "bench",
    }
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
