"""Where a session's rules come from: flags, and the settings files of the user, the project and this checkout."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from ralph.claude_cli.options import BadUsage
from ralph.claude_cli.permissions.decide import Mode, Permissions
from ralph.claude_cli.permissions.rules import Allowed, Behaviour, Denied, Rule, read_rule, split_rules
from ralph.core.ndjson import Malformed, decode, mapping, sequence, text

__all__ = ["SOURCES", "Allowed", "Denied", "Mode", "Permissions", "gather"]

SOURCES = ("user", "project", "local")
"""The settings files, the weakest first."""

_AS_ROOT = "bypassPermissions in settings cannot be used with root/sudo privileges for security reasons"


def gather(
    *,
    home: Path,
    cwd: Path,
    mode: str = "",
    allowed: Sequence[str] = (),
    disallowed: Sequence[str] = (),
    sources: Collection[str] = SOURCES,
    may_bypass: bool = True,
) -> Permissions:
    """Put together what the flags say and what the settings files of `sources` say; for the mode, the nearest wins.

    `may_bypass`: settings may lift the guard altogether. Raises BadUsage.
    """
    rules = [*_rules("deny", split_rules(disallowed), cwd), *_rules("allow", split_rules(allowed), cwd)]
    notes: list[str] = []
    default = ""
    for source, file in _files(home, cwd).items():
        if source not in sources:
            continue
        settings = mapping(_read(file).get("permissions"))
        allow = _texts(settings, "allow")
        is_doubtful = source != "user" and not _is_trusted(home, cwd)
        if allow and is_doubtful:
            notes.append(_untrusted(len(allow), file.name, cwd, home))
            allow = []
        rules += _rules("allow", allow, cwd, is_saved=True)
        rules += _rules("deny", _texts(settings, "deny"), cwd, is_saved=True)
        rules += _rules("ask", _texts(settings, "ask"), cwd, is_saved=True)
        found = text(settings.get("defaultMode"))
        # A repository that came from elsewhere must not lift its own guard: its local settings may be committed, too.
        lifts = found == "bypassPermissions" and source != "user"
        if found in get_args(Mode) and not lifts and (found == "plan" or not is_doubtful):
            default = found
    chosen = mode or default
    if chosen == "bypassPermissions" and not mode and not may_bypass:
        raise BadUsage(_AS_ROOT)
    known = cast(Mode, chosen) if chosen in get_args(Mode) else "default"
    return Permissions(known, tuple(rules), home, tuple(notes))


def _rules(behaviour: Behaviour, texts: Sequence[str], cwd: Path, *, is_saved: bool = False) -> list[Rule]:
    found = (read_rule(behaviour, each, cwd, is_saved=is_saved) for each in texts)
    return [rule for rule in found if rule is not None]


def _files(home: Path, cwd: Path) -> dict[str, Path]:
    return {
        "user": home / ".claude" / "settings.json",
        "project": cwd / ".claude" / "settings.json",
        "local": cwd / ".claude" / "settings.local.json",
    }


def _read(file: Path) -> Mapping[str, object]:
    """A file's JSON object; a file that is missing or broken says nothing, as with claude."""
    try:
        return mapping(decode(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, Malformed):
        return {}


def _texts(settings: Mapping[str, object], name: str) -> list[str]:
    return [each for each in sequence(settings.get(name)) if isinstance(each, str)]


def _is_trusted(home: Path, cwd: Path) -> bool:
    projects = mapping(_read(home / ".claude.json").get("projects"))
    return any(
        mapping(projects.get(str(folder))).get("hasTrustDialogAccepted") is True for folder in (cwd, *cwd.parents)
    )


def _untrusted(count: int, name: str, cwd: Path, home: Path) -> str:
    entries = "entry" if count == 1 else "entries"
    return (
        f"Ignoring {count} permissions.allow {entries} from .claude/{name}: this workspace has not been "
        "trusted. Run Claude Code interactively here once and accept the trust dialog, or set "
        f'projects["{cwd}"].hasTrustDialogAccepted: '
        f"true in {home}/.claude.json."
    )
