"""The options of one session: what the flags come to, or the refusal."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.claude_cli.debug import Debug, debug_of
from ralph.claude_cli.flags import BadUsage, Given, Use
from ralph.claude_cli.history import SessionFile, Wish, open_record
from ralph.claude_cli.schemas import NotASchema, require_valid
from ralph.claude_cli.settings import SOURCES, ClaudeSettings, read_settings
from ralph.core import ndjson

_BETAS = ("context-1m-2025-08-07",)
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_AS_ROOT = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"


@dataclass(frozen=True, slots=True)
class Options:
    """One session as the user wants it."""

    prompt: str
    model: str
    tools: tuple[str, ...] | None
    """None: all of them."""

    allowed: tuple[str, ...]
    disallowed: tuple[str, ...]
    permission_mode: str
    """Empty: as the settings files say."""

    with_skills: bool
    verbose: bool
    reads_stream: bool
    output: str
    in_pieces: bool
    """Partial messages are reported, too."""
    schema: Mapping[str, object] | None
    max_turns: int | None
    max_dollars: float | None
    system_prompt: str | None
    more_system_prompt: str
    record: SessionFile
    directories: tuple[Path, ...]
    effort: str
    sources: tuple[str, ...]
    settings: ClaudeSettings
    shows_hooks: bool
    replays: bool
    """The user's messages are printed again."""

    mcp_configs: tuple[str, ...]
    """Files or JSON."""

    only_these_mcp_servers: bool
    permission_prompt_tool: str
    subagents: str
    """JSON, or a file with it; empty: none."""

    fallback_models: tuple[str, ...]
    betas: Mapping[str, str]
    """The headers of --betas, as the variable that names them."""

    debug: Debug
    notes: tuple[str, ...]
    """One line each, for stderr."""


def settle(given: Given, *, is_root: bool, environment: Mapping[str, str], cwd: Path) -> Options:
    """Make sense of the flags, or raise BadUsage."""
    _refuse(given)
    output, reads_stream = given.last("output-format") or "text", given.last("input-format") == "stream-json"
    verbose = "verbose" in given
    prompt = given.words[0] if given.words else ""
    if reads_stream and output != "stream-json" and not (output == "json" and prompt):
        raise BadUsage("Error: --input-format=stream-json requires output-format=stream-json.")
    if output == "stream-json" and not verbose:
        raise BadUsage("Error: When using --print, --output-format=stream-json requires --verbose")
    mode = "bypassPermissions" if "dangerously-skip-permissions" in given else given.last("permission-mode") or ""
    if mode == "bypassPermissions" and is_root and environment.get("IS_SANDBOX") != "1":
        raise BadUsage(_AS_ROOT)
    if "replay-user-messages" in given and not (output == "stream-json" and (reads_stream or prompt)):
        needs = "both --input-format=stream-json and --output-format=stream-json"
        raise BadUsage(f"Error: --replay-user-messages requires {needs}.")
    notes = [f"ralph-claude: {flag.names[-1]} has no effect here" for flag in given.of(Use.IGNORED)]
    effort, doubt = _effort(given.last("effort") or "")
    betas, doubts = _betas(given.values.get("betas", ()))
    sources = _sources(given.last("setting-sources"))
    return Options(
        prompt=prompt,
        model=given.last("model") or "",
        tools=_tools(given),
        allowed=tuple(given.values.get("allowed-tools", ())),
        disallowed=tuple(given.values.get("disallowed-tools", ())),
        permission_mode="default" if mode == "manual" else mode,
        with_skills="disable-slash-commands" not in given,
        verbose=verbose,
        reads_stream=reads_stream,
        output=output,
        in_pieces=_in_pieces(given, output),
        schema=_schema(given.last("json-schema")),
        max_turns=_turns(given.last("max-turns")),
        max_dollars=_dollars(given.last("max-budget-usd")),
        system_prompt=_prompt(given, "system-prompt", cwd),
        more_system_prompt=_prompt(given, "append-system-prompt", cwd) or "",
        record=open_record(_wish(given), environment, cwd),
        directories=tuple(cwd / folder for folder in given.values.get("add-dir", ())),
        effort=effort,
        sources=sources,
        replays="replay-user-messages" in given,
        shows_hooks="include-hook-events" in given,
        settings=read_settings(environment, cwd, sources, given.last("settings") or ""),
        mcp_configs=tuple(given.values.get("mcp-config", ())),
        only_these_mcp_servers="strict-mcp-config" in given,
        permission_prompt_tool=given.last("permission-prompt-tool") or "",
        subagents=given.last("agents") or "",
        fallback_models=_listed(given.last("fallback-model") or ""),
        betas=betas,
        debug=debug_of(given, cwd),
        notes=(*notes, *doubt, *doubts),
    )


