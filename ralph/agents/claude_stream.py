"""Claude Code's `--output-format stream-json` into canonical events.

Written against what 2.1.197 and 2.1.325 were seen to print, and tolerant of the rest: few keys are bound, an unknown
type is a `Meta`, a line that is not JSON is a `Meta` and a visible `Text`.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ralph.agents.transcript import Capabilities, Figures, OpenTools, named, spoken, unread
from ralph.core import ndjson
from ralph.core.events import (
    MOST_TOKENS,
    ApiRetry,
    Denial,
    Event,
    Meta,
    RateLimited,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
    Usage,
)
from ralph.core.ndjson import count, mapping, sequence, text
from ralph.core.usage import USUAL_WINDOW, context_pct

_REMEMBERED = 64
"""Messages whose usage is not to be counted again."""

_TOLD_TOGETHER = 100_000
"""Prompt tokens of messages whose use may be told in one: a longer prompt may be charged by other rates."""

_LATEST_RESET = 2**32
"""Seconds since 1970; a larger figure is no time that anyone can wait for."""

_QUIET = ("thinking_tokens", "status", "hook_started", "hook_response", "background_tasks_changed")


class ClaudeTranscript:
    """One session's stream. `system/init` and `usage` repeat (seen on 2.1.197): both are taken in once."""

    capabilities = Capabilities(supports_roles=True, supports_tool_events=True, supports_usage_events=True)

    def __init__(self, windows: dict[str, int] | None = None) -> None:
        """`windows` are the context windows of models that sessions before this one told of; this one adds its own."""
        self._started = False
        self._usage = _ClaudeUsage({} if windows is None else windows)
        self._error = ""
        self._open_tools = OpenTools()
        self._readers: Mapping[str, Callable[[Mapping[str, object]], list[Event]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "stream_event": self._partial,
            "rate_limit_event": _rate_limit_event,
        }

    def feed(self, line: str) -> list[Event]:
        if not line or line.isspace():
            return []
        try:
            record = mapping(ndjson.decode(line))
        except ndjson.Malformed as fault:
            return unread(line, malformed=str(fault))
        return [*self._record(record), *self.settle()]

    def feed_bytes(self, line: bytes) -> list[Event]:
        """Read a line without taking it for a `str` first; the use that it tells may wait for `settle`."""
        try:
            record = mapping(ndjson.decode_strictly(line))
        except ndjson.Malformed:
            return self.feed(line.decode("utf-8", "replace"))
        return self._record(record)

    def settle(self) -> list[Event]:
        """Tell the use that was not told yet."""
        return self._usage.settle()

    def flush(self) -> list[Event]:
        """Tell the rest, and close the tools that the stream left open."""
        return [*self.settle(), *self._open_tools.close()]

    def _record(self, record: Mapping[str, object]) -> list[Event]:
        kind = record.get("type")
        read = self._readers.get(kind) if isinstance(kind, str) else None
        return [Meta({"ignored": named(kind)})] if read is None else read(record)

    def _system(self, record: Mapping[str, object]) -> list[Event]:
        subtype = text(record.get("subtype"))
        if subtype == "init":
            return self._init(record)
        if subtype == "api_retry":
            status = count(record.get("error_status")) or None
            return [ApiRetry(count(record.get("attempt")), status, text(record.get("error")))]
        if subtype == "model_fallback":
            fallback = text(record.get("fallback_model"))
            return [Meta({"model_fallback": fallback}), Text(Tag.SYS, f"the agent fell back to model {fallback}")]
        if subtype in _QUIET:
            return []
        return [Meta({"system": subtype[:100]})]

    def _init(self, record: Mapping[str, object]) -> list[Event]:
        if self._started:
            return []
        self._started = True
        return [
            SessionStarted(
                session_id=text(record.get("session_id")),
                model=text(record.get("model")),
                version=text(record.get("claude_code_version")),
                tools=tuple(text(tool) for tool in sequence(record.get("tools"))),
                permission_mode=text(record.get("permissionMode")),
            )
        ]

    def _assistant(self, record: Mapping[str, object]) -> list[Event]:
        message = mapping(record.get("message"))
        if error := text(record.get("error")):
            self._error = error
        events: list[Event] = []
        for block in _blocks(message.get("content")):
            events += self._assistant_block(block)
        return events + self._usage.message(message, text(record.get("parent_tool_use_id")))

    def _partial(self, record: Mapping[str, object]) -> list[Event]:
        """Of the pieces of a message only what they say of its use; the message itself follows, block by block."""
        event = mapping(record.get("event"))
        match event.get("type"):
            case "message_start":
                thread = text(record.get("parent_tool_use_id"))
                return self._usage.message(mapping(event.get("message")), thread, begins=True)
            case "message_delta":
                thread, identity = text(record.get("parent_tool_use_id")), text(record.get("api_message_id"))
                return self._usage.message_grew(mapping(event.get("usage")), identity, thread)
            case _:
                return []

    def _assistant_block(self, block: Mapping[str, object]) -> list[Event]:
        match block.get("type"):
            case "text":
                return spoken(Tag.AI, block.get("text"))
            case "thinking":
                return spoken(Tag.THINK, block.get("thinking"))
            case "tool_use":
                tool_id = text(block.get("id"))
                start = ToolStart(tool_id, text(block.get("name")), mapping(block.get("input")))
                return [*self._open_tools.start(tool_id), start]
            case unknown:
                return [Meta({"ignored_block": named(unknown)})]

    def _user(self, record: Mapping[str, object]) -> list[Event]:
        events: list[Event] = []
        for block in _blocks(mapping(record.get("message")).get("content")):
            if block.get("type") == "tool_result":
                events += self._tool_result(block)
            elif record.get("isSynthetic") or record.get("isReplay"):  # nudges, skill bodies, echoes: not a person
                events += spoken(Tag.PROMPT, block.get("text"))
            else:
                events += spoken(Tag.USER, block.get("text"))
        return events

    def _tool_result(self, block: Mapping[str, object]) -> list[Event]:
        tool_id = text(block.get("tool_use_id"))
        self._open_tools.end(tool_id)
        content = block.get("content")
        outputs = [content] if isinstance(content, str) else [text(part.get("text")) for part in _blocks(content)]
        events: list[Event] = [ToolOutput(tool_id, output) for output in outputs if output]
        events.append(ToolEnd(tool_id, ToolStatus.FAIL if block.get("is_error") is True else ToolStatus.OK))
        return events

    def _result(self, record: Mapping[str, object]) -> list[Event]:
        errors = [text(error) for error in sequence(record.get("errors"))]
        turn = TurnEnded(
            is_error=record.get("is_error") is True,
            subtype=text(record.get("subtype")),
            text=text(record.get("result")) or "; ".join(errors),
            structured_output=record.get("structured_output"),
            api_status=count(record.get("api_error_status")) or None,
            error=self._error,
            terminal_reason=text(record.get("terminal_reason")),
            denials=tuple(_denial(item) for item in sequence(record.get("permission_denials"))),
            origin=text(mapping(record.get("origin")).get("kind")),
        )
        self._error = ""
        return [*self._usage.result(record), turn]


_Tokens = tuple[int, int, int, int, int]
"""Fresh, output, cache creation, cache read, and the part of the creation that is kept for an hour."""

_NO_TOKENS: _Tokens = (0, 0, 0, 0, 0)
_IN_MESSAGES = (
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
    "ephemeral_1h_input_tokens",
)  # fmt: skip
_IN_RESULTS = (
    "inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens",
    "cacheCreationEphemeral1hInputTokens",
)  # fmt: skip


def _plus(one: _Tokens, other: _Tokens) -> _Tokens:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4]


