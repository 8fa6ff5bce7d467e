"""A model that replays a file: no network, no key, no cost. For tests, demonstrations and the first run.

The file is a JSON list of sessions, each a list of turns, each a list of content blocks of the Messages API. One
process plays one session, whose number is RALPH_ITERATION; beyond the end the last one repeats.
"""

import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from ralph.claude_cli.models.base import (
    Block,
    MessageEnd,
    ModelRequest,
    ModelSaid,
    Provider,
    Started,
    Thinking,
    Traits,
    Utterance,
)
from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.core.usage import Tokens

PREFIX = "scripted:"
_DIGITS = 18
"""So many are read of a number: no script is longer, and Python refuses thousands."""

_AFTER: Block = {"type": "text", "text": "The script has ended."}


class ScriptedModel:
    """Plays one session of a script, a turn a request."""

    provider: Provider = "firstParty"
    traits = Traits(context_window=200_000, max_output=32_000)
    key_source = "none"

    def __init__(self, name: str, turns: Sequence[Sequence[Block]]) -> None:
        self.name = name
        self._turns = iter(turns)

    def ask(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        del request, cancelled  # it hears nothing and never waits
        yield Started(f"msg_{uuid.uuid4().hex}", self.name, Tokens())
        blocks = [_whole(block) for block in next(self._turns, [_AFTER])]
        for block in blocks:
            if block["type"] == "thinking":
                yield Thinking(len(ndjson.text(block.get("thinking"))))
            yield ModelSaid(block)
        calls = any(block["type"] == "tool_use" for block in blocks)
        yield MessageEnd("tool_use" if calls else "end_turn", Tokens())


def scripted(model: str, iteration: str) -> ScriptedModel:
    """Open the script that `scripted:FILE` names, at the session of this iteration (empty: the first)."""
    path = Path(model.removeprefix(PREFIX))
    number = int(iteration[:_DIGITS]) if iteration.isascii() and iteration.isdigit() else 1
    sessions = _read(path)
    return ScriptedModel(model, sessions[min(max(number, 1), len(sessions)) - 1] if sessions else [])


def _read(path: Path) -> list[list[list[Block]]]:
    try:
        script = ndjson.decode(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"cannot read the script {path}: not valid JSON: {error}") from error
    return [[_turn(path, turn) for turn in _list(path, session)] for session in _list(path, script)]


def _turn(path: Path, turn: object) -> list[Block]:
    blocks = [ndjson.mapping(block) for block in _list(path, turn)]
    if not all(ndjson.text(block.get("type")) for block in blocks):
        raise UsageError(f"{path}: a turn is a list of content blocks, each with its type")
    return blocks


def _list(path: Path, value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise UsageError(f"{path}: a script is a list of sessions, a session a list of turns, a turn a list of blocks")
    return ndjson.sequence(value)  # pyright: ignore[reportUnknownArgumentType] - JSON from outside


def _whole(block: Block) -> Block:
    """A call needs an id, by which its result is known; a script need not make one up."""
    if block["type"] == "tool_use":
        return {"id": f"toolu_{uuid.uuid4().hex}", "input": {}, **block}
    return block
