"""What stands where on this machine: credentials, agents' own folders, PATH, git's folders; the mounts of a sandbox.

The tables are about HOME and the system; each entry may be missing. Paths are looked up without their links, since
bubblewrap mounts by real paths.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.sandbox.policy import EVERYONES, Mount, MountKind

CREDENTIALS = (
    # keys, logins and what leads to them; ralph's own configuration, which can name a database
    ".config/ralph",
    ".ssh", ".gnupg", ".netrc", ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials",
    ".config/gh", ".config/hub", ".config/glab-cli", ".aws", ".azure", ".config/gcloud", ".oci", ".aliyun", ".kube",
    ".docker", ".config/containers/auth.json", ".config/doctl", ".config/hcloud", ".fly", ".config/flyctl",
    ".config/heroku", ".config/netlify", ".config/vercel", ".local/share/com.vercel.cli", ".terraform.d",
    ".terraformrc", ".config/op", ".config/Bitwarden CLI", ".password-store", ".config/rclone", ".config/sops",
    ".config/age", ".vault-token",
    ".config/github-copilot", ".config/configstore", ".s3cfg", ".boto", ".databrickscfg", ".snowflake", ".kaggle",
    ".pypirc", ".config/pypoetry/auth.toml", ".local/share/uv/credentials",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".bundle/config", ".m2/settings-security.xml",
    ".composer/auth.json",
    ".config/composer/auth.json", ".pgpass", ".my.cnf", ".mylogin.cnf", ".msmtprc", ".fetchmailrc", ".Xauthority",
    ".ICEauthority", ".config/huggingface", ".cache/huggingface/token", ".huggingface", ".wakatime.cfg", ".putty",
    # keyrings, browsers, mail, chat
    ".local/share/keyrings", ".local/share/kwalletd", ".kde/share/apps/kwallet", ".pki", ".mozilla", ".thunderbird",
    ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi",
    ".config/opera", ".config/Signal", ".config/Slack", ".config/discord", ".var/app", "snap/firefox", "snap/chromium",
    "snap/thunderbird", ".cache/mozilla", ".cache/google-chrome", ".cache/chromium",
    # what was typed
    ".bash_history", ".zsh_history", ".zhistory", ".histfile", ".local/share/fish/fish_history", ".history",
    ".sh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history",
    ".rediscli_history", ".irb_history", ".lesshst", ".viminfo", ".local/share/recently-used.xbel",
    ".local/share/atuin",
)  # fmt: skip
"""What is hidden in HOME. An agent's own login is shown to that agent alone."""

_PERHAPS = (
    ".npmrc", ".yarnrc.yml", ".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml", ".m2/settings.xml",
    ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".cargo/config.toml", ".curlrc", ".wgetrc", ".condarc",
)  # fmt: skip
"""Settings that builds need, and that some people keep a login in; then they are hidden, too."""
_LOGIN_IN_TEXT = re.compile(
    rb"_auth|token|passw|secret|api.?key|^-?-?user\b|://[^/\s:@]+:[^/\s@]+@", re.IGNORECASE | re.MULTILINE
)
_LONGEST_SETTINGS = 1 << 20

_SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/ssl/private", "/etc/ssh", "/etc/krb5.keytab", "/etc/wireguard", "/etc/NetworkManager/system-connections",
    "/etc/docker", "/etc/kubernetes", "/etc/rancher", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
    "/var/spool", "/var/lib/private", "/var/backups",
)  # fmt: skip
"""What the system protects by permissions, which root passes."""
_SSH_CLIENT = ("/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d", "/etc/ssh/ssh_known_hosts")

_LOGINS: Mapping[str, tuple[str, ...]] = {
    "claude": ("$CLAUDE_CONFIG_DIR", ".claude", ".claude.json"),
    "codex": ("$CODEX_HOME", ".codex"),
    "ralph-claude": ("$CLAUDE_CONFIG_DIR", ".claude", ".claude.json"),
    "gemini": (".gemini",),
    "opencode": (".config/opencode", ".local/share/opencode"),
    "cursor": (".cursor",),
    "amp": (".config/amp", ".local/share/amp"),
    "aider": (".aider", ".aider.conf.yml"),
    "goose": (".config/goose",),
    "qwen": (".qwen",),
}
"""Where agents keep configuration, login and sessions: the chosen one may write there, others don't see it."""
_OWN_FOLDER = {"claude": ".claude", "codex": ".codex"}
"""Folders that an agent needs from its first session on, to go on with that one in another process."""
_RUN_ELSEWHERE = (
    "settings.json", "settings.local.json", "CLAUDE.md", "hooks", "commands", "agents", "skills", "plugins",
    "output-styles", "AGENTS.md", "rules", "prompts", "hooks.json",
)  # fmt: skip
"""What an agent reads in later sessions, also of the user's own outside the sandbox: it stays as it is."""

