"""Slices become what was asked for, whatever happens to their runtimes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from backend.host.executor import RuntimeState
from tpuctl.api.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from tpuctl.api.nodes import GenerationType, Node, NodeHealth, NodeSpec, NodeState
from tpuctl.api.operations import Operation
from tpuctl.control.nodes import NodeReconciler
from tpuctl.control.plane import ControlPlane
from tpuctl.store import JobRow, NodeRow

P, Z = "local", "europe-west4-a"
Wait = Callable[..., None]
V3 = NodeSpec(accelerator_type="v3-8")


def finished(plane: ControlPlane, operation: Operation, wait_until: Wait) -> Operation:
    name = operation.name.rsplit("/", 1)[-1]
    wait_until(lambda: plane.get_operation(P, Z, name).done)
    return plane.get_operation(P, Z, name)


def made(plane: ControlPlane, name: str, wait_until: Wait) -> Node:
    assert finished(plane, plane.create_node(P, Z, name, V3), wait_until).error is None
    return plane.get_node(P, Z, name)


def runtime_pid(plane: ControlPlane, name: str) -> int:
    pid = plane.get_slice(P, Z, name).pid
    assert pid is not None
    return pid


def test_a_new_slice_is_seen_at_once_and_soon_ready(plane: ControlPlane, wait_until: Wait) -> None:
    started = time.monotonic()
    operation = plane.create_node(P, Z, "a", V3)
    assert not operation.done
    assert plane.get_node(P, Z, "a").state in (NodeState.CREATING, NodeState.READY)
    done = finished(plane, operation, wait_until)
    assert time.monotonic() - started < 1.5
    node = plane.get_node(P, Z, "a")
    assert (node.state, node.health) == (NodeState.READY, NodeHealth.HEALTHY)
    assert node.network_endpoints is not None
    assert node.network_endpoints[0].port == 8470
    assert node.network_endpoints[0].ip_address.startswith("127.84.")
    assert done.response is not None
    assert done.response["@type"] == "type.googleapis.com/google.cloud.tpu.v2.Node"
    assert done.response["state"] == "READY"


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_deleted_slice_is_gone_with_its_process_and_its_files(plane: ControlPlane, wait_until: Wait) -> None:
    made(plane, "a", wait_until)
    directory = plane.home.path / "slices"
    pid = runtime_pid(plane, "a")
    done = finished(plane, plane.act_on_node(P, Z, "a", "delete"), wait_until)
    assert done.response is not None
    assert (done.response["name"], done.response["state"]) == (f"projects/{P}/locations/{Z}/nodes/a", "DELETING")
    with pytest.raises(NotFound):
        plane.get_node(P, Z, "a")
    assert list(directory.iterdir()) == []
    wait_until(lambda: has_ended(pid))


def test_slices_get_addresses_of_their_own(plane: ControlPlane, wait_until: Wait) -> None:
    nodes = [made(plane, name, wait_until) for name in ("a", "b", "c")]
    addresses = {endpoint.ip_address for node in nodes for endpoint in node.network_endpoints or []}
    assert len(addresses) == 3


def test_a_slice_that_cannot_start_disappears_and_says_why(
    plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RUNTIME", "fail")
    done = finished(plane, plane.create_node(P, Z, "a", V3), wait_until)
    assert done.error is not None
    assert (done.error.code, done.error.message) == (13, "slice a did not start: no chips today")
    with pytest.raises(NotFound):
        plane.get_node(P, Z, "a")


def test_a_create_can_be_cancelled(plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_RUNTIME", "hang")
    operation = plane.create_node(P, Z, "a", V3)
    plane.cancel_operation(P, Z, operation.name.rsplit("/", 1)[-1])
    done = finished(plane, operation, wait_until)
    assert done.error is not None
    assert done.error.code == 1
    assert plane.list_nodes(P, Z) == []


def test_a_slice_can_be_deleted_while_it_is_made(
    plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RUNTIME", "hang")
    create = plane.create_node(P, Z, "a", V3)
    finished(plane, plane.act_on_node(P, Z, "a", "delete"), wait_until)
    error = finished(plane, create, wait_until).error
    assert error is not None
    assert error.code == 1
    assert plane.list_nodes(P, Z) == []


def test_a_runtime_that_dies_is_replaced(plane: ControlPlane, wait_until: Wait) -> None:
    made(plane, "a", wait_until)
    pid = runtime_pid(plane, "a")
    os.kill(pid, signal.SIGKILL)

    def replaced() -> bool:
        found = plane.get_slice(P, Z, "a").pid
        return found not in (None, pid) and plane.get_node(P, Z, "a").state is NodeState.READY

    wait_until(replaced)
    with plane.store.read() as reader:
        changes = [event.change for event in reader.events(f"projects/{P}/locations/{Z}/nodes/a")]
    assert changes[-2:] == ["READY -> REPAIRING", "REPAIRING -> READY"]


def test_a_runtime_that_keeps_dying_is_given_up(
    plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(plane, "a", wait_until)
    monkeypatch.setenv("FAKE_RUNTIME", "fail")
    os.kill(runtime_pid(plane, "a"), signal.SIGKILL)
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.TERMINATED)
    assert "no chips today" in (plane.get_node(P, Z, "a").health_description or "")
    monkeypatch.delenv("FAKE_RUNTIME")
    assert finished(plane, plane.act_on_node(P, Z, "a", "start"), wait_until).error is None
    assert plane.get_node(P, Z, "a").state is NodeState.READY


def test_a_slice_can_be_stopped_and_started(plane: ControlPlane, wait_until: Wait) -> None:
    made(plane, "a", wait_until)
    finished(plane, plane.act_on_node(P, Z, "a", "stop"), wait_until)
    assert plane.get_node(P, Z, "a").state is NodeState.STOPPED
    with pytest.raises(InvalidArgument, match="not supported while in state STOPPED"):
        plane.act_on_node(P, Z, "a", "stop")
    finished(plane, plane.act_on_node(P, Z, "a", "start"), wait_until)
    assert plane.get_node(P, Z, "a").state is NodeState.READY


def test_a_runtime_that_does_not_listen_is_killed(
    plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RUNTIME", "deaf")
    made(plane, "a", wait_until)
    monkeypatch.setattr("tpuctl.control.patience.Patience.exhausted", lambda *_: True)
    finished(plane, plane.act_on_node(P, Z, "a", "delete"), wait_until)


def test_update_changes_what_the_mask_names_and_nothing_else(plane: ControlPlane, wait_until: Wait) -> None:
    node = made(plane, "a", wait_until)
    values = node.model_copy(update={"labels": {"k": "v"}, "description": "not named", "state": NodeState.STOPPED})
    operation = plane.update_node(P, Z, "a", ["labels"], values)
    assert operation.done
    changed = plane.get_node(P, Z, "a")
    assert (changed.labels, changed.description, changed.state) == ({"k": "v"}, None, NodeState.READY)
    with pytest.raises(InvalidArgument, match="updateMask"):
        plane.update_node(P, Z, "a", ["state"], values)


def test_a_topology_names_a_type_too(plane: ControlPlane, wait_until: Wait) -> None:
    config: dict[str, Any] = {"type": GenerationType.V2, "topology": "2x2"}
    plane.create_node(P, Z, "a", NodeSpec.model_validate({"acceleratorConfig": config}))
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.READY)
    assert plane.get_node(P, Z, "a").accelerator_type == "v2-8"


def test_a_taken_name_is_refused(plane: ControlPlane, wait_until: Wait) -> None:
    made(plane, "a", wait_until)
    with pytest.raises(AlreadyExists, match=r"projects/local/locations/europe-west4-a/nodes/a' already exists"):
        plane.create_node(P, Z, "a", V3)


def test_an_unknown_type_is_refused_with_the_valid_ones(plane: ControlPlane) -> None:
    with pytest.raises(InvalidArgument, match=r"Did you mean v3-64\? Valid types: .*v3-2048"):
        plane.create_node(P, Z, "a", NodeSpec(accelerator_type="v3-88"))
    assert plane.list_nodes(P, Z) == []


def test_a_type_that_a_zone_lacks_is_refused_with_the_zones_that_have_it(plane: ControlPlane) -> None:
    with pytest.raises(InvalidArgument, match="not found in zone us-central1-c; it is offered in europe-west4-a"):
        plane.create_node(P, "us-central1-c", "a", V3)


def test_an_unknown_zone_is_refused_as_cloud_tpu_does(plane: ControlPlane) -> None:
    with pytest.raises(PermissionDenied, match="Location mars-1 is not found or access is unauthorized"):
        plane.create_node(P, "mars-1", "a", V3)


def test_runtimes_are_found_again_by_another_control_plane(plane: ControlPlane, wait_until: Wait) -> None:
    made(plane, "a", wait_until)
    pid = runtime_pid(plane, "a")
    second = ControlPlane(plane.home, plane.executor)
    directory = next((plane.home.path / "slices").iterdir())
    assert second.executor.slice_state(directory) is RuntimeState.READY
    assert second.get_slice(P, Z, "a").pid == pid
    second.store.close()


def test_an_orphan_runtime_is_ended_at_the_next_start(plane: ControlPlane, wait_until: Wait) -> None:
    made(plane, "a", wait_until)
    directory = next((plane.home.path / "slices").iterdir())
    plane._loop.end()
    with plane.store.change() as change:
        for row in change.nodes():
            change.delete(row)
    second = ControlPlane(plane.home, plane.executor)
    second.start()
    assert not directory.exists()
    assert not plane.executor.is_alive(directory)
    second.end()


def test_what_is_not_ours_among_the_slices_does_not_stop_the_start(plane: ControlPlane, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    slices = plane.home.slice("-").parent
    slices.mkdir(exist_ok=True)
    (slices / "link").symlink_to(elsewhere)
    (slices / "file").touch()
    plane._loop.end()
    second = ControlPlane(plane.home, plane.executor)
    second.start()
    second.end()
    assert (elsewhere / "precious").exists()
    for strange in ("link", "file"):
        (slices / strange).unlink()


def test_what_is_over_for_long_is_forgotten_once_a_day(
    plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = plane.create_node(P, Z, "a", V3).name.rpartition("/")[2]
    wait_until(lambda: plane.get_operation(P, Z, done).done)
    days = 0
    monkeypatch.setattr(plane.store, "clock", lambda: time.time() + days * 24 * 3600)
    days = 6
    time.sleep(0.6)
    assert plane.list_operations(P, Z) != []
    days = 8
    wait_until(lambda: plane.list_operations(P, Z) == [])


def test_trouble_with_one_slice_is_shown_and_does_not_stop_the_others(
    plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = NodeReconciler.step

    def fail_for_a(self: NodeReconciler, node: NodeRow, jobs: list[JobRow], held: Any) -> None:
        if node.name == "a":
            raise ResourceExhausted("the disk is full")
        step(self, node, jobs, held)

    with monkeypatch.context() as patched:
        patched.setattr(NodeReconciler, "step", fail_for_a)
        plane.create_node(P, Z, "a", V3)
        made(plane, "b", wait_until)
        wait_until(lambda: plane.status(P).trouble == "the disk is full")
        assert plane.get_node(P, Z, "a").state is NodeState.CREATING
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.READY)
    wait_until(lambda: plane.status(P).trouble is None)
