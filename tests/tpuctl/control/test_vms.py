"""Users log in to TPU VMs with the keys of the metadata, and find there what a job's worker finds."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from backend.host.executor import LocalExecutor
from backend.host.vms import authorized
from tests.tpuctl.control.conftest import FAKE_RUNTIME
from tpuctl.api.home import Home
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.control import project_metadata, vms
from tpuctl.control.plane import ControlPlane

P, Z = "local", "us-central2-b"
Wait = Callable[..., None]
Session = Callable[[Callable[[asyncssh.SSHClientConnection], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
def plane(tmp_path: Path, wait_until: Wait, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    monkeypatch.setenv("TPUCTL_SSH_PORT", "8522")
    made = ControlPlane(Home(tmp_path), LocalExecutor(FAKE_RUNTIME))
    made.start()
    yield made
    made.end()
    for directory in [*tmp_path.glob("slices/*"), tmp_path / "ssh", *tmp_path.glob("slices/*/startup/*")]:
        made.executor.end(directory, kill=True)
        wait_until(lambda directory=directory: not made.executor.is_alive(directory))


def line(key: asyncssh.SSHKey, user: str = "ann") -> str:
    return f"{user}:{key.export_public_key().decode().strip()} {user}@example.org"


def create(plane: ControlPlane, wait_until: Wait, kind: str = "v4-16", **metadata: str) -> list[str]:
    """The addresses of a new slice's workers."""
    plane.create_node(P, Z, "a", NodeSpec.model_validate({"acceleratorType": kind, "metadata": metadata}))
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.READY)
    return [worker.ip_address for worker in plane.get_slice(P, Z, "a").workers]


@pytest.fixture
def session(plane: ControlPlane, key: asyncssh.SSHKey, wait_until: Wait) -> Session:
    """Does something in a session of user ann, on a worker that lets her in."""

    def do(work: Callable[[asyncssh.SSHClientConnection], Coroutine[Any, Any, Any]], worker: int = 0) -> Any:
        wait_until(lambda: plane.get_slice(P, Z, "a").ssh_port is not None)
        address = plane.get_slice(P, Z, "a").workers[worker].ip_address

        async def within() -> Any:
            deadline = time.monotonic() + 10
            while True:
                try:
                    connection = await asyncssh.connect(
                        address, 8522, username="ann", client_keys=[key], known_hosts=None, agent_path=None, config=None
                    )
                    break
                except (OSError, asyncssh.PermissionDenied):
                    if time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.05)
            async with connection:
                return await work(connection)

        return asyncio.run(within())

    return do


def test_a_session_has_the_worker_s_environment_streams_and_status(
    plane: ControlPlane, key: asyncssh.SSHKey, wait_until: Wait, session: Any, tmp_path: Path
) -> None:
    create(plane, wait_until, **{"ssh-keys": f"ann:ssh-rsa AAAA no key\n{line(key)}"})

    async def commands(connection: asyncssh.SSHClientConnection) -> tuple[Any, ...]:
        told = await connection.run("echo $TPU_WORKER_ID $USER $PWD $TPUCTL_PROCESS; echo bad >&2; exit 7")
        long = await connection.run("seq 1 200000; kill -TERM $$")
        back = await connection.run("cat", input="to and fro")
        tty = await connection.run("tty; stty size", term_type="xterm", term_size=(100, 30))
        async with connection.start_sftp_client() as files:
            (tmp_path / "x").write_text("there")
            await files.put(str(tmp_path / "x"), "x")
            listed = await files.listdir(".")
            here = await files.realpath(".")
        return told, long, back, tty, listed, here

    told, long, back, tty, listed, here = session(commands, worker=1)
    home = plane.home.slice(next((plane.home.path / "slices").iterdir()).name) / "vms" / "worker-1"
    assert told.stdout.split() == ["1", "ann", str(home), "1/2"]
    assert (told.stderr, told.exit_status) == ("bad\n", 7)
    assert len(long.stdout) == 1288895
    assert long.exit_signal[0] == "TERM"
    assert back.stdout == "to and fro"
    assert tty.stdout.split()[0].startswith("/dev/pts/")
    assert tty.stdout.split()[1:] == ["30", "100"]
    assert "x" in listed
    assert here == str(home)


