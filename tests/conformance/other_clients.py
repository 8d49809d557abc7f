"""Do the tools that are built on Cloud TPU's API provision here, unchanged? Their own code, driven by a few lines.

    python -m venv /tmp/sky && /tmp/sky/bin/pip install 'skypilot[gcp]' pysocks
    python tests/conformance/other_clients.py --skypilot /tmp/sky --ray /tmp/ray --cloud-tpu-client /tmp/ctc

Each option names a virtual environment that has the tool: ``skypilot[gcp] pysocks``; ``ray[default]
google-api-python-client google-auth cryptography pysocks``; ``cloud-tpu-client absl-py pysocks``. A tool without one is
left out, and said to be. Terraform's calls are replayed with httpx, as its provider makes them. The tools call
https://tpu.googleapis.com, through `tpuctl env --client python --proxy`.
Prints a table; exits with 1 if a step fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

SECONDS = 240
STEPS = (
    "from contextlib import contextmanager\nimport traceback\n"
    + """
@contextmanager
def step(name):
    try:
        yield
    except BaseException as error:
        print("FAIL", name, "|", type(error).__name__, str(error).replace("\\n", " ")[:300], flush=True)
        traceback.print_exc()
    else:
        print("PASS", name, flush=True)
"""
)

CLOUD_TPU_CLIENT = """
from absl import flags
from cloud_tpu_client import Client
flags.FLAGS(["driver"])
client = Client(tpu="one", zone="us-central1-b", project="local")
with step("state"):
    assert client.state() == "READY", client.state()
with step("health"):
    assert client.health() == "HEALTHY", client.health()
with step("runtime_version"):
    assert client.runtime_version() == "tpu-ubuntu2204-base", client.runtime_version()
with step("accelerator_type"):
    assert client.accelerator_type() == "v2-8", client.accelerator_type()
with step("api_available, recoverable"):
    assert client.api_available() and client.recoverable()
with step("name, symptoms"):
    assert client.name() == "one" and client.symptoms() is None, client.symptoms()
with step("network_endpoints"):
    (endpoint,) = client.network_endpoints()
    assert endpoint["ipAddress"].startswith("127.") and int(endpoint["port"]) > 0
with step("wait_for_healthy"):
    client.wait_for_healthy(timeout_s=20)
"""

SKYPILOT = """
import uuid
from sky.provision.gcp.instance_utils import GCPTPUVMInstance as Instance
zone, project, cluster = "us-central2-b", "local", "sky-" + uuid.uuid4().hex[:6]
node = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-vm-base", "networkConfig": {"enableExternalIps": True},
        "schedulingConfig": {"preemptible": False}, "metadata": {}, "labels": {}}
def created(name, **more):
    errors, names = Instance.create_instances(name, project, zone, dict(node, **more), {"mine": name}, 1, 1, True)
    assert errors is None and len(names) == 1, errors
    return names[0]
def found(labels, states=None):
    return list(Instance.filter(project, zone, labels, states))
made = full = None
with step("create_instances"):
    made = created(cluster)
with step("filter"):
    (full,) = found({"mine": cluster}, [Instance.RUNNING_STATE])
    assert full.endswith("/" + made), (full, made)
with step("get_instance_info"):
    (info,) = Instance.get_instance_info(project, zone, full)
    assert info.internal_ip.startswith("127.") and info.external_ip, info
with step("set_labels"):
    Instance.set_labels(project, zone, full, {"colour": "red"})
    assert found({"colour": "red"}) == [full]
with step("add_network_tag_if_not_exist"):
    Instance.add_network_tag_if_not_exist(project, zone, full, "tag")
with step("stop"):
    Instance.wait_for_operation(Instance.stop(project, zone, full), project, zone=zone)
    assert found({"mine": cluster}, Instance.STOPPED_STATES) == [full]
with step("start_instance"):
    Instance.start_instance(full, project, zone)
    assert found({"mine": cluster}, [Instance.RUNNING_STATE]) == [full]
with step("terminate"):
    Instance.wait_for_operation(Instance.terminate(project, zone, full), project, zone=zone)
    assert found({"mine": cluster}) == []
with step("a pod of four hosts"):
    created(cluster + "p", acceleratorType="v4-32")
    (pod,) = found({"mine": cluster + "p"})
    assert len(Instance.get_instance_info(project, zone, pod)) == 4
    Instance.wait_for_operation(Instance.terminate(project, zone, pod), project, zone=zone)
with step("a zone that there is not"):
    assert Instance.filter(project, "us-nowhere1-a", None, None) == {}
