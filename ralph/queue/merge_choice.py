"""Where proven work goes when neither a goal nor a flag says so: the mode its user has chosen for the repository."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.config import files
from ralph.core.errors import StateError, UsageError
from ralph.core.secrets import without_login
from ralph.git.address import place_of
from ralph.queue.goals import MergeMode, Submission
from ralph.queue.store import Store
from ralph.system.files import make_private_directory

MEANINGS: Mapping[MergeMode, str] = {
    MergeMode.DIRECT: "push it to the main branch",
    MergeMode.PR: "push it as a branch and open a pull request",
    MergeMode.BRANCH: "push it as a branch",
    MergeMode.NONE: "push nothing; it stays in ralph's mirror of the repository",
}
_REPO, _MERGE = "repo", "merge"


class MergeChoices:
    """The answers of a user, one small file for each repository."""

    def __init__(self, ralph_dir: Path) -> None:
        self._folder = ralph_dir / "merge"

    def of(self, repo: str) -> MergeMode | None:
        """Return the user's choice for a repository, for any spelling of its address."""
        file = self.file(repo)
        try:
            written = files.read(file, ()).get(_MERGE)
            return None if written is None else MergeMode(str(written))
        except (UsageError, ValueError) as error:
            said = error.message if isinstance(error, UsageError) else f"{file}: {error}"
            raise StateError(said, f"remove it and choose again: rm {file}") from error

    def remember(self, repo: str, mode: MergeMode) -> Path:
        """Write down a choice; return the file."""
        file = self.file(repo)
        make_private_directory(self._folder)
        files.put(file, _REPO, without_login(repo))
        files.put(file, _MERGE, str(mode))
        return file

    def file(self, repo: str) -> Path:
        """Name the file of a repository's choice."""
        return self._folder / f"{'-'.join(place_of(repo).parts)}.toml"


def settled(
    submissions: Sequence[Submission],
    store: Store | None,
    choices: MergeChoices,
    usual: MergeMode | None,
    choose: Callable[[str], MergeMode | None],
) -> tuple[Submission, ...]:
    """Give each goal a merge mode: its own, else its repository's, else the usual one, else what `choose` returns.

    A goal that is in the queue keeps the mode that is stored with it. `choose` is called once for a repository.
    """
    open_ones = [each for each in submissions if each.merge is None]
    new = {(each.name, each.repo) for each in (open_ones if store is None else store.unknown(open_ones))}
    found: dict[Path, MergeMode | None] = {}
    given: list[Submission] = []
    for each in submissions:
        if each.merge is not None or (each.name, each.repo) not in new:
            given.append(each)
            continue
        place = place_of(each.repo)
        if place not in found:
            found[place] = choices.of(each.repo) or usual or choose(each.repo)
        given.append(replace(each, merge=found[place]))
    return tuple(given)