def _minus(one: _Tokens, other: _Tokens) -> _Tokens:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], one[3] - other[3], one[4] - other[4]


def _largest(one: _Tokens, other: _Tokens) -> _Tokens:
    a, b, c, d, e = one
    v, w, x, y, z = other
    return (  # written out: five calls of `max` for every message took a tenth of the time that its use is reckoned in
        a if a > v else v,
        b if b > w else w,
        c if c > x else x,
        d if d > y else y,
        e if e > z else z,
    )


def _sum(several: Iterable[_Tokens]) -> _Tokens:
    return functools.reduce(_plus, several, _NO_TOKENS)


def _untold(shown: Mapping[str, _Tokens], told: Mapping[str, _Tokens]) -> _Tokens:
    """What messages have used beyond what a result tells: model by model, so that side calls of another do not hide it.

    A gateway may call a model otherwise than the agent does: what messages of a model have used that the result does
    not name may be in any figure of it that is not accounted for.
    """
    untold, unnamed, rest = _NO_TOKENS, _NO_TOKENS, _sum(told.values())
    for model, tokens in shown.items():
        if model not in told:
            unnamed = _plus(unnamed, tokens)
            continue
        more = _largest(_minus(tokens, told[model]), _NO_TOKENS)
        untold, rest = _plus(untold, more), _minus(rest, _minus(tokens, more))
    return _plus(untold, _largest(_minus(unnamed, rest), _NO_TOKENS))


def _prompt(tokens: _Tokens) -> int:
    return tokens[0] + tokens[2] + tokens[3]