with step("a queued resource"):
    created(cluster + "q", gcp_queued_resource={"provision_timeout": 60})
    (queued,) = found({"mine": cluster + "q"})
    Instance.wait_for_operation(Instance.terminate(project, zone, queued), project, zone=zone)
"""

RAY = """
from googleapiclient import discovery
import google.auth
from ray.autoscaler._private.gcp.node import GCPTPU
from ray.autoscaler.tags import TAG_RAY_NODE_NAME
credentials, _ = google.auth.default()
service = discovery.build("tpu", "v2alpha", credentials=credentials, cache_discovery=False,
                          discoveryServiceUrl="https://tpu.googleapis.com/$discovery/rest")
tpus = GCPTPU(service, "local", "us-central2-b", "raycluster")
config = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-vm-base", "schedulingConfig": {"preemptible": True},
          "metadata": {"ssh-keys": "ray:ssh-rsa AAAA ray"}}
node = full = None
with step("create_instance"):
    result, name = tpus.create_instance(dict(config), {TAG_RAY_NODE_NAME: "ray-worker"})
    assert "response" in result, result
with step("list_instances"):
    (node,) = tpus.list_instances()
    full = node["name"]
    assert full.endswith(name), (full, name)
with step("get_instance"):
    node = tpus.get_instance(full)
    assert node.is_running() and not node.is_terminated(), node
with step("labels, addresses"):
    assert node.get_labels()["ray-cluster-name"] == "raycluster", node.get_labels()
    assert node.get_internal_ip().startswith("127.") and node.get_external_ip(), node
    assert node.num_workers == 1
with step("set_labels"):
    tpus.set_labels(node, {"colour": "red"})
    assert tpus.get_instance(full).get_labels()["colour"] == "red"
with step("list_instances by label"):
    assert len(tpus.list_instances({"colour": "red"})) == 1 and not tpus.list_instances({"colour": "blue"})
with step("stop_instance, start_instance"):
    tpus.stop_instance(full)
    assert not tpus.get_instance(full).is_running()
    tpus.start_instance(full)
    assert tpus.get_instance(full).is_running()
with step("delete_instance"):
    tpus.delete_instance(full)
    assert not tpus.list_instances()
"""

DRIVERS = {"cloud-tpu-client": CLOUD_TPU_CLIENT, "skypilot": SKYPILOT, "ray": RAY}


def terraform(url: str, token: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """google_tpu_v2_vm and google_tpu_v2_queued_resource: apply, read twice, change, destroy."""
    http = httpx.Client(base_url=f"{url}/v2/", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    parent = "projects/local/locations/us-central2-b"
    fields = (
        "networkConfig",
        "serviceAccount",
        "schedulingConfig",
        "dataDisks",
        "acceleratorConfig",
        "labels",
        "tags",
        "metadata",
        "state",
        "health",
        "networkEndpoints",
        "acceleratorType",
        "runtimeVersion",
        "cidrBlock",
    )
    vm = {
        "name": f"{parent}/nodes/tf",
        "runtimeVersion": "v2-alpha-tpuv4",
        "acceleratorType": "v4-8",
        "description": "by terraform",
        "labels": {"foo": "bar", "goog-terraform-provisioned": "true"},
    }

    def call(method: str, path: str, **more: Any) -> Any:
        answer = http.request(method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()

    def done(operation: Any) -> Any:
        deadline = time.monotonic() + 60
        while not operation.get("done"):
            assert time.monotonic() < deadline, operation
            time.sleep(0.2)
            operation = call("GET", operation["name"])
        assert "error" not in operation, operation
        return operation

    def vm_create() -> None:
        assert done(call("POST", f"{parent}/nodes", params={"nodeId": "tf"}, json=vm))["response"]["name"] == vm["name"]

    def vm_read() -> None:
        once, again = (call("GET", f"{parent}/nodes/tf") for _ in range(2))
        assert {name: once.get(name) for name in fields} == {name: again.get(name) for name in fields}
        assert once["state"] == "READY"
        assert once["labels"] == vm["labels"]

    def vm_update() -> None:
        changed = {"description": "changed", "labels": {"foo": "baz"}, "metadata": {"k": "v"}, "tags": ["t"]}
        mask = {"updateMask": "description,dataDisks,metadata,tags,labels"}
        done(call("PATCH", f"{parent}/nodes/tf", params=mask, json=changed))
        found = call("GET", f"{parent}/nodes/tf")
        assert {name: found[name] for name in changed} == changed

    def vm_delete() -> None:
        done(call("DELETE", f"{parent}/nodes/tf"))
        assert http.get(f"{parent}/nodes/tf").status_code == 404

    def queued_create() -> None:
        node = {
            "parent": parent,
            "nodeId": "tfq-node",
            "node": {"runtimeVersion": "v2-alpha", "acceleratorType": "v4-8"},
        }
        body = {"name": f"{parent}/queuedResources/tfq", "tpu": {"nodeSpec": [node]}}
        made = done(call("POST", f"{parent}/queuedResources", params={"queuedResourceId": "tfq"}, json=body))
        assert made["response"]["name"] == body["name"]

    def queued_read() -> None:
        deadline = time.monotonic() + 30
        while call("GET", f"{parent}/queuedResources/tfq")["state"]["state"] != "ACTIVE":
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert call("GET", f"{parent}/queuedResources/tfq")["tpu"]["nodeSpec"][0]["nodeId"] == "tfq-node"

    def queued_delete() -> None:
        done(call("DELETE", f"{parent}/nodes/tfq-node"))
        time.sleep(1)
        done(call("DELETE", f"{parent}/queuedResources/tfq"))

    def data_sources() -> None:
        assert len(call("GET", f"{parent}/acceleratorTypes")["acceleratorTypes"]) > 10
        assert call("GET", f"{parent}/runtimeVersions")["runtimeVersions"]

    yield from (
        ("tpu_v2_vm create", vm_create),
        ("tpu_v2_vm read twice", vm_read),
        ("tpu_v2_vm update", vm_update),
        ("tpu_v2_vm delete", vm_delete),
        ("tpu_v2_queued_resource create", queued_create),
        ("tpu_v2_queued_resource read", queued_read),
        ("tpu_v2_queued_resource delete", queued_delete),
        ("data sources", data_sources),
    )


def driven(venv: Path, program: str, environment: dict[str, str]) -> list[tuple[str, str]]:
    """(step, why it failed or nothing) of a driver run by the environment's Python."""
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-c", STEPS + program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = [line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("PASS ", "FAIL "))]
    found = [(rest, "") if word == "PASS" else tuple(rest.split(" | ", 1)) for word, rest in lines]
    if done.returncode or not found:
        found.append(("the driver", (done.stderr.strip().splitlines() or ["it said nothing"])[-1]))
    return [(name, why) for name, why in found]


