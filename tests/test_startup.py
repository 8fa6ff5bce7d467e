"""Start-up: what every command pays before it does anything."""

import subprocess
import sys

import pytest

HEAVY = {
    *("rich", "git", "dbos", "sqlalchemy", "jinja2", "orjson", "yaml", "platformdirs", "psutil"),
    *("tomllib", "ralph.core.events", "ralph.core.goal", "ralph.core.limits", "ralph.config.settings"),
}
"""Modules that take 2 to 300 ms each. `ralph --version` took 10 times as long as `python -c pass` with a few of them,
and `ralph-runs --version` 30 times with sqlalchemy."""


@pytest.mark.parametrize("module", ["ralph.cli.main", "ralph.cli.runs"])
def test_the_command_line_alone_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)
    assert not [name for name in loaded if name.startswith(("ralph.queue.", "ralph.dashboard.", "ralph.state."))]
