"""Who may log in to which TPU VM, and does the server that lets them run? And the startup scripts of VMs.

The server (backend/host/ssh.py) runs while a slice that somebody has a key for is READY; it outlives this process.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Collection, Mapping
from pathlib import Path

from backend.files import read_json, write_json
from backend.host.directories import worker_directories, worker_directory
from backend.host.environment import worker_environment
from backend.host.executor import LocalExecutor, WorkerState
from backend.host.metadata import metadata
from backend.host.vms import ANYBODY, SESSION, VMS, forget_vm, session_environment, vm_home, write_vm
from backend.host.workers import Process
from tpuctl.api.home import Home, default_ssh_port
from tpuctl.api.nodes import NodeState
from tpuctl.control.hosted import hosted_slice
from tpuctl.control.job_states import shell_status
from tpuctl.control.telemetry import ATTACHED
from tpuctl.store import NodeRow, Store

KEYS, BLOCK_PROJECT, SCRIPT = "ssh-keys", "block-project-ssh-keys", "startup-script"
REAL_PORT, OTHER_PORT = 22, 8022
NOBODYS_ADDRESS = "127.83.255.254"
"""No worker has it: what listens there listens on all addresses."""
STARTUP = "startup"
CLIENT_KEY = "client_key.pub"
"""Of whoever owns the home: `tpuctl ssh` makes it."""


class Vms:
    """Keeps the server and its files as they should be; called by the loop's thread."""

    def __init__(self, store: Store, executor: LocalExecutor, home: Home) -> None:
        self._store = store
        self._executor = executor
        self._home = home
        self._written: dict[str, tuple[str, ...]] = {}
        self._port: int | None = None
        self._begun = False

    def step(self, nodes: Collection[NodeRow]) -> None:
        """``nodes`` are all there are. Raises OSError."""
        with self._store.read() as reader:
            projects = {row.project: row.metadata for row in reader.projects()}
        client = self._home.ssh / CLIENT_KEY
        owner = (f"{ANYBODY}:{client.read_text().strip()}",) if client.exists() else ()
        wanted = {}
        for node in nodes:
            own = node.spec.get("metadata") or {}
            if node.state is NodeState.READY and (keys := owner + keys_for(projects.get(node.project, {}), own)):
                wanted[node.uid] = (node, keys)
        if not (wanted or self._written or not self._begun) or not has_server():
            return
        self._drop(wanted)
        for uid, (node, keys) in wanted.items():
            if self._written.get(uid) != keys:
                hosted = hosted_slice(self._home, node)
                session = ATTACHED if hosted.num_hosts > 1 else None
                write_vm(self._home.ssh, hosted, self._ssh_port(), keys, session)
                self._written[uid] = keys
        if wanted and not self._executor.is_alive(self._home.ssh):
            self._executor.start_ssh(self._home.ssh)

    def _drop(self, wanted: Collection[str]) -> None:
        """Let the server know which slices are there no more; at first, of those of an earlier control plane."""
        known = set(self._written)
        if not self._begun:
            known |= {file.stem for file in (self._home.ssh / "vms").glob("*.json")}
            self._begun = True
        for uid in known - set(wanted):
            forget_vm(self._home.ssh, uid)
            self._written.pop(uid, None)

    def _ssh_port(self) -> int:
        if self._port is None:
            self._port = ssh_port()
        return self._port


def has_server() -> bool:
    """Whether what it takes to log in is installed."""
    return importlib.util.find_spec("asyncssh") is not None


def listening_port(home: Home, uid: str) -> int | None:
    """The port that a slice's workers listen on; None while nobody can log in to them."""
    said = read_json(home.ssh / VMS / f"{uid}.json")
    return None if said is None else int(said["port"])


def ssh_port() -> int:
    """Where workers listen: TPUCTL_SSH_PORT, or 22, or 8022 where this user may not listen on 22.

    Raises InvalidArgument.
    """
    chosen = default_ssh_port()
    if chosen is not None:
        return chosen
    with socket.socket() as probe:
        try:
            probe.bind((NOBODYS_ADDRESS, REAL_PORT))
        except OSError:
            return OTHER_PORT
    return REAL_PORT


def keys_for(project: Mapping[str, str], node: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of ssh-keys that count for a node: its own, and its project's unless it blocks those."""
    blocked = str(node.get(BLOCK_PROJECT, "")).lower() == "true"
    texts = [node.get(KEYS, ""), "" if blocked else project.get(KEYS, "")]
    return tuple(dict.fromkeys(line.strip() for text in texts for line in text.splitlines() if line.strip()))


def start_script(home: Home, executor: LocalExecutor, node: NodeRow) -> None:
    """Run the node's startup script on every worker, once. Raises OSError."""
    script = (node.spec.get("metadata") or {}).get(SCRIPT)
    if not script:
        return
    hosted = hosted_slice(home, node)
    for worker in hosted.workers:
        place = worker_directory(home.slice(node.uid) / STARTUP, worker.index)
        if executor.worker_state(place) is not WorkerState.ABSENT:
            continue
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = vm_home(hosted.directory, worker.index)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = Process(worker.index, hosted.num_hosts, [worker])
        attached = worker_environment(hosted, process, ATTACHED if hosted.num_hosts > 1 else None)
        environment = session_environment(attached, folder, "root", str(hosted.directory), None)
        values = {"host": worker.ip_address, "values": metadata(hosted, process), "slice": str(hosted.directory)}
        (place / "script").write_text(script)
        (place / "script").chmod(0o700)
        command = [str(place / "script")] if script.startswith("#!") else ["/bin/bash", str(place / "script")]
        write_json(
            place / "job.json",
            {
                "name": STARTUP,
                "command": command,
                "workingDirectory": str(folder),
                "environment": environment,
                "metadata": values,
            },
        )
        executor.start_worker(place)


def end_vms(executor: LocalExecutor, slice_directory: Path) -> bool:
    """End what runs on a slice's VMs, in sessions or of startup scripts; whether no script does."""
    alive = [place for place in worker_directories(slice_directory / STARTUP) if executor.is_alive(place)]
    for place in alive:
        executor.end(place, kill=True)
    if vm_home(slice_directory, 0).exists():
        executor.end_all_with(SESSION, str(slice_directory))
    return not alive


def scripts_text(executor: LocalExecutor, slice_directory: Path) -> str | None:
    """What there is to say of startup scripts; None if there are none."""
    places = worker_directories(slice_directory / STARTUP)
    if not places:
        return None
    failed = []
    running = 0
    for number, place in enumerate(places):
        state = executor.worker_state(place)
        exit = executor.worker_exit(place) if state is WorkerState.EXITED else None
        if state in (WorkerState.RUNNING, WorkerState.ABSENT):
            running += 1
        elif exit is None or shell_status(exit) != 0:
            how = "was killed" if exit is None else f"exit status {shell_status(exit)}"
            failed.append(f"failed on worker {number}: {how}, its output is in {place / 'log.jsonl'}")
    if failed:
        more = f" (and on {len(failed) - 1} more)" if len(failed) > 1 else ""
        return failed[0] + more
    return f"runs on {running} of {len(places)} workers" if running else "done"