def test_keys_come_and_go_and_a_killed_server_comes_back(
    plane: ControlPlane, key: asyncssh.SSHKey, wait_until: Wait, session: Any
) -> None:
    create(plane, wait_until, "v4-8")
    assert plane.get_slice(P, Z, "a").ssh_port is None
    project_metadata.write(plane.store, P, {"ssh-keys": line(key)})

    async def background(connection: asyncssh.SSHClientConnection) -> str:
        done = await connection.run("nohup sleep 60 >/dev/null 2>&1 & echo $!")
        return str(done.stdout)

    pid = int(session(background))
    server = plane.executor.identity(plane.home.ssh)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    assert session(lambda connection: connection.run("echo back")).stdout == "back\n"
    os.kill(pid, 0)  # what was left running lives on
    plane.act_on_node(P, Z, "a", "delete")
    wait_until(lambda: not plane.list_nodes(P, Z))
    wait_until(lambda: not _lives(pid))
    wait_until(lambda: not list((plane.home.ssh / "vms").iterdir()))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_startup_script_runs_on_every_worker_and_its_failure_is_told(plane: ControlPlane, wait_until: Wait) -> None:
    script = 'echo hello from $TPU_WORKER_ID > greeting; [ "$TPU_WORKER_ID" = 0 ] || exit 5'
    create(plane, wait_until, **{"startup-script": script})
    wait_until(lambda: (plane.get_slice(P, Z, "a").startup_script or "").startswith("failed"))
    told = plane.get_slice(P, Z, "a").startup_script
    assert told is not None
    assert told.startswith("failed on worker 1: exit status 5, its output is in ")
    homes = plane.home.path.glob("slices/*/vms/*")
    greetings = {path.name: path / "greeting" for path in homes}
    wait_until(lambda: all(path.exists() and path.read_text() for path in greetings.values()))
    assert {name: path.read_text() for name, path in greetings.items()} == {
        "worker-0": "hello from 0\n",
        "worker-1": "hello from 1\n",
    }


def test_a_slice_that_is_deleted_takes_its_startup_script_with_it(plane: ControlPlane, wait_until: Wait) -> None:
    create(plane, wait_until, "v4-8", **{"startup-script": "echo $$ > pid; sleep 100"})
    wait_until(lambda: list(plane.home.path.glob("slices/*/vms/*/pid")))
    (file,) = plane.home.path.glob("slices/*/vms/*/pid")
    wait_until(lambda: file.read_text().strip())
    pid = int(file.read_text())
    plane.act_on_node(P, Z, "a", "delete")
    wait_until(lambda: not plane.list_nodes(P, Z))
    wait_until(lambda: not _lives(pid))
    assert not list((plane.home.path / "slices").iterdir())


def test_only_a_user_s_own_keys_that_have_not_expired_count() -> None:
    lines = [
        "ann:ssh-ed25519 AAAA1 ann@host",
        "bob:ssh-ed25519 AAAA2 bob@host",
        'ann:ssh-rsa AAAA3 google-ssh {"userName":"ann","expireOn":"2026-12-01T10:00:00+0000"}',
        'ann:ssh-rsa AAAA4 google-ssh {"userName":"ann","expireOn":"2026-12-01T12:00:00+0000"}',
        'ann:ssh-rsa AAAA5 google-ssh {"userName":"ann","expireOn":"soon"}',
        "*:ssh-ed25519 AAAA6 owner",
        "no colon",
        "",
    ]
    now = 1796122800.0  # 2026-12-01 11:00 UTC
    assert [key.split()[1] for key in authorized(lines, "ann", now)] == ["AAAA1", "AAAA4", "AAAA5", "AAAA6"]
    assert [key.split()[1] for key in authorized(lines, "bob", now)] == ["AAAA2", "AAAA6"]


def test_a_node_s_keys_and_its_project_s_count_unless_it_blocks_those() -> None:
    project = {"ssh-keys": "ann:k1\nbob:k2\n"}
    assert vms.keys_for(project, {"ssh-keys": "eve:k3\n"}) == ("eve:k3", "ann:k1", "bob:k2")
    assert vms.keys_for(project, {"ssh-keys": "eve:k3", "block-project-ssh-keys": "TRUE"}) == ("eve:k3",)
    assert vms.keys_for({}, {}) == ()
