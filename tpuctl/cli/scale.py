"""tpuctl run job --scale: the same job on one slice after the other, each made for it and given back."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.api.errors import ApiError, FailedPrecondition
from tpuctl.cli import exit_codes, terminal, training, zones
from tpuctl.cli.launch import Launch
from tpuctl.cli.output import Format, show_data
from tpuctl.cli.problems import Problem
from tpuctl.cli.units import seconds_text

if TYPE_CHECKING:
    from backend.hardware import AcceleratorType
    from tpuctl.api.jobs import Job, JobRequest
    from tpuctl.client import Client

PICTURE = "scale.png"
POLL_SECONDS = 0.1
LAST_LINES = 15


class Measured(NamedTuple):
    """One slice: seconds a step by the device's clock, simulated, and by this host's, measured."""

    kind: AcceleratorType
    job: Job
    device_step_seconds: float | None
    host_step_seconds: float | None


def kinds(text: str) -> list[AcceleratorType]:
    """The accelerator types of ``--scale``, each once. Raises Problem."""
    from backend.hardware import accelerator_type

    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise Problem("--scale takes two or more different types", "such as v3-8,v3-32,v3-128", exit_codes.USAGE)
    try:
        return [accelerator_type(name) for name in names]
    except ValueError as error:
        raise Problem(str(error), "", exit_codes.USAGE) from None


def run_on_each(client: Client, request: JobRequest, wanted: Sequence[AcceleratorType], output: Format) -> int:
    """Run ``request`` on each type, driven by one process, and compare; the exit code.

    A job that fails is told and left out; Ctrl-C cancels the one that runs, waits until its slice is given back, and
    shows what was measured before.
    """
    measured: list[Measured] = []
    status = exit_codes.DONE
    for number, kind in enumerate(wanted, 1):
        title = f"{kind.name} ({number} of {len(wanted)})"
        try:
            zone = zones.of_kind(kind, request.zone)
            job = _run(client, _named(request, kind, zone), title)
        except KeyboardInterrupt:
            status = exit_codes.INTERRUPTED
            break
        except ApiError as error:
            terminal.say(f"{title}: {error.message}")
            status = status or exit_codes.of_rpc_code(error.code)
            continue
        if job.state != "SUCCEEDED":
            status = status or job.exit_code or exit_codes.FAILED
            continue
        measured.append(Measured(kind, job, *step_seconds(job)))
    _show(measured, output)
    return status


def step_seconds(job: Job) -> tuple[float | None, float | None]:
    """(device, host) seconds a step: as the script has measured them, else over all that the job has done."""
    found = job.to_json()
    rows = job.metrics_tail
    return training.device_step_seconds(found), job.metrics.get("host_step_seconds", training.host_step_seconds(rows))


def comparison(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """A row a slice; speed-up and efficiency are those of the device's clock, against the first slice."""
    rows: list[dict[str, Any]] = []
    for one in measured:
        kind = one.kind
        row: dict[str, Any] = {
            "type": kind.name,
            "topology": kind.topology,
            "chips": kind.num_chips,
            "devices": kind.num_devices,
            "deviceStepSeconds": one.device_step_seconds,
            "speedUp": None,
            "efficiency": None,
            "hostStepSeconds": one.host_step_seconds,
            "job": one.job.name,
        }
        first = rows[0] if rows else row
        if one.device_step_seconds and first["deviceStepSeconds"]:
            row["speedUp"] = first["deviceStepSeconds"] / one.device_step_seconds
            row["efficiency"] = row["speedUp"] * first["devices"] / row["devices"]
        rows.append(row)
    return rows


def _named(request: JobRequest, kind: AcceleratorType, zone: str | None) -> JobRequest:
    name = f"{request.name}-{kind.name}-{secrets.token_hex(2)}"
    return request.model_copy(update={"name": name, "zone": zone, "accelerator_type": kind.name, "processes": 1})


def _run(client: Client, request: JobRequest, title: str) -> Job:
    """Run one job to its end; of its output only the last lines are shown, and only if it fails."""
    started = time.monotonic()
    job = client.create_job(request)
    said: deque[str] = deque(maxlen=LAST_LINES)
    try:
        job = _watch(client, job, title, said)
    except BaseException:
        _give_back(client, job.name)
        raise
    took = seconds_text(time.monotonic() - started)
    if job.state == "SUCCEEDED":
        terminal.stderr().print(f"[green]✓[/] {title}: {took}")
    else:
        terminal.say("".join(said).rstrip())
        why = job.error.message if job.error else f"exit status {job.exit_code}"
        terminal.stderr().print(f"[red]✗[/] {title}: {why} (tpuctl logs {job.name})")
    return job


def _watch(client: Client, job: Job, title: str, said: deque[str]) -> Job:
    from tpuctl.cli.job_progress import JobProgress

    with JobProgress() as progress:
        progress.doing(f"running on {title}")
        for event in client.watch_job(job.name):
            match event.type:
                case "log":
                    said.append(event.text)
                case "metrics":
                    progress.metrics(event.values)
    return client.get_job(job.name)


def _give_back(client: Client, name: str) -> None:
    """Cancel the job and wait until its slice has gone."""
    terminal.say(f"\nCancelling job {name} and giving back its slice")
    with contextlib.suppress(FailedPrecondition):  # it has ended
        client.cancel_job(name)
    while any(node.name.rpartition("/")[2] == name for node in client.list_nodes()):
        time.sleep(POLL_SECONDS)


def _show(measured: Sequence[Measured], output: Format) -> None:
    rows = comparison(measured)
    picture = _draw(measured[-1].job, rows) if len(rows) > 1 else None
    if output.is_data:
        show_data({"name": "scale", "rows": rows, "picture": picture}, output)
        return
    if rows:
        from tpuctl.cli.scale_view import scale_view

        terminal.stdout().print(scale_view(rows))
    if picture:
        terminal.say(f"  {picture}")


def _draw(job: Job, rows: Sequence[dict[str, Any]]) -> str | None:
    """Where the picture is: among the artifacts of the last job. None without what is drawn or draws it."""
    if not any(row["deviceStepSeconds"] or row["hostStepSeconds"] for row in rows):
        terminal.say("No picture: the job has no steps; a script tells of them with tpuctl.metrics.log(step=...)")
        return None
    path = Path(job.directory) / "artifacts" / PICTURE
    try:
        from tpuctl.cli.scale_picture import draw
    except ImportError as error:
        terminal.say(f"No picture: {error.name} is not installed")
        return None
    draw(rows, path)
    return str(path)


def with_measured(found: Launch, options: Sequence[str]) -> Launch:
    """A model's launch with the options that slices are compared with, but for those that the user has given."""
    command = list(found.command)
    for option, value in zip(options[::2], options[1::2], strict=True):
        same = {option, *({"--batch", "--batch-size"} if option == "--batch-size" else ())}
        if not any(word.partition("=")[0] in same for word in command):
            command += [option, value]
    return found._replace(command=command)
