"""Where the control plane keeps its state, and what lies there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tpuctl.api.errors import InvalidArgument

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8476
MAX_PORT = 65535


@dataclass(frozen=True)
class Home:
    """The folder TPUCTL_HOME names, by default ``tpuctl`` under the XDG data folder."""

    path: Path

    @classmethod
    def find(cls) -> Home:
        chosen = os.environ.get("TPUCTL_HOME")
        if chosen:
            return cls(Path(chosen).expanduser().absolute())
        from platformdirs import user_data_path

        return cls(user_data_path("tpuctl"))

    def make(self) -> None:
        """Make the folder and its parents; what is in it is for its owner only, also if others could read it before.

        Raises OSError.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o700)

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def server(self) -> Path:
        return self.path / "server.json"

    @property
    def lock(self) -> Path:
        return self.path / "server.lock"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def database(self) -> Path:
        return self.path / "tpuctl.db"

    @property
    def ssh(self) -> Path:
        """Of the server that lets users log in to TPU VMs."""
        return self.path / "ssh"

    @property
    def fleet(self) -> Path:
        return self.path / "fleet.toml"

    def slice(self, uid: str) -> Path:
        return self.path / "slices" / uid

    def job(self, uid: str) -> Path:
        return self.path / "jobs" / uid

    def schedule(self, uid: str) -> Path:
        return self.path / "schedules" / uid


def default_port() -> int:
    """The port to serve on: TPUCTL_PORT, where 0 means any free one, else 8476. Raises InvalidArgument."""
    chosen = _port("TPUCTL_PORT")
    return DEFAULT_PORT if chosen is None else chosen


def default_grpc_port() -> int | None:
    """The port to serve gRPC on: TPUCTL_GRPC_PORT, where 0 means any free one. Raises InvalidArgument."""
    return _port("TPUCTL_GRPC_PORT")


def default_ssh_port() -> int | None:
    """The port that TPU VMs listen on: TPUCTL_SSH_PORT. Raises InvalidArgument."""
    return _port("TPUCTL_SSH_PORT")


def _port(variable: str) -> int | None:
    chosen = os.environ.get(variable)
    if not chosen:
        return None
    if chosen.isascii() and chosen.isdigit() and int(chosen) <= MAX_PORT:
        return int(chosen)
    raise InvalidArgument(f"{variable} is {chosen!r}: it must be a port number, or 0 for any free one")
