"""A training on real chips is preempted at a step and resumes from its checkpoint: its losses go on bit for bit."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from backend.host import output
from tests.end_to_end.conftest import PROJECT, wait_until
from tpuctl.api.api_faults import ApiFault
from tpuctl.api.jobs import Job, JobRequest, JobState
from tpuctl.control.plane import ControlPlane

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not (find_spec("orbax") and find_spec("keras")), reason="needs Orbax and Keras"),
]
SCRIPTS = Path(__file__).with_name("scripts")
ZONE = "us-central2-b"


def train(plane: ControlPlane, name: str, script: str, checkpoints: Path) -> Job:
    request = JobRequest(
        name=name,
        zone=ZONE,
        accelerator_type="v4-8",
        command=[sys.executable, str(SCRIPTS / script)],
        working_directory="/",
        environment={key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ},
        restart="on-preemption",
        checkpoint_dir=str(checkpoints),
    )
    plane.create_job(PROJECT, request)
    wait_until(lambda: plane.get_job(PROJECT, name).state.ended, 120)
    job = plane.get_job(PROJECT, name)
    assert job.state is JobState.SUCCEEDED, said(plane, name, job.attempt, "stderr")
    return job


def said(plane: ControlPlane, name: str, attempt: int, stream: str = "stdout") -> list[str]:
    (place,) = plane.worker_places(PROJECT, name, attempt).values()
    text = "".join(piece.text for piece in output.read(place) if piece.stream == stream)
    return text.splitlines()


def losses(plane: ControlPlane, name: str, attempt: int) -> dict[int, str]:
    """Step to loss, in hexadecimal digits."""
    return {int(line.split()[0]): line.split()[1] for line in said(plane, name, attempt) if line[0].isdigit()}


@pytest.mark.parametrize(("script", "grace"), [("survive_orbax.py", 0.0), ("survive_keras.py", 10.0)])
def test_the_loss_goes_on_bit_for_bit(plane: ControlPlane, tmp_path: Path, script: str, grace: float) -> None:
    """Orbax's checkpoints are whole or not there; what saves with Keras uses the notice to leave in time."""
    through = train(plane, "through", script, tmp_path / "through")
    plane.api_faults.add(ApiFault(kind="preempt", name="hit", at_step=12, after=grace))
    hit = train(plane, "hit", script, tmp_path / "hit")
    assert through.attempts == []
    assert [one.ended for one in hit.attempts] == ["preempted", "succeeded"]
    whole = losses(plane, "through", 1)
    before, after = losses(plane, "hit", 1), losses(plane, "hit", 2)
    assert list(whole) == [*range(1, 41)]
    assert max(before) >= 12
    assert max(before) < 40
    assert min(after) % 5 == 1
    assert 1 < min(after) <= max(before) + 1
    assert before == {step: whole[step] for step in before}
    assert after == {step: whole[step] for step in after}
    assert [row["loss"] for row in hit.metrics_tail] == [row["loss"] for row in through.metrics_tail]
    wait_until(lambda: not plane.list_nodes(PROJECT, "-"), 30)