def _refuse(given: Given) -> None:
    if refused := given.of(Use.REFUSED):
        name = refused[0].names[-1]
        raise BadUsage(f"Error: ralph-claude does not support {name}")
    if "system-prompt" in given and "system-prompt-file" in given:
        raise BadUsage("Error: Cannot use both --system-prompt and --system-prompt-file. Please use only one.")


def _in_pieces(given: Given, output: str) -> bool:
    asked = "include-partial-messages" in given
    if asked and output != "stream-json":
        raise BadUsage("Error: --include-partial-messages requires --print and --output-format=stream-json.")
    return asked


def _tools(given: Given) -> tuple[str, ...] | None:
    if "tools" not in given:
        return None
    names = [name for words in given.values["tools"] for name in re.split(r"[,\s]+", words) if name]
    return None if names == ["default"] else tuple(names)


def _schema(text: str | None) -> Mapping[str, object] | None:
    if text is None:
        return None
    try:
        schema = ndjson.decode(text)
    except ndjson.Malformed as error:
        raise BadUsage(f"Error: --json-schema is not valid JSON: {error}") from error
    if not isinstance(schema, dict):
        raise BadUsage("Error: --json-schema must be a JSON object")
    try:
        require_valid(ndjson.mapping(schema))  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
    except NotASchema as error:
        raise BadUsage(f"Error: --json-schema is not a valid JSON Schema: {error}") from error
    return ndjson.mapping(schema)  # pyright: ignore[reportUnknownArgumentType] - JSON from outside


def _turns(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        number = int(float(text))
    except (ValueError, OverflowError) as error:
        wrong = f"error: option '--max-turns <turns>' argument '{text}' is invalid. must be a number"
        raise BadUsage(wrong) from error
    return number if number > 0 else None  # 0 is no limit (2.1.325)


def _dollars(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        amount = ndjson.amount(float(text))
    except ValueError:
        amount = None
    if not amount:
        raise BadUsage(
            f"error: option '--max-budget-usd <amount>' argument '{text}' is invalid. --max-budget-usd must be a "
            "positive number greater than 0"
        )
    return amount


def _prompt(given: Given, key: str, cwd: Path) -> str | None:
    """The text of a flag and of the file that its twin names; the file's comes last."""
    said, file = given.last(key), given.last(f"{key}-file")
    if file is None:
        return said
    path = cwd / file
    what = "System prompt" if key == "system-prompt" else "Append system prompt"
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise BadUsage(f"Error: {what} file not found: {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"Error: {what} file cannot be read: {path}: {error}") from error
    return f"{said}\n\n{text}" if said else text


def _wish(given: Given) -> Wish:
    session_id = given.last("session-id") or ""
    if "session-id" in given and not _UUID.fullmatch(session_id):
        raise BadUsage("Error: Invalid session ID. Must be a valid UUID.")
    return Wish(
        session_id=session_id.lower(),
        resume=(given.last("resume") or "") if "resume" in given else None,
        continues="continue" in given and "resume" not in given,
        forks="fork-session" in given,
        persists="no-session-persistence" not in given,
        title=given.last("name") or "",
    )


def _effort(level: str) -> tuple[str, list[str]]:
    if not level or level in EFFORTS:
        return level, []
    said = f"Warning: Unknown --effort value '{level}' — ignoring it and using the default effort."
    return "", [f"{said} Valid values: {', '.join(EFFORTS)}."]


def _betas(names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the headers that may be asked for, and what is said about all others (2.1.325)."""
    known = f"Only the following betas are supported: {', '.join(_BETAS)}"
    doubts = [f"Warning: Beta header '{name}' is not allowed. {known}" for name in names if name not in _BETAS]
    allowed = ",".join(name for name in names if name in _BETAS)
    return {"ANTHROPIC_BETAS": allowed} if allowed else {}, doubts


def _sources(text: str | None) -> tuple[str, ...]:
    """Return the settings files to read; all by default."""
    if text is None:
        return SOURCES
    for name in (names := _listed(text)):
        if name not in SOURCES:
            choices = f"Valid options are: {', '.join(SOURCES)}"
            raise BadUsage(f"Error processing --setting-sources: Invalid setting source: {name}. {choices}")
    return names


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
