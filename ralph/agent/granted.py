"""Where a session's rules come from: flags, and the settings files of the user, the project and this checkout."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from ralph.agent.permissions import Mode, Permissions
from ralph.agent.rules import read_rules
from ralph.jsonline import Malformed, decode, mapping, sequence

SOURCES = ("user", "project", "local")
"""The settings files, the weakest first."""


def gather(
    *,
    home: Path,
    cwd: Path,
    mode: str | None = None,
    skip: bool = False,
    allowed: Sequence[str] = (),
    disallowed: Sequence[str] = (),
    sources: Collection[str] = SOURCES,
) -> Permissions:
    """Put together what the flags say and what the settings files of `sources` say; for the mode, the nearest wins."""
    rules = [*read_rules("deny", disallowed, cwd), *read_rules("allow", allowed, cwd)]
    warnings: list[str] = []
    default: str | None = None
    for source, file in _files(home, cwd).items():
        if source not in sources:
            continue
        settings = _permissions_in(file)
        allow = _texts(settings, "allow")
        if allow and source == "project" and not _is_trusted(home, cwd):
            warnings.append(_untrusted(len(allow), cwd, home))
            allow = []
        rules += [
            *read_rules("allow", allow, cwd),
            *read_rules("deny", _texts(settings, "deny"), cwd),
            *read_rules("ask", _texts(settings, "ask"), cwd),
        ]
        found = settings.get("defaultMode")
        # A repository that came from elsewhere must not lift its own guard.
        if found in get_args(Mode) and not (found == "bypassPermissions" and source == "project"):
            default = str(found)
    chosen = "bypassPermissions" if skip else mode or default or "default"
    known = cast(Mode, chosen) if chosen in get_args(Mode) else "default"
    return Permissions(known, tuple(rules), home, tuple(warnings))


def _files(home: Path, cwd: Path) -> dict[str, Path]:
    return {
        "user": home / ".claude" / "settings.json",
        "project": cwd / ".claude" / "settings.json",
        "local": cwd / ".claude" / "settings.local.json",
    }


def _permissions_in(file: Path) -> Mapping[str, object]:
    return mapping(_read(file).get("permissions"))


def _read(file: Path) -> Mapping[str, object]:
    """A file's JSON object; a file that is missing or broken says nothing, as with claude."""
    try:
        return mapping(decode(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, Malformed):
        return {}


def _texts(settings: Mapping[str, object], name: str) -> list[str]:
    return [text for text in sequence(settings.get(name)) if isinstance(text, str)]


def _is_trusted(home: Path, cwd: Path) -> bool:
    projects = mapping(_read(home / ".claude.json").get("projects"))
    return any(
        mapping(projects.get(str(folder))).get("hasTrustDialogAccepted") is True for folder in (cwd, *cwd.parents)
    )


def _untrusted(count: int, cwd: Path, home: Path) -> str:
    entries = "entry" if count == 1 else "entries"
    return (
        f"Ignoring {count} permissions.allow {entries} from .claude/settings.json: this workspace has not been "
        "trusted. Run Claude Code interactively here once and accept the trust dialog, or set "
        f'projects["{cwd}"].hasTrustDialogAccepted: '
        f"true in {home}/.claude.json."
    )
