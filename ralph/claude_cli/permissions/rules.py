"""Permission rules: `Tool`, `Tool(pattern)`, `Bash(git status:*)`, `Read(./x/**)`; what each one covers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ralph.agent.globs import GlobError, compile_glob

Behaviour = Literal["allow", "deny", "ask"]
Source = Literal["config", "user_permanent", "user_reject"]
"""In claude's words: a flag or the mode; a settings file that allows; one that denies."""

_RULE = re.compile(r"(?P<tool>[\w-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_BETWEEN_RULES = re.compile(r"[,\s]+(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may run; `reason_type` and `source` are what the event says of the decision."""

    reason_type: str = ""
    source: Source = "config"


@dataclass(frozen=True, slots=True)
class Denied:
    """The call must not run; `message` is what the model is told, the rest what the events say besides."""

    message: str
    reason_type: str = ""
    reason: str = ""
    by: Literal["ask", "rule", "mode"] = "ask"
    """What stopped it: that nobody can be asked, a rule against it, or the mode."""

    source: Source = "config"
    is_rejection: bool = False
    """The model is told in the form of a rejected call."""


@dataclass(frozen=True, slots=True)
class Rule:
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


def read_rule(behaviour: Behaviour, text: str, base: Path, *, is_saved: bool = False) -> Rule | None:
    """Read one rule; None: it is none."""
    match = _RULE.fullmatch(text.strip())
    return Rule(behaviour, match["tool"], (match["pattern"] or "").strip(), base, is_saved) if match else None


def split_rules(texts: Iterable[str]) -> list[str]:
    """Rules as flags take them: several may stand in one text, with commas or blanks between them."""
    return [part for text in texts for part in _BETWEEN_RULES.split(text.strip()) if part]
