"""Where things are put that stood in the way of what is put back: nothing is overwritten, and no link is followed."""

import shutil
import stat
from pathlib import Path

from ralph.files import make_private_directory


class Shelf:
    """A new folder in `aside`, made when something is put there."""

    def __init__(self, aside: Path) -> None:
        self._aside = aside
        self._folder: Path | None = None

    def put(self, path: Path, name: str) -> None:
        """Move a file, link or directory here; a pipe or the like holds nothing, and goes."""
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            shutil.move(path, self._free(name))
        else:
            path.unlink()

    def _free(self, name: str) -> Path:
        """A place to put it under its own path; elsewhere, should what is here already be in the way."""
        folder = self._folder = self._folder or self._new()
        place = folder
        *leading, last = name.split("/")
        for part in leading:
            place = place / part
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place = folder
                break
            place.mkdir(exist_ok=True)
        candidate, number = place / last, 0
        while candidate.is_symlink() or candidate.exists():
            number += 1
            candidate = place / f"{number}.{last}"
        return candidate

    def _new(self) -> Path:
        make_private_directory(self._aside)
        number = 1
        while (self._aside / str(number)).exists():
            number += 1
        (self._aside / str(number)).mkdir(mode=0o700)
        return self._aside / str(number)
