"""What a Claude Code session has used: one cumulative figure, from several partial reports."""

import functools
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ralph.agents.transcript import Figures
from ralph.core.events import MOST_TOKENS, Event, Usage
from ralph.core.ndjson import count, mapping, text
from ralph.core.usage import context_pct

_REMEMBERED = 64
"""How many recent messages to remember, so that no usage counts twice."""

_TOLD_TOGETHER = 100_000
"""Longest prompt of messages that may share one usage report: a longer one may have other rates."""

_LONGER, _LONGER_WINDOW = "[1m]", 1_000_000
"""The suffix of a model's name that asks for a longer context."""

_Tokens = tuple[int, int, int, int, int]
"""Fresh, output, cache creation, cache read, and the part of the creation that is cached for an hour."""

_NO_TOKENS: _Tokens = (0, 0, 0, 0, 0)

_SNAKE_CASE = (
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
    "ephemeral_1h_input_tokens",
)  # fmt: skip

_CAMEL_CASE = (
    "inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens",
    "cacheCreationEphemeral1hInputTokens",
)  # fmt: skip


class _Message(NamedTuple):
    tokens: _Tokens
    model: str


class ClaudeUsage:
    """Combines the reports of the session's usage into one cumulative figure.

    Messages repeat their usage with each content block, and have their final output tokens only with partial messages
    (in `message_delta`; never for subagents, 2.1.325). A result's `modelUsage` and `total_cost_usd` are cumulative over
    the process but may miss a call: one that was interrupted or cut (2.1.325), or the last try of a schema violation
    (2.1.197). All are lower bounds: at a result the larger sum counts, model by model and field by field, and later
    messages are added; what `modelUsage` lacks, the cost lacks as well.
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
        """The last message of each thread; `_in_pieces`: those that will grow."""
        self._in_pieces: set[str] = set()
        self._nameless = 0
        self._context = 0
        self._model = ""
        self._cost: float | None = None
        self._untold_model: str | None = None
        """The model of messages with unreported usage; None if there are none."""
        self._untold_prompt = 0
        self._last_identity = ""
        """The message that was read last, and its report."""
        self._last_reported: Mapping[str, object] = {}

    def settle(self) -> list[Event]:
        """Return the usage of messages since the last report."""
        if self._untold_model is None:
            return []
        used = self._event(self._untold_model)
        self._untold_model, self._untold_prompt = None, 0
        return [used]

    @property
    def _context_pct(self) -> float | None:
        """Return how full the context is; None until its window is known, which depends on the agent's version.

        The first result reports the window: 200,000 on 2.1.197, 1,000,000 on 2.1.325, for the same models.
        """
        window = self._windows.get(self._model)
        return context_pct(self._context, window) if self._context and window else None

    def expect(self, model: str) -> None:
        """Note the session's model before its first message: its name may ask for a longer context."""
        if model.endswith(_LONGER):
            self._windows.setdefault(model.removesuffix(_LONGER), _LONGER_WINDOW)

    def message(self, message: Mapping[str, object], thread: str, *, begins: bool = False) -> list[Event]:
        """Read a message; `thread` is the tool call of its subagent, empty for the main agent."""
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
        tokens = self._tokens(reported)
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
        """Read a message's usage so far; one without a name (2.1.197) is the thread's last."""
        identity = identity or self._open.get(thread, "")
        ends = thread in self._in_pieces
        self._in_pieces.discard(thread)
        if identity not in self._messages:
            return []
        in_call = False if ends and not thread else None
        return self._grown(identity, self._tokens(reported), in_call=in_call)

    def result(self, record: Mapping[str, object]) -> list[Event]:
        told_before = self.settle()
        models = mapping(record.get("modelUsage"))
        told = {model: self._tokens(mapping(used)) for model, used in models.items()}
        untold = _untold(self._of_messages, told)
        own = mapping(models.get(self._model))
        if window := count(own.get("contextWindow")) or count(own.get("context_window")):
            self._windows[self._model] = window
        if models:
            self._at_result = _largest(self._at_result, _plus(_sum(told.values()), untold))
            self._since_result = _NO_TOKENS
        elif (of_turn := self._tokens(mapping(record.get("usage")))) != _NO_TOKENS:
            # Of this turn alone (2.1.197, 2.1.325), and less than `modelUsage` tells, which every version so far has.
            self._at_result = _plus(self._at_result, _largest(self._since_result, of_turn))
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
        """Name a message without one: a new name each time, unless it continues."""
        if thread in self._in_pieces and not begins and thread in self._open:
            return self._open[thread]
        self._nameless += 1
        return f"nameless {self._nameless}"

    def _grown(self, identity: str, tokens: _Tokens, *, in_call: bool | None) -> list[Event]:
        """Count what a message adds to its earlier reports; most only repeat them."""
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
        """Remember a message for a while: repetitions follow at once, and keeping all would grow for ever."""
        self._messages[identity] = message
        if len(self._messages) > _REMEMBERED:
            self._messages.popitem(last=False)
        if len(self._open) >= _REMEMBERED:
            self._open.clear()
            self._in_pieces.clear()

    def _tokens(self, reported: Mapping[str, object]) -> _Tokens:
        """Read the figures by either kind of name: which stands where differs with versions."""
        names = _CAMEL_CASE if "inputTokens" in reported or "outputTokens" in reported else _SNAKE_CASE
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
        """Return what the session has used so far, and the model that used the last of it.

        Only costs at a result come from the agent.
        """
        self._most = tokens = _largest(self._most, _plus(self._at_result, self._since_result))
        prompt = _prompt(tokens)
        _, output, cache_creation, cache_read, for_an_hour = tokens
        stale = self._cost is not None and not costed and self._since_result != _NO_TOKENS
        if prompt + output > MOST_TOKENS:
            prompt, output = min(prompt, MOST_TOKENS), min(output, MOST_TOKENS)
            cache_creation, cache_read = min(cache_creation, MOST_TOKENS), min(cache_read, MOST_TOKENS)
            for_an_hour = min(for_an_hour, MOST_TOKENS)
        return Usage(  # by position: keywords take 50 % longer, and every message has one
            prompt,
            output,
            min(prompt + output, MOST_TOKENS),
            model or self._model or None,
            cache_creation,
            cache_read,
            self._context_pct,
            self._cost,
            True if stale else None,
            for_an_hour or None,
            None,
            in_call,
        )


