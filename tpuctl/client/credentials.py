"""The files in which clients find the token: for their owner only."""

from __future__ import annotations

import json
import os
from pathlib import Path

from backend.files import write_text
from tpuctl.api.home import Home
from tpuctl.client.lifecycle import token_of


def token_file(home: Home) -> Path:
    """The home's own; with TPUCTL_TOKEN, one that has that. Raises OSError, Unauthenticated."""
    if not os.environ.get("TPUCTL_TOKEN"):
        return home.token
    return _private(home.path / "client-token", token_of(home) + "\n")


def credentials_file(home: Home) -> Path:
    """As `gcloud auth application-default login` writes it: the token is a refresh token, which gets itself.

    Raises OSError, Unauthenticated.
    """
    made = {
        "type": "authorized_user",
        "client_id": "tpuctl",
        "client_secret": "none",
        "refresh_token": token_of(home),
    }
    return _private(home.path / "credentials.json", json.dumps(made, indent=1) + "\n")


def _private(path: Path, text: str) -> Path:
    if not path.exists() or path.read_text() != text:
        write_text(path, text)
    path.chmod(0o600)
    return path
