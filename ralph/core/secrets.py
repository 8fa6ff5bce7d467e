"""Likely secrets: files, recognised by name alone, and passwords in addresses."""

import fnmatch
import re
from collections.abc import Sequence

_SECRETS = (
    ".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa*", "id_dsa*",
    "id_ecdsa*", "id_ed25519*", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "credentials.json",
    "service-account*.json",
)  # fmt: skip
_SECRET_FOLDERS = {".aws", ".ssh", ".gnupg"}
_NOT_SECRET = (".env.example", ".env.sample", ".env.template", "*.pub")


def looks_secret(path: str) -> bool:
    """Tell by a file's name, or that of a directory above it, whether it is likely to contain a secret."""
    *folders, name = path.lower().rstrip("/").split("/")
    if _matches(name, _NOT_SECRET):
        return False
    return _matches(name, _SECRETS) or not _SECRET_FOLDERS.isdisjoint(folders)


def without_secrets(address: str) -> str:
    """Return a database's address with its password masked."""
    starred = re.sub(r"(//[^:/?\s]*):[^/?\s]*@", r"\1:***@", address)
    return re.sub(r"(?i)([?&][a-z_]*password=)[^&\s]*", r"\1***", starred)


def without_login(text: str) -> str:
    """Remove user name and password from addresses."""
    return re.sub(r"//[^@/\s]*@", "//", text)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
