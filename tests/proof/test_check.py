"""The check: found or refused before anything is spent, then run for real."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.proof.check import Check, CheckReport, find_check, run_check
from ralph.sandbox.sandbox import Sandbox
from ralph.system.guardian import Guardian

PATH = os.environ["PATH"]
GUARDIAN = Guardian()


@pytest.fixture(autouse=True)
def guarded() -> Iterator[None]:
    with GUARDIAN:
        yield


def script(root: Path, text: str, *, name: str = ".ralph/check", mode: int = 0o755) -> Path:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def find(root: Path, command: str | None = None) -> Check | None:
    return find_check(root, command, timeout=30.0, path=PATH)


def ran(root: Path, text: str, *, timeout: float = 30.0, stop: bool = False) -> CheckReport:
    check = Check((str(script(root, text)),), ".ralph/check", timeout, script=True)
    return run(root, check, stop=stop)


def run(root: Path, check: Check, *, stop: bool = False) -> CheckReport:
    return run_check(
        check,
        guardian=GUARDIAN,
        sandbox=Sandbox(),
        root=root,
        environment={"PATH": PATH, "RALPH_GOAL": "speed"},
        log=root / "check.log",
        stop_requests=lambda: int(stop),
    )


def test_without_script_or_command_there_is_no_check(tmp_path: Path) -> None:
    assert find(tmp_path) is None


def test_the_repositorys_script_is_found(tmp_path: Path) -> None:
    path = script(tmp_path, "#!/bin/sh\n")
    assert find(tmp_path) == Check((str(path),), ".ralph/check", 30.0, script=True)


def test_the_users_command_comes_first_and_is_split_without_a_shell(tmp_path: Path) -> None:
    script(tmp_path, "#!/bin/sh\n")
    command = "sh -c 'exit 3' '$HOME' *"
    assert find(tmp_path, command) == Check(("sh", "-c", "exit 3", "$HOME", "*"), command, 30.0, script=False)


def test_a_command_may_be_a_file_of_the_repository(tmp_path: Path) -> None:
    script(tmp_path, "#!/bin/sh\nexit 5\n", name="prove")
    check = find(tmp_path, "./prove --all")
    assert check is not None
    assert run(tmp_path, check).exit_code == 5


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-command --flag", "'no-such-command' was not found"),
        ("./missing", "'./missing' was not found"),
        ("'unclosed", "cannot parse"),
        ("", "is empty"),
        ("   ", "is empty"),
        (".", "'.'"),
        ("./plain", "./plain"),
        ("./folder", "./folder"),
    ],
)
def test_a_command_that_cannot_run_is_refused(tmp_path: Path, command: str, said: str) -> None:
    script(tmp_path, "#!/bin/sh\n", name="plain", mode=0o644)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError) as caught:
        find(tmp_path, command)
    assert said in caught.value.message


@pytest.mark.parametrize("kind", ["plain file", "folder", "dangling link"])
def test_a_script_that_cannot_run_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ".ralph" / "check"
    path.parent.mkdir()
    if kind == "plain file":
        path.touch(0o644)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    with pytest.raises(UsageError) as caught:
        find(tmp_path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize("code", [0, 1, 77])
def test_the_exit_code_judges_and_the_output_is_kept(tmp_path: Path, code: int) -> None:
    report = ran(tmp_path, f"#!/bin/sh\necho out\necho err >&2\nexit {code}\n")
    assert (report.exit_code, report.output) == (code, "out\nerr\n")
    assert (tmp_path / "check.log").read_text() == "out\nerr\n"


def test_a_check_that_dies_of_a_signal_is_red(tmp_path: Path) -> None:
    assert ran(tmp_path, "#!/bin/sh\nkill -SEGV $$\n").exit_code == -11


def test_a_check_runs_in_the_root_with_the_environment_it_is_given(tmp_path: Path) -> None:
    assert ran(tmp_path, "#!/bin/sh\npwd\necho $RALPH_GOAL $HOME\n").output == f"{tmp_path}\nspeed\n"


def test_a_check_that_reads_finds_an_empty_input(tmp_path: Path) -> None:
    report = ran(tmp_path, "#!/bin/sh\ncat\nread line || echo end\n", timeout=10)
    assert (report.exit_code, report.output) == (0, "end\n")


def test_a_check_that_runs_out_of_time_keeps_what_it_said(tmp_path: Path) -> None:
    started = time.monotonic()
    report = ran(tmp_path, "#!/bin/sh\necho before\nexec sleep 60\n", timeout=2)
    assert report.exit_code is None
    assert report.output.startswith("before\n")
    assert "the check's time limit" in report.output
    assert time.monotonic() - started < 40


def test_a_check_that_writes_without_end_runs_out_of_time(tmp_path: Path) -> None:
    report = ran(tmp_path, "#!/bin/sh\nexec yes\n", timeout=0.5)
    assert report.exit_code is None
    assert len(report.output) < 10_000


def test_a_check_is_stopped_when_the_user_asks(tmp_path: Path) -> None:
    started = time.monotonic()
    assert ran(tmp_path, "#!/bin/sh\nexec sleep 60\n", stop=True).exit_code is None
    assert time.monotonic() - started < 40


def test_a_check_that_leaves_something_running_is_over_when_it_is_over(tmp_path: Path) -> None:
    started = time.monotonic()
    assert ran(tmp_path, "#!/bin/sh\nsleep 60 &\necho done\n").output == "done\n"
    assert time.monotonic() - started < 40


def test_of_a_long_output_both_ends_are_kept_and_the_log_has_it_all(tmp_path: Path) -> None:
    report = ran(tmp_path, "#!/bin/sh\necho first\nseq 100000\necho last\nexit 1\n")
    assert report.output.startswith("first\n1\n")
    assert report.output.endswith("100000\nlast\n")
    assert "bytes left out" in report.output
    assert len(report.output) < 10_000
    assert (tmp_path / "check.log").stat().st_size > 500_000


def test_output_that_is_no_text_does_no_harm(tmp_path: Path) -> None:
    assert ran(tmp_path, "#!/bin/sh\nprintf 'a\\377b'\n").output == "a\ufffdb\n"


@pytest.mark.parametrize("text", ["#!/no/such/interpreter\n", "exit 0\n", ""])
def test_a_script_that_cannot_be_started_is_red(tmp_path: Path, text: str) -> None:
    report = ran(tmp_path, text)
    assert report.exit_code == 127
    assert "cannot start" in report.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\r\nexit 0\r\n", "it has Windows line endings"),
        ("#!/no/such/interpreter -x\n", "its interpreter /no/such/interpreter does not exist"),
        ("#!\n", "has no interpreter line"),
        ("exit 0\n", "has no interpreter line"),
    ],
)
def test_a_script_that_could_never_be_started_is_refused_before_anything_is_spent(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / ".ralph").mkdir()
    script = tmp_path / ".ralph" / "check"
    script.write_bytes(text.encode())
    script.chmod(0o755)
    with pytest.raises(UsageError, match=said):
        find_check(tmp_path, None, timeout=1.0, path=None)


def test_a_script_may_be_run_by_a_program_of_the_repositorys_own(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    for name, text in (("runner", "#!/bin/sh\n"), (".ralph/check", "#!./runner\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert find_check(tmp_path, None, timeout=1.0, path=None) is not None
