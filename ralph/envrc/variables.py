"""What a `.envrc` does to an environment, less what it must not do to an agent's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DROPPED = re.compile(
    r"(GIT_|LD_|PYTHON|DIRENV_|RALPH_|BASH_FUNC_).*|BASH_ENV|ENV|NODE_OPTIONS|PERL5OPT|RUBYOPT|GCONV_PATH", re.DOTALL
)
"""Names that have programs run or load something else, whoever starts them: shells, interpreters, the C library, git.

Where a language looks for its modules is not among them, but for Python's: `layout perl` and `layout ruby` live by it.
And ralph's own, which speak of its run; and direnv's, which speak of its shell.
"""

_GARBLED = "\N{REPLACEMENT CHARACTER}"
"""What direnv (2.32.1) prints for bytes that are no text: what they were is lost."""


@dataclass(frozen=True, slots=True)
class Variables:
    """Variables that are set, those that are taken away, and those that were not let through, or could not be read."""

    values: Mapping[str, str]
    unset: tuple[str, ...]
    dropped: tuple[str, ...]
    garbled: tuple[str, ...]

    def over(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment as they change it."""
        return {name: value for name, value in env.items() if name not in self.unset} | dict(self.values)


def let_through(changes: Mapping[str, str | None]) -> Variables:
    """Sort what a `.envrc` does; None takes a variable away."""
    kept = {name: value for name, value in changes.items() if not _DROPPED.fullmatch(name)}
    return Variables(
        values={name: value for name, value in kept.items() if value is not None and _GARBLED not in value},
        unset=tuple(name for name, value in kept.items() if value is None),
        dropped=tuple(name for name in changes if name not in kept and not name.startswith("DIRENV_")),
        garbled=tuple(name for name, value in kept.items() if value is not None and _GARBLED in value),
    )
