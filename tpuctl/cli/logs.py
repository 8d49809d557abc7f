"""tpuctl logs: what a job has written."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli.options import JobName

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")]
Worker = Annotated[str | None, typer.Option("--worker", metavar="N|all", help="Only what these workers write.")]


Attempt = Annotated[
    int | None, typer.Option("--attempt", metavar="N", min=1, help="Of a job that was restarted: this attempt.")
]


def logs(name: JobName, follow: Follow = False, worker: Worker = None, attempt: Attempt = None) -> None:
    """Print a job's output: its stdout on stdout, its stderr on stderr; each line with its worker if it has several.

    Of a job that was restarted, that of its last attempt; with --follow, the attempts after it as well.
    """
    from tpuctl.cli.plane import connect
    from tpuctl.cli.worker_output import WorkerOutput, check_chosen, chosen

    wanted = chosen(worker)
    with connect() as client:
        job = client.get_job(name)
        workers = [one.index for one in job.workers] or [0]
        check_chosen(wanted, workers, name)
        several = len(workers) > 1 and (wanted is None or len(set(wanted)) > 1)
        output = WorkerOutput(several, None if wanted is None else frozenset(wanted))
        for event in (
            client.watch_job(name, attempt=attempt or job.attempt) if follow else client.job_logs(name, attempt=attempt)
        ):
            if event.type == "log":
                output.put(event.stream, output.take(event))
        output.finish()
