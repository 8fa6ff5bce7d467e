import re
from pathlib import Path

import pytest

from ralph.config.envrc_files import Envrc, look
from ralph.config.trust import DIRENV, NOBODY, Doubt, Record, TrustStore, flag_counts, judge
from ralph.core.errors import StateError

AT = "2026-11-16T12:00:00Z"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / ".envrc").write_text("source lib\n")
    (tmp_path / "repo" / "lib").write_text("export A=1\n")
    return tmp_path / "repo"


@pytest.fixture
def envrc(root: Path) -> Envrc:
    return look(root, root)


def changed(envrc: Envrc, *names: str) -> Record:
    """A consent to other versions of these files."""
    return Record({**envrc.files, **dict.fromkeys(names, "0" * 64)}, "ralph trust")


def why(envrc: Envrc, record: Record | None, **said: object) -> str:
    heard = {"allows": False, "denies": False, "began": None, **said}
    doubt = judge(envrc, record, **heard)
    return doubt.why if isinstance(doubt, Doubt) else ""


def test_the_user_s_word_for_these_files_is_enough(envrc: Envrc) -> None:
    record = Record(envrc.files, "ralph trust")
    assert why(envrc, record) == ""
    assert why(envrc, record, began="another") == ""


def test_without_a_word_there_is_no_trust(envrc: Envrc) -> None:
    assert why(envrc, None) == "you have not trusted it yet"


@pytest.mark.parametrize("name", [".envrc", "lib"])
def test_a_word_for_another_version_is_none(envrc: Envrc, name: str) -> None:
    assert why(envrc, changed(envrc, name)) == f"{name} changed since it was trusted"


def test_direnv_s_word_counts_for_what_stands_at_the_beginning_of_a_run(envrc: Envrc) -> None:
    assert why(envrc, None, allows=True) == ""
    assert why(envrc, None, allows=True, began=envrc.digest) == ""
    assert why(envrc, None, allows=True, began="another") == "it changed since this run started"


def test_direnv_speaks_for_envrc_alone(envrc: Envrc) -> None:
    assert why(envrc, changed(envrc, ".envrc"), allows=True) == ""
    assert why(envrc, changed(envrc, "lib"), allows=True) == "lib changed since it was trusted"
    assert why(envrc, changed(envrc, ".envrc", "lib"), allows=True).startswith(".envrc, lib changed")


def test_a_file_that_the_allowed_version_reads_for_the_first_time_is_allowed_with_it(envrc: Envrc) -> None:
    before = Record({".envrc": "0" * 64}, DIRENV)
    assert why(envrc, before, allows=True) == ""


def test_direnv_s_word_for_an_old_version_lets_no_new_file_in(envrc: Envrc) -> None:
    before = Record({".envrc": envrc.files[".envrc"]}, DIRENV)
    assert why(envrc, before, allows=True) == "lib changed since it was trusted"


def test_what_only_stood_there_was_trusted_by_nobody(envrc: Envrc) -> None:
    assert why(envrc, Record(envrc.files, NOBODY)) == "you have not trusted it yet"
    assert why(envrc, Record({".envrc": "0" * 64}, NOBODY)) == "you have not trusted it yet"
    assert why(envrc, Record(envrc.files, NOBODY), allows=True) == ""
    written_since = Record({**envrc.files, "lib": "0" * 64}, NOBODY)
    assert why(envrc, written_since, allows=True) == "lib changed since ralph first ran here"


def test_direnv_s_word_needs_to_know_how_the_run_began(envrc: Envrc) -> None:
    assert why(envrc, None, allows=True, began="") == "its version at the start of this run is unknown"
    assert why(envrc, Record(envrc.files, "ralph trust"), began="") == ""


def test_the_flag_speaks_for_what_is_known_alone(tmp_path: Path, envrc: Envrc) -> None:
    store = TrustStore(tmp_path / "state")
    assert flag_counts(envrc, store.first_seen(envrc, AT, as_it_began=True))
    assert not flag_counts(envrc, store.first_seen(envrc, AT, as_it_began=False))
    assert not flag_counts(envrc, changed(envrc, "lib"))


def test_what_direnv_allowed_once_it_must_still_allow(envrc: Envrc) -> None:
    record = Record(envrc.files, DIRENV)
    assert why(envrc, record, allows=True) == ""
    assert why(envrc, record) == "you have not trusted it yet"


def test_what_direnv_denies_is_not_used(envrc: Envrc) -> None:
    assert why(envrc, Record(envrc.files, "ralph trust"), denies=True) == "your direnv denies it"


def test_what_cannot_be_read_is_not_trusted(root: Path) -> None:
    (root / ".envrc").unlink()
    (root / ".envrc").mkdir()
    envrc = look(root, root)
    assert why(envrc, Record(envrc.files, "ralph trust"), allows=True) == ".envrc is a directory"


def test_a_record_is_read_back(tmp_path: Path, root: Path, envrc: Envrc) -> None:
    store = TrustStore(tmp_path / "state")
    assert store.recorded(root) is None

    store.record(envrc, "ralph trust", AT)

    assert store.recorded(root) == Record(envrc.files, "ralph trust")
    assert store.recorded(tmp_path) is None
    assert (store.forget(root, AT), store.forget(root, AT)) == (True, False)
    assert store.recorded(root) == Record(envrc.files, NOBODY)  # it stood there, all the same


@pytest.mark.parametrize("text", ["files = 1\n", 'path = "/elsewhere"\n[files]\n', ""])
def test_a_record_that_is_none_trusts_nothing(tmp_path: Path, root: Path, envrc: Envrc, text: str) -> None:
    store = TrustStore(tmp_path / "state")
    store.record(envrc, "ralph trust", AT)
    (file,) = (tmp_path / "state" / "trust").iterdir()
    file.write_text(text)

    assert store.recorded(root) is None


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, root: Path, envrc: Envrc) -> None:
    store = TrustStore(tmp_path / "state")
    store.record(envrc, "ralph trust", AT)
    (file,) = (tmp_path / "state" / "trust").iterdir()
    file.write_text("not TOML")

    with pytest.raises(StateError, match=re.escape(str(file))):
        store.recorded(root)
