"""The fuzz targets, as far as they go without the fuzzer: they can be imported, and survive their own seeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

SURVIVE = """
from pathlib import Path
from fuzz.targets import TARGETS
for name, target in TARGETS.items():
    seeds = [file.read_bytes() for folder in target.seeds for file in Path(folder).rglob("*") if file.is_file()]
    for data in [b"", b"\\xff\\x00\\n{", *seeds]:
        target.survive(data)
    print(name, len(seeds))
"""


def test_every_target_survives_its_seeds() -> None:
    done = subprocess.run([sys.executable, "-c", SURVIVE], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    seeds = dict(line.split() for line in done.stdout.splitlines())
    assert seeds.pop("lines") == "0"
    assert len(seeds) == 11
    assert "0" not in seeds.values()
