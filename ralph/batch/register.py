"""Lookup tables for a submission: which goals of a queue have a name or a branch, in which repository. Pure."""

from collections.abc import Mapping
from pathlib import Path

from ralph.git.address import place_of


class Register:
    """Goals by name and by branch, entered in the order of their ids.

    Two spellings of one repository are one place; each spelling is resolved once.
    """

    def __init__(self) -> None:
        self._places: dict[str, Path] = {}
        self._numbers: dict[str, dict[Path, list[int]]] = {}
        self._branches: set[tuple[Path, str]] = set()

    def enter(self, number: int, name: str, repo: str, branch: str) -> None:
        """Add a goal; later ones of the same name count more."""
        place = self._place(repo)
        self._numbers.setdefault(name, {}).setdefault(place, []).append(number)
        self._branches.add((place, branch))

    def latest(self, name: str, repo: str) -> int | None:
        """The latest goal of this name in this repository."""
        numbers = self._numbers.get(name, {}).get(self._place(repo))
        return numbers[-1] if numbers else None

    def has_branch(self, branch: str, repo: str) -> bool:
        """Tell whether a goal of this repository has the branch already."""
        return (self._place(repo), branch) in self._branches

    def parents(self, name: str, repo: str, *, of: int) -> list[int]:
        """The goals that `after: name` means for a goal of `repo`: the latest one there, else the latest everywhere."""
        newest = self._newest(name, but=of)
        here = newest.get(self._place(repo))
        return list(newest.values()) if here is None else [here]

    def _newest(self, name: str, *, but: int) -> Mapping[Path, int]:
        others = {
            place: [number for number in numbers if number != but]
            for place, numbers in self._numbers.get(name, {}).items()
        }
        return {place: numbers[-1] for place, numbers in others.items() if numbers}

    def _place(self, repo: str) -> Path:
        if repo not in self._places:
            self._places[repo] = place_of(repo)
        return self._places[repo]
