"""What is a TPU VM to those who log in: which file tells the server of it, whose keys open it, what a session sees?"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from backend.files import write_json
from backend.host.environment import worker_environment
from backend.host.metadata import metadata
from backend.host.workers import HostedSlice, Process

VMS = "vms"
HOST_KEY = "host_key"
ANYBODY = "*"
"""A user name that stands for all, of whoever may do everything."""
SESSION = "TPUCTL_VM"
"""In the environment of all that runs on a VM: the slice's directory, so that it can be found and ends with it."""
_GOOGLE = re.compile(r"\s+google-ssh\s+(\{.*\})\s*$")
_NOT_A_VMS = ("TPUCTL_", "TPU_", "JAX_", "XLA_", "SSH_", "GCE_")
"""Variables of the machine that a VM does not have."""


def write_vm(directory: Path, hosted: HostedSlice, port: int, keys: Iterable[str], session: str | None) -> None:
    """Let the server in ``directory`` know a slice: its workers, their ``port``, whose ``keys`` open them.

    ``keys`` are lines of ssh-keys metadata. ``session`` names what sessions on several workers attach as, together.
    Raises OSError.
    """
    processes = [Process(worker.index, hosted.num_hosts, [worker]) for worker in hosted.workers]
    workers = [
        {
            "index": one.index,
            "name": one.worker.name,
            "address": one.worker.ip_address,
            "environment": worker_environment(hosted, one, session),
            "metadata": metadata(hosted, one),
        }
        for one in processes
    ]
    (directory / VMS).mkdir(mode=0o700, parents=True, exist_ok=True)
    said = {"slice": str(hosted.directory), "port": port, "keys": list(keys), "workers": workers}
    write_json(directory / VMS / f"{hosted.uid}.json", said)


def forget_vm(directory: Path, uid: str) -> None:
    """Let the server end what runs on a slice, and listen no more."""
    (directory / VMS / f"{uid}.json").unlink(missing_ok=True)


def vm_home(slice_directory: Path, worker: int) -> Path:
    """Where the user of a worker is at home; it goes with the slice."""
    return slice_directory / "vms" / f"worker-{worker}"


def authorized(lines: Iterable[str], username: str, now: float | None = None) -> Iterator[str]:
    """The public keys of a user, of lines ``user:ssh-rsa AAAA... comment`` as Compute Engine keeps them.

    Those with an end that has passed (``google-ssh {"expireOn": ...}``) are left out.
    """
    for line in lines:
        name, _, key = line.strip().partition(":")
        if name not in (username, ANYBODY) or not key:
            continue
        expiring = _GOOGLE.search(key)
        if expiring is not None:
            if _has_expired(expiring[1], time.time() if now is None else now):
                continue
            key = key[: expiring.start()]
        yield key


def _has_expired(text: str, now: float) -> bool:
    try:
        end = datetime.fromisoformat(json.loads(text)["expireOn"].replace("+0000", "+00:00"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return end.timestamp() <= now


def session_environment(
    worker: Mapping[str, str], home: Path, username: str, slice_directory: str, terminal: str | None
) -> dict[str, str]:
    """All that a session sees: the machine's environment, the worker's, a home, and this Python first on PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_A_VMS)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    own = {"HOME": str(home), "USER": username, "LOGNAME": username, "SHELL": "/bin/bash", "PATH": path}
    own |= {"PYTHONUNBUFFERED": "1", SESSION: slice_directory}
    return kept | own | dict(worker) | ({"TERM": terminal} if terminal else {})
