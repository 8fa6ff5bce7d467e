"""claude's command line: every flag as one row in the notation of its own help, and a parser over the table.

The table is that of 2.1.325: its `--help`, and the hidden flags that harnesses use. The parser keeps to the rules of
commander, which claude is built on: a variadic flag takes words until the next flag, `--flag=value` takes one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


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


_FORMATS = ("text", "json", "stream-json")
_MODES = ("acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan")


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