_RUN_KEEPS = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
"""Programs of NixOS, which has them there; the rest of /run is the sockets of services."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Whom a sandbox is for: the user's environment, ralph's own folders, and the agent; none for a check."""

    env: Mapping[str, str]
    own: tuple[Path, ...]
    """Folders of ralph's that nothing inside sees."""
    agent: str = ""
    strict: bool = False

    @property
    def home(self) -> Path | None:
        """HOME, without links; None without a usable one."""
        told = self.env.get("HOME", "")
        home = Path(os.path.realpath(told)) if told else None
        return home if home is not None and home != Path("/") and home.is_dir() else None


def mounts_of(around: Surroundings, root: Path, argv: Sequence[str], more: Sequence[Mount]) -> list[Mount]:
    """Return the mounts around a work tree and a command, and `more` of them; later ones win at the same path."""
    home, tree = around.home, Path(os.path.realpath(root))
    open_anyway = [f"{tree}/", *(f"{mount.path}/" for mount in more)]
    found = [*_of_the_system(around), *_of_home(around, home)]
    found += [each for each in _programs(around, home, argv) if not each.path.startswith(tuple(open_anyway))]
    for folder in around.own:
        found += _hidden(folder)
    found += _login(around, home)
    if home is None or not home.is_relative_to(tree) or (tree / ".git").exists():
        # A question that is asked in HOME, or above it, is no reason to open all of it.
        found += [Mount(str(tree), MountKind.WRITE), *_git_folders(tree)]
    return [*found, *more]


