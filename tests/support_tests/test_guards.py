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


def test_whatever_a_test_leaves_behind_fails_it(tmp_path: Path) -> None:
    (tmp_path / "test_rule_breakers.py").write_text(RULE_BREAKERS)
    ini = tmp_path / "pytest.ini"
    ini.write_text("[pytest]\n")
    pytest = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", ini, "--rootdir", tmp_path, "-rA", tmp_path]
    env = os.environ | {"RALPH_MODEL": "opus", "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    done = subprocess.run(pytest, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    complaints = dict(
        re.findall(r"ERROR test_rule_breakers.py::(\w+) - Failed: the test left behind: (.*)", done.stdout)
    )

    assert complaints.keys() == {"test_process", "test_daemon", "test_thread", "test_environment"}, done.stdout
    assert re.fullmatch(r"process \d+ sleep 60", complaints["test_process"])
    assert re.fullmatch(r"process \d+ sleep 61", complaints["test_daemon"])
    assert complaints["test_thread"] == "thread straggler"
    assert complaints["test_environment"] == "changed variable HOME; changed variable LEFT"
    assert "5 passed, 4 errors" in done.stdout
