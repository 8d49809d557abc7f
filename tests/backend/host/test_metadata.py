"""The metadata server answers as a TPU VM's does, on the worker's own address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from backend.hardware import accelerator_type
from backend.host.address import Address
from backend.host.metadata import METADATA_DOWN, PREEMPTED, MetadataServer, etag, metadata
from backend.host.workers import HostedSlice, processes

BASE = "/computeMetadata/v1/"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The server of worker 2 of a v3-32."""
    hosted = HostedSlice(
        Path("/s"),
        "0123456789ab",
        "pod",
        "zone-a",
        "me",
        accelerator_type("v3-32"),
        Address("127.84.1.1", 8470),
        metadata={"bucket": "gs://mine", "instance-id": "not this"},
    )
    server = MetadataServer("127.0.0.1", metadata(hosted, processes(hosted, 4)[2]))
    server.start()
    yield server.endpoint
    server.close()


def get(endpoint: str, path: str, **headers: str) -> tuple[str, str]:
    request = Request(f"http://{endpoint}{path}", headers={"Metadata-Flavor": "Google"} | headers)
    with urlopen(request, timeout=5) as answer:  # noqa: S310
        return answer.read().decode(), answer.headers["Metadata-Flavor"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance/attributes/agent-worker-number", "2"),
        ("instance/attributes/accelerator-type", "v3-32"),
        ("instance/attributes/instance-id", "pod"),
        ("instance/attributes/bucket", "gs://mine"),
        ("instance/hostname", "t1v-n-01234567-w-2"),
        ("instance/network-interfaces/0/ip", "127.84.1.3"),
        ("instance/zone", "projects/me/zones/zone-a"),
        ("project/project-id", "me"),
    ],
)
def test_values_are_those_of_the_worker(endpoint: str, path: str, value: str) -> None:
    assert get(endpoint, BASE + path) == (value, "Google")


def test_endpoints_are_name_number_address_of_every_worker(endpoint: str) -> None:
    listed = get(endpoint, BASE + "instance/attributes/worker-network-endpoints")[0].split(",")
    assert listed[0] == "t1v-n-01234567-w-0:0:127.84.1.1"
    assert [one.split(":")[2] for one in listed] == [f"127.84.1.{number}" for number in (1, 2, 3, 4)]


def test_tpu_env_is_yaml_with_the_slices_geometry(endpoint: str) -> None:
    import yaml

    seen = yaml.safe_load(get(endpoint, BASE + "instance/attributes/tpu-env")[0])
    assert seen["ACCELERATOR_TYPE"] == "v3-32"
    assert (seen["TYPE"], seen["TOPOLOGY"]) == ("V3", "4x4")
    assert (seen["HOST_BOUNDS"], seen["CHIPS_PER_HOST_BOUNDS"]) == ("2,2,1", "2,2,1")
    assert seen["WRAP"] == "false,false,false"
    assert (seen["WORKER_ID"], seen["NODE_ID"], seen["ZONE"]) == ("2", "pod", "zone-a")


def test_folders_list_what_is_in_them(endpoint: str) -> None:
    assert "network-interfaces/\n" in get(endpoint, BASE + "instance/")[0]
    tree = json.loads(get(endpoint, BASE + "instance/?recursive=true")[0])
    assert tree["networkInterfaces"]["0"]["ip"] == "127.84.1.3"
    assert tree["attributes"]["agent-worker-number"] == "2"


def refusal(endpoint: str, path: str, **headers: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as refused:
        get(endpoint, path, **headers)
    with refused.value as answer:
        return answer.code, answer.headers["Metadata-Flavor"]


def test_it_answers_only_who_knows_what_they_ask(endpoint: str) -> None:
    assert refusal(endpoint, BASE + "instance/name", **{"Metadata-Flavor": "None"}) == (403, "Google")
    assert refusal(endpoint, BASE + "instance/nothing") == (404, "Google")
    assert refusal(endpoint, "/elsewhere") == (404, "Google")
    assert get(endpoint, "/")[1] == "Google"


def test_it_answers_nothing_while_the_slice_has_it_down(tmp_path: Path) -> None:
    server = MetadataServer("127.0.0.1", {"instance/name": "w"}, tmp_path)
    server.start()
    try:
        assert get(server.endpoint, BASE + "instance/name")[0] == "w"
        (tmp_path / METADATA_DOWN).touch()
        with pytest.raises(ConnectionError):
            get(server.endpoint, BASE + "instance/name")
        (tmp_path / METADATA_DOWN).unlink()
        assert get(server.endpoint, BASE + "instance/name")[0] == "w"
    finally:
        server.close()


def test_a_preemption_is_told_and_can_be_waited_for(tmp_path: Path) -> None:
    server = MetadataServer("127.0.0.1", {"instance/name": "w"}, tmp_path)
    server.start()
    try:
        preempted = f"{BASE}instance/preempted"
        assert get(server.endpoint, preempted)[0] == "FALSE"
        assert get(server.endpoint, f"{BASE}instance/maintenance-event")[0] == "NONE"
        assert get(server.endpoint, f"{preempted}?wait_for_change=true&timeout_sec=0")[0] == "FALSE"
        with ThreadPoolExecutor() as pool:
            query = f"wait_for_change=true&last_etag={etag('FALSE')}"
            waiting = pool.submit(get, server.endpoint, f"{preempted}?{query}")
            (tmp_path / PREEMPTED).touch()
            assert waiting.result(timeout=5)[0] == "TRUE"
        assert get(server.endpoint, f"{preempted}?wait_for_change=true&last_etag=0")[0] == "TRUE"
        assert get(server.endpoint, f"{BASE}instance/maintenance-event")[0] == "TERMINATE_ON_HOST_MAINTENANCE"
    finally:
        server.close()