class _Message(NamedTuple):
    tokens: _Tokens
    model: str


class _ClaudeUsage:
    """Folds the witnesses of the session's use into one cumulative figure.

    Messages repeat their usage once a content block, and know their final output tokens only where partial messages
    are asked for (in `message_delta`; never those of subagents, 2.1.325). A result's `modelUsage` and `total_cost_usd`
    are cumulative over the process but miss a call now and then: one that was interrupted or hung up on (2.1.325), the
    last try of a schema violation (2.1.197). All are lower bounds: at a result the larger of the two sums stands, model
    by model and field by field, and later messages come on top; what `modelUsage` lacks, the cost lacks as well.
    """

    def __init__(self, windows: dict[str, int]) -> None:
        self._figures = Figures()
        self._windows = windows
        self._messages: OrderedDict[str, _Message] = OrderedDict()
        self._of_messages: dict[str, _Tokens] = {}
        """By model."""
        self._at_result = _NO_TOKENS
        self._since_result = _NO_TOKENS
        self._most = _NO_TOKENS
        self._open: dict[str, str] = {}
        """The last message of each thread; `_in_pieces`: those of which more is to be told."""
        self._in_pieces: set[str] = set()
        self._nameless = 0
        self._context = 0
        self._model = ""
        self._cost: float | None = None
        self._untold_model: str | None = None
        """The model of the messages whose use is not told yet; None: there are none."""
        self._untold_prompt = 0
        self._last_identity = ""
        """The message that was taken in last, and what it reported."""
        self._last_reported: Mapping[str, object] = {}

    def settle(self) -> list[Event]:
        """Tell the use of the messages that were taken in since it was last told."""
        if self._untold_model is None:
            return []
        used = self._event(self._untold_model)
        self._untold_model, self._untold_prompt = None, 0
        return [used]

    @property
    def _window(self) -> int:
        """The context window; the agent tells it with the first result, and until then the usual one is assumed."""
        return self._windows.get(self._model, USUAL_WINDOW)

    def message(self, message: Mapping[str, object], thread: str, *, begins: bool = False) -> list[Event]:
        """Take in a message as it stands; `thread` is the tool call of the subagent whose it is, empty for our own."""
        model = text(message.get("model"))
        reported = mapping(message.get("usage"))
        if not reported or model == "<synthetic>":
            return []
        identity = text(message.get("id")) or self._name(thread, begins=begins)
        self._open[thread] = identity
        if identity == self._last_identity and reported == self._last_reported and not begins:
            return []  # one more block of the same message
        self._last_identity, self._last_reported = identity, reported
        if begins:
            self._in_pieces.add(thread)
        tokens = self._tokens(reported, _IN_MESSAGES)
        in_call = True if begins and not thread else None
        if identity in self._messages:
            return self._grown(identity, tokens, in_call=in_call)
        prompt = _prompt(tokens)
        waits = in_call is None and model == self._untold_model and self._untold_prompt + prompt <= _TOLD_TOGETHER
        told = [] if waits else self.settle()
        self._remember(identity, _Message(tokens, model))
        self._add(tokens, model)
        if not thread:  # a subagent's context is not the session's
            self._model = model or self._model
            self._context = prompt
        if in_call is not None:
            return [*told, *self._figures.faults(), self._event(model, in_call=in_call)]
        self._untold_model = model
        self._untold_prompt += prompt
        return [*told, *self._figures.faults()]

    def message_grew(self, reported: Mapping[str, object], identity: str, thread: str) -> list[Event]:
        """Take in what a message has used by now; one that does not say its name (2.1.197) is the thread's last."""
        identity = identity or self._open.get(thread, "")
        ends = thread in self._in_pieces
        self._in_pieces.discard(thread)
        if identity not in self._messages:
            return []
        in_call = False if ends and not thread else None
        return self._grown(identity, self._tokens(reported, _IN_MESSAGES), in_call=in_call)

    def result(self, record: Mapping[str, object]) -> list[Event]:
        told_before = self.settle()
        models = mapping(record.get("modelUsage"))
        told = {model: self._tokens(mapping(used), _IN_RESULTS) for model, used in models.items()}
        untold = _untold(self._of_messages, told)
        if window := count(mapping(models.get(self._model)).get("contextWindow")):
            self._windows[self._model] = window
        if models:
            self._at_result = _largest(self._at_result, _plus(_sum(told.values()), untold))
            self._since_result = _NO_TOKENS
        cost = self._figures.dollars(record, "total_cost_usd")
        if cost is not None and self._cost is not None and cost < self._cost:
            self._figures.fell("total_cost_usd", self._cost, cost)
        if cost is not None:
            self._cost = max(cost, self._cost or 0.0)
        used = self._event(costed=cost is not None)
        left_out = 0
        if cost is not None and (models or ("modelUsage" in record and cost == 0)):
            left_out = min(_prompt(untold) + untold[1], MOST_TOKENS)
        rest = [replace(used, cost_is_estimate=True, uncosted_tokens=left_out)] if left_out else []
        return [*told_before, *self._figures.faults(), used, *rest]

    def _name(self, thread: str, *, begins: bool) -> str:
        """A name for a message that has none: another one each time, unless its pieces say that it goes on."""
        if thread in self._in_pieces and not begins and thread in self._open:
            return self._open[thread]
        self._nameless += 1
        return f"nameless {self._nameless}"

    def _grown(self, identity: str, tokens: _Tokens, *, in_call: bool | None) -> list[Event]:
        """Count what a message says beyond what it said before; most say the same once more."""
        known = self._messages[identity]
        most = _largest(known.tokens, tokens)
        if most == known.tokens and in_call is None:
            return self._figures.faults()
        told = self.settle()
        self._messages[identity] = _Message(most, known.model)
        self._add(_minus(most, known.tokens), known.model)
        return [*told, *self._figures.faults(), self._event(known.model, in_call=in_call)]

    def _add(self, tokens: _Tokens, model: str) -> None:
        if model not in self._of_messages and len(self._of_messages) >= _REMEMBERED:
            model = ""
        self._of_messages[model] = _plus(self._of_messages.get(model, _NO_TOKENS), tokens)
        self._since_result = _plus(self._since_result, tokens)

    def _remember(self, identity: str, message: _Message) -> None:
        """Repetitions follow at once; to keep all would grow for ever."""
        self._messages[identity] = message
        if len(self._messages) > _REMEMBERED:
            self._messages.popitem(last=False)
        if len(self._open) >= _REMEMBERED:
            self._open.clear()
            self._in_pieces.clear()

    def _tokens(self, reported: Mapping[str, object], names: Sequence[str]) -> _Tokens:
        fresh, output, creation, read, for_an_hour = names
        hour = reported if for_an_hour in reported else mapping(reported.get("cache_creation"))
        tokens, get = self._figures.tokens, reported.get
        return (
            tokens(get(fresh), fresh),
            tokens(get(output), output),
            tokens(get(creation), creation),
            tokens(get(read), read),
            tokens(hour.get(for_an_hour), for_an_hour) if hour else 0,
        )

    def _event(self, model: str = "", *, in_call: bool | None = None, costed: bool = False) -> Usage:
        """What the session has used so far, and the model that used the last of it.

        The cost is the agent's own word only for what it had used at a result.
        """
        self._most = tokens = _largest(self._most, _plus(self._at_result, self._since_result))
        prompt = _prompt(tokens)
        _, output, cache_creation, cache_read, for_an_hour = tokens
        stale = self._cost is not None and not costed and self._since_result != _NO_TOKENS
        if prompt + output > MOST_TOKENS:
            prompt, output = min(prompt, MOST_TOKENS), min(output, MOST_TOKENS)
            cache_creation, cache_read = min(cache_creation, MOST_TOKENS), min(cache_read, MOST_TOKENS)
            for_an_hour = min(for_an_hour, MOST_TOKENS)
        return Usage(  # by position: by keyword takes half as long again, and a stream has one with every message
            prompt,
            output,
            min(prompt + output, MOST_TOKENS),
            model or self._model or None,
            cache_creation,
            cache_read,
            context_pct(self._context, self._window) if self._context else None,
            self._cost,
            True if stale else None,
            for_an_hour or None,
            None,
            in_call,
        )


def _blocks(content: object) -> Sequence[Mapping[str, object]]:
    """Content is a string or a list of blocks; both are read as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [mapping(block) for block in sequence(content)]


def _denial(item: object) -> Denial:
    denial = mapping(item)
    return Denial(
        text(denial.get("tool_use_id")),
        text(denial.get("tool_name")),
        mapping(denial.get("tool_input")),
    )


def _rate_limit_event(record: Mapping[str, object]) -> list[Event]:
    return [_rate_limited(mapping(record.get("rate_limit_info")))]


def _rate_limited(info: Mapping[str, object]) -> RateLimited:
    resets_at = count(info.get("resetsAt"))
    if resets_at > _LATEST_RESET:
        resets_at = 0
    return RateLimited(
        text(info.get("status")),
        float(resets_at) if resets_at else None,
        text(info.get("rateLimitType")),
        ndjson.amount(info.get("utilization")),
    )