def main() -> None:
    parser = argparse.ArgumentParser(description="Drive the tools that are built on Cloud TPU's API.")
    for name in DRIVERS:
        parser.add_argument(f"--{name}", type=Path, metavar="VENV", help=f"a virtual environment with {name}")
    chosen = vars(parser.parse_args())
    rows: dict[str, list[tuple[str, str]]] = {}
    with tempfile.TemporaryDirectory() as home:
        own = os.environ | {"TPUCTL_HOME": f"{home}/tpuctl", "TPUCTL_PORT": "0", "HOME": home}
        tpuctl = [sys.executable, "-m", "tpuctl"]

        def run(*words: str) -> str:
            return subprocess.run([*tpuctl, *words], env=own, check=True, capture_output=True, text=True).stdout

        run("up")
        try:
            exports = run("env", "--client", "python", "--proxy", "--shell", "bash")
            said = subprocess.run(
                ["bash", "-c", f"{exports}\nenv -0"], env=own, check=True, capture_output=True, text=True
            ).stdout
            environment = dict(line.split("=", 1) for line in said.split("\0") if "=" in line)
            run("create", "slice", "one", "--type", "v2-8", "--zone", "us-central1-b")
            for name, program in DRIVERS.items():
                venv = chosen[name.replace("-", "_")]
                if venv is not None:
                    rows[name] = driven(venv, program, environment)
            about = json.loads((Path(home) / "tpuctl" / "server.json").read_text())
            token = (Path(home) / "tpuctl" / "token").read_text().strip()
            rows["terraform's calls"] = []
            for step, does in terraform(about["url"], token):
                try:
                    does()
                    rows["terraform's calls"].append((step, ""))
                except (AssertionError, httpx.HTTPError, KeyError) as error:
                    rows["terraform's calls"].append((step, f"{type(error).__name__}: {error}"[:300]))
        finally:
            nodes = json.loads(run("list", "slices", "-o", "json") or "[]")
            for node in nodes:
                _, _, _, zone, _, name = node["name"].split("/")
                subprocess.run([*tpuctl, "delete", "slice", name, "--zone", zone, "--yes"], env=own, check=False)
            run("down")
    failed = 0
    for name in [*DRIVERS, "terraform's calls"]:
        if name not in rows:
            print(f"{name:<20} left out: give --{name} VENV")
            continue
        wrong = [(step, why) for step, why in rows[name] if why]
        failed += len(wrong)
        print(f"{name:<20} {len(rows[name]) - len(wrong)} of {len(rows[name])}")
        for step, why in wrong:
            print(f"    {step}: {why}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
