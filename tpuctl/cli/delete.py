"""tpuctl delete: slices, with what is in their HBM; and jobs, with what they have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli import complete, zones
from tpuctl.cli.options import Wait, Yes, Zone, valid_job, valid_slices

if TYPE_CHECKING:
    from tpuctl.client import Client

app = typer.Typer(help="Delete slices, jobs, queued resources and more.", no_args_is_help=True)

Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", help="Names of slices.", autocompletion=complete.slices, callback=valid_slices),
]

JobNames = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="Names of jobs that have ended.",
        autocompletion=complete.jobs,
        callback=lambda names: [valid_job(name) for name in names],
    ),
]


@app.command("slice")
def delete_slice(names: Names, zone: Zone = None, wait: Wait = True, yes: Yes = False) -> None:
    """Delete slices. Asks first when it is run in a terminal."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect
    from tpuctl.cli.steps import step

    given = zone
    with connect() as client:
        for name in names:
            zone = zones.of_slice(name, given)
            node = client.get_node(name, zone)
            jobs = _jobs_on(client, name, zone)
            question = f"Delete slice {name} ({node.accelerator_type}) and all that is in its HBM?"
            question += "".join(f" Job {job} is running on it and will be ended." for job in jobs)
            if not yes and terminal.is_interactive() and not typer.confirm(question, err=True):
                continue
            operation = client.delete_node(name, zone)
            if wait:
                with step(f"Deleting slice {name}", f"Slice {name} is deleted"):
                    client.wait(operation)
            else:
                terminal.say(f"Slice {name} is being deleted")
            for job in jobs:
                terminal.say(f"Job {job}, which was running on it, {'was' if wait else 'will be'} ended")


@app.command("job")
def delete_job(names: JobNames, yes: Yes = False) -> None:
    """Delete jobs that have ended, with their logs, metrics and artifacts. Asks first when it is run in a terminal."""
    from tpuctl.api.errors import FailedPrecondition
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    with connect() as client:
        jobs = {name: client.get_job(name) for name in names}
        for name, job in jobs.items():
            if not job.state.ended:
                raise FailedPrecondition(f"job {name} is {job.state}; end it first: tpuctl cancel job {name}")
        for name, job in jobs.items():
            question = f"Delete job {name} ({job.state}) with its logs, metrics and artifacts?"
            if not yes and terminal.is_interactive() and not typer.confirm(question, err=True):
                continue
            client.delete_job(name)
            terminal.say(f"Job {name} is deleted")


def _jobs_on(client: Client, name: str, zone: str | None) -> list[str]:
    """Names of the jobs that run on a slice."""
    from tpuctl.api.names import default_zone

    place = (zone or default_zone(), name)
    return [job.name for job in client.list_jobs() if (job.zone, job.slice) == place and not job.state.ended]
