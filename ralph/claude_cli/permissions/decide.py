"""Whether a tool call may run: by the rules of flags and settings files, and by a mode for everything else.

There is nobody to ask, so a call that claude would ask about is denied in claude's words, and the session goes on. The
tools themselves refuse paths outside of the working directories, whatever the rules say.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from ralph.claude_cli.desk import Access, Desk
from ralph.claude_cli.flags import BadUsage
from ralph.claude_cli.permissions.commands import allowing_rule, dangerous_removal, judge, matching_rule, rule_on_files
from ralph.claude_cli.permissions.harmless import is_sensitive
from ralph.claude_cli.permissions.rules import (
    Allowed,
    Behaviour,
    Denied,
    PermissionRule,
    base_of,
    read_rule,
    split_rules,
)
from ralph.claude_cli.schemas import text_argument
from ralph.claude_cli.settings import ClaudeSettings, texts
from ralph.core.ndjson import mapping, text

Mode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]

_WRITERS = ("Write", "Edit")
_READERS = ("Read", "Glob", "Grep")
_OUTSIDE = "Path is outside allowed working directories"
_DENIED_FOLDER = "File is in a directory that is denied by your permission settings."
_COVERED = "File is covered by a Read deny rule in your permission settings and cannot be {}."
_DONT_ASK = (
    "Permission to use {} has been denied because Claude Code is running in don't ask mode. IMPORTANT: You *may* "
    "attempt to accomplish this action using other tools that might naturally be used to accomplish this goal, e.g. "
    "using head instead of cat. But you *should not* attempt to work around this denial in malicious ways, e.g. do not "
    "use your ability to run tests to execute non-test actions. You should only try to work around this restriction in "
    "reasonable ways that do not attempt to bypass the intent behind this denial. If you believe this capability is "
    "essential to complete the user's request, STOP and explain to the user what you were trying to do and why you "
    "need this permission. Let the user decide how to proceed."
)

_AS_ROOT = "bypassPermissions in settings cannot be used with root/sudo privileges for security reasons"


@dataclass(frozen=True, slots=True)
class Permissions:
    """One session's mode and rules."""

    mode: Mode
    rules: tuple[PermissionRule, ...]
    home: Path

    def removed(self, names: Iterable[str]) -> frozenset[str]:
        """The tools that are denied completely: the model does not see them."""
        return frozenset(name for name in names if any(rule.is_whole for rule in self._rules("deny", name)))

    @property
    def hides(self) -> Callable[[Path], bool] | None:
        """For `Desk.hides`: which files no search may show; None: there are none."""
        hiding = self._rules("deny", "Read")
        return (lambda path: any(rule.covers_path(path, self.home) for rule in hiding)) if hiding else None

    def decide(self, tool: str, arguments: Mapping[str, object], desk: Desk) -> Allowed | Denied:
        """Decide on one call."""
        if self.removed([tool]):
            return Denied(f"Permission to use {tool} has been denied.", "rule", by="rule")
        if tool == "Bash":
            return self._decide_command(text_argument(arguments, "command"), desk)
        if tool in _READERS:
            return self._decide_reading(tool, arguments, desk)
        if tool in _WRITERS:
            return self._decide_writing(tool, desk.locate(text_argument(arguments, "file_path")), desk)
        if tool.startswith("mcp__"):
            return self._decide_far(tool)
        return self._decide_plainly(tool, text_argument(arguments, "skill"))

    def _decide_command(self, command: str, desk: Desk) -> Allowed | Denied:
        unseen = [*self._rules("deny", "Read"), *self._rules("deny", "Edit"), *self._rules("deny", "Write")]
        against = matching_rule(self._rules("deny", "Bash"), command) or rule_on_files(command, desk, unseen, self.home)
        if against:
            return _by_rule(f"Permission to use Bash with command {command} has been denied.", against)
        if matching_rule(self._rules("ask", "Bash"), command):
            said = "Claude requested permissions to use Bash, but you haven't granted it yet."
            return self._asked("Bash", Denied(said, "rule"))
        # Nothing but looking goes with a plan, whatever else is allowed.
        allowing = self._rules("allow", "Bash") if self.mode != "plan" else []
        if self.mode == "bypassPermissions":
            return Allowed("mode")
        if whole := next((rule for rule in allowing if rule.is_whole), None):
            dangerous = dangerous_removal(command, desk)
            return self._asked("Bash", dangerous) if dangerous else Allowed("rule", whole.source)
        if denied := judge(command, desk, allowing, may_edit=self.mode == "acceptEdits"):
            return self._asked("Bash", denied)
        rule = allowing_rule(allowing, command)
        return Allowed("rule", rule.source) if rule else Allowed("subcommandResults")

    def _decide_reading(self, tool: str, arguments: Mapping[str, object], desk: Desk) -> Allowed | Denied:
        given = text_argument(arguments, "file_path" if tool == "Read" else "path")
        if tool == "Glob" and (base := base_of(text_argument(arguments, "pattern"))):
            given = base
        path = desk.locate(given or ".")
        if against := self._covering("deny", ["Read"], path):
            said = _DENIED_FOLDER if tool == "Read" else f"Permission to read {path} has been denied."
            return _by_rule(said, against, is_rejection=tool == "Read")
        if self._covering("ask", ["Read", tool], path):
            said = f"Claude requested permissions to read from {path}, but you haven't granted it yet."
            return self._asked(tool, Denied(said, "rule"))
        if denied := self._outside(tool, path, Access.READ, desk):
            return denied
        rule = self._covering("allow", ["Read", tool], path)
        return Allowed("rule", rule.source) if rule and self.mode != "bypassPermissions" else Allowed("mode")

    def _decide_writing(self, tool: str, path: Path, desk: Desk) -> Allowed | Denied:
        if against := self._covering("deny", ["Read"], path):
            return _by_rule(_COVERED.format("edited" if tool == "Edit" else "written"), against, is_rejection=True)
        # claude 2.1.325 uses only Edit(...) for both tools and ignores Write(...); here each one counts.
        if against := self._covering("deny", _WRITERS, path):
            return _by_rule(_DENIED_FOLDER, against, is_rejection=True)
        asked = Denied(f"Claude requested permissions to write to {path}, but you haven't granted it yet.")
        if self._covering("ask", _WRITERS, path):
            return self._asked(tool, asked)
        if self.mode == "plan":
            return Denied(f"Cannot write to {path} while in plan mode.", "mode")
        if denied := self._outside(tool, path, Access.WRITE, desk):
            return denied
        if self.mode == "bypassPermissions":
            return Allowed("mode")
        if is_sensitive(path, desk):
            return self._asked(tool, _sensitive(path, asked))
        if rule := self._covering("allow", _WRITERS, path, whole_for=tool):
            return Allowed("rule", rule.source)
        return Allowed("mode") if self.mode == "acceptEdits" else self._asked(tool, asked)

    def _decide_plainly(self, tool: str, name: str) -> Allowed | Denied:
        """A tool whose rules, if they name anything, name it as a command is named."""
        if against := next((rule for rule in self._rules("deny", tool) if rule.covers_command(name)), None):
            return _by_rule(f"Permission to use {tool} with {name} has been denied.", against)
        if any(rule.covers_command(name) for rule in self._rules("ask", tool)):
            said = f"Claude requested permissions to use {tool}, but you haven't granted it yet."
            return self._asked(tool, Denied(said, "rule"))
        return Allowed()

    def _decide_far(self, tool: str) -> Allowed | Denied:
        """A tool of an MCP server: nobody but its server knows what it does."""
        asked = Denied(f"Claude requested permissions to use {tool}, but you haven't granted it yet.")
        if self._rules("ask", tool):
            return self._asked(tool, asked)
        if self.mode == "plan":
            return Denied(f"Cannot call {tool} while in plan mode.", "mode")
        if self.mode == "bypassPermissions":
            return Allowed("mode")
        rules = self._rules("allow", tool)
        return Allowed("rule", rules[0].source) if rules else self._asked(tool, asked)

    def against_agent(self, kind: str) -> PermissionRule | None:
        """The rule that denies this kind of subagent: `Agent(kind)`."""
        denied = [*self._rules("deny", "Agent"), *self._rules("deny", "Task")]
        return next((rule for rule in denied if rule.pattern == kind), None)

    def _outside(self, tool: str, path: Path, access: Access, desk: Desk) -> Denied | None:
        refusal = desk.refusal(path, access)
        if refusal is None:
            return None
        kind = "safetyCheck" if refusal.link and access is Access.WRITE else "workingDir"
        return self._asked(tool, Denied(refusal.message, kind, refusal.link or _OUTSIDE))

    def _asked(self, tool: str, denied: Denied) -> Denied:
        return Denied(_DONT_ASK.format(tool), "mode", by="mode") if self.mode == "dontAsk" else denied

    def _covering(
        self, behaviour: Behaviour, tools: Iterable[str], path: Path, *, whole_for: str = ""
    ) -> PermissionRule | None:
        """The rule on this path, under its own name or its target's; `whole_for`: whose whole-tool rules count."""
        for tool in dict.fromkeys(tools):
            for rule in self._rules(behaviour, tool):
                counts = not rule.is_whole or whole_for in ("", tool)
                # What is allowed under one name must be so under the other: a link would lend its leave.
                names = all if behaviour == "allow" else any
                if counts and names(rule.covers_path(each, self.home) for each in {path, path.resolve()}):
                    return rule
        return None

    def _rules(self, behaviour: Behaviour, tool: str) -> list[PermissionRule]:
        return [rule for rule in self.rules if rule.behaviour == behaviour and rule.names(tool)]


