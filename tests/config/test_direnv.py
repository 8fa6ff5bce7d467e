import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from ralph.config.envrc import DirenvWord, Failure, export, word_on
from ralph.config.envrc_files import look
from ralph.sandbox.sandbox import Sandbox
from ralph.system.guardian import Guardian
from tests.support import tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a repo").mkdir()
    (tmp_path / "a repo" / ".envrc").write_text("export A=1\n")
    return tmp_path / "a repo"


def tell(word: str, root: Path) -> None:
    env = {**os.environ, "PWD": str(root)}
    subprocess.run([tools.direnv(), word], cwd=root, env=env, check=True, capture_output=True)


def heard(root: Path) -> DirenvWord:
    return word_on(look(root, root), os.environ)


def test_direnv_s_word_is_found_where_it_keeps_it(root: Path) -> None:
    assert not heard(root).allows
    tell("allow", root)
    assert heard(root) == DirenvWord(allows=True, denies=False)
    (root / ".envrc").write_text("export A=2\n")
    assert not heard(root).allows


def test_it_holds_for_one_path(root: Path) -> None:
    tell("allow", root)
    other = root.rename(root.with_name("other"))
    assert not heard(other).allows


def test_a_path_that_leads_there_through_a_link_is_the_same(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    tell("allow", tmp_path / "link")
    assert heard(root).allows


def test_what_newer_versions_deny_is_denied_whatever_it_holds(root: Path) -> None:
    digest = hashlib.sha256(f"{root}/.envrc\n".encode()).hexdigest()
    denied = Path(os.environ["XDG_DATA_HOME"]) / "direnv" / "deny" / digest
    denied.parent.mkdir(parents=True)
    denied.write_text(f"{root}/.envrc\n")
    assert heard(root).denies


def test_a_file_that_is_a_link_is_evaluated(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "state" / "direnv"
    folder.mkdir(parents=True)
    (folder / "direnv.toml").write_text("what an evaluation left that was killed")
    (root / ".envrc").rename(root / "its-envrc")
    (root / ".envrc").symlink_to("its-envrc")
    tell("allow", root)
    assert heard(root).allows
    with Guardian() as guardian:
        changes = export(
            str(tools.direnv()),
            look(root, root),
            dict(os.environ),
            folder,
            guardian=guardian,
            sandbox=Sandbox(),
            timeout=60,
            stop_requests=lambda: 0,
        )
    assert not isinstance(changes, Failure)
    assert (changes["A"], folder.exists()) == ("1", False)