def shown(written: Iterable[str], env: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the mounts of `sandbox.bind`; what is not there is left out."""
    for text in written:
        name, read_only = (text.removesuffix(":ro"), True) if text.endswith(":ro") else (text, False)
        path = _real(name, env)
        if path is not None and os.path.lexists(path):
            yield Mount(path, MountKind.READ if read_only else MountKind.WRITE)


def hidden(written: Iterable[str], env: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the mounts of `sandbox.hide`."""
    for text in written:
        path = _real(text, env)
        yield from _hidden(Path(path)) if path is not None else ()


def existing(written: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return the entries of a setting whose path is there."""
    real = {text: _real(text.removesuffix(":ro"), env) for text in written}
    return [text for text, path in real.items() if path is not None and os.path.lexists(path)]


def prepare_login(around: Surroundings) -> None:
    """Make the folder in which the agent keeps its sessions: one made inside would be thrown away."""
    name, home = _OWN_FOLDER.get(around.agent), around.home
    moved = around.env.get("CLAUDE_CONFIG_DIR" if around.agent == "claude" else "CODEX_HOME")
    if name is not None and home is not None and not moved and not (home / name).exists():
        (home / name).mkdir(mode=0o700)


def _real(text: str, env: Mapping[str, str]) -> str | None:
    """Return an absolute path without links; `~` is the user's HOME, a variable the environment's."""
    if text.startswith("$"):
        name, _, rest = text[1:].partition("/")
        base = env.get(name, "")
        return os.path.realpath(f"{base}/{rest}" if rest else base) if os.path.isabs(base) else None  # noqa: PTH117
    if text == "~" or text.startswith("~/"):
        text = env.get("HOME", "") + text[1:]
    return os.path.realpath(text) if text.startswith("/") else None


def _hidden(path: Path) -> Iterator[Mount]:
    real = Path(os.path.realpath(path))
    try:
        if real.is_dir():
            yield Mount(str(real), MountKind.EMPTY)
        elif real.exists():
            yield Mount(str(real), MountKind.BLANK)
    except OSError:  # it cannot be looked at, by the agent neither
        pass


def _of_the_system(around: Surroundings) -> Iterator[Mount]:
    """Yield the private and the hidden parts of the system."""
    for name in (*EVERYONES, "/run", "/var/run"):
        if Path(name).is_dir() and not Path(name).is_symlink():
            yield Mount(name, MountKind.EMPTY)
    scratch = around.env.get("TMPDIR", "")
    if scratch and Path(scratch).is_dir():
        yield Mount(os.path.realpath(scratch), MountKind.EMPTY)
    names = os.path.realpath("/etc/resolv.conf")
    if names.startswith("/run/") and Path(names).is_file():
        yield Mount(names, MountKind.READ)
    for name in _RUN_KEEPS:
        if Path(name).exists():
            yield Mount(name, MountKind.READ, os.path.realpath(name))
    if os.geteuid() == 0:
        for name in _SYSTEM_SECRETS:
            yield from _hidden(Path(name))
        for name in _SSH_CLIENT:
            if Path(name).exists():
                yield Mount(name, MountKind.READ)
        for home in (*_folders_in("/home"), Path("/root")):
            for path in (*_secrets({}, home), *_paths_of(_PERHAPS, {}, home)) if home != around.home else ():
                yield from _hidden(path)


def _folders_in(name: str) -> list[Path]:
    try:
        return [path for path in Path(name).iterdir() if path.is_dir()]
    except OSError:
        return []


def _of_home(around: Surroundings, home: Path | None) -> Iterator[Mount]:
    if home is None:
        return
    if around.strict:
        yield Mount(str(home), MountKind.EMPTY)
        return
    yield Mount(str(home), MountKind.SCRATCH)
    for mounted in _mounts_below(home):
        yield Mount(mounted, MountKind.READ)  # a layer over HOME does not reach into other file systems
    for path in (*_secrets(around.env, home), *filter(_holds_a_login, _paths_of(_PERHAPS, around.env, home))):
        yield from _hidden(path)


def _secrets(env: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield all paths of credentials, and of other agents' logins."""
    moved = {".config/": env.get("XDG_CONFIG_HOME"), ".local/share/": env.get("XDG_DATA_HOME")}
    for name in CREDENTIALS:
        yield home / name
        for usual, folder in moved.items():
            if folder and name.startswith(usual):
                yield Path(folder) / name.removeprefix(usual)
    for names in _LOGINS.values():
        yield from _paths_of(names, env, home)


def _holds_a_login(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return bool(_LOGIN_IN_TEXT.search(opened.read(_LONGEST_SETTINGS)))
    except OSError:
        return True


def _paths_of(names: Sequence[str], env: Mapping[str, str], home: Path) -> Iterator[Path]:
    for name in names:
        real = _real(name, env) if name.startswith("$") else os.path.realpath(home / name)
        if real is not None and os.path.lexists(real):
            yield Path(real)


def _login(around: Surroundings, home: Path | None) -> Iterator[Mount]:
    """Yield the agent's own configuration and login; a command of the user's may be any agent."""
    if home is None or not around.agent or around.agent == "demo":
        return
    known = {around.agent: _LOGINS[around.agent]} if around.agent in _LOGINS else _LOGINS
    for names in known.values():
        for path in _paths_of(names, around.env, home):
            yield Mount(str(path), MountKind.WRITE)
            for name in _RUN_ELSEWHERE if path.is_dir() else ():
                if (path / name).exists() and not (path / name).is_symlink():
                    yield Mount(str(path / name), MountKind.READ)


def _programs(around: Surroundings, home: Path | None, argv: Sequence[str]) -> Iterator[Mount]:
    """Yield programs that would else be hidden: folders on PATH, the program itself, files that the command names."""
    covered = [*EVERYONES, "/run", *([str(home)] if home is not None and around.strict else [])]
    folders = [folder for folder in around.env.get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    named = [word for word in argv[1:] if word.startswith("/") and Path(word).is_file()]
    for folder in [*map(os.path.realpath, (*folders, *named)), *_installed(argv[0])]:
        if any(folder.startswith(f"{place}/") for place in covered) and os.path.lexists(folder):
            yield Mount(_with_its_parts(folder, home), MountKind.READ)


def _installed(program: str) -> Iterator[str]:
    """Yield a program, where its links lead, and, for one of a package of npm's, that package."""
    if not program.startswith("/"):
        return
    real = os.path.realpath(program)
    yield real
    package = re.match(r".*/node_modules/(?:@[^/]+/)?[^/]+", real)
    if package is not None:
        yield package[0]


def _with_its_parts(path: str, home: Path | None) -> str:
    """Return a path; for `…/bin` of an installation in HOME (a toolchain's, a virtual environment's) all of that."""
    around = Path(path).parent
    if Path(path).name != "bin" or home is None or around in (home, home / ".local"):
        return path
    return str(around) if around.is_relative_to(home) else path


def _git_folders(tree: Path) -> Iterator[Mount]:
    """Yield git's folders of a work tree, wherever they are, and the objects that it borrows.

    An agent may commit, stash and set hooks up, and all of that is thrown away: ralph takes the files, and commits them
    itself. So settings, hooks, refs and index flags of an agent's exist for nobody else's git.
    """
    entry = tree / ".git"
    folders = [entry]
    try:
        if entry.is_file() and (told := entry.read_text().strip()).startswith("gitdir:"):
            folder = tree / told.removeprefix("gitdir:").strip()
            common = folder / "commondir"
            folders = [folder, *([folder / common.read_text().strip()] if common.is_file() else [])]
            if not entry.is_symlink():
                yield Mount(str(entry), MountKind.READ)  # it says where the folder is
        real = [os.path.realpath(each) for each in folders if each.is_dir()]
        for path in real:
            if not any(path.startswith(f"{other}/") for other in real):
                yield Mount(path, MountKind.DISPOSABLE)
        for line in _lines(folders[-1] / "objects" / "info" / "alternates"):
            if (objects := Path(os.path.realpath(folders[-1] / "objects" / line))).is_dir():
                yield Mount(str(objects), MountKind.READ)
    except (OSError, UnicodeDecodeError):  # git will say what is wrong with it
        return


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.is_file() else []


def _mounts_below(home: Path) -> list[str]:
    """Return where other file systems are mounted in HOME."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    found = [re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in lines]
    return [path for path in found if path.startswith(f"{home}/")]
