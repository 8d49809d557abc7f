"""How is a running slice found? Files that the runtime keeps in its directory."""

from __future__ import annotations

from pathlib import Path

import psutil

from backend.files import write_json

SOCKET = "link.sock"
_RUNNING = "runtime.json"
_FAILED = "runtime-error.json"


def announce(directory: Path, host: str, port: int, type_name: str, name: str) -> None:
    """Say that the slice accepts connections, and who it is."""
    process = psutil.Process()
    write_json(
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
    write_json(directory / _FAILED, {"code": code, "message": message})


def withdraw(directory: Path) -> None:
    """The slice has ended."""
    for name in (SOCKET, _RUNNING):
        (directory / name).unlink(missing_ok=True)
