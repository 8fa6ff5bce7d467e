"""`python -m fuzz NAME [libFuzzer's arguments]`: let atheris look for input that a target does not survive."""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ralph", "yaml", "tomllib"]):
    from fuzz.targets import TARGETS


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m fuzz {{{','.join(TARGETS)}}} [ARGUMENTS OF LIBFUZZER]")
    target = TARGETS[sys.argv.pop(1)]
    root = Path(__file__).parent.parent
    seeds = [str(root / seed) for seed in target.seeds]
    atheris.Setup([*sys.argv, *seeds], target.survive)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
