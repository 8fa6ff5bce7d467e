"""claude's command line: a table of its flags in the notation of its own help, the parser, and the resulting options.

The table is that of 2.1.325: its `--help`, and the hidden flags that harnesses use. The parser follows the rules of
commander, which claude is built on: a variadic flag takes words until the next flag, `--flag=value` takes one.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ralph.claude_cli.schemas import NotASchema, require_valid
from ralph.core import ndjson

_FORMATS = ("text", "json", "stream-json")
_MODES = ("acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_AS_ROOT = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"


class Use(Enum):
    """What becomes of a flag that was given."""

    NEEDED = "needed"
    MOOT = "moot"
    """It asks for what is so anyway."""

    IGNORED = "ignored"
    """It changes nothing here, and one line says so."""

    REFUSED = "refused"
    """Without it the session would mean something else."""


class BadUsage(Exception):
    """The command line cannot be followed; worded as claude does."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One row: `-p, --print` is a switch, `<x>` takes a value, `[x]` may take one, `<x...>` takes several."""

    notation: str
    use: Use
    choices: tuple[str, ...] = ()
    hidden_choices: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return re.findall(r"(?<![\w<\[])--?[A-Za-z][\w-]*", self.notation)

    @property
    def key(self) -> str:
        """The name it is known by here: the last long one."""
        return self.names[-1].lstrip("-")

    @property
    def needs_value(self) -> bool:
        return "<" in self.notation

    @property
    def takes_value(self) -> bool:
        return self.needs_value or "[" in self.notation

    @property
    def is_variadic(self) -> bool:
        return "...>" in self.notation


def _rows(use: Use, notations: str) -> list[Flag]:
    return [Flag(line.strip(), use) for line in notations.strip().splitlines()]


FLAGS: tuple[Flag, ...] = (
    *_rows(
        Use.NEEDED,
        """
        -p, --print
        -v, --version
        -h, --help
        --model <model>
        --tools <tools...>
        --allowedTools, --allowed-tools <tools...>
        --disallowedTools, --disallowed-tools <tools...>
        --dangerously-skip-permissions
        --verbose
        --json-schema <schema>
        --max-turns <turns>
        --max-budget-usd <amount>
        --system-prompt <prompt>
        --system-prompt-file <file>
        --append-system-prompt <prompt>
        --append-system-prompt-file <file>
        --session-id <uuid>
        --add-dir <directories...>
        --effort <level>
        --setting-sources <sources>
        --disable-slash-commands
        --include-partial-messages
        """,
    ),
    Flag("--input-format <format>", Use.NEEDED, ("text", "stream-json")),
    Flag("--output-format <format>", Use.NEEDED, _FORMATS),
    Flag("--permission-mode <mode>", Use.NEEDED, _MODES, hidden_choices=("default",)),
    *_rows(
        Use.MOOT,
        """
        --no-session-persistence
        --strict-mcp-config
        --no-chrome
        --allow-dangerously-skip-permissions
        """,
    ),
    *_rows(
        Use.IGNORED,
        """
        --agent <agent>
        --agents <json-or-file>
        --autocompact <auto|tokens>
        --ax-screen-reader
        --bare
        --betas <betas...>
        --brief
        --chrome
        -d, --debug [filter]
        --debug-file <path>
        -d2e, --debug-to-stderr
        --exclude-dynamic-system-prompt-sections
        --fallback-model <model>
        --file <specs...>
        --forward-subagent-text
        --ide
        --include-hook-events
        --max-thinking-tokens <tokens>
        --mcp-config <configs...>
        -n, --name <name>
        --permission-prompt-tool <tool>
        --permission-prompts <target>
        --plugin-dir <path>
        --plugin-dir-no-mcp <path>
        --plugin-url <url>
        --prompt-suggestions [value]
        --replay-user-messages
        --restricted
        --safe-mode
        --settings <file-or-json>
        --system-prompt-snapshot <on|off>
        --task-budget <tokens>
        --thinking <mode>
        --thinking-display <display>
        """,
    ),
    *_rows(
        Use.REFUSED,
        """
        -c, --continue
        -r, --resume [value]
        --resume-session-at <message id>
        --fork-session
        --from-pr [value]
        --teleport [session]
        --cloud [description|session_id|url]
        --environment <environment_id>
        --bg, --background
        --desktop
        --remote-control [name]
        --remote-control-session-name-prefix <prefix>
        --tmux
        -w, --worktree [name]
        """,
    ),
)

_BY_NAME: Mapping[str, Flag] = {name: flag for flag in FLAGS for name in flag.names}


