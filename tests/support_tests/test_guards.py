"""The guards of conftest.py, on tests that break their rules, in a pytest of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

RULE_BREAKERS = """
import os, subprocess, threading

def test_process():
    subprocess.Popen(["sleep", "60"])

def test_daemon():
    subprocess.run(["sh", "-c", "(setsid sleep 61 &)"])

def test_thread():
    threading.Thread(target=threading.Event().wait, daemon=True, name="straggler").start()

def test_environment():
    os.environ["LEFT"] = "1"
    del os.environ["HOME"]

def test_clean(monkeypatch, tmp_path):
    monkeypatch.setenv("SET_AND_UNDONE", "1")
    assert "RALPH_MODEL" not in os.environ and "LEFT" not in os.environ
    assert "HOME" in os.environ
    subprocess.run(["true"])
"""


OUTSIDERS = """
import os, socket, sqlite3, subprocess, tempfile, time
from pathlib import Path

OUTSIDE = Path({outside!r})
HOME = Path({home!r})

def test_write():
    (OUTSIDE / "written").write_text("")

def test_append():
    with (OUTSIDE / "there").open("a"):
        pass

def test_swallowed():
    try:
        (OUTSIDE / "none" / "written").write_text("")
    except OSError:
        pass

def test_relative(monkeypatch):
    monkeypatch.chdir(OUTSIDE)
    Path("written").write_text("")

def test_mkdir():
    (OUTSIDE / "made").mkdir()

def test_rename(tmp_path):
    (OUTSIDE / "there").rename(tmp_path / "taken")
    (tmp_path / "taken").rename(OUTSIDE / "there")

def test_remove():
    (OUTSIDE / "spare").unlink()

def test_symlink():
    (OUTSIDE / "link").symlink_to("there")

def test_chmod():
    (OUTSIDE / "there").chmod(0o600)

def test_database():
    sqlite3.connect(OUTSIDE / "database").close()

def test_socket():
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(OUTSIDE / "socket"))

def test_read_at_home():
    (HOME / ".gitconfig").read_text()

def test_list_home():
    list(HOME.iterdir())

def test_child_process():
    subprocess.run(["touch", HOME / ".gitconfig"], check=True)

def test_clean(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "file").rename(tmp_path / "moved")
    with tempfile.NamedTemporaryFile() as file:
        assert file.name.startswith(os.environ["TMPDIR"])
    sqlite3.connect(":memory:").close()
    (OUTSIDE / "__pycache__").mkdir()  # as an import makes it
    directory = os.open(tmp_path, os.O_RDONLY)
    os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
    os.remove("new", dir_fd=directory)
    os.close(directory)

def test_surroundings(tmp_path):
    (tmp_path / "file").touch()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
    assert time.tzname == ("UTC", "UTC")
    assert {{"HTTP_PROXY", "COLUMNS", "LC_ALL", "PYTHONPATH"}}.isdisjoint(os.environ)
"""


def run_pytest(place: Path, tests: str, **env: str) -> str:
    """Run these tests under the guards and return what pytest prints."""
    (place / "test_them.py").write_text(tests)
    ini = place / "pytest.ini"
    ini.write_text("[pytest]\n")
    pytest = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", ini, "--rootdir", place, "-rA", place]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "400", **env}
    done = subprocess.run(
        pytest, cwd=place, env=environment, capture_output=True, text=True, timeout=120, umask=0o077, check=False
    )
    return done.stdout


def complaints_in(output: str, beginning: str) -> dict[str, str]:
    return dict(re.findall(rf"ERROR test_them.py::(\w+) - Failed: {beginning}: (.*)", output))


def test_whatever_a_test_leaves_behind_fails_it(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, RULE_BREAKERS, RALPH_MODEL="opus")
    complaints = complaints_in(output, "the test left behind")

    assert complaints.keys() == {"test_process", "test_daemon", "test_thread", "test_environment"}, output
    assert re.fullmatch(r"process \d+ sleep 60", complaints["test_process"])
    assert re.fullmatch(r"process \d+ sleep 61", complaints["test_daemon"])
    assert complaints["test_thread"] == "thread straggler"
    assert complaints["test_environment"] == "changed variable HOME; changed variable LEFT"
    assert "5 passed, 4 errors" in output


def test_a_test_that_goes_outside_its_directories_fails(tmp_path: Path) -> None:
    outside, home, inside = (tmp_path / name for name in ("outside", "home", "inside"))
    for directory in (outside, home, inside):
        directory.mkdir()
    for file in (outside / "there", outside / "spare", home / ".gitconfig"):
        file.touch()
    hostile = {"TZ": "Asia/Kolkata", "HTTP_PROXY": "http://127.0.0.1:1", "LC_ALL": "tr_TR.UTF-8"}
    tests = OUTSIDERS.format(outside=str(outside), home=str(home))
    output = run_pytest(inside, tests, HOME=str(home), **hostile)

    complaints = complaints_in(output, "the test went outside its directories")
    assert re.search(r" \(in test_them.py:\d+\)$", complaints["test_write"])
    assert {name: text.replace(f"{tmp_path}/", "").split(" (in ")[0] for name, text in complaints.items()} == {
        "test_write": "wrote outside/written",
        "test_append": "wrote outside/there",
        "test_swallowed": "wrote outside/none/written",
        "test_relative": "wrote outside/written",
        "test_mkdir": "wrote outside/made",
        "test_rename": "wrote outside/there",
        "test_remove": "wrote outside/spare",
        "test_symlink": "wrote outside/link",
        "test_chmod": "wrote outside/there",
        "test_database": "wrote outside/database",
        "test_socket": "wrote outside/socket",
        "test_read_at_home": "read home/.gitconfig",
        "test_list_home": "read home",
        "test_child_process": "changed home/.gitconfig",
    }, output
    assert "16 passed, 14 errors" in output
