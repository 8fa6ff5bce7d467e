"""What a start puts in order when ralph was killed in the last one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ralph.core import ndjson
from ralph.core.text import plural
from ralph.git.repo import Repo, open_repo
from ralph.run.prepare import RunRequest
from ralph.run.throwaway import clean_up_after_a_kill
from ralph.state import git_settings, project
from ralph.state.journal import Damaged, Journal, Saved
from ralph.state.project import listed
from ralph.system.programs import end_marked


def was_cut(asked: RunRequest, journal: Journal) -> bool:
    """Tell whether the last start of the run to continue was interrupted."""
    saved = None if asked.flags.fresh else journal.load()
    if git_settings.cut_in(asked.directory):
        return True
    return isinstance(saved, Damaged) or (isinstance(saved, Saved) and saved.exit_code is None)


def clean_up_after_a_cut(asked: RunRequest, journal: Journal) -> tuple[Repo, list[str]]:
    """Open the repository, and undo what a session did while ralph was killed; return what was undone."""
    orphans = end_marked([*_run_ids(asked.directory)])
    clean_up_after_a_kill(asked.place.root, asked.directory)
    cut = was_cut(asked, journal)
    saved = journal.load() if cut else None
    said = [f"stopped {plural(orphans, 'program')} that an earlier session left running"] if orphans else []
    said += git_settings.restore_after_a_cut(asked.place.root, asked.directory, journal.undone)  # first: git reads them
    said += _end_operation(asked.place.root, saved) if isinstance(saved, Saved) else []
    repo = asked.place.open(asked.goal.path)
    snapshot = project.stored(journal.snapshot)
    if snapshot is not None and cut and (undone := listed(snapshot.restore(repo.root, journal.undone))):
        kept = journal.undone
        said.append(f"{undone} changed while the run was interrupted: restored; the changed version is in {kept}")
    return repo, said


def _run_ids(runs: Path) -> Iterator[str]:
    """Return the ids of the runs in this working tree; each marks what its sessions started."""
    for path in (*runs.glob("*/run.json"), *runs.glob(".archive/*/run.json")):
        with contextlib.suppress(OSError, UnicodeDecodeError, ndjson.Malformed):
            if run := ndjson.text(ndjson.mapping(ndjson.decode(path.read_text("utf-8"))).get("run")):
                yield run


def _end_operation(root: Path, saved: Saved) -> list[str]:
    """End a rebase or similar on the run's branch that an interrupted session left unfinished."""
    if not root.is_dir():
        return []
    repo = open_repo(root)
    if not (operation := repo.operation_in_progress()) or repo.operation_branch() != saved.run.branch:
        return []
    repo.hold(saved.run.branch, saved.run.tip)
    return [f"ended a `git {operation}` that an interrupted session left unfinished; the files stay as they are"]