@dataclass(slots=True)
class Given:
    """A command line as it was read: the words of every flag, and the words that belong to none."""

    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    words: list[str] = field(default_factory=list[str])

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def last(self, key: str) -> str | None:
        """The value that counts when a flag was given more than once."""
        said = self.values.get(key)
        return said[-1] if said else None

    def of(self, use: Use) -> list[Flag]:
        return [flag for flag in FLAGS if flag.use is use and flag.key in self.values]

    def take(self, flag: Flag, value: str | None) -> None:
        allowed = flag.choices + flag.hidden_choices
        if allowed and value not in allowed:
            choices = ", ".join(flag.choices)
            raise BadUsage(
                f"error: option '{flag.notation}' argument '{value}' is invalid. Allowed choices are {choices}."
            )
        self.values.setdefault(flag.key, []).extend([] if value is None else [value])


def parse(argv: Sequence[str]) -> Given:
    """Read a command line; raises BadUsage for a flag that claude does not know either."""
    given, unknown = Given(), ""
    rest = list(argv)
    greedy: Flag | None = None
    while rest:
        word = rest.pop(0)
        if word == "--":
            given.words += rest
            break
        if greedy and not _looks_like_a_flag(word):
            given.take(greedy, word)
            continue
        greedy = None
        name, equals, value = word.partition("=")
        if flag := _BY_NAME.get(word):
            given.take(flag, _value_of(flag, rest))
            greedy = flag if flag.is_variadic else None
        elif equals and word.startswith("--") and name in _BY_NAME and _BY_NAME[name].takes_value:
            given.take(_BY_NAME[name], value)
        elif len(word) > 2 and word[1] != "-" and word[:2] in _BY_NAME:  # -pv is -p -v, -dapi is -d api
            cluster = _BY_NAME[word[:2]]
            rest[:0] = [word[:2], word[2:]] if cluster.takes_value else [f"-{word[2:]}"]
            if not cluster.takes_value:
                given.take(cluster, None)
        elif _looks_like_a_flag(word):
            unknown = unknown or word
        else:
            given.words.append(word)
        if "version" in given or "help" in given:
            return given
    if unknown:
        raise BadUsage(f"error: unknown option '{unknown}'{_did_you_mean(unknown)}")
    return given


def _value_of(flag: Flag, rest: list[str]) -> str | None:
    if flag.needs_value:
        if not rest:
            raise BadUsage(f"error: option '{flag.notation}' argument missing")
        return rest.pop(0)
    if flag.takes_value and rest and not _looks_like_a_flag(rest[0]):
        return rest.pop(0)
    return None


def _looks_like_a_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _did_you_mean(unknown: str) -> str:
    import difflib

    known = [name for name in _BY_NAME if name.startswith("--")]
    near = difflib.get_close_matches(unknown.partition("=")[0], known, n=1, cutoff=0.75)
    return f"\n(Did you mean {near[0]}?)" if near else ""


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
    session_id: str
    directories: tuple[Path, ...]
    effort: str
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    """One line each, for stderr."""


def settle(given: Given, *, is_root: bool, environment: Mapping[str, str], cwd: Path) -> Options:
    """Make sense of the flags, or raise BadUsage."""
    _refuse(given)
    output, reads_stream = given.last("output-format") or "text", given.last("input-format") == "stream-json"
    verbose = "verbose" in given
    if reads_stream and output != "stream-json":
        raise BadUsage("Error: --input-format=stream-json requires output-format=stream-json.")
    if output == "stream-json" and not verbose:
        raise BadUsage("Error: When using --print, --output-format=stream-json requires --verbose")
    mode = "bypassPermissions" if "dangerously-skip-permissions" in given else given.last("permission-mode") or ""
    if mode == "bypassPermissions" and is_root and environment.get("IS_SANDBOX") != "1":
        raise BadUsage(_AS_ROOT)
    notes = [f"ralph-claude: {flag.names[-1]} has no effect here" for flag in given.of(Use.IGNORED)]
    effort, doubt = _effort(given.last("effort") or "")
    return Options(
        prompt=given.words[0] if given.words else "",
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
        session_id=_session_id(given.last("session-id")),
        directories=tuple(cwd / folder for folder in given.values.get("add-dir", ())),
        effort=effort,
        sources=_sources(given.last("setting-sources")),
        notes=(*notes, *doubt),
    )


def _refuse(given: Given) -> None:
    if refused := given.of(Use.REFUSED):
        name = refused[0].names[-1]
        raise BadUsage(f"Error: ralph-claude does not support {name}: every session starts fresh, with --print")
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


def _session_id(text: str | None) -> str:
    if text is not None and not _UUID.fullmatch(text):
        raise BadUsage("Error: Invalid session ID. Must be a valid UUID.")
    return text or str(uuid.uuid4())


def _effort(level: str) -> tuple[str, list[str]]:
    if not level or level in EFFORTS:
        return level, []
    said = f"Warning: Unknown --effort value '{level}' — ignoring it and using the default effort."
    return "", [f"{said} Valid values: {', '.join(EFFORTS)}."]


def _sources(text: str | None) -> tuple[str, ...]:
    """Return the settings files to read; all by default."""
    if text is None:
        return ("user", "project", "local")
    return tuple(name.strip() for name in text.split(",") if name.strip())
