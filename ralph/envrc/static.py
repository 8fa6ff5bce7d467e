"""The plain assignments of a `.envrc`, for where there is no direnv: read as text, nothing is executed."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

import dotenv

_WORD = r"[^\s\\\"'$`;&|<>(){}*?\[\]~!#]"
_PLAIN = re.compile(rf"(export[ \t]+)?[A-Za-z_]\w*=({_WORD}(?:{_WORD}|#)*|'[^'\\]*'|\"[^\"\\$`]*\")?[ \t]*(#.*)?")
_NOTHING = re.compile(r"\s*(#.*)?")
_GOES_ON = re.compile(
    r"(if|for|while|until|case|select|function|\{|\()(\s|$)|.*(<<|\\$|[{(]\s*(#.*)?$)|(exit|return)\b"
)
"""Lines after which it cannot be told, line by line, what is executed."""


@dataclass(frozen=True, slots=True)
class Static:
    """What was read, and the numbers of the lines that were left out; all of them from `end` on, if there is one."""

    values: Mapping[str, str]
    left_out: tuple[int, ...]
    end: int | None

    @property
    def omissions(self) -> str:
        """What was left out, in words; empty if nothing was."""
        lines = ", ".join(map(str, self.left_out[:10])) + (" …" if len(self.left_out) > 10 else "")
        some = f"line{'s' if len(self.left_out) > 1 else ''} {lines}" if lines else ""
        rest = f"everything from line {self.end} on" if self.end else ""
        return " and ".join(filter(None, [some, rest]))


def read(text: str) -> Static:
    """Read the lines that only assign text to a name; lines are bash's, which drops NULs."""
    plain: list[str] = []
    left_out: list[int] = []
    end = None
    for number, line in enumerate(text.replace("\0", "").split("\n"), 1):
        if _PLAIN.fullmatch(line):
            plain.append(line)
        elif _NOTHING.fullmatch(line):
            continue
        elif _GOES_ON.match(line) or line.count('"') % 2 or line.count("'") % 2:
            end = number
            break
        else:
            left_out.append(number)
    values = dotenv.dotenv_values(stream=io.StringIO("\n".join(plain)), interpolate=False)
    return Static({name: value or "" for name, value in values.items()}, tuple(left_out), end)
