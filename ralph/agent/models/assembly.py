"""A message put together again from the events of its stream."""

from collections.abc import Iterator, Mapping

from ralph.claude_cli.models.base import Block, Ended, Said, Started, Thinking, Utterance
from ralph.core import ndjson
from ralph.core.usage import Tokens

_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class Assembly:
    """Takes in stream events, gives out what they complete."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._usage: dict[str, object] = {}
        self._block: dict[str, object] = {}
        self._arguments: list[str] = []
        self._stop_reason = ""
        self.is_complete = False

    def feed(self, event: Mapping[str, object]) -> Iterator[Utterance]:
        match event.get("type"):
            case "message_start":
                message = ndjson.mapping(event.get("message"))
                self._usage = dict(ndjson.mapping(message.get("usage")))
                model = ndjson.text(message.get("model")) or self._model
                yield Started(ndjson.text(message.get("id")), model, self._tokens())
            case "content_block_start":
                self._block, self._arguments = dict(ndjson.mapping(event.get("content_block"))), []
            case "content_block_delta":
                yield from self._grow(ndjson.mapping(event.get("delta")))
            case "content_block_stop":
                yield Said(self._whole_block())
            case "message_delta":
                self._stop_reason = ndjson.text(ndjson.mapping(event.get("delta")).get("stop_reason"))
                told = ndjson.mapping(event.get("usage"))
                self._usage |= {name: value for name, value in told.items() if value is not None}
            case "message_stop":
                self.is_complete = True
                yield Ended(self._stop_reason, self._tokens())
            case _:
                pass

    def _grow(self, delta: Mapping[str, object]) -> Iterator[Utterance]:
        kind = ndjson.text(delta.get("type"))
        if kind == "input_json_delta":
            self._arguments.append(ndjson.text(delta.get("partial_json")))
        elif kind in _GROWS:
            name = _GROWS[kind]
            more = ndjson.text(delta.get(name))
            self._block[name] = ndjson.text(self._block.get(name)) + more
            if kind == "thinking_delta":
                yield Thinking(len(more))

    def _whole_block(self) -> Block:
        if self._block.get("type") != "tool_use" or not "".join(self._arguments).strip():
            return self._block
        try:
            arguments = ndjson.mapping(ndjson.decode("".join(self._arguments)))
        except ndjson.Malformed:  # cut off at the token limit: the call is answered with what it lacks
            return {**self._block, "input": {}}
        return {**self._block, "input": dict(arguments)}

    def _tokens(self) -> Tokens:
        return Tokens(
            ndjson.count(self._usage.get("input_tokens")),
            ndjson.count(self._usage.get("output_tokens")),
            ndjson.count(self._usage.get("cache_creation_input_tokens")),
            ndjson.count(self._usage.get("cache_read_input_tokens")),
        )
