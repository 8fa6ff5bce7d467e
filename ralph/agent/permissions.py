"""What may run: rules from flags and settings files, and a mode for all they do not mention.

Nobody can be asked here, so what would be asked is denied, in claude's words; the run goes on. A path outside of the
working directories is refused by the tools themselves, whatever is said here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ralph.agent.commands import denied_file, judge, matching_rule
from ralph.agent.harmless import is_sensitive
from ralph.agent.rules import Allowed, Behaviour, Denied, Rule
from ralph.agent.tools.base import Desk, text_argument
from ralph.agent.tools.glob import base_of

__all__ = ["Allowed", "Denied", "Mode", "Permissions"]

Mode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]

_WRITERS = ("Write", "Edit")
_READERS = ("Read", "Glob", "Grep")
_OUTSIDE = "Path is outside allowed working directories"
_DENIED_FOLDER = "File is in a directory that is denied by your permission settings."
_COVERED = "File is covered by a Read deny rule in your permission settings and cannot be edited."
_DONT_ASK = (
    "Permission to use {} has been denied because Claude Code is running in don't ask mode. IMPORTANT: You *may* "
    "attempt to accomplish this action using other tools that might naturally be used to accomplish this goal, e.g. "
    "using head instead of cat. But you *should not* attempt to work around this denial in malicious ways, e.g. do not "
    "use your ability to run tests to execute non-test actions. You should only try to work around this restriction in "
    "reasonable ways that do not attempt to bypass the intent behind this denial. If you believe this capability is "
    "essential to complete the user's request, STOP and explain to the user what you were trying to do and why you "
    "need this permission. Let the user decide how to proceed."
)


@dataclass(frozen=True, slots=True)
class Permissions:
    """One session's rules; `warnings` are for its stderr."""

    mode: Mode
    rules: tuple[Rule, ...]
    home: Path
    warnings: tuple[str, ...] = ()

    def offers(self, tool: str) -> bool:
        """Tell whether the model is told of the tool at all: one that is denied whole is not."""
        return not any(rule.is_whole for rule in self._rules("deny", tool))

    @property
    def hides(self) -> Callable[[Path], bool] | None:
        """For `Desk.hides`: which files no search may show; None: there are none."""
        hiding = self._rules("deny", "Read")
        return (lambda path: any(rule.covers_path(path, self.home) for rule in hiding)) if hiding else None

    def decide(self, tool: str, arguments: Mapping[str, object], desk: Desk) -> Allowed | Denied:
        """Decide on one call."""
        if not self.offers(tool):
            return Denied(f"Permission to use {tool} has been denied.", "rule")
        if tool == "Bash":
            return self._decide_command(text_argument(arguments, "command"), desk)
        if tool in _READERS:
            return self._decide_reading(tool, arguments, desk)
        if tool in _WRITERS:
            return self._decide_writing(tool, desk.locate(text_argument(arguments, "file_path")), desk)
        asked = Denied(f"Claude requested permissions to use {tool}, but you haven't granted it yet.", "rule")
        return self._unless_unguarded(tool, asked) if self._rules("ask", tool) else Allowed()

    def _decide_command(self, command: str, desk: Desk) -> Allowed | Denied:
        denied = Denied(f"Permission to use Bash with command {command} has been denied.", "rule")
        if matching_rule(self._rules("deny", "Bash"), command):
            return denied
        unseen = [*self._rules("deny", "Read"), *self._rules("deny", "Edit"), *self._rules("deny", "Write")]
        if denied_file(command, desk, unseen, self.home):
            return denied
        if matching_rule(self._rules("ask", "Bash"), command):
            said = "Claude requested permissions to use Bash, but you haven't granted it yet."
            return self._asked("Bash", Denied(said, "rule"))
        allowing = self._rules("allow", "Bash")
        if self.mode == "bypassPermissions" or any(rule.is_whole for rule in allowing):
            return Allowed()
        asked = judge(command, desk, allowing, may_edit=self.mode == "acceptEdits")
        return Allowed() if asked is None else self._asked("Bash", asked)

    def _decide_reading(self, tool: str, arguments: Mapping[str, object], desk: Desk) -> Allowed | Denied:
        given = text_argument(arguments, "file_path" if tool == "Read" else "path")
        if tool == "Glob" and (base := base_of(text_argument(arguments, "pattern"))):
            given = base
        path = desk.locate(given or ".")
        if self._covers("deny", "Read", path):
            if tool == "Read":
                return Denied(_DENIED_FOLDER, "rule", is_rejection=True)
            return Denied(f"Permission to read {path} has been denied.", "rule")
        asked = Denied(f"Claude requested permissions to read from {path}, but you haven't granted it yet.", "rule")
        if self._covers("ask", "Read", path):
            return self._asked(tool, asked)
        return self._within(tool, path, "read from", desk)

    def _decide_writing(self, tool: str, path: Path, desk: Desk) -> Allowed | Denied:
        if self._covers("deny", "Read", path):
            return Denied(_COVERED if tool == "Edit" else _DENIED_FOLDER, "rule", is_rejection=True)
        # claude 2.1.325 heeds only Edit(...) for both tools, which leaves a Write(...) in vain: here each one holds.
        if any(self._covers("deny", writer, path) for writer in _WRITERS):
            return Denied(_DENIED_FOLDER, "rule", is_rejection=True)
        asked = Denied(f"Claude requested permissions to write to {path}, but you haven't granted it yet.")
        if any(self._covers("ask", writer, path) for writer in _WRITERS):
            return self._asked(tool, asked)
        if self.mode == "plan":
            return Denied(f"Cannot write to {path} while in plan mode.", "mode")
        if isinstance(refused := self._within(tool, path, "write to", desk), Denied):
            return refused
        if self.mode == "bypassPermissions":
            return Allowed()
        if is_sensitive(path, desk):
            return self._asked(tool, _sensitive(path, asked))
        granted = any(
            rule.covers_path(path, self.home) and (rule.tool == tool or not rule.is_whole)
            for writer in _WRITERS
            for rule in self._rules("allow", writer)
        )
        return Allowed() if granted or self.mode == "acceptEdits" else self._asked(tool, asked)

    def _within(self, tool: str, path: Path, verb: str, desk: Desk) -> Allowed | Denied:
        refusal = desk.refusal(path, verb)
        if not refusal:
            return Allowed()
        link = refusal.partition("granted it yet.")[2].strip().removesuffix(".")
        kind = "safetyCheck" if link and verb == "write to" else "workingDir"
        return self._asked(tool, Denied(refusal, kind, link or _OUTSIDE))

    def _asked(self, tool: str, denied: Denied) -> Denied:
        return Denied(_DONT_ASK.format(tool), "mode") if self.mode == "dontAsk" else denied

    def _unless_unguarded(self, tool: str, denied: Denied) -> Allowed | Denied:
        return Allowed() if self.mode == "bypassPermissions" else self._asked(tool, denied)

    def _covers(self, behaviour: Behaviour, tool: str, path: Path) -> bool:
        paths = {path, path.resolve()}
        return any(rule.covers_path(each, self.home) for rule in self._rules(behaviour, tool) for each in paths)

    def _rules(self, behaviour: Behaviour, tool: str) -> list[Rule]:
        return [rule for rule in self.rules if rule.behaviour == behaviour and rule.tool == tool]


def _sensitive(path: Path, asked: Denied) -> Denied:
    if ".claude" in path.parts:
        return Denied(asked.message, "safetyCheck", asked.message)
    said = f"Claude requested permissions to edit {path} which is a sensitive file."
    return Denied(said, "safetyCheck", said)
