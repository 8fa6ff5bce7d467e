import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has sockets without a file to reserve a port by")
def test_no_other_test_process_gets_the_same_port() -> None:
    code = f"from tests.support.ports import reserve; print(reserve({free_port()}))"
    other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert other.stdout == "False\n"
