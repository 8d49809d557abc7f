"""The metadata that all VMs of a project have, kept as Compute keeps it: ``ssh-keys`` is there."""

from __future__ import annotations

import base64
import hashlib
import json

from tpuctl.api.errors import Conflict
from tpuctl.api.names import check_project
from tpuctl.store import Reader, Store
from tpuctl.store.rows import ProjectRow


def common_metadata(reader: Reader, project: str) -> dict[str, str]:
    """By key; empty for a project that nobody has given any."""
    found = reader.project(project)
    return found.metadata if found else {}


def read(store: Store, project: str) -> dict[str, str]:
    with store.read() as reader:
        return common_metadata(reader, check_project(project))


def write(store: Store, project: str, metadata: dict[str, str], seen: str = "") -> None:
    """Replace it all. Raises Conflict if it is no longer what it was when its fingerprint was ``seen``."""
    with store.change() as change:
        row = change.project(check_project(project))
        if seen and seen != fingerprint(row.metadata if row else {}):
            raise Conflict("Supplied fingerprint does not match current metadata fingerprint.")
        if row is None:
            change.insert(ProjectRow(project, metadata, change.now))
        else:
            change.replace(row, metadata=metadata)
        change.event(f"projects/{project}", "metadata changed", ", ".join(metadata))


def fingerprint(metadata: dict[str, str]) -> str:
    text = json.dumps(metadata, sort_keys=True).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:8]).decode()
