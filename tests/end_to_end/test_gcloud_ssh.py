"""The real gcloud creates a slice, logs in to its workers, trains there, fetches what was made, and deletes it all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed"),
    pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed"),
]
ZONE = ["--zone", "us-central2-b", "--quiet"]
SCRIPT = """
import jax, jax.numpy as jnp
jax.distributed.initialize()
from jax.experimental import multihost_utils
gathered = multihost_utils.process_allgather(jnp.array([jax.process_index()]))
print("worker", jax.process_index(), "of", jax.process_count(), jax.device_count(), "sum", int(gathered.sum()))
open("out.txt", "w").write(str(jax.process_index()))
"""
Gcloud = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def gcloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcloud]:
    """A new user's gcloud, set by `tpuctl env`, with a control plane of its own."""
    home = tmp_path_factory.mktemp("user")
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(home),
        "CLOUDSDK_CONFIG": str(home / "gcloud"),
        "TPUCTL_HOME": str(home / "tpuctl"),
        "TPUCTL_PORT": "0",
    }

    def tpuctl(*words: str) -> None:
        subprocess.run(["tpuctl", *words], env=environment, check=True, timeout=60, capture_output=True)

    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        line = f'eval "$(tpuctl env)" && exec tpuctl gcloud {" ".join(words)}'
        done = subprocess.run(
            ["bash", "-c", line], env=environment, cwd=home, timeout=200, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done

    (home / "train.py").write_text(SCRIPT)
    tpuctl("up")
    yield run
    run("compute", "tpus", "tpu-vm", "delete", "pod", *ZONE, check=False)
    run("compute", "tpus", "queued-resources", "delete", "queued", "--force", *ZONE, check=False)
    tpuctl("down")


def test_a_new_user_trains_on_four_workers(gcloud: Gcloud, tmp_path: Path) -> None:
    vm = ("compute", "tpus", "tpu-vm")
    version = ("--version", "tpu-ubuntu2204-base")
    gcloud(*vm, "create", "pod", "--accelerator-type", "v4-32", *version, *ZONE)
    gcloud(*vm, "scp", "train.py", "pod:", "--worker", "all", *ZONE)
    done = gcloud(*vm, "ssh", "pod", "--worker", "all", '--command="python3 train.py"', *ZONE)
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("worker"))
    assert said == [f"worker {number} of 4 16 sum 6" for number in range(4)]
    gcloud(*vm, "scp", "pod:out.txt", str(tmp_path / "out.txt"), "--worker", "2", *ZONE)
    assert (tmp_path / "out.txt").read_text() == "2"
    failed = gcloud(*vm, "ssh", "pod", "--worker", "1", '--command="exit 9"', *ZONE, check=False)
    assert failed.returncode == 9
    gcloud(*vm, "delete", "pod", *ZONE)


def test_all_nodes_of_a_queued_resource_are_logged_in_to(gcloud: Gcloud) -> None:
    queued = ("compute", "tpus", "queued-resources")
    several = ("--node-count", "2", "--node-prefix", "node", "--accelerator-type", "v4-8")
    gcloud(*queued, "create", "queued", *several, "--runtime-version", "v2-alpha", *ZONE)
    done = gcloud("alpha", *queued, "ssh", "queued", "--node", "all", '--command="echo on \\$TPU_NAME"', *ZONE)
    assert done.stdout.count("on queued") + done.stdout.count("on node") == 2, done.stdout + done.stderr