def _prompt(tokens: _Tokens) -> int:
    return tokens[0] + tokens[2] + tokens[3]


def _untold(shown: Mapping[str, _Tokens], told: Mapping[str, _Tokens]) -> _Tokens:
    """Return what messages have used beyond a result's report, per model, so that side calls of others do not hide it.

    A gateway may use another name for a model: usage of a model that the result does not name may be in any of its
    unexplained figures.
    """
    untold, unnamed, rest = _NO_TOKENS, _NO_TOKENS, _sum(told.values())
    for model, tokens in shown.items():
        if model not in told:
            unnamed = _plus(unnamed, tokens)
            continue
        more = _largest(_minus(tokens, told[model]), _NO_TOKENS)
        untold, rest = _plus(untold, more), _minus(rest, _minus(tokens, more))
    return _plus(untold, _largest(_minus(unnamed, rest), _NO_TOKENS))


def _sum(several: Iterable[_Tokens]) -> _Tokens:
    return functools.reduce(_plus, several, _NO_TOKENS)


def _largest(one: _Tokens, other: _Tokens) -> _Tokens:
    a, b, c, d, e = one
    v, w, x, y, z = other
    return (  # written out: five calls of `max` per message took a tenth of this function's time
        a if a > v else v,
        b if b > w else w,
        c if c > x else x,
        d if d > y else y,
        e if e > z else z,
    )


def _minus(one: _Tokens, other: _Tokens) -> _Tokens:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], one[3] - other[3], one[4] - other[4]


def _plus(one: _Tokens, other: _Tokens) -> _Tokens:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4]
