"""Globs as `.gitignore` and ripgrep read them: `*` stops at a slash, `**` does not, `{a,b}` is a choice.

A pattern without a slash means a name anywhere; one with a slash is a path from where it is written.
"""

import re
from dataclasses import dataclass


class GlobError(ValueError):
    """The pattern is not a glob; the message is ripgrep's."""


@dataclass(frozen=True, slots=True)
class Glob:
    """One pattern, ready to match relative paths with `/` between their parts."""

    expression: re.Pattern[str]
    negated: bool = False
    only_folders: bool = False

    def matches(self, path: str) -> bool:
        return self.expression.fullmatch(path) is not None


def compile_glob(pattern: str) -> Glob:
    """Read a pattern; `!` before it negates, a slash after it means folders only."""
    negated = pattern.startswith("!")
    body = pattern.removeprefix("!")
    only_folders = body.endswith("/") and body != "/"
    body = body.removesuffix("/") if only_folders else body
    anchored = "/" in body
    expression = _translate(body.removeprefix("/"), pattern)
    try:
        compiled = re.compile(expression if anchored else f"(?:.*/)?{expression}", re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:  # a range from z to a
        raise GlobError(f"error parsing glob '{pattern}': {error}") from error
    return Glob(compiled, negated, only_folders)


def _translate(body: str, pattern: str) -> str:
    out: list[str] = []
    at = depth = 0
    while at < len(body):
        letter = body[at]
        if letter == "*":
            piece, at = _stars(body, at)
            out.append(piece)
            continue
        at += 1
        match letter:
            case "?":
                out.append("[^/]")
            case "[":
                piece, at = _character_class(body, at, pattern)
                out.append(piece)
            case "{":
                depth += 1
                out.append("(?:")
            case "}" if depth:
                depth -= 1
                out.append(")")
            case "," if depth:
                out.append("|")
            case "\\" if at < len(body):
                out.append(re.escape(body[at]))
                at += 1
            case _:
                out.append(re.escape(letter))
    if depth:
        raise GlobError(
            f"error parsing glob '{pattern}': unclosed alternate group; missing '}}' (maybe escape '{{' with '[{{]'?)"
        )
    return "".join(out) if "{" in body else _decided("".join(out))


_STAR = "[^/]*"
_BEFORE_ANOTHER = re.compile(r"\[\^/\]\*((?:[^/\[]|\[\^/[^\]]*\](?!\*)|\[(?!\^/))*?)(?=\[\^/\]\*)")


def _decided(expression: str) -> str:
    """Let a star that another one follows take the first place that fits, for good.

    No match is lost by that, and without it `*a*a*a*a*a*b` tries for ever on a long name.
    """
    return _BEFORE_ANOTHER.sub(r"(?>[^/]*?\1)", expression)


def _stars(body: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(body) and body[end] == "*":
        end += 1
    whole_part = (at == 0 or body[at - 1] == "/") and (end == len(body) or body[end] == "/")
    if end - at < 2 or not whole_part:
        return _STAR, end
    return (".*", end) if end == len(body) else ("(?:.*/)?", end + 1)


def _character_class(body: str, at: int, pattern: str) -> tuple[str, int]:
    negated = body[at : at + 1] in ("!", "^")
    begin = at + 1 if negated else at
    end = body.find("]", begin + 1)
    if end < 0:
        raise GlobError(f"error parsing glob '{pattern}': unclosed character class; missing ']'")
    inner = body[begin:end].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("^", "\\^")
    return (f"[^/{inner}]" if negated else f"[{inner}]"), end + 1
