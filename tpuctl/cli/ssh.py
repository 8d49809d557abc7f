"""tpuctl ssh and tpuctl cp: a shell, a command or files on the VMs of a slice, through OpenSSH's own clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from tpuctl.api.names import worker_label
from tpuctl.cli import exit_codes, zones
from tpuctl.cli.options import SliceName, Zone
from tpuctl.cli.problems import Problem

if TYPE_CHECKING:
    from tpuctl.client import Client

WAIT_SECONDS = 15.0
"""For the server to let a new key in."""
CLIENT_KEY, KNOWN_HOSTS = "client_key", "known_hosts"

Worker = Annotated[str | None, typer.Option("--worker", metavar="N|all", help="On this worker, or on all.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Instead of a shell.")]
Places = Annotated[
    list[str],
    typer.Argument(metavar="SRC... DST", help="Paths of this machine, and paths of a slice as NAME:PATH."),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="Folders, too.")]


@dataclass(frozen=True)
class Reached:
    """Where a slice's workers listen, and the options of OpenSSH's clients that get in."""

    addresses: list[str]
    port: int
    options: list[str]


def ssh(name: SliceName, command: Command = None, worker: Worker = None, zone: Zone = None) -> None:
    """Log in to a slice's VM, or run a command on it; with --worker all on all of them at once."""
    reached = _reach(name, zone)
    workers = _chosen(worker, len(reached.addresses), name)
    words = list(command or [])
    if not words and len(workers) > 1:
        raise Problem("a shell is on one worker", "give --worker N, or a command after --", exit_codes.USAGE)
    terminal = ["-t"] if not words and sys.stdin.isatty() else []
    lines = [
        ["ssh", *terminal, *reached.options, "-p", str(reached.port), reached.addresses[number], *words]
        for number in workers
    ]
    if len(lines) == 1:
        sys.stdout.flush()
        os.execvp("ssh", lines[0])  # noqa: S606 it takes our place
    raise typer.Exit(_run_all(workers, lines))


def copy(places: Places, recursive: Recursive = False, worker: Worker = None, zone: Zone = None) -> None:
    """Copy files to or from a slice's VMs: tpuctl cp train.py NAME: --worker all, tpuctl cp NAME:out.txt ."""
    if len(places) < 2:
        raise Problem("give what to copy and where to", "such as tpuctl cp train.py NAME:", exit_codes.USAGE)
    *sources, target = places
    names = {place.partition(":")[0] for place in places if _is_remote(place)}
    if len(names) != 1 or (_is_remote(target) and any(map(_is_remote, sources))):
        raise Problem("copy between this machine and one slice", "such as tpuctl cp train.py NAME:", exit_codes.USAGE)
    reached = _reach(names.pop(), zone)
    workers = _chosen(worker, len(reached.addresses), "it")
    if len(workers) > 1 and not _is_remote(target):
        raise Problem("copy from one worker at a time", "give --worker N", exit_codes.USAGE)

    def there(place: str, number: int) -> str:
        return f"{reached.addresses[number]}:{place.partition(':')[2]}" if _is_remote(place) else place

    options = [*(["-r"] if recursive else []), *reached.options, "-P", str(reached.port)]
    lines = [["scp", *options, *(there(place, number) for place in places)] for number in workers]
    if len(lines) == 1:
        sys.stdout.flush()
        os.execvp("scp", lines[0])  # noqa: S606 it takes our place
    raise typer.Exit(_run_all(workers, lines))


def _is_remote(place: str) -> bool:
    """As scp sees it: a colon before any slash."""
    return ":" in place.partition("/")[0]


