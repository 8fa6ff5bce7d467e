"""Permission rules (`Tool`, `Bash(git status:*)`, `Read(./x/**)`), their globs, and what each one covers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_STAR = "[^/]*"
_BEFORE_ANOTHER = re.compile(r"\[\^/\]\*((?:[^/\[]|\[\^/[^\]]*\](?!\*)|\[(?!\^/))*?)(?=\[\^/\]\*)")
Behaviour = Literal["allow", "deny", "ask"]
Source = Literal["config", "hook", "user_permanent", "user_reject"]
"""In claude's words: a flag or the mode; a hook; a settings file that allows; one that denies."""
_RULE = re.compile(r"(?P<tool>[\w-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_BETWEEN_RULES = re.compile(r"[,\s]+(?![^()]*\))")


class GlobError(ValueError):
    """The pattern is not a glob; the message is ripgrep's."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """One pattern, ready to match relative paths with `/` between their parts."""

    expression: re.Pattern[str]
    negated: bool = False
    only_folders: bool = False

    def matches(self, path: str) -> bool:
        return self.expression.fullmatch(path) is not None


def compile_glob(pattern: str) -> PathPattern:
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
    return PathPattern(compiled, negated, only_folders)


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


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may run; `reason_type` and `source` are what the event says of the decision."""

    reason_type: str = ""
    source: Source = "config"


@dataclass(frozen=True, slots=True)
class Denied:
    """The call must not run; `message` is for the model, the rest for events."""

    message: str
    reason_type: str = ""
    reason: str = ""
    by: Literal["ask", "rule", "mode"] = "ask"
    """What stopped it: that nobody can be asked, a rule against it, or the mode."""

    source: Source = "config"
    is_rejection: bool = False
    """The model gets it as a rejected call."""


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule; without `pattern` it is about the whole tool. A relative pattern begins at `base`."""

    behaviour: Behaviour
    tool: str
    pattern: str
    base: Path
    is_saved: bool = False
    """It stands in a settings file."""

    @property
    def source(self) -> Source:
        if not self.is_saved:
            return "config"
        return "user_reject" if self.behaviour == "deny" else "user_permanent"

    @property
    def is_whole(self) -> bool:
        return self.pattern in ("", "*")

    def covers_command(self, command: str) -> bool:
        """Tell whether a Bash rule covers this simple command."""
        if self.is_whole:
            return True
        prefix = self.pattern.removesuffix(":*") if self.pattern.endswith(":*") else ""
        if not prefix and self.pattern.endswith(" *") and "*" not in self.pattern[:-2]:
            prefix = self.pattern[:-2]
        if prefix:
            return command == prefix or command.startswith((f"{prefix} ", f"{prefix}\t"))
        if "*" in self.pattern:
            parts = (re.escape(part) for part in self.pattern.split("*"))
            return re.fullmatch(".*".join(parts), command, re.DOTALL) is not None
        return command == self.pattern

    def covers_path(self, path: Path, home: Path) -> bool:
        """Tell whether a file rule covers this path; `//` begins at the root, `~/` at home, all else at `base`."""
        if self.is_whole:
            return True
        pattern, base = self.pattern, self.base
        if pattern.startswith("//"):
            pattern, base = pattern[1:], Path("/")
        elif pattern.startswith("~/"):
            pattern, base = pattern[1:], home
        elif pattern.startswith("./"):
            pattern = pattern[1:]
        if not path.is_relative_to(base) or path == base:
            return False
        relative = path.relative_to(base)
        try:
            glob = compile_glob(pattern)
        except GlobError:
            return self.behaviour != "allow"  # what cannot be understood opens nothing
        # A folder covers all that is in it.
        return any(glob.matches(part.as_posix()) for part in (relative, *relative.parents[:-1]))


def read_rule(behaviour: Behaviour, text: str, base: Path, *, is_saved: bool = False) -> PermissionRule | None:
    """Read one rule; None: it is none."""
    match = _RULE.fullmatch(text.strip())
    return PermissionRule(behaviour, match["tool"], (match["pattern"] or "").strip(), base, is_saved) if match else None


def split_rules(texts: Iterable[str]) -> list[str]:
    """Rules as flags take them: several may stand in one text, with commas or blanks between them."""
    return [part for text in texts for part in _BETWEEN_RULES.split(text.strip()) if part]


def base_of(pattern: str) -> str:
    """The folder of an absolute pattern: all before its first part that is not plain; empty for a relative one."""
    if not pattern.startswith("/"):
        return ""
    parts = pattern.rstrip("/").split("/")
    plain = next((at for at, part in enumerate(parts) if set(part) & set("*?[{")), len(parts) - 1)
    return "/".join(parts[:plain]) or "/"
