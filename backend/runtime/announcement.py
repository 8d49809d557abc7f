"""How is a running slice found? Files that the runtime keeps in its directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil

SOCKET = "link.sock"
_RUNNING = "runtime.json"
_FAILED = "runtime-error.json"


def announce(directory: Path, host: str, port: int, type_name: str, name: str) -> None:
    """Say that the slice accepts connections, and who it is."""
    process = psutil.Process()
    _write(
        directory / _RUNNING,
        {
            "pid": process.pid,
            "started": process.create_time(),
            "socket": str(directory / SOCKET),
            "host": host,
            "port": port,
            "type": type_name,
            "name": name,
        },
    )


def announce_failure(directory: Path, code: int, message: str) -> None:
    """Say why the slice could not start; ``code`` is a google.rpc.Code."""
    _write(directory / _FAILED, {"code": code, "message": message})


def withdraw(directory: Path) -> None:
    """The slice has ended."""
    for name in (SOCKET, _RUNNING):
        (directory / name).unlink(missing_ok=True)


def _write(path: Path, content: dict[str, Any]) -> None:
    """All of the file, or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    with draft.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
