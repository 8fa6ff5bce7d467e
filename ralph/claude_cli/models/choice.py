"""Which model answers: a script, an OpenAI-compatible endpoint, or Anthropic's at the provider that is chosen."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ralph.claude_cli.models.base import OPENAI, Model, resolve
from ralph.claude_cli.models.fallback import ModelChain
from ralph.claude_cli.models.scripted import PREFIX, scripted
from ralph.core.errors import RalphError


def open_models(models: Sequence[str], environment: Mapping[str, str], effort: str) -> ModelChain:
    """The models that were asked for, in the order in which they are asked."""
    return ModelChain(*(_open(model, environment, effort) for model in models))


def _open(model: str, environment: Mapping[str, str], effort: str) -> Model:
    """The model that was asked for, ready but not yet asked."""
    name = resolve(model, environment)
    if name.startswith(PREFIX):
        return scripted(name, environment.get("RALPH_ITERATION", ""))
    if name.startswith(OPENAI):
        from ralph.claude_cli.models.openai import open_model as open_openai

        return open_openai(name, environment)
    if find_spec("httpx2") is None:
        raise RalphError(
            "the anthropic package is missing; in a clone of ralph, install it with: pip install '.[models]'"
        )
    from ralph.claude_cli.models.anthropic import open_model as open_anthropic

    return open_anthropic(name, environment, effort)
