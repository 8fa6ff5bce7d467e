"""What a `.envrc` does to an environment, less what it must not do to an agent's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DROPPED = re.compile(r"(GIT_|LD_|PYTHON|DIRENV_).*|BASH_ENV|NODE_OPTIONS", re.DOTALL)
"""Names that change what programs run, whoever starts them; and direnv's own, which speak of its shell."""


@dataclass(frozen=True, slots=True)
class Variables:
    """Variables that are set, those that are taken away, and those that were not let through."""

    values: Mapping[str, str]
    unset: tuple[str, ...]
    dropped: tuple[str, ...]

    def over(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment as they change it."""
        return {name: value for name, value in env.items() if name not in self.unset} | dict(self.values)


def let_through(changes: Mapping[str, str | None]) -> Variables:
    """Sort what a `.envrc` does; None takes a variable away."""
    kept = {name: value for name, value in changes.items() if not _DROPPED.fullmatch(name)}
    return Variables(
        values={name: value for name, value in kept.items() if value is not None},
        unset=tuple(name for name, value in kept.items() if value is None),
        dropped=tuple(name for name in changes if name not in kept and not name.startswith("DIRENV_")),
    )
