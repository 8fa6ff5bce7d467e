"""ralph's own agent, which has claude's command line: with a real model, or with a script in a model's place."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from ralph.agents.base import own_or_words
from ralph.agents.claude import OWN_TRANSCRIPT, ClaudeRunner
from ralph.core import ndjson, usage
from ralph.core.errors import BlockedError, UsageError
from ralph.runners.options import AgentOptions

FAMILIES = ("haiku", "sonnet", "opus", "fable")
"""Short names of models, each of which stands for one with a price."""

# -P: the agent is started in the user's repository, whose own `ralph/` or `json.py` must not be imported.
_COMMAND = (sys.executable, "-P", "-m", "ralph.agent")

SCRIPTED = "scripted:"
"""How the name of a model begins that is a script."""


def find_ralph_claude(options: AgentOptions, _env: Mapping[str, str]) -> ClaudeRunner:
    """The agent that came with this ralph. It has no login of its own to prefer: whoever chooses it means the key."""
    if find_spec("anthropic") is None:
        raise BlockedError(
            "the agent ralph-claude needs Anthropic's SDK, which is not installed",
            "in a clone of ralph: pip install '.[models]'; or take another agent: --agent claude",
        )
    own = replace(options.claude, auth="api-key")
    return ClaudeRunner(_COMMAND, own, own_or_words(options, OWN_TRANSCRIPT), keeps_to_money=_has_price)


def _has_price(model: str) -> bool:
    """Tell whether it will take a budget: it refuses one for a model of which it does not know what it costs."""
    if model.startswith("scripted:") or model.removesuffix("[1m]") in FAMILIES:
        return True
    return usage.shipped().price(model) is not None


def find_demo(options: AgentOptions, env: Mapping[str, str]) -> ClaudeRunner:
    """The same agent with a script for a model: it really edits and runs, but nothing in it thinks."""
    script = Path(env.get("RALPH_DEMO_SCRIPT", "").strip() or _shipped_script()).expanduser().absolute()
    if not script.is_file():
        raise UsageError(
            f"RALPH_DEMO_SCRIPT: {script} is no file", "name a script, or leave it unset for the shipped one"
        )
    if fault := _fault_in(script):
        raise UsageError(
            f"RALPH_DEMO_SCRIPT: {script} is no script: {fault}",
            "a script is a list of sessions, a session a list of turns, a turn a list of content blocks with a type",
        )
    notice = f"the model is scripted ({script.name}): it plays its part whatever the goal says, and costs nothing"
    transcript = own_or_words(options, OWN_TRANSCRIPT)
    return ClaudeRunner(_COMMAND, options.claude, transcript, own_model=f"{SCRIPTED}{script}", notice=notice)


def _fault_in(script: Path) -> str:
    """Why the scripted model could not play it; empty: it can."""
    try:
        sessions = ndjson.decode(script.read_text("utf-8"))
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return f"not JSON: {error}"
    things: Sequence[object] = [sessions]
    for name in ("script", "session", "turn"):
        if not all(isinstance(thing, list) for thing in things):
            return f"a {name} is not a list"
        things = [inner for thing in things for inner in ndjson.sequence(thing)]
    has_types = all(ndjson.text(ndjson.mapping(block).get("type")) for block in things)
    return "" if has_types else "a block has no type"


def _shipped_script() -> Path:
    """The demo's script of the wheel, else that of the checkout."""
    packaged = Path(__file__).parent.parent / "_demo" / "script.json"
    return packaged if packaged.is_file() else Path(__file__).parent.parent.parent / "examples" / "demo" / "script.json"
