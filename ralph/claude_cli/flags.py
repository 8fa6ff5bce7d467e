"""claude's command line: one row for each flag, in the notation of its own help, and the parser.

The rows are those of 2.1.325: its `--help`, and the hidden flags that harnesses use. The parser follows the rules of
commander, which claude is built on: a variadic flag takes words until the next flag, `--flag=value` takes one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Use(Enum):
    """What becomes of a flag that was given."""

    WORKS = "works"
    MOOT = "moot"
    """It asks for what is so anyway."""

    IGNORED = "ignored"
    """It changes nothing here, and one line on stderr says so."""

    REFUSED = "refused"
    """Without it the session would mean something else."""


class BadUsage(Exception):
    """The command line cannot be followed; worded as claude does."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One row: `-p, --print` is a switch, `<x>` takes a value, `[x]` may take one, `<x...>` takes several."""

    notation: str
    use: Use = Use.WORKS
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

# To make a flag work: take `Use.IGNORED` off its row, and read its value in `options.settle`.
FLAGS: tuple[Flag, ...] = (
    Flag("--add-dir <directories...>"),
    Flag("--agent <agent>", Use.IGNORED),
    Flag("--agents <json-or-file>"),
    Flag("--allow-dangerously-skip-permissions", Use.MOOT),
    Flag("--allowedTools, --allowed-tools <tools...>"),
    Flag("--append-system-prompt <prompt>"),
    Flag("--append-system-prompt-file <file>"),
    Flag("--autocompact <auto|tokens>", Use.IGNORED),
    Flag("--ax-screen-reader", Use.IGNORED),
    Flag("--bare", Use.IGNORED),
    Flag("--betas <betas...>"),
    Flag("--bg, --background", Use.REFUSED),
    Flag("--brief", Use.IGNORED),
    Flag("--chrome", Use.IGNORED),
    Flag("--cloud [description|session_id|url]", Use.REFUSED),
    Flag("-c, --continue"),
    Flag("--dangerously-skip-permissions"),
    Flag("-d, --debug [filter]"),
    Flag("--debug-file <path>"),
    Flag("-d2e, --debug-to-stderr"),
    Flag("--desktop", Use.REFUSED),
    Flag("--disable-slash-commands"),
    Flag("--disallowedTools, --disallowed-tools <tools...>"),
    Flag("--effort <level>"),
    Flag("--environment <environment_id>", Use.REFUSED),
    Flag("--exclude-dynamic-system-prompt-sections", Use.IGNORED),
    Flag("--fallback-model <model>"),
    Flag("--file <specs...>", Use.IGNORED),
    Flag("--fork-session"),
    Flag("--forward-subagent-text", Use.IGNORED),
    Flag("--from-pr [value]", Use.REFUSED),
    Flag("-h, --help"),
    Flag("--ide", Use.IGNORED),
    Flag("--include-hook-events"),
    Flag("--include-partial-messages"),
    Flag("--input-format <format>", choices=("text", "stream-json")),
    Flag("--json-schema <schema>"),
    Flag("--max-budget-usd <amount>"),
    Flag("--max-thinking-tokens <tokens>", Use.IGNORED),
    Flag("--max-turns <turns>"),
    Flag("--mcp-config <configs...>"),
    Flag("--model <model>"),
    Flag("-n, --name <name>"),
    Flag("--no-chrome", Use.MOOT),
    Flag("--no-session-persistence"),
    Flag("--output-format <format>", choices=_FORMATS),
    Flag("--permission-mode <mode>", choices=_MODES, hidden_choices=("default",)),
    Flag("--permission-prompt-tool <tool>"),
    Flag("--permission-prompts <target>", Use.IGNORED),
    Flag("--plugin-dir <path>", Use.IGNORED),
    Flag("--plugin-dir-no-mcp <path>", Use.IGNORED),
    Flag("--plugin-url <url>", Use.IGNORED),
    Flag("-p, --print"),
    Flag("--prompt-suggestions [value]", Use.IGNORED),
    Flag("--remote-control [name]", Use.REFUSED),
    Flag("--remote-control-session-name-prefix <prefix>", Use.REFUSED),
    Flag("--replay-user-messages"),
    Flag("--restricted", Use.IGNORED),
    Flag("-r, --resume [value]"),
    Flag("--resume-session-at <message id>", Use.REFUSED),
    Flag("--safe-mode", Use.IGNORED),
    Flag("--session-id <uuid>"),
    Flag("--setting-sources <sources>"),
    Flag("--settings <file-or-json>"),
    Flag("--strict-mcp-config"),
    Flag("--system-prompt <prompt>"),
    Flag("--system-prompt-file <file>"),
    Flag("--system-prompt-snapshot <on|off>", Use.IGNORED),
    Flag("--task-budget <tokens>", Use.IGNORED),
    Flag("--teleport [session]", Use.REFUSED),
    Flag("--thinking <mode>", Use.IGNORED),
    Flag("--thinking-display <display>", Use.IGNORED),
    Flag("--tmux", Use.REFUSED),
    Flag("--tools <tools...>"),
    Flag("--verbose"),
    Flag("-v, --version"),
    Flag("-w, --worktree [name]", Use.REFUSED),
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
