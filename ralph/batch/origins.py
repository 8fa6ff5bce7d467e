"""Where a repository inside a clone has its commits from, as far as its own settings tell.

Builds fetch sources into folders that git ignores (CMake, pip) and keep the whole repository there, which
must not keep a clone for ever. So what its settings say was fetched from a server counts as being there. Those settings
are an agent's to write, and may lie. But they come about by themselves where somebody fetches or pushes; an agent that
forges them wants its commits gone, and could have deleted them. No server is asked: the agent would choose who hears
from us, with the user's credentials. All else is taken for the only copy: what was made here, and what came from a
place on this machine, unless the repository there still has it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ralph.batch.bare import Bare
from ralph.batch.mirror import PATIENCE
from ralph.gitrepo import local_path

_ASKED = r"^(remote\..*\.(url|fetch)|extensions\.objectformat)$"
_SERVER = re.compile(
    r"(?:git|https?|ssh|git\+ssh|ssh\+git)://(?:[^/]*@)?(?P<host>\[[^]/]*]|[^/:]+)(?::\d*)?/.+"
    r"|(?:[^/:]*@)?(?P<short>[^/:@]+):(?!:|//).+"
)
_THIS_MACHINE = re.compile(r"localhost|127\.[\d.]+|\[::1]|0\.0\.0\.0", re.IGNORECASE)
"""A server that an agent has started itself, perhaps for what is in its clone."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What a repository's settings tell of its history."""

    tips: tuple[str, ...] = ()
    """What servers had, when they were last fetched from or pushed to."""
    sources: tuple[Path, ...] = ()
    """The repositories of this machine that it was fetched from."""
    hashing: str = "sha1"
    """How its objects are named."""


def origins(bare: Bare, git_dir: Path) -> Origins:
    """Read where a repository was fetched from; its settings are read as a file, and have no say."""
    reading = ("config", f"--file={git_dir / 'config'}", "--null", "--get-regexp", _ASKED)
    status, out, _ = bare.run(*reading, limit=PATIENCE)
    pairs = [entry.partition("\n")[::2] for entry in out.split("\0") if entry] if status == 0 else []
    urls = {
        key.removesuffix(".url"): value for key, value in reversed(pairs) if key.endswith(".url")
    }  # the first is used
    servers = [remote for remote, url in urls.items() if _is_server(url)]
    tracked = [value for key, value in pairs if key.endswith(".fetch") and key.removesuffix(".fetch") in servers]
    sources = [path for url in urls.values() if (path := _source(url)) is not None]
    hashing = next((value for key, value in pairs if key == "extensions.objectformat"), Origins.hashing)
    return Origins(_tracking(bare, git_dir, tracked) if tracked else (), tuple(sources), hashing)


def refs(bare: Bare, git_dir: Path) -> dict[str, str]:
    """What a repository's refs name: none where it has none, or is broken."""
    status, out, _ = bare.run("ls-remote", "--", str(git_dir), limit=PATIENCE)
    return {ref: sha for sha, _, ref in (line.partition("\t") for line in out.splitlines())} if status == 0 else {}


def _tracking(bare: Bare, git_dir: Path, refspecs: Iterable[str]) -> tuple[str, ...]:
    """What the refs name that a fetch overwrites: a branch as a server has it; or one tag, which alone was asked for.

    A fetch of everything onto everything (`git clone --mirror`) leaves no telling what of it was made here.
    """
    wanted = [spec.rpartition(":")[2] for spec in refspecs if ":" in spec]
    patterns = [re.escape(name).replace(r"\*", ".*") for name in wanted if _is_for_fetching(name)]
    known = refs(bare, git_dir)
    return tuple(
        sha for ref, sha in known.items() if any(re.fullmatch(each, ref.removesuffix("^{}")) for each in patterns)
    )


def _is_for_fetching(name: str) -> bool:
    return name.startswith("refs/remotes/") or (name.startswith("refs/tags/") and "*" not in name)


def _is_server(url: str) -> bool:
    found = _SERVER.fullmatch(url)
    return found is not None and not _THIS_MACHINE.fullmatch(found["host"] or found["short"])


def _source(url: str) -> Path | None:
    path = local_path(url) if url.startswith(("/", "file:///")) else None
    if path is None:
        return None
    return path / ".git" if (path / ".git").is_dir() else path
