"""Did you mean."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint, ready to follow a message: the known word nearest to this one, if any is near."""
    import difflib  # only for who mistyped

    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