def _by_rule(message: str, rule: PermissionRule, *, is_rejection: bool = False) -> Denied:
    return Denied(message, "rule", by="rule", source=rule.source, is_rejection=is_rejection)


def _sensitive(path: Path, asked: Denied) -> Denied:
    if ".claude" in path.parts:
        return Denied(asked.message, "safetyCheck", asked.message)
    said = f"Claude requested permissions to edit {path} which is a sensitive file."
    return Denied(said, "safetyCheck", said)


def gather(
    *,
    settings: ClaudeSettings,
    home: Path,
    cwd: Path,
    mode: str = "",
    allowed: Sequence[str] = (),
    disallowed: Sequence[str] = (),
    may_bypass: bool = True,
) -> Permissions:
    """Put together what the flags say and what the settings say; for the mode, the nearest wins.

    `may_bypass`: settings may lift the guard altogether. Raises BadUsage.
    """
    rules = [*_rules("deny", split_rules(disallowed), cwd), *_rules("allow", split_rules(allowed), cwd)]
    default = ""
    for file in settings.files:
        said, is_saved = mapping(file.values.get("permissions")), file.source != "flag"
        rules += _rules("allow", texts(said, "allow") if file.is_trusted else [], cwd, is_saved=is_saved)
        rules += _rules("deny", texts(said, "deny"), cwd, is_saved=is_saved)
        rules += _rules("ask", texts(said, "ask"), cwd, is_saved=is_saved)
        found = text(said.get("defaultMode"))
        # A repository that came from elsewhere must not lift its own guard: its local settings may be committed, too.
        lifts = found == "bypassPermissions" and file.source not in ("user", "flag")
        if found in get_args(Mode) and not lifts and (found == "plan" or file.is_trusted):
            default = found
    chosen = mode or default
    if chosen == "bypassPermissions" and not mode and not may_bypass:
        raise BadUsage(_AS_ROOT)
    known = cast(Mode, chosen) if chosen in get_args(Mode) else "default"
    return Permissions(known, tuple(rules), home)


def _rules(behaviour: Behaviour, texts: Sequence[str], cwd: Path, *, is_saved: bool = False) -> list[PermissionRule]:
    found = (read_rule(behaviour, each, cwd, is_saved=is_saved) for each in texts)
    return [rule for rule in found if rule is not None]
