"""Which transcript a log is for."""

import pytest

from ralph.agents.registry import TRANSCRIPTS, sniff
from tests.support.rows import rows

CLAUDE = '{"type":"system","subtype":"init"}'
CODEX = '{"type":"thread.started","thread_id":"t"}'
BANNER = "OpenAI Codex v0.166.0"
RTF1 = '@@RALPH@@ {"type":"meta","meta":{}}'


@pytest.mark.spec("2.7-h")
@rows(
    ("lines", "name"),
    [
        ([CLAUDE], "claude"),
        (['{"type":"result"}'], "claude"),
        ([CODEX], "codex"),
        ([BANNER], "codex"),
        ([f"\x1b[1m{BANNER}\x1b[0m"], "codex"),
        ([RTF1], "rtf1"),
        ([], "plain"),
        (["hello", '{"type":"error"}', '{"type":', "{}", "[]", f"see {RTF1}"], "plain"),
        (["noise", "", '{"type":["system"]}', CODEX, CLAUDE], "codex"),
        (["noise", RTF1, CODEX], "rtf1"),
        ([CLAUDE, RTF1], "claude"),
        (["\x00\ufffd", "{" * 5000, CLAUDE], "claude"),
    ],
)
def test_the_first_decisive_line_decides(lines: list[str], name: str) -> None:
    assert sniff(lines) == name
    assert name in TRANSCRIPTS


def test_no_more_is_read_than_it_takes() -> None:
    lines = iter([CODEX, "the next"])
    assert sniff(lines) == "codex"
    assert next(lines) == "the next"
