"""The settings files of a session: which ones apply, what is wrong with them, and what they say together.

Files, order and wordings are those of Claude Code 2.1.325: a file with a fault in it has no effect at all, and that is
said on stderr. One thing differs: a repository nobody has trusted chooses neither the endpoint nor the key.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ralph.claude_cli.flags import BadUsage
from ralph.core.ndjson import Malformed, decode, mapping, sequence, text

Source = Literal["user", "project", "local", "flag"]

SOURCES: tuple[Source, ...] = ("user", "project", "local")
"""The files that --setting-sources chooses among, the weakest first."""

INLINE = "--settings (inline JSON)"

KNOWN: Mapping[str, Collection[str]] = {
    "$schema": (),
    "disableAllHooks": (),
    "disabledMcpjsonServers": (),
    "env": (),
    "hooks": (),
    "model": (),
    "permissions": ("additionalDirectories", "allow", "ask", "defaultMode", "deny"),
}
"""Every key that has an effect here, and the keys below it where those are known by name."""

HOOK_TYPES = ("command", "prompt", "agent", "http", "mcp_tool")
_GUARDS = ("PreToolUse", "PermissionRequest")
_MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
_DROPPED = (
    "These settings files did not load, so nothing in them is in effect, including hooks and permission rules. Each "
    "loads again once the problem listed for it is fixed:"
)
_GUARD_LOST = (
    "a PreToolUse/PermissionRequest hook that cannot be loaded may be what guards the permissions declared beside it, "
    "so nothing it sits in is applied until the entry is fixed or removed."
)
_OTHER_MODEL = re.compile(r"(scripted|openai):")
_OURS = re.compile(r"ANTHROPIC_|CLAUDE_|AWS_|AZURE_|CLOUD_ML_|GOOGLE_|OPENAI_|VERTEX_|API_TIMEOUT_MS$|MAX_")
"""Variables that ralph-claude itself may read."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """One file that loaded; `is_trusted`: the user wrote it, or trusts the repository it comes from."""

    source: Source
    name: str
    """As messages name it."""

    values: Mapping[str, object]
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """What the files say together, the weakest first; `notes` are for stderr."""

    files: tuple[SettingsFile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model that the strongest file names; a stranger's file picks only among those of the same provider."""
        named = [
            model
            for file in self.files
            if (model := text(file.values.get("model"))) and (file.is_trusted or not _OTHER_MODEL.match(model))
        ]
        return named[-1] if named else ""

    @property
    def directories(self) -> tuple[str, ...]:
        """Further working directories, as they are written."""
        return tuple(
            folder
            for file in self.files
            if file.is_trusted
            for folder in texts(mapping(file.values.get("permissions")), "additionalDirectories")
        )

    @property
    def are_hooks_off(self) -> bool:
        """A stranger's file cannot turn off what guards the user."""
        return any(file.values.get("disableAllHooks") is True for file in self.files if file.is_trusted)

    def for_commands(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of tools and hooks: all that the files add."""
        return dict(inherited) | {name: value for file in self.files for name, value in _env(file)}

    def for_itself(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment that decides about models, endpoints and keys: only what the user wrote or trusts."""
        return dict(inherited) | {name: value for file in self.files if file.is_trusted for name, value in _env(file)}


def config_folder(environment: Mapping[str, str]) -> Path:
    """The folder with the user's settings, sessions, skills and commands."""
    home = Path(environment.get("HOME", "/"))
    return Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")


def read_settings(
    environment: Mapping[str, str], cwd: Path, sources: Collection[str] = SOURCES, given: str = ""
) -> ClaudeSettings:
    """Read the files of `sources` and what --settings gives, a file or inline JSON; raise BadUsage if that is missing.

    A file that does not exist says nothing.
    """
    user = config_folder(environment)
    project = cwd / ".claude"
    places: dict[Source, Path] = {
        "user": user / "settings.json",
        "project": project / "settings.json",
        "local": project / "settings.local.json",
    }
    is_trusted = _is_trusted(environment, cwd)
    files: list[SettingsFile] = []
    faults: list[str] = []
    found: list[tuple[Source, str, str | None]] = [
        (source, str(path), _read(path)) for source, path in places.items() if source in sources
    ]
    for source, name, said in (*found, *_given(given, cwd)):
        if said is None:
            continue
        values, wrong = _load(said, name)
        faults += wrong
        if not wrong:
            files.append(SettingsFile(source, name, values, source in ("user", "flag") or is_trusted))
    notes = ["\n".join([_DROPPED, *(f"  {fault}" for fault in faults)])] if faults else []
    for file in files:
        notes += _doubts(file, cwd, environment)
    return ClaudeSettings(tuple(files), (*notes, *_without_effect(files)))


def texts(values: Mapping[str, object], name: str) -> list[str]:
    """The strings of an array."""
    return [each for each in sequence(values.get(name)) if isinstance(each, str)]


def untrusted(count: int, key: str, file: SettingsFile, cwd: Path, environment: Mapping[str, str]) -> str:
    """That entries of a repository nobody has trusted are ignored, in Claude Code's words."""
    entries = "entry" if count == 1 else "entries"
    return (
        f"Ignoring {count} permissions.{key} {entries} from .claude/{Path(file.name).name}: this workspace has not "
        "been trusted. Run Claude Code interactively here once and accept the trust dialog, or set "
        f'projects["{cwd}"].hasTrustDialogAccepted: true in {_state_file(environment)}.'
    )


def _doubts(file: SettingsFile, cwd: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Name what a file of an untrusted repository asks for without effect."""
    if file.is_trusted:
        return
    permissions = mapping(file.values.get("permissions"))
    for key in ("allow", "additionalDirectories"):
        if count := len(texts(permissions, key)):
            yield untrusted(count, key, file, cwd, environment)
    place, why = f".claude/{Path(file.name).name}", "this workspace has not been trusted."
    if _OTHER_MODEL.match(text(file.values.get("model"))):
        yield f"Ignoring model from {place}: {why}"
    if file.values.get("disableAllHooks") is True:
        yield f"Ignoring disableAllHooks from {place}: {why}"
    if names := [name for name, _ in _env(file) if _OURS.match(name)]:
        yield f"Ignoring {', '.join(names)} from {place} for everything but commands: {why}"


def _given(given: str, cwd: Path) -> Iterator[tuple[Source, str, str]]:
    """What --settings says: JSON itself, or a file's."""
    if not given:
        return
    if given.strip().startswith("{") and given.strip().endswith("}"):
        yield "flag", INLINE, given
        return
    path = cwd / given
    said = _read(path)
    if said is None:
        raise BadUsage(f"Error: Settings file not found: {path}")
    yield "flag", str(path), said


def _read(path: Path) -> str | None:
    """The text of a file; None if there is none. What cannot be read is no JSON, and said to be none."""
    try:
        return path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError):
        return "\0"


def _load(said: str, name: str) -> tuple[Mapping[str, object], list[str]]:
    """The values of one file, or its faults."""
    if not said.strip():
        return {}, []
    try:
        values = decode(said)
    except Malformed:
        return {}, [f"{name}: Invalid or malformed JSON"]
    if not isinstance(values, dict):
        return {}, [f"{name}: Expected object, but received {_kind(values)}"]
    checked = mapping(values)  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
    return checked, [f"{name} ({key}): {fault}" for key, fault in _faults(checked)]


def _faults(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    permissions, hooks = values.get("permissions"), values.get("hooks")
    yield from _hook_faults(hooks)
    yield from _of_kind("model", values.get("model"), "string")
    yield from _of_kind("env", values.get("env"), "record")
    yield from _of_kind("permissions", permissions, "object")
    for key in ("allow", "deny", "ask", "additionalDirectories"):
        yield from _of_kind(f"permissions.{key}", mapping(permissions).get(key), "array")
    mode = mapping(permissions).get("defaultMode")
    if mode is not None and mode not in _MODES:
        choices = ", ".join(f'"{each}"' for each in _MODES)
        yield "permissions.defaultMode", f"Invalid value. Expected one of: {choices}"


def _hook_faults(hooks: object) -> Iterator[tuple[str, str]]:
    yield from _of_kind("hooks", hooks, "record")
    for event, matchers in mapping(hooks).items():
        place = f"hooks.{event}"
        if not isinstance(matchers, list):
            if event in _GUARDS:
                said = f'Hook event "{event}" must be an array of matchers; received {_kind(matchers)}'
                yield place, f"{said} — {_GUARD_LOST}"
            yield place, f"Expected array, but received {_kind(matchers)}"
            continue
        for at, matcher in enumerate(sequence(matchers)):  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
            yield from _matcher_faults(f"{place}.{at}", event, matcher)


def _matcher_faults(place: str, event: str, matcher: object) -> Iterator[tuple[str, str]]:
    yield from _of_kind(place, matcher, "object", required=True)
    if not isinstance(matcher, dict):
        return
    values = mapping(matcher)  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
    yield from _of_kind(f"{place}.matcher", values.get("matcher"), "string")
    yield from _of_kind(f"{place}.hooks", values.get("hooks"), "array", required=True)
    for at, hook in enumerate(sequence(values.get("hooks"))):
        kind = mapping(hook).get("type")
        if kind not in HOOK_TYPES:
            if event in _GUARDS:
                said = f"Unknown hook type {_quoted(kind)} — {_GUARD_LOST} Valid types: {', '.join(HOOK_TYPES)}"
                yield f"{place}.hooks.{at}.type", said
            choices = " | ".join(f"'{each}'" for each in HOOK_TYPES)
            yield f"{place}.hooks.{at}.type", f"Invalid discriminator value. Expected {choices}"
        elif kind == "command":
            yield from _of_kind(f"{place}.hooks.{at}.command", mapping(hook).get("command"), "string", required=True)


def _of_kind(key: str, value: object, kind: str, *, required: bool = False) -> Iterator[tuple[str, str]]:
    kinds = {"string": str, "array": list, "object": dict, "record": dict}
    if value is None and not required:
        return
    if not isinstance(value, kinds[kind]):
        yield key, f"Expected {kind}, but received {_kind(value)}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else _kind(value)


def _env(file: SettingsFile) -> Iterator[tuple[str, str]]:
    for name, value in mapping(file.values.get("env")).items():
        if not name or "=" in name or "\0" in name:
            continue
        said = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, str | int | float) and "\0" not in said:
            yield name, said


def _without_effect(files: Sequence[SettingsFile]) -> list[str]:
    """One line that names every key without effect."""
    keys: dict[str, None] = {}
    for file in files:
        for key, value in file.values.items():
            if key not in KNOWN:
                keys[key] = None
            elif known := KNOWN[key]:
                keys |= dict.fromkeys(f"{key}.{below}" for below in mapping(value) if below not in known)
    return [f"ralph-claude: these settings have no effect here: {', '.join(keys)}"] if keys else []


def _state_file(environment: Mapping[str, str]) -> Path:
    folder = environment.get("CLAUDE_CONFIG_DIR") or environment.get("HOME", "/")
    return Path(folder) / ".claude.json"


def _is_trusted(environment: Mapping[str, str], cwd: Path) -> bool:
    try:
        projects = mapping(mapping(decode(_state_file(environment).read_text("utf-8"))).get("projects"))
    except (OSError, UnicodeDecodeError, Malformed):
        return False
    return any(
        mapping(projects.get(str(folder))).get("hasTrustDialogAccepted") is True for folder in (cwd, *cwd.parents)
    )
