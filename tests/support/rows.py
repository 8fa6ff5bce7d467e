"""Tables of examples that one test goes through: `pytest.mark.parametrize` without a set-up for each row."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def rows(
    names: str | Sequence[str], values: Iterable[Any], *, ids: Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test once for each row, in the same world; it fails when any row does, and names every one that did.

    For tables of pure examples: a case of its own costs ten times as much as most of them take. Rows share the test's
    fixtures, so a test that changes them takes `pytest.mark.parametrize`. Decorators can be stacked.
    """
    keys = [names] if isinstance(names, str) else list(names)
    values = list(values)
    assert not any(isinstance(row, type(pytest.param())) for row in values), "a row is plain values: names go to `ids`"
    table = [(row,) if isinstance(names, str) else tuple(row) for row in values]
    assert table, "a table without rows proves nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every_row(**fixtures: object) -> None:
            failures: list[BaseException] = []
            for number, row in enumerate(table):
                arguments = dict(zip(keys, row, strict=True))
                try:
                    test(**fixtures, **arguments)
                except (Exception, pytest.fail.Exception) as failure:
                    name = (
                        ids[number] if ids else ", ".join(f"{key}={value!r:.200}" for key, value in arguments.items())
                    )
                    failure.add_note(f"row {number}: {name}")
                    failures.append(failure)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        whole = inspect.signature(test)
        kept = [parameter for name, parameter in whole.parameters.items() if name not in keys]
        every_row.__signature__ = whole.replace(parameters=kept)  # pyright: ignore[reportAttributeAccessIssue] - what pytest reads
        return every_row

    return decorate
