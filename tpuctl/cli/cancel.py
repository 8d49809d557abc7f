"""tpuctl cancel: jobs that are queued or running."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tpuctl.cli import complete
from tpuctl.cli.options import Wait, valid_job

POLL_SECONDS = 0.1

app = typer.Typer(help="Cancel a job.", no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the job.", autocompletion=complete.running_jobs, callback=valid_job),
]


@app.command("job")
def cancel_job(name: Name, wait: Wait = True) -> None:
    """End a job: SIGTERM to its processes, SIGKILL five seconds later to those that are left."""
    from tpuctl.api.errors import FailedPrecondition
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect
    from tpuctl.cli.steps import step

    with connect() as client:
        try:
            client.cancel_job(name)
        except FailedPrecondition:
            terminal.say(f"Job {name} has ended already: {client.get_job(name).state}")
            return
        if not wait:
            terminal.say(f"Job {name} is being cancelled")
            return
        with step(f"Cancelling job {name}", f"Job {name} is cancelled"):
            while not client.get_job(name).state.ended:
                time.sleep(POLL_SECONDS)
