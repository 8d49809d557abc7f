"""Log in to TPU VMs: `python -m backend.host.ssh --directory DIR`, one server for all slices of a control plane.

DIR/vms has a file for each slice (vms.py): its workers with their addresses and environments, and who may log in. Files
that come and go, and keys in them, are seen as that happens. Each worker listens on its own loopback address; a session
runs as the user that runs this, in a home of the worker's own. Without slices the server ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import pty
import resource
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import asyncssh

from backend.files import read_json, write_text
from backend.host.metadata import MetadataServer
from backend.host.vms import HOST_KEY, VMS, authorized, session_environment, vm_home

LOOK_SECONDS = 0.2
IDLE_SECONDS = 10.0
SHELL = "/bin/bash"
CANNOT_START = 126
ServerProcess = asyncssh.SSHServerProcess[bytes]


class Login(asyncssh.SSHServer):
    """One connection to a worker: who may come in is asked anew each time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        lines = authorized((read_json(self._file) or {}).get("keys", []), username)
        keys = "\n".join(line for line in lines if _is_key(line))
        if keys:
            self._connection.set_authorized_keys(asyncssh.import_authorized_keys(keys))
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """Ports may be forwarded, to a TensorBoard for example."""
        return True


class Files(asyncssh.SFTPServer):
    """Files as a worker's user sees them: paths start from the worker's home."""

    def __init__(self, channel: Any, home: Path) -> None:
        super().__init__(channel)
        self._channel = channel
        self._home = os.fsencode(home)

    def map_path(self, path: bytes) -> bytes:
        if path == b"~" or path.startswith(b"~/"):
            path = path[2:]
        return os.path.normpath(os.path.join(self._home, path))

    def exit(self) -> None:
        """Tell the client that all went well, as sftp-server does: scp fails without."""
        self._channel.exit(0)

    def realpath(self, path: bytes) -> bytes:
        return os.path.realpath(self.map_path(path))


class Vm:
    """One slice's workers, listening."""

    def __init__(self, file: Path, said: Mapping[str, Any]) -> None:
        self._file, self._said = file, said
        self._listeners: list[asyncssh.SSHAcceptor] = []
        self._metadata: list[MetadataServer] = []

    def is_as(self, said: Mapping[str, Any]) -> bool:
        """Whether its workers are as ``said``; keys are read when somebody comes."""
        return (said["port"], said["workers"]) == (self._said["port"], self._said["workers"])

    async def listen(self, key: asyncssh.SSHKey) -> None:
        """Raises OSError."""
        slice_directory = Path(self._said["slice"])
        for worker in self._said["workers"]:
            home = vm_home(slice_directory, worker["index"])
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            server = MetadataServer(worker["address"], worker["metadata"], slice_directory)
            server.start()
            self._metadata.append(server)
            name = worker["metadata"]["instance/name"]
            environment = worker["environment"] | {"GCE_METADATA_IP": server.endpoint, "HOSTNAME": name}
            environment["PS1"] = rf"\u@{name}:\w\$ "
            self._listeners.append(
                await asyncssh.listen(
                    worker["address"],
                    self._said["port"],
                    server_factory=lambda: Login(self._file),
                    server_host_keys=[key],
                    process_factory=self._starting(home, environment),
                    sftp_factory=_files(home),
                    allow_scp=True,
                    encoding=None,
                    line_editor=False,
                )
            )

    def _starting(self, home: Path, environment: dict[str, str]) -> Callable[[ServerProcess], Any]:
        async def run(process: ServerProcess) -> None:
            username = str(process.get_extra_info("username", ""))
            given = session_environment(environment, home, username, self._said["slice"], process.term_type)
            try:
                code = await self._run(process, home, given)
            except OSError as error:
                process.stderr.write(f"tpuctl: cannot start {SHELL}: {error.strerror}\n".encode())
                code = CANNOT_START
            if code < 0:
                process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
            else:
                process.exit(code)

        return run

    async def _run(self, process: ServerProcess, home: Path, environment: dict[str, str]) -> int:
        """A command or a shell, to its end; its status as Popen has it. Raises OSError."""
        words = [SHELL, "-c", process.command] if process.command else [SHELL]
        own: dict[str, Any] = {"cwd": home, "env": environment, "start_new_session": True}
        child: subprocess.Popen[bytes]
        if process.term_type is None:
            pipe = subprocess.PIPE
            child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, **own)
            streams: dict[str, Any] = {"stdin": child.stdin, "stdout": child.stdout, "stderr": child.stderr}
        else:
            ours, theirs = pty.openpty()
            try:
                own["preexec_fn"] = _take_terminal  # one system call: it takes no lock that a thread may hold
                child = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, **own)
            finally:
                os.close(theirs)
            streams = {"stdin": os.fdopen(ours, "wb", 0), "stdout": os.fdopen(os.dup(ours), "rb", 0)}
        await process.redirect(**streams, send_eof=False)
        await _ended(child)
        await _drained(process)
        return child.wait()

    async def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for server in self._metadata:
            await asyncio.to_thread(server.close)


def _is_key(line: str) -> bool:
    """Whether it is a public key: one that is none does not keep others from being used."""
    try:
        asyncssh.import_authorized_keys(line)
    except ValueError:
        return False
    return True


def _files(home: Path) -> Callable[[Any], Files]:
    return lambda channel: Files(channel, home)


async def _ended(child: subprocess.Popen[bytes]) -> None:
    """Wait for its end; it is left unreaped."""
    descriptor = os.pidfd_open(child.pid)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _drained(process: ServerProcess) -> None:
    """Wait, as sshd does, until nothing writes to the session any more."""
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        await process.stdout.drain()
        await process.stderr.drain()


def _take_terminal() -> None:
    """What the child does before exec: its stdin is the terminal of its session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def host_key(directory: Path) -> asyncssh.SSHKey:
    """The server's own key, made at first, whoever asks first. Raises OSError."""
    path = directory / HOST_KEY
    if not path.exists():
        made = path.with_name(f".{HOST_KEY}.{os.getpid()}.{threading.get_ident()}")
        write_text(made, asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(made)
        made.unlink()
    return asyncssh.read_private_key(path)


async def serve(directory: Path) -> None:
    """Listen for the slices that there are, until there are none or SIGTERM comes."""
    key = host_key(directory)
    ended = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, ended.set)
    vms: dict[str, Vm] = {}
    idle = 0.0
    while not ended.is_set() and idle < IDLE_SECONDS:
        there = {file.stem: file for file in (directory / VMS).glob("*.json")}
        for uid in vms.keys() - there.keys():
            await vms.pop(uid).close()
        for uid, file in there.items():
            said = read_json(file)
            if said is None or (uid in vms and vms[uid].is_as(said)):
                continue
            if uid in vms:
                await vms[uid].close()
            vms[uid] = Vm(file, said)
            try:
                await vms[uid].listen(key)
            except OSError as error:
                print(f"cannot listen for {uid}: {error}", file=sys.stderr, flush=True)
        idle = 0.0 if vms else idle + LOOK_SECONDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), LOOK_SECONDS)
    for vm in vms.values():
        await vm.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="backend.host.ssh")
    parser.add_argument("--directory", type=Path, required=True)
    directory: Path = parser.parse_args().directory
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(serve(directory))


if __name__ == "__main__":
    main()
