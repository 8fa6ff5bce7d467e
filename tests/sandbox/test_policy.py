"""The bubblewrap command of a policy."""

from ralph.sandbox.policy import (
    Bubblewrap,
    Mount,
    MountKind,
    Network,
    SandboxLimits,
    SandboxPolicy,
    bubblewrap_command,
    in_order,
)

BWRAP = Bubblewrap("/usr/bin/bwrap", overlays=True, own_users=True)


def pairs(command: tuple[str, ...], flag: str) -> list[str]:
    return [command[at + 1] for at, word in enumerate(command) if word == flag]


def test_deeper_rules_come_later_and_the_last_one_for_a_path_counts() -> None:
    mounts = [
        Mount("/home/me/work", MountKind.WRITE),
        Mount("/home/me", MountKind.SCRATCH),
        Mount("/home/me/.ssh", MountKind.EMPTY),
        Mount("/home/me/.ssh", MountKind.READ),
    ]
    assert in_order(mounts) == [mounts[1], mounts[3], mounts[0]]


def test_the_command_shows_what_the_policy_names() -> None:
    policy = SandboxPolicy(
        (
            Mount("/home/me", MountKind.SCRATCH),
            Mount("/home/me/work", MountKind.WRITE),
            Mount("/home/me/work/.git", MountKind.WRITE, "/elsewhere/git"),
            Mount("/home/me/.netrc", MountKind.BLANK),
            Mount("/tmp", MountKind.EMPTY),
            Mount("/home/me/.ssh", MountKind.EMPTY),
        ),
        "/home/me/work",
    )
    command = bubblewrap_command(BWRAP, policy, ["agent", "--flag"])
    text = " ".join(command)
    assert "--overlay-src /home/me --tmp-overlay /home/me " in text
    assert "--bind /home/me/work /home/me/work --bind /elsewhere/git /home/me/work/.git " in text
    assert "--ro-bind /dev/null /home/me/.netrc" in text
    assert "--perms 1777 --tmpfs /tmp" in text
    assert "--perms 0700 --tmpfs /home/me/.ssh" in text
    assert pairs(command, "--chdir") == ["/home/me/work"]
    assert command[-2:] == ("agent", "--flag")
    assert {"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-user", "--die-with-parent"} <= set(command)
    assert "--unshare-net" not in command


def test_without_overlays_home_is_read_only() -> None:
    old = Bubblewrap("/usr/bin/bwrap", overlays=False, own_users=True)
    command = bubblewrap_command(old, SandboxPolicy((Mount("/home/me", MountKind.SCRATCH),), "/"), ["true"])
    assert "--ro-bind /home/me /home/me" in " ".join(command)
    assert "--tmp-overlay" not in command


def test_root_loses_what_would_lead_out() -> None:
    root = Bubblewrap("/usr/bin/bwrap", overlays=True, as_root=True)
    command = bubblewrap_command(root, SandboxPolicy((), "/"), ["true"])
    kept = pairs(command, "--cap-add")
    assert pairs(command, "--cap-drop") == ["ALL"]
    assert "CAP_DAC_OVERRIDE" in kept
    assert not {"CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"} & set(kept)


def test_network_and_limits() -> None:
    policy = SandboxPolicy((), "/", Network.NONE, SandboxLimits(processes=100, memory=1 << 30, file_size=1 << 20))
    command = bubblewrap_command(BWRAP, policy, ["agent"])
    assert "--unshare-net" in command
    assert command[-6:] == ("/usr/bin/prlimit", "--nproc=100", "--as=1073741824", "--fsize=1048576", "--", "agent")


def test_a_program_whose_path_looks_like_a_variable_is_started() -> None:
    command = bubblewrap_command(BWRAP, SandboxPolicy((), "/"), ["/opt/a=b/agent", "word"])
    assert command[-5:] == ("/bin/sh", "-c", 'exec "$0" "$@"', "/opt/a=b/agent", "word")
