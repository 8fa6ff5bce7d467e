"""Walking a folder as ripgrep does: hidden files too, links never, ignored files only when asked for."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ralph.agent.globs import Glob, GlobError, compile_glob

_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
_VERSION_CONTROL = frozenset({".git", ".svn", ".hg", ".bzr", ".jj", ".sl"})


def all_files(root: Path) -> Iterator[Path]:
    """Every file under `root`."""
    for folder, _, names in os.walk(root):
        for name in names:
            if not (path := Path(folder, name)).is_symlink() and path.is_file():
                yield path


Choice = Callable[[Path, bool], bool | None]
"""Whether a path (that of a folder: True) is expressly wanted or unwanted; None: neither."""


def searched_files(root: Path, choice: Choice) -> Iterator[Path]:
    """The files under `root` that a search looks at: none of version control's own, none that is ignored.

    What is expressly wanted is looked at although it is ignored, as with ripgrep's `--glob`.
    """
    repository = _repository_of(root)
    yield from _walk(root, _rules_above(root, repository), choice, in_repository=repository is not None)


@dataclass(frozen=True, slots=True)
class _Rules:
    base: Path
    globs: tuple[Glob, ...]

    def verdict(self, path: Path, *, is_folder: bool) -> bool | None:
        """True: ignored; False: expressly not; None: not mentioned. The last rule that matches wins."""
        relative = path.relative_to(self.base).as_posix()
        for glob in reversed(self.globs):
            if (is_folder or not glob.only_folders) and glob.matches(relative):
                return not glob.negated
        return None


def _walk(folder: Path, above: tuple[_Rules, ...], choice: Choice, *, in_repository: bool) -> Iterator[Path]:
    rules = (*above, *_rules_in(folder, in_repository=in_repository))
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = Path(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        wanted = choice(path, is_folder)
        if wanted is False or (wanted is None and _is_ignored(path, rules, is_folder=is_folder)):
            continue
        if is_folder and entry.name not in _VERSION_CONTROL:
            yield from _walk(path, rules, choice, in_repository=in_repository)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _is_ignored(path: Path, rules: tuple[_Rules, ...], *, is_folder: bool) -> bool:
    for each in reversed(rules):  # the nearest folder's rules come first
        if (verdict := each.verdict(path, is_folder=is_folder)) is not None:
            return verdict
    return False


def _rules_above(root: Path, repository: Path | None) -> tuple[_Rules, ...]:
    """What the folders above say, the farthest first; git's own word counts only inside a repository."""
    rules: list[_Rules] = []
    if repository is not None:
        rules += _rules_from(repository / ".git" / "info" / "exclude", repository)
    for folder in reversed(root.parents):
        inside = repository is not None and folder.is_relative_to(repository)
        rules += _rules_in(folder, in_repository=inside)
    return tuple(rules)


def _rules_in(folder: Path, *, in_repository: bool) -> list[_Rules]:
    names = _IGNORE_FILES if in_repository else _IGNORE_FILES[1:]
    return [rules for name in names for rules in _rules_from(folder / name, folder)]


def _rules_from(file: Path, base: Path) -> list[_Rules]:
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    globs: list[Glob] = []
    for line in lines:
        text = line.rstrip()
        if text and not text.startswith("#"):
            try:
                globs.append(compile_glob(text))
            except GlobError:
                continue
    return [_Rules(base, tuple(globs))]


def _repository_of(root: Path) -> Path | None:
    return next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
