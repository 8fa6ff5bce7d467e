"""The counts in the reports of test runners."""

from __future__ import annotations

import pytest

from ralph.core.proof import TestCounts
from ralph.proof.check import counts_in

NODE = "ok 1 - adds\n1..1\n# tests 4\n# suites 0\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 0\n"
CARGO = "test result: ok."
GO = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- SKIP: TestA/inner (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\n"


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("collected 3\n===== 2 passed, 1 skipped in 0.05s =====\n", (2, 1)),
        ("\x1b[32m===== \x1b[1m2 passed\x1b[0m, 1 xfailed in 0.05s =====\x1b[0m\n", (2, 1)),
        ("1 failed, 4 passed, 2 deselected in 1.20s\n", (4, 2)),
        ("Ran 5 tests in 0.001s\n\nOK (skipped=2)\n", (3, 2)),
        ("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1)\n", (3, 0)),
        (NODE, (3, 1)),
        (NODE.replace("# ", "\u2139 "), (3, 1)),
        ("Tests:       1 failed, 2 skipped, 3 passed, 6 total\n", (3, 2)),
        (f"{CARGO} 3 passed; 0 failed; 1 ignored;\n{CARGO} 2 passed; 0 failed; 0 ignored;\n", (5, 1)),
        (GO, (1, 1)),
        ("all good\n", (None, None)),
        ("", (None, None)),
    ],
)
def test_the_counts_are_read(output: str, counts: tuple[int | None, int | None]) -> None:
    assert counts_in(output) == TestCounts(*counts)
