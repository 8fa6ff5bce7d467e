"""What looks like a secret."""

from __future__ import annotations

import pytest

from ralph.core.secrets import looks_secret, without_login, without_secrets
from tests.support.rows import rows


@rows(
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


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:pass@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:p@ss@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:pass@host/db", "postgresql://:***@host/db"),
        ("postgresql://me@host/db?password=pass&a=b", "postgresql://me@host/db?password=***&a=b"),
        ("postgresql://host/db?a=b&sslpassword=pass", "postgresql://host/db?a=b&sslpassword=***"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("sqlite:////tmp/a:b@c/runs.sqlite", "sqlite:////tmp/a:b@c/runs.sqlite"),
    ],
)
def test_the_password_of_an_address_is_not_shown(address: str, shown: str) -> None:
    assert without_secrets(address) == shown


def test_a_login_is_taken_out_of_every_address_in_a_text() -> None:
    said = "cannot read https://me:pass@host/a.git, nor ssh://git@host:22/b; mail me@host"
    assert without_login(said) == "cannot read https://host/a.git, nor ssh://host:22/b; mail me@host"
