"""What looks like a secret."""

from __future__ import annotations

import pytest

from ralph.sensitive import looks_secret


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".env", True),
        ("deep/.ENV", True),
        (".env.local", True),
        (".envrc", True),
        ("server.pem", True),
        ("id_ed25519", True),
        (".netrc", True),
        ("credentials.json", True),
        (".env.example", False),
        (".env.sample", False),
        ("id_rsa.pub", False),
        ("environment.py", False),
        ("monkey.keys.md", False),
        (".env/readme.md", False),
    ],
)
def test_a_secret_is_known_by_its_name(path: str, secret: bool) -> None:
    assert looks_secret(path) is secret
