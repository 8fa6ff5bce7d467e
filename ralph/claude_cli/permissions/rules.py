"""Permission rules (`Tool`, `Bash(git status:*)`, `Read(./x/**)`), and what each one covers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

_BEFORE_ANOTHER = re.compile(r"\[\^/\]\*((?:[^/\[(]|\[\^/[^\]]*\](?!\*)|\[(?!\^/))*?)(?=\[\^/\]\*)")
Behaviour = Literal["allow", "deny", "ask"]
Source = Literal["config", "hook", "user_permanent", "user_reject", "user_temporary"]
"""In claude's words: a flag or the mode; a hook; a settings file that allows; one that denies; who was asked."""
_RULE = re.compile(r"(?P<tool>mcp__[\w*-]+|[\w-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_BETWEEN_RULES = re.compile(r"[,\s]+(?![^()]*\))")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern as git reads it, whatever the case of its letters; None: it is none (2.1.325)."""
    from pathspec.patterns.gitignore import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    # A folder covers itself and all that is in it.
    plain = pattern.removesuffix("/")
    if plain.endswith("/**"):
        plain = "/" + plain.removesuffix("/**").lstrip("/")
    try:
        expression, includes = GitIgnoreSpecPattern.pattern_to_regex(plain if plain.strip("/") else pattern)
        if not isinstance(expression, str) or not includes:
            return None
        # Let a star that another one follows take the first place that fits, for good. No match is lost by that, and
        # without it `*a*a*a*a*a*b` tries for ever on a long name.
        return re.compile(_BEFORE_ANOTHER.sub(r"(?>[^/]*?\1)", expression), re.DOTALL | re.IGNORECASE)
    except (GitIgnorePatternError, re.error, OverflowError, RecursionError):  # a range from z to a
        return None


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

    @property
    def may_be_asked(self) -> bool:
        """Somebody may still allow the call: neither a rule nor the mode forbids it."""
        return self.by == "ask" and self.reason_type != "mode"


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

    def names(self, tool: str) -> bool:
        """Tell whether the rule is about this tool; `mcp__server` and `mcp__server__*` are about all of a server."""
        if self.tool == tool or not self.tool.startswith("mcp__"):
            return self.tool == tool
        prefix, star, _ = self.tool.partition("*")
        return tool.startswith(prefix if star else f"{self.tool}__")

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
        elif pattern.startswith("./"):  # against a file, it counts in every folder (2.1.325)
            pattern = pattern[1:] if self.behaviour == "allow" else pattern[2:]
        if not path.is_relative_to(base) or path == base:
            return False
        compiled = _compiled(pattern)
        if compiled is None:
            return self.behaviour != "allow"  # what cannot be understood opens nothing
        return compiled.match(path.relative_to(base).as_posix()) is not None


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
