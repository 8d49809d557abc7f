"""How do the jobs of an array end? They are waited for together, and told of in one table."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from tpuctl.cli import exit_codes, terminal
from tpuctl.cli.output import Format, show_list

if TYPE_CHECKING:
    from tpuctl.api.jobs import Job
    from tpuctl.client import Client

POLL_SECONDS = 0.2


def run_array(client: Client, made: list[Job], *, wait: bool, output: Format) -> int:
    """Show the jobs once they have ended, or at once; the exit status: 0 if all have succeeded."""
    from tpuctl.cli.list import JOB_COLUMNS

    terminal.say(f"{len(made)} jobs: {made[0].name} to {made[-1].name}")
    names = {job.name for job in made}
    jobs = made
    said = ""
    while wait and not all(job.state.ended for job in jobs):
        time.sleep(POLL_SECONDS)
        jobs = [job for job in client.list_jobs() if job.name in names]
        now = ", ".join(f"{count} {state}" for state, count in sorted(Counter(str(job.state) for job in jobs).items()))
        if now != said:
            terminal.say(f"  {now}")
            said = now
    show_list([job.to_json() for job in jobs], JOB_COLUMNS, output, "No jobs.")
    failed = wait and any(job.state != "SUCCEEDED" for job in jobs)
    return exit_codes.FAILED if failed else exit_codes.DONE