def _reach(name: str, zone: str | None) -> Reached:
    """Make sure that this home's key is let in. Raises Problem, ApiError."""
    from tpuctl.api.home import Home
    from tpuctl.cli.plane import connect
    from tpuctl.control.vms import has_server

    missing = [program for program in ("ssh", "scp", "ssh-keygen") if shutil.which(program) is None]
    if missing:
        raise Problem(f"{missing[0]} is not installed", "install OpenSSH's client, such as apt install openssh-client")
    if not has_server():
        raise Problem("logging in needs asyncssh", "install it: pip install 'tpuctl[ssh]'")
    folder = Home.find().ssh
    is_new = _make_key(folder)
    with connect() as client:
        found = client.get_slice(name, zones.of_slice(name, zone))
        if found.state != "READY":
            raise Problem(f"slice {name} is {found.state}", "its VMs can be logged in to once it is READY")
        port = _wait_for_port(client, name, found.zone)
        host_key = client.ssh_host_key(name, found.zone)
    (folder / KNOWN_HOSTS).write_text(f"* {host_key}\n")
    options = {
        "IdentityFile": str(folder / CLIENT_KEY),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": str(folder / KNOWN_HOSTS),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "LogLevel": "ERROR",
    }
    reached = Reached(
        [worker.ip_address for worker in found.workers],
        port,
        [part for option, value in options.items() for part in ("-o", f"{option}={value}")],
    )
    if is_new:
        _wait_until_let_in(reached, name)
    return reached


def _wait_until_let_in(reached: Reached, name: str) -> None:
    """A key that was made just now has to come to the server. Raises Problem."""
    line = ["ssh", "-o", "BatchMode=yes", *reached.options, "-p", str(reached.port), reached.addresses[0], "true"]
    deadline = time.monotonic() + WAIT_SECONDS
    while subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise Problem(f"the VMs of slice {name} do not let this home's key in", "look into tpuctl status")
        time.sleep(0.2)


def _wait_for_port(client: Client, name: str, zone: str) -> int:
    """Where the workers listen; they may have begun only now. Raises Problem."""
    import socket

    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = client.get_slice(name, zone)
        if found.ssh_port is not None:
            try:
                with socket.create_connection((found.workers[-1].ip_address, found.ssh_port), timeout=1.0):
                    return found.ssh_port
            except OSError:
                pass
        time.sleep(0.1)
    raise Problem(f"the VMs of slice {name} let nobody log in yet", "try again, or look into tpuctl status")


def _make_key(folder: Path) -> bool:
    """A key of the home's own, which its control plane lets in everywhere; whether it was made now."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = folder / CLIENT_KEY
    if key.exists():
        return False
    line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tpuctl", "-f", str(key)]
    subprocess.run(line, check=True, stdin=subprocess.DEVNULL)
    return True


def _chosen(worker: str | None, count: int, name: str) -> list[int]:
    """The workers meant; the first by default. Raises Problem."""
    if worker is None:
        return [0]
    if worker == "all":
        return list(range(count))
    numbers = [int(text) if text.isdigit() else -1 for text in worker.split(",")]
    if any(not 0 <= number < count for number in numbers):
        there = "only worker 0" if count == 1 else f"workers 0 to {count - 1}"
        raise Problem(f"there is no worker {worker}: {name} has {there}", "", exit_codes.USAGE)
    return numbers


def _run_all(workers: Sequence[int], lines: Sequence[Sequence[str]]) -> int:
    """Run them at once, each line of their output with its worker; the first status that is not 0."""
    children = []
    readers = []
    for number, words in zip(workers, lines, strict=True):
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        children.append(child)
        for stream, target in ((child.stdout, sys.stdout), (child.stderr, sys.stderr)):
            if stream is not None:
                readers.append(threading.Thread(target=_pass_on, args=(stream, target, worker_label(number))))
                readers[-1].start()
    try:
        codes = [child.wait() for child in children]
    except KeyboardInterrupt:
        for child in children:
            child.terminate()
        raise
    finally:
        for reader in readers:
            reader.join()
    return next((code if code >= 0 else 128 - code for code in codes if code), exit_codes.DONE)


_writing = threading.Lock()


def _pass_on(stream: IO[bytes], target: IO[str], label: str) -> None:
    for line in stream:
        with _writing:
            target.write(f"{label} {line.decode(errors='replace').rstrip(chr(10))}\n")
            target.flush()
